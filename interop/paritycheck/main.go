// paritycheck runs every scenario of interop/scenarios against the reference
// library and says how many are alike; make parity calls it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/17a2ac88/bullmq-go/interop/parity"
	"github.com/17a2ac88/bullmq-go/interop/sides"
)

func main() {
	versions := flag.String("bullmq", "5 6", "major versions of the reference: 6 (6.7.0), 5 (5.81.5)")
	only := flag.String("only", "", "run only scenarios whose file or name contains this")
	flag.Parse()
	var all []parity.Result
	for _, version := range strings.Fields(*versions) {
		results, err := check(version, *only)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		fmt.Printf("beside bullmq %s: %s\n\n", version, parity.Summary(results))
		all = append(all, results...)
	}
	fmt.Println(parity.Summary(all))
	if slices.ContainsFunc(all, func(r parity.Result) bool { return !r.Alike() }) {
		os.Exit(1)
	}
}

func check(version, only string) ([]parity.Result, error) {
	scenarios, err := sides.Scenarios()
	if err != nil {
		return nil, err
	}
	pair, err := sides.Start(version)
	if err != nil {
		return nil, err
	}
	defer pair.Close()
	runner, err := parity.New(pair.Reference, pair.Subject, nil)
	if err != nil {
		return nil, err
	}
	defer runner.Close()
	var results []parity.Result
	for _, scenario := range scenarios {
		if only != "" && !strings.Contains(scenario.File+": "+scenario.Name, only) {
			continue
		}
		result := runner.Run(context.Background(), scenario)
		fmt.Println(result)
		results = append(results, result)
	}
	return results, nil
}
