package tests

import (
	"context"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/interop/drivers"
	"github.com/17a2ac88/bullmq-go/interop/parity"
)

var _ = Describe("Compared with bullmq 6.7.0, this SDK leaves the same keyspace and returns the same results", Ordered, ContinueOnFailure, func() { compareAll("6", batchSize) })

// One of the two batch sizes disables batching; make parity runs all four combinations.
var _ = Describe("Compared with bullmq 5.81.5, this SDK leaves the same keyspace and returns the same results", Ordered, ContinueOnFailure, func() { compareAll("5", 1) })

func compareAll(version string, batchSize int) {
	scenarios, err := drivers.Scenarios()
	if err != nil {
		panic(err)
	}

	// Random scenarios cover combinations that nobody wrote down. To run more: go run ./interop/paritycheck
	// -random 1000 -seed 1.
	for seed := range uint64(60) {
		scenarios = append(scenarios, parity.Random(seed+1))
	}

	var mu sync.Mutex
	results := map[string]parity.Result{}

	// Scenarios mostly wait for expiries, so several run at a time, each pair of drivers on its own servers.
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
				compare(ctx, version, batchSize, todo, func(scenario parity.Scenario, result parity.Result) {
					mu.Lock()
					defer mu.Unlock()
					results[scenario.Name] = result
				})
			})
		}
		runners.Wait()
	})

	It("in enough scenarios for a meaningful result", func() {
		Expect(len(scenarios)).To(BeNumerically(">", 300))
	})

	for _, scenario := range scenarios {
		It("in "+strings.TrimSuffix(scenario.File, ".json")+": "+scenario.Name, func(ctx SpecContext) {
			result := results[scenario.Name]
			if CurrentSpecReport().NumAttempts > 1 { // of a spec that other work on the machine may have delayed
				todo := make(chan parity.Scenario, 1)
				todo <- scenario
				close(todo)
				compare(ctx, version, batchSize, todo, func(_ parity.Scenario, again parity.Result) { result = again })
			}
			Expect(result.Alike()).To(BeTrue(), "%s\n%s", result, scenario.JSON())
		})
	}
}

// compare runs scenarios on servers of its own.
func compare(ctx context.Context, version string, batchSize int, todo <-chan parity.Scenario, done func(parity.Scenario, parity.Result)) {
	GinkgoHelper()
	pair, err := drivers.Start(version, batchSize)
	Expect(err).NotTo(HaveOccurred())
	defer pair.Close()
	runner, err := parity.New(pair.Reference, pair.Subject, nil)
	Expect(err).NotTo(HaveOccurred())
	defer runner.Close()
	for scenario := range todo {
		done(scenario, runner.Run(ctx, scenario))
	}
}
