package tests

import (
	"os"
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

// compareAll compares the scenarios with one version. Except in make test-long, it compares every second one, so that
// each is compared with one of the two versions.
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

	if os.Getenv("BULLMQ_LONG") == "" {
		every, half := scenarios, scenarios[:0:0]
		for n := map[string]int{"5": 0, "6": 1}[version]; n < len(every); n += 2 {
			half = append(half, every[n])
		}
		scenarios = half
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
				l, err := startLane(version, batchSize)
				Expect(err).NotTo(HaveOccurred())
				defer l.close()
				for scenario := range todo {
					result := l.runner.Run(ctx, scenario)
					mu.Lock()
					results[scenario.Name] = result
					mu.Unlock()
				}
			})
		}
		runners.Wait()
	})

	It("in enough scenarios for a meaningful result", func() {
		Expect(len(scenarios)).To(BeNumerically(">", 300))
	})

	// A second attempt is for the few specs that other work on the machine has delayed.
	secondAttempts := 0
	for _, scenario := range scenarios {
		It("in "+strings.TrimSuffix(scenario.File, ".json")+": "+scenario.Name, func(ctx SpecContext) {
			result := results[scenario.Name]
			if CurrentSpecReport().NumAttempts > 1 && secondAttempts < maxSecondAttempts {
				secondAttempts++
				l, err := startLane(version, batchSize)
				Expect(err).NotTo(HaveOccurred())
				defer l.close()
				result = l.runner.Run(ctx, scenario)
			}
			Expect(result.Alike()).To(BeTrue(), "%s\n%s", result, scenario.JSON())
		})
	}
}

// maxSecondAttempts bounds the time that second attempts take if all scenarios fail.
const maxSecondAttempts = 20

// lane compares scenarios one by one, on servers of its own.
type lane struct {
	pair   *drivers.Pair
	runner *parity.Runner
}

func startLane(version string, batchSize int) (*lane, error) {
	pair, err := drivers.Start(version, batchSize)
	if err != nil {
		return nil, err
	}
	runner, err := parity.New(pair.Reference, pair.Subject, nil)
	if err != nil {
		pair.Close()
		return nil, err
	}
	return &lane{pair, runner}, nil
}

func (l *lane) close() {
	_ = l.runner.Close()
	l.pair.Close()
}
