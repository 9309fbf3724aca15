package parity_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/interop/parity"
)

// These specs run the Node driver on both sides. Only where the reference agrees with itself does a
// difference from it say anything.
var _ = Describe("The Node driver", func() {
	It("gives the same answers and leaves the same keyspace every time", func(ctx SpecContext) {
		runner := newRunner(nodeSide("first", "6"), nodeSide("second", "6"))
		results := runAll(ctx, runner, load("01-core.json", "02-bulk-and-admin.json", "03-dedup.json", "04-flows.json", "05-schedulers.json"))
		Expect(reports(results)).To(BeEmpty())
		Expect(len(results)).To(BeNumerically(">", 30))
	})

	It("is after a reset as if it had just been started", func(ctx SpecContext) {
		restarted := nodeSide("restarted", "6")
		restarted.Resets = false
		runner := newRunner(nodeSide("reset", "6"), restarted)
		Expect(reports(runAll(ctx, runner, load("01-core.json")[:8]))).To(BeEmpty())
	})

	It("shows where bullmq 6 and bullmq 5 differ on the wire", func(ctx SpecContext) {
		runner := newRunner(nodeSide("bullmq 6", "6"), nodeSide("bullmq 5", "5"))
		differing := []string{}
		for _, result := range runAll(ctx, runner, load("01-core.json", "03-dedup.json")) {
			Expect(result.Err).NotTo(HaveOccurred())
			if !result.Alike() {
				differing = append(differing, result.Scenario.Name)
			}
		}
		Expect(differing).To(ConsistOf(
			// bullmq 5 counts paused jobs, and keeps them in a list of their own.
			"fifo order over three jobs with fetch next",
			"remove on complete and on fail",
			"pause and resume",
			// bullmq 5 writes a debounced event with each deduplicated one.
			"simple deduplication",
			"throttle by ttl",
			"debounce by replace and extend",
		))
	})
})

// load reads the scenarios of some files.
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

func newRunner(reference, subject parity.Side) *parity.Runner {
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

// reports are the texts of the results that aren't alike.
func reports(results []parity.Result) []string {
	var texts []string
	for _, result := range results {
		if !result.Alike() {
			texts = append(texts, result.String())
		}
	}
	return texts
}
