// bench measures this SDK beside Node's bullmq 6.7.0: one Redis, one run, the
// two in turns. It starts all that it needs and ends by itself.
//
//	go run ./bench             print the table
//	go run ./bench -write      and put it into docs/benchmarks.md
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/17a2ac88/bullmq-go/internal/redisserver"
)

func main() {
	if len(os.Args) == 4 && (os.Args[1] == "worker" || os.Args[1] == "producer") { // one of the programs that are measured
		exitOn(serveRole(os.Args[1], os.Args[2], os.Args[3]))
		return
	}
	rounds := flag.Int("rounds", 3, "rounds of each measurement")
	write := flag.Bool("write", false, "write the figures into docs/benchmarks.md")
	flag.Parse()
	exitOn(measure(*rounds, *write))
}

func measure(rounds int, write bool) error {
	server, err := redisserver.Start(redisserver.Options{})
	if err != nil {
		return err
	}
	defer server.Close()
	sides, err := startSides(server.Addr())
	if err != nil {
		return err
	}
	defer sides.close()
	report := report{rounds: rounds}
	for round := range rounds {
		for _, side := range sides {
			fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", round+1, rounds, side.name)
			if err := side.round(); err != nil {
				return fmt.Errorf("%s: %w", side.name, err)
			}
		}
	}
	report.redis, err = redisVersion(server.URL())
	if err != nil {
		return err
	}
	report.sides = sides
	fmt.Println(report.text())
	if write {
		return report.write()
	}
	return nil
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
