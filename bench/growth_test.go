package main

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("The growth benchmark", func() {
	costsSomething := func(c compared) {
		GinkgoHelper()
		for _, one := range []cost{c.few, c.many, c.ratio} {
			Expect(one.micros).To(BeNumerically(">", 0))
			Expect(one.redisCPU).To(BeNumerically(">", 0))
		}
	}

	It("measures with jobs of each state in the background", func() {
		rows, err := measureGrowth([2]int{100, 3_000}, 1)
		Expect(err).NotTo(HaveOccurred())
		var titles []string
		for _, row := range rows {
			titles = append(titles, row.title)
			costsSomething(row.add)
			costsSomething(row.process)
		}
		Expect(titles).To(Equal([]string{waitingTitle, completedTitle, delayedTitle}))
	})

	It("measures the baseline in the same way", func() {
		f, err := baselineGrowth([2]int{100, 3_000}, 1)
		Expect(err).NotTo(HaveOccurred())
		for _, times := range []cost{f.add, f.process, f.checked} {
			Expect(times.micros).To(BeNumerically(">", 0))
			Expect(times.redisCPU).To(BeNumerically(">", 0))
		}
	})

	It("computes ratios within a step", func() {
		c := compare([2][]cost{{{10, 1}, {20, 2}, {40, 4}}, {{30, 3}, {50, 4}, {80, 4}}})
		Expect(c).To(Equal(compared{few: cost{20, 2}, many: cost{50, 4}, ratio: cost{2.5, 2}}), "medians of 3, 2.5 and 2, and of 3, 2 and 1")
	})

	It("does not change the background", func() {
		g, err := openGrowthServer(500)
		Expect(err).NotTo(HaveOccurred())
		defer g.close()
		counts := func() map[bullmq.State]int {
			GinkgoHelper()
			counts, err := g.producer.queue.Counts(context.Background(), bullmq.StateWaiting, bullmq.StateActive, bullmq.StateCompleted, bullmq.StateDelayed)
			Expect(err).NotTo(HaveOccurred())
			return counts
		}

		const background = 500
		holds := func(state bullmq.State) {
			GinkgoHelper()
			want := map[bullmq.State]int{bullmq.StateWaiting: 0, bullmq.StateActive: 0, bullmq.StateCompleted: 0, bullmq.StateDelayed: 0}
			want[state] = background
			Expect(counts()).To(Equal(want))
		}
		holds(bullmq.StateWaiting)
		_, _, err = g.step(false)
		Expect(err).NotTo(HaveOccurred())
		holds(bullmq.StateWaiting)

		Expect(g.each(completeText)).To(Succeed())
		_, _, err = g.step(true)
		Expect(err).NotTo(HaveOccurred())
		holds(bullmq.StateCompleted)

		Expect(g.each(delayText)).To(Succeed())
		_, _, err = g.step(false)
		Expect(err).NotTo(HaveOccurred())
		holds(bullmq.StateDelayed)
	})

	It("takes the medians over the rounds for several queues", func() {
		row := func(n float64) grown {
			c := compared{cost{n, 2 * n}, cost{3 * n, 4 * n}, cost{5 * n, 6 * n}}
			return grown{queuesTitle, c, c}
		}
		Expect(medianRow([]grown{row(3), row(1), row(2)})).To(Equal(row(2)))
	})

	It("measures with several queues", func() {
		row, baseline, err := measureQueues([2]int{1, 8}, 400, 2)
		Expect(err).NotTo(HaveOccurred())
		costsSomething(row.add)
		costsSomething(row.process)
		costsSomething(baseline.add)
	})
})
