package tests

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/interop/parity"
	"github.com/17a2ac88/bullmq-go/interop/sides"
)

// assertedFiles are the scenario files whose every scenario must leave the same
// keyspace and give the same answers as bullmq 6.7.0, unless our driver doesn't
// know an operation of it yet. Those of coreFiles have no such way out.
var (
	coreFiles     = []string{"01-core.json"}
	assertedFiles = append([]string{
		"02-bulk-and-admin.json", "03-dedup.json", "04-flows.json", "05-schedulers.json", "11-options.json", "12-errors.json",
		"13-retention.json", "14-locks.json", "15-limits.json", "16-admin.json", "17-dedup.json", "18-workers.json",
		"19-old-data.json", "21-flows.json", "22-schedulers.json",
	}, coreFiles...)
)

// unknownOperation is how our driver says that it lacks an operation, or an
// option, of the protocol.
var unknownOperation = regexp.MustCompile(`unknown (operation|job option) \w+`)

var _ = Describe("Beside bullmq 6.7.0, this SDK leaves the same keyspace and gives the same answers", Ordered, ContinueOnFailure, func() {
	scenarios, err := sides.Scenarios()
	if err != nil {
		panic(err)
	}
	scenarios = slices.DeleteFunc(scenarios, func(s parity.Scenario) bool { return !slices.Contains(assertedFiles, s.File) })

	results := map[string]chan parity.Result{}
	for _, scenario := range scenarios {
		results[scenario.Name] = make(chan parity.Result, 1)
	}

	// Scenarios wait for expiries more than they compute: several run at a time,
	// each pair of drivers on servers of its own.
	BeforeAll(func(ctx SpecContext) {
		todo := make(chan parity.Scenario, len(scenarios))
		for _, scenario := range scenarios {
			todo <- scenario
		}
		close(todo)
		var runners sync.WaitGroup
		for range 3 {
			runners.Go(func() {
				defer GinkgoRecover()
				pair, err := sides.Start("6")
				Expect(err).NotTo(HaveOccurred())
				defer pair.Close()
				runner, err := parity.New(pair.Reference, pair.Subject, nil)
				Expect(err).NotTo(HaveOccurred())
				defer runner.Close()
				for scenario := range todo {
					results[scenario.Name] <- runner.Run(ctx, scenario)
				}
			})
		}
		runners.Wait()
	})

	It("in so many scenarios that the table below is worth something", func() {
		Expect(len(scenarios)).To(BeNumerically(">", 300))
	})

	for _, scenario := range scenarios {
		It("in "+strings.TrimSuffix(scenario.File, ".json")+": "+scenario.Name, func() {
			result := <-results[scenario.Name]
			report := result.String()
			if lacks := unknownOperation.FindString(report); result.Err != nil && lacks != "" && !slices.Contains(coreFiles, scenario.File) {
				Skip("the Go driver says: " + lacks)
			}
			Expect(result.Alike()).To(BeTrue(), "%s", report)
		})
	}
})
