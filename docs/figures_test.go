package docs_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const benchmarksPage = "benchmarks.md"

// tableCells returns the cells of the row that begins with title.
func tableCells(page, title string) []string {
	GinkgoHelper()
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if cells[0] == title && len(cells) > 3 {
			return cells
		}
	}
	Fail("no row begins with " + title)
	return nil
}

var _ = Describe("The README", func() {
	// make bench FLAGS=-write updates the page of the benchmarks only.
	DescribeTable("has the figures of the benchmarks page for", func(title, heading, measured string) {
		figures := tableCells(section(read(benchmarksPage), heading), measured)[1:4] // Node, bullmq-go and their ratio
		Expect(tableCells(read("../README.md"), title)[1:]).To(Equal(figures))
	},
		Entry("adds", "add jobs, 100 in flight",
			"### Throughput: jobs or events per second", "add, 100 in flight"),
		Entry("processed jobs", "process jobs, concurrency 100",
			"### Throughput: jobs or events per second", "process, concurrency 100"),
		Entry("Redis CPU", "Redis CPU per processed job",
			"### Redis CPU per job", "process, concurrency 100"),
		Entry("memory", "worker memory", "### Peak client memory", "process, concurrency 100"),
		Entry("latency", "from the call of Add to the handler's start, median",
			"### Latency", "pickup, from the call to add, p50"),
	)
})
