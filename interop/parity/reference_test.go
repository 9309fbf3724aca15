package parity_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/interop/parity"
)

// These specs run the Node driver on both endpoints. Differences from the reference are only meaningful if it
// agrees with itself.
var _ = Describe("The Node driver", func() {
	It("returns the same responses and leaves the same keyspace every time", func(ctx SpecContext) {
		runner := newRunner(nodeEndpoint("first", "6"), nodeEndpoint("second", "6"))
		results := runAll(ctx, runner, load("01-core.json", "02-bulk-and-admin.json", "03-dedup.json", "04-flows.json", "05-schedulers.json"))
		Expect(reports(results)).To(BeEmpty())
		Expect(len(results)).To(BeNumerically(">", 30))
	})

	It("behaves after a reset as if newly started", func(ctx SpecContext) {
		restarted := nodeEndpoint("restarted", "6")
		restarted.Resets = false
		runner := newRunner(nodeEndpoint("reset", "6"), restarted)
		Expect(reports(runAll(ctx, runner, load("01-core.json")[:8]))).To(BeEmpty())
	})

	It("reveals the differences between bullmq 6 and bullmq 5 on the wire", func(ctx SpecContext) {
		runner := newRunner(nodeEndpoint("bullmq 6", "6"), nodeEndpoint("bullmq 5", "5"))
		differing := []string{}
		for _, result := range runAll(ctx, runner, load("01-core.json", "03-dedup.json")) {
			Expect(result.Err).NotTo(HaveOccurred())
			if !result.Alike() {
				differing = append(differing, result.Scenario.Name)
			}
		}
		Expect(differing).To(ConsistOf(
			// bullmq 5 counts paused jobs and keeps them in a separate list.
			"fifo order over three jobs with fetch next",
			"remove on complete and on fail",
			"pause and resume",
			// bullmq 5 writes a debounced event with each deduplicated event.
			"simple deduplication",
			"throttle by ttl",
			"debounce by replace and extend",
		))
	})
})

// load reads the scenarios of the given files.
func load(files ...string) []parity.Scenario {
	GinkgoHelper()
	scenarios, err := parity.Load(scenarioFolder)
	Expect(err).NotTo(HaveOccurred())
	var chosen []parity.Scenario
	for _, scenario := range scenarios {
		for _, file := range files {
			if scenario.File == file {
				chosen = append(chosen, scenario)
			}
		}
	}
	return chosen
}

func newRunner(reference, subject parity.Endpoint) *parity.Runner {
	GinkgoHelper()
	runner, err := parity.New(reference, subject, nil)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(runner.Close()).To(Succeed()) })
	return runner
}

func runAll(ctx context.Context, runner *parity.Runner, scenarios []parity.Scenario) []parity.Result {
	var results []parity.Result
	for _, scenario := range scenarios {
		results = append(results, runner.Run(ctx, scenario))
	}
	return results
}

// reports returns the texts of the results with differences.
func reports(results []parity.Result) []string {
	var texts []string
	for _, result := range results {
		if !result.Alike() {
			texts = append(texts, result.String())
		}
	}
	return texts
}
