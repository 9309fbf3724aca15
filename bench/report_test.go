package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("The benchmark report", func() {
	measured := report{
		names: []string{nodeName, ownName, asynqName},
		tables: []table{
			{throughputTitle, []figure{
				{title: "add, 100 in flight", unit: "/s", rounds: map[string][]float64{nodeName: {1000}, ownName: {3100}, asynqName: {500}}},
				{title: "addBulk of 1,000", unit: "/s", rounds: map[string][]float64{nodeName: {1000}, ownName: {3999}}},
			}},
			{redisCPUTitle, []figure{
				{title: "process, concurrency 100", unit: "µs", lessIsBetter: true, rounds: map[string][]float64{nodeName: {40}, ownName: {14}}},
			}},
			{latencyTitle, []figure{
				{title: latenessTitle + ", p95", unit: "ms", lessIsBetter: true, rounds: map[string][]float64{nodeName: {80}, ownName: {1.6}}},
				{title: "pickup, from the return of add, p50", unit: "ms", lessIsBetter: true, rounds: map[string][]float64{nodeName: {1}, ownName: {-0.1}}},
			}},
		},
		growth: []grown{{waitingTitle, compared{cost{10, 5}, cost{10, 5}, cost{1, 1}}, compared{cost{40, 20}, cost{50, 20}, cost{1.25, 1}}}},
	}

	It("compares every contender with Node and leaves missing figures empty", func() {
		Expect(measured.text()).To(And(
			ContainSubstring("| add, 100 in flight | 1,000 /s | 3,100 /s | 3.10× | 500 /s | 0.50× |\n"),
			ContainSubstring("| addBulk of 1,000 | 1,000 /s | 3,999 /s | 4.00× |  |  |\n"),
			ContainSubstring("| pickup, from the return of add, p50 | 1.00 ms | -0.10 ms |  |  |  |\n"),
			ContainSubstring("| process, concurrency 100 | 40.0 µs | 14.0 µs | 0.35× |  |  |\n"),
			ContainSubstring("| 1,000 → 1,000,000 jobs waiting | 10.0 → 10.0 µs | 1.00× | 5.00 → 5.00 µs | 1.00× | 40.0 → 50.0 µs | 1.25× |"),
		))
	})

	It("compares the baseline with the contenders in the same rounds", func() {
		h := &harness{
			results: map[string]map[string][]measurement{"process-100": {
				nodeName: {{redisCPU: 40, perSecond: 100}, {redisCPU: 20, perSecond: 200}, {redisCPU: 10, perSecond: 300}},
				ownName:  {{redisCPU: 14, perSecond: 300}, {redisCPU: 7, perSecond: 500}, {redisCPU: 4, perSecond: 600}},
			}},
			baselines: []baseline{
				{cost{5, 3}, cost{2000, 12}, cost{2000, 14}}, {cost{5, 4}, cost{1000, 8}, cost{1000, 9}}, {cost{5, 5}, cost{4000, 3}, cost{4000, 4}},
			},
		}
		Expect((report{baseline: h.baselineRows(baseline{cost{1.3, 1.2}, cost{1.6, 1.5}, cost{1.8, 1.7}})}).text()).To(And(
			ContainSubstring("| add, 100 in flight: Redis CPU per job |  | 4.00 µs |  |  |  | 1.20× |\n"),
			ContainSubstring("| add, 100 in flight: jobs per second |  | 200,000 /s |  |  |  | 1.30× |\n"),
			ContainSubstring("| process, concurrency 100: Redis CPU per job | 20.0 µs | 8.00 µs | 0.30× | 7.00 µs | 0.35× | 1.50× |\n"),
			ContainSubstring("| process, concurrency 100, with three checks: Redis CPU per job | 20.0 µs | 9.00 µs | 0.40× | 7.00 µs | 0.35× | 1.70× |\n"),
			ContainSubstring("| process, concurrency 100: jobs per second | 200 /s | 500 /s | 5.00× | 500 /s | 2.50× | 1.60× |\n"),
			Not(ContainSubstring(redisCPUTitle+"\n\n| | Node")),
		))
	})

	It("computes ratios within a round, because the machine's speed may change between rounds", func() {
		f := figure{rounds: map[string][]float64{nodeName: {10, 20, 40}, ownName: {30, 50, 80}}}
		value, known := f.of(ownName)
		Expect(known).To(BeTrue())
		Expect(value).To(Equal(50.0))
		ratio, known := f.ratio(ownName)
		Expect(known).To(BeTrue())
		Expect(ratio).To(Equal(2.5), "median of 3, 2.5 and 2")
		f.lessIsBetter = true
		better, known := f.better(ownName)
		Expect(known).To(BeTrue())
		Expect(better).To(Equal(0.4))
		f.rounds[ownName][1] = 0
		_, known = f.ratio(ownName)
		Expect(known).To(BeFalse())
	})

	It("reports whether each measured goal is met", func() {
		met := map[string]bool{}
		for _, g := range measured.goals() {
			if g.known {
				met[g.title] = g.met()
			}
		}
		Expect(met).To(Equal(map[string]bool{
			"add with 100 in flight, jobs per second":      true,
			"addBulk of 1,000, jobs per second":            false,
			latenessTitle + ", p95":                        true,
			"Redis CPU, process with concurrency 100":      false,
			"process with 1,000,000 waiting, time per job": false, "process with 1,000,000 waiting, Redis CPU per job": true,
			"add with 1,000,000 waiting, time per job": true, "add with 1,000,000 waiting, Redis CPU per job": true,
		}))
		Expect(measured.verdict()).To(ContainSubstring("| addBulk of 1,000, jobs per second | ≥ 4 × Node's | 4.00 × Node's | not met |"))
	})

	It("has a figure for every goal after a whole run", func() {
		h := &harness{results: map[string]map[string][]measurement{}, samples: map[string]map[string][][]sample{}}
		for _, s := range throughput {
			h.results[s.name] = map[string][]measurement{nodeName: {{1, 1, 1, 1}}, ownName: {{1, 1, 1, 1}}}
		}
		for _, l := range latencies {
			h.samples[l.name] = map[string][][]sample{nodeName: {{{1, 1, 1}}}, ownName: {{{1, 1, 1}}}}
		}
		for _, g := range (report{tables: h.tables(), growth: measured.growth}).goals() {
			Expect(g.known).To(BeTrue(), g.title)
		}
	})

	It("draws a bar to the right for better and to the left for worse", func() {
		picture := measured.picture()
		decoder := xml.NewDecoder(strings.NewReader(picture))
		for {
			_, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			Expect(err).NotTo(HaveOccurred(), picture)
		}
		Expect(picture).To(ContainSubstring(">50.0×</text>"), "lateness: 80 ms and 1.6 ms")
		Expect(place(50)).To(Equal(place(mostBetter)), "bars end at the edge of the scale")
		Expect(place(0.5)).To(BeNumerically("<", place(1)))
		Expect(strings.Count(picture, barColours[ownName])).To(Equal(1+4), "the legend, and a bar for each ratio")
		Expect(strings.Count(picture, barColours[asynqName])).To(Equal(1 + 1))
	})

	It("replaces the previous report and nothing else", func() {
		directory := GinkgoT().TempDir()
		page := filepath.Join(directory, "benchmarks.md")
		Expect(os.WriteFile(page, []byte("# Before\n<!-- figures: begin -->\nold\n<!-- figures: end -->\n# After\n"), 0o600)).To(Succeed())
		for range 2 {
			Expect(measured.write(directory)).To(Succeed())
			text, err := os.ReadFile(page)
			Expect(err).NotTo(HaveOccurred())
			Expect(string(text)).To(And(HavePrefix("# Before\n<!-- figures: begin -->\n![The rows"), HaveSuffix(measured.text()+"<!-- figures: end -->\n# After\n"), Not(ContainSubstring("old"))))
			Expect(filepath.Join(directory, "benchmarks.svg")).To(BeAnExistingFile())
		}
		Expect(os.WriteFile(page, []byte("no marks"), 0o600)).To(Succeed())
		Expect(measured.write(directory)).To(MatchError(ContainSubstring("lacks the marker lines")))
	})

	It("writes the table of shards into the page about scaling", func() {
		directory := GinkgoT().TempDir()
		page := filepath.Join(directory, "scaling.md")
		Expect(os.WriteFile(filepath.Join(directory, "benchmarks.md"), []byte("<!-- figures: begin --><!-- figures: end -->"), 0o600)).To(Succeed())
		Expect(os.WriteFile(page, []byte("# Before\n<!-- shards: begin -->\nold\n<!-- shards: end -->\n# After\n"), 0o600)).To(Succeed())
		with := measured
		with.shards = []shardRow{{1, cost{redisCPU: 10}, cost{redisCPU: 20}, true, 1000, 500}, {10, cost{redisCPU: 11}, cost{redisCPU: 24}, true, 9000, 4000}}
		Expect(with.write(directory)).To(Succeed())
		text, err := os.ReadFile(page)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(text)).To(And(HavePrefix("# Before\n<!-- shards: begin -->\n"), HaveSuffix("| 8.00× |\n<!-- shards: end -->\n# After\n"), Not(ContainSubstring("old"))))
		Expect(with.verdict()).To(And(
			ContainSubstring("| add to 10 shards, jobs per second of a shard | ≥ 0.85 × with one | 0.90 × with one | met |"),
			ContainSubstring("| process on 10 shards, jobs per second of a shard | ≥ 0.85 × with one | 0.80 × with one | not met |"),
			Not(ContainSubstring("shards, Redis CPU"))))
		for i := range with.shards {
			with.shards[i].limited = false
		}
		Expect(with.verdict()).To(And(
			ContainSubstring("| add to 10 shards, Redis CPU per job | ≤ 1.15 × with one | 1.10 × with one | met |"),
			ContainSubstring("| process on 10 shards, Redis CPU per job | ≤ 1.15 × with one | 1.20 × with one | not met |")))
	})

	DescribeTable("formats numbers with about three digits:", func(value float64, text string) {
		Expect(number(value)).To(Equal(text))
	},
		Entry("thousands", 12345.6, "12,346"),
		Entry("millions", 1234567.0, "1,234,567"),
		Entry("negative", -1234.0, "-1,234"),
		Entry("hundreds", 123.4, "123"),
		Entry("tens", 12.34, "12.3"),
		Entry("ones", 1.234, "1.23"),
	)
})
