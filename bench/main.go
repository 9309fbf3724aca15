// bench compares this SDK with Node's bullmq and Go's asynq on one Redis in one run, in turns. It starts
// everything that it needs and stops it again.
//
//	go run ./bench                          print the tables
//	go run ./bench -write                   also write them into docs/benchmarks.md and .svg, and docs/scaling.md
//	go run ./bench -only 'process-1$|add'   measure only names that match the expression
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

// The arguments that make this program run as a contender.
const (
	contenderArgument = "contender"
	untypedArgument   = "untyped"
	typedArgument     = "typed"
)

// libraries are the contenders in this program, by argument.
var libraries = map[string]contender.Library{contenderArgument: own, untypedArgument: untyped, typedArgument: typed}

func main() {
	if len(os.Args) > 1 {
		if library, ok := libraries[os.Args[1]]; ok {
			contender.Main(library, os.Args[2:])
			return
		}
	}
	o := options{}
	flag.Func("only", "regular expression for the names of what to measure", o.only.set)
	flag.Func("contenders", "regular expression for the names of the contenders", o.contenders.set)
	flag.IntVar(&o.rounds, "rounds", 3, "rounds of each measurement")
	flag.BoolVar(&o.write, "write", false, "write the figures into docs/benchmarks.md, docs/benchmarks.svg and docs/scaling.md")
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

// filter selects names. The zero value selects all.
type filter struct{ expression *regexp.Regexp }

func (f *filter) set(text string) (err error) {
	f.expression, err = regexp.Compile(text)
	return err
}

func (f filter) wants(name string) bool { return f.expression == nil || f.expression.MatchString(name) }

func run(o options) error {
	if o.rounds < 1 {
		return errors.New("-rounds must be at least 1")
	}
	if o.write && (o.only.expression != nil || o.contenders.expression != nil) {
		return errors.New("-write needs a whole run: leave out -only and -contenders")
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
