// bench measures this SDK beside Node's bullmq and Go's asynq: one Redis, one
// run, all in turns. It starts all that it needs and ends by itself.
//
//	go run ./bench                          print the tables
//	go run ./bench -write                   and put them into docs/benchmarks.md and .svg
//	go run ./bench -only 'process-1$|add'   only what the expression matches
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"

	"github.com/17a2ac88/bullmq-go/bench/contender"
)

// contenderArgument makes this program one of those that are measured.
const contenderArgument = "contender"

func main() {
	if len(os.Args) > 1 && os.Args[1] == contenderArgument {
		contender.Main(own, os.Args[2:])
		return
	}
	only := flag.String("only", "", "what to measure: a regular expression for names")
	against := flag.String("contenders", "", "whom to measure: a regular expression for names")
	rounds := flag.Int("rounds", 3, "rounds of each measurement")
	flag.Parse()
	if err := run(*only, *against, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(only, against string, rounds int) error {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	measured, err := regexp.Compile(against)
	if err != nil {
		return err
	}
	directory, err := os.MkdirTemp("", "bullmq-go-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory)
	rivals, err := findRivals(directory)
	if err != nil {
		return err
	}
	rivals = slices.DeleteFunc(rivals, func(r rival) bool { return !measured.MatchString(r.name) })
	redis, err := startRedis()
	if err != nil {
		return err
	}
	defer redis.close()
	h := &harness{redis: redis, rivals: rivals, rounds: rounds, taken: map[string]map[string][]taken{}}
	for round := range rounds {
		for _, s := range throughput {
			if !wanted.MatchString(s.name) {
				continue
			}
			if err := h.throughput(round, s); err != nil {
				return err
			}
		}
	}
	return nil
}
