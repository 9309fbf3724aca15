// bench measures this SDK beside Node's bullmq and Go's asynq: one Redis, one
// run, all in turns. It starts all that it needs and ends by itself.
//
//	go run ./bench                          print the tables
//	go run ./bench -write                   and put them into docs/benchmarks.md and .svg
//	go run ./bench -only 'process-1$|add'   only what the expression matches
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/17a2ac88/bullmq-go/bench/contender"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
)

// contenderArgument makes this program one of those that are measured.
const contenderArgument = "contender"

func main() {
	if len(os.Args) > 1 && os.Args[1] == contenderArgument {
		contender.Main(own, os.Args[2:])
		return
	}
	o := options{}
	flag.Func("only", "what to measure: a regular expression for names", o.only.set)
	flag.Func("contenders", "whom to measure: a regular expression for names", o.contenders.set)
	flag.IntVar(&o.rounds, "rounds", 3, "rounds of each measurement")
	flag.BoolVar(&o.write, "write", false, "write the figures into docs/benchmarks.md and docs/benchmarks.svg")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type options struct {
	only, contenders filter
	rounds           int
	write            bool
}

// filter says what is wanted; the empty one wants all.
type filter struct{ expression *regexp.Regexp }

func (f *filter) set(text string) (err error) {
	f.expression, err = regexp.Compile(text)
	return err
}

func (f filter) wants(name string) bool { return f.expression == nil || f.expression.MatchString(name) }

func run(o options) error {
	if o.rounds < 1 {
		return errors.New("-rounds takes a number from 1 on")
	}
	if o.write && (o.only.expression != nil || o.contenders.expression != nil) {
		return errors.New("-write takes a whole run, without -only and -contenders")
	}
	directory, err := os.MkdirTemp("", "bullmq-go-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory)
	h, err := newHarness(directory, o)
	if err != nil {
		return err
	}
	defer h.redis.close()
	report, err := h.run(o)
	if err != nil {
		return err
	}
	fmt.Print(report.text())
	if !o.write {
		return nil
	}
	root, err := nodeprocess.ModuleRoot()
	if err != nil {
		return err
	}
	return report.write(filepath.Join(root, "docs"))
}
