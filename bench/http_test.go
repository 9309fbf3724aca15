package main

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("The benchmark of HTTP requests", func() {
	It("measures both kinds of submits, and waits", func() {
		rounds, err := measureHTTP(1, httpSizes{warm: 10, submits: 50, requests: 200, waits: 30, spacing: time.Millisecond})
		Expect(err).NotTo(HaveOccurred())
		Expect(rounds).To(HaveLen(1))
		for _, r := range rounds {
			for _, s := range append(r.one[:], r.many[:]...) {
				Expect(s.p50).To(BeNumerically(">", 0))
				Expect(s.p99).To(BeNumerically(">=", s.p50))
			}
			for _, s := range r.many {
				Expect(s.perSecond).To(BeNumerically(">", 0))
			}
			Expect(r.waits.p50).To(BeNumerically(">", 0))
			Expect(r.waits.p99).To(BeNumerically(">=", r.waits.p50))
			Expect(r.waits.worst).To(BeNumerically(">=", r.waits.p99))
			Expect(r.waits.all).To(BeNumerically(">", 0))
		}
	})

	It("shows medians, ratios within a round, and goals", func() {
		round := func(factor, wait float64) httpRound {
			bare := submitted{100, 200, 10_000}
			own := submitted{100 * factor, 200 * factor, 10_000 / factor}
			return httpRound{[2]submitted{bare, own}, [2]submitted{bare, own}, waited{wait, 2 * wait, 3 * wait, 50}}
		}
		r := report{http: []httpRound{round(1.1, 1), round(1.25, 2), round(1.4, 3)}}
		Expect(r.text()).To(And(
			ContainSubstring("| submit to 202, one at a time, p50 | 100 µs | 125 µs | 1.25× |\n"),
			ContainSubstring("| requests per second, 100 clients | 10,000 /s | 8,000 /s | 0.80× |\n"),
			ContainSubstring("| from the end of a job to the reply, 1,000 requests wait, worst |  | 6.00 ms |  |\n"),
			ContainSubstring("| submit to 202, one at a time, p99 | ≤ 1.3 × a handler with Queue.Add | 1.25 × a handler with Queue.Add | met |\n"),
			ContainSubstring("| from the end of a job to the reply, 1,000 requests wait, p99 | ≤ 5 ms | 4.00 ms | met |\n"),
			ContainSubstring("| from the end of a job to the reply, 1,000 requests wait, worst | ≤ 5 ms | 6.00 ms | not met |\n"),
		))
		Expect(report{}.verdict()).To(BeEmpty())
	})
})
