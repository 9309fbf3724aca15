package bullmq

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("The backoff before another attempt", func() {
	waits := func(b *Backoff, chance float64, attempts ...int) []time.Duration {
		GinkgoHelper()
		var all []time.Duration
		for _, made := range attempts {
			wait, err := b.wait(made, chance, nil)
			Expect(err).NotTo(HaveOccurred())
			all = append(all, wait)
		}
		return all
	}

	It("is constant when fixed", func() {
		Expect(waits(FixedBackoff(700*time.Millisecond), 0.9, 1, 2, 3, 50)).To(HaveEach(700 * time.Millisecond))
	})

	It("doubles with each attempt made when exponential", func() {
		Expect(waits(ExponentialBackoff(time.Second), 0.9, 1, 2, 3, 4, 5)).To(Equal([]time.Duration{
			time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second,
		}))
	})

	DescribeTable("with jitter is random in its last part, in whole milliseconds:",
		func(b *Backoff, jitter float64, attempt int, least, half, most time.Duration) {
			b.Jitter = jitter
			Expect(waits(b, 0, attempt)).To(ConsistOf(least))
			Expect(waits(b, 0.5, attempt)).To(ConsistOf(half))
			Expect(waits(b, 0.999999, attempt)).To(ConsistOf(most))
		},
		Entry("fixed, jitter of a quarter", FixedBackoff(time.Second), 0.25, 3, 750*time.Millisecond, 875*time.Millisecond, 999*time.Millisecond),
		Entry("fixed, full jitter", FixedBackoff(time.Second), 1.0, 1, time.Duration(0), 500*time.Millisecond, 999*time.Millisecond),
		Entry("exponential, jitter of a half", ExponentialBackoff(time.Second), 0.5, 3, 2*time.Second, 3*time.Second, 3999*time.Millisecond),
		Entry("an odd number of milliseconds", FixedBackoff(333*time.Millisecond), 0.5, 1, 166*time.Millisecond, 249*time.Millisecond, 332*time.Millisecond),
	)

	It("is rounded to whole milliseconds when exponential and not when fixed", func() {
		Expect(waits(ExponentialBackoff(1600*time.Microsecond), 0, 1, 2)).To(Equal([]time.Duration{2 * time.Millisecond, 3 * time.Millisecond}))
		Expect(waits(FixedBackoff(1600*time.Microsecond), 0, 1)).To(ConsistOf(1600 * time.Microsecond))
	})

	It("grows to a century at most, without overflow", func() {
		century := 100 * 365 * 24 * time.Hour
		Expect(waits(ExponentialBackoff(time.Second), 0, 40, 64, 1024, 5000)).To(HaveEach(century))
		Expect(waits(ExponentialBackoff(0), 0, 1, 30)).To(HaveEach(time.Duration(0)))
	})

	It("comes from the worker's strategy for a custom type", func() {
		wait, err := CustomBackoff("tide").wait(2, 0, func() time.Duration { return 42 * time.Second })
		Expect(err).NotTo(HaveOccurred())
		Expect(wait).To(Equal(42 * time.Second))
	})

	It("does not come from the worker's strategy for fixed and exponential", func() {
		wait, err := FixedBackoff(time.Second).wait(1, 0, func() time.Duration { return time.Hour })
		Expect(err).NotTo(HaveOccurred())
		Expect(wait).To(Equal(time.Second))
	})

	It("is an error that names the type and the remedy if the type is unknown", func() {
		_, err := CustomBackoff("tide").wait(1, 0, nil)
		Expect(err).To(MatchError(And(ContainSubstring(`"tide"`), ContainSubstring("BackoffStrategy"))))
	})
})
