// paritycheck runs every scenario of interop/scenarios against the reference
// library and says how many are alike; make parity calls it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/17a2ac88/bullmq-go/interop/parity"
	"github.com/17a2ac88/bullmq-go/interop/sides"
)

func main() {
	line := flag.String("bullmq", "6", "major version of the reference: 6 (6.7.0) or 5 (5.81.5)")
	only := flag.String("only", "", "run only scenarios whose file or name contains this")
	flag.Parse()
	alike, err := check(*line, *only)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if !alike {
		os.Exit(1)
	}
}

func check(line, only string) (bool, error) {
	scenarios, err := sides.Scenarios()
	if err != nil {
		return false, err
	}
	pair, err := sides.Start(line)
	if err != nil {
		return false, err
	}
	defer pair.Close()
	runner, err := parity.New(pair.Reference, pair.Subject, nil)
	if err != nil {
		return false, err
	}
	defer runner.Close()
	var results []parity.Result
	all := true
	for _, scenario := range scenarios {
		if only != "" && !strings.Contains(scenario.File+": "+scenario.Name, only) {
			continue
		}
		result := runner.Run(context.Background(), scenario)
		fmt.Println(result)
		results = append(results, result)
		all = all && result.Alike()
	}
	fmt.Println(parity.Summary(results))
	return all, nil
}
