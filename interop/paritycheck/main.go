// paritycheck runs the scenarios of interop/scenarios against the reference library and reports how many are
// equal. It is run by make parity.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/17a2ac88/bullmq-go/interop/drivers"
	"github.com/17a2ac88/bullmq-go/interop/parity"
)

func main() {
	versions := flag.String("bullmq", "5 6", "major versions of the reference: 6 (6.7.0), 5 (5.81.5)")
	batches := flag.String("batch", "100 1", "batch sizes of the SDK; the scenarios run once for each")
	only := flag.String("only", "", "run only scenarios whose file or name contains this")
	made := flag.Int("random", 0, "run this number of random scenarios in place of interop/scenarios")
	seed := flag.Uint64("seed", 1, "seed of the first random scenario")
	flag.Parse()
	var all []parity.Result
	for _, version := range strings.Fields(*versions) {
		for _, batch := range strings.Fields(*batches) {
			results, err := run(version, batch, *only, *made, *seed)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(2)
			}
			fmt.Printf("compared with bullmq %s, with a batch size of %s: %s\n\n", version, batch, parity.Summary(results))
			all = append(all, results...)
		}
	}
	fmt.Println(parity.Summary(all))
	if slices.ContainsFunc(all, func(r parity.Result) bool { return !r.Alike() }) {
		os.Exit(1)
	}
}

func run(version, batch, only string, made int, seed uint64) ([]parity.Result, error) {
	size, err := strconv.Atoi(batch)
	if err != nil {
		return nil, fmt.Errorf("-batch: %w", err)
	}
	scenarios, err := chosen(only, made, seed)
	if err != nil {
		return nil, err
	}
	return check(version, size, scenarios)
}

func chosen(only string, made int, seed uint64) ([]parity.Scenario, error) {
	var scenarios []parity.Scenario
	for n := range made {
		scenarios = append(scenarios, parity.Random(seed+uint64(n)))
	}
	if made > 0 {
		return scenarios, nil
	}
	all, err := drivers.Scenarios()
	for _, scenario := range all {
		if strings.Contains(scenario.File+": "+scenario.Name, only) {
			scenarios = append(scenarios, scenario)
		}
	}
	return scenarios, err
}

func check(version string, batch int, scenarios []parity.Scenario) ([]parity.Result, error) {
	pair, err := drivers.Start(version, batch)
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
		result := runner.Run(context.Background(), scenario)
		fmt.Println(result)
		if scenario.File == "random" && !result.Alike() {
			fmt.Println(scenario.JSON())
		}
		results = append(results, result)
	}
	return results, nil
}
