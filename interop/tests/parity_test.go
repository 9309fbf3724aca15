package tests

import (
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/interop/drivers"
	"github.com/17a2ac88/bullmq-go/interop/parity"
)

var _ = Describe("Beside bullmq 6.7.0, this SDK leaves the same keyspace and gives the same answers", Ordered, ContinueOnFailure, func() { compareAll("6", batchSize) })

// One of the two with calls of each job's own; make parity has all four.
var _ = Describe("Beside bullmq 5.81.5, in that dialect, this SDK leaves the same keyspace and gives the same answers", Ordered, ContinueOnFailure, func() { compareAll("5", 1) })

func compareAll(version string, batchSize int) {
	scenarios, err := drivers.Scenarios()
	if err != nil {
		panic(err)
	}

	// What nobody has thought of: go run ./interop/paritycheck -random 1000 -seed 1 tries more of these.
	for seed := range uint64(60) {
		scenarios = append(scenarios, parity.Random(seed+1))
	}

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
				pair, err := drivers.Start(version, batchSize)
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
			Expect(result.Alike()).To(BeTrue(), "%s\n%s", result, scenario.JSON())
		})
	}
}
