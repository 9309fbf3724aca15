package timing

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("The pauses between attempts", func() {
	It("grow to a second, and start again only when there was no failure for a time", func() {
		var b Backoff
		pauses := func(n int) (all []time.Duration) {
			for range n {
				all = append(all, b.Next()/time.Millisecond)
			}
			return all
		}
		Expect(pauses(8)).To(Equal([]time.Duration{20, 40, 80, 160, 320, 640, 1000, 1000}))
		b.failed = b.failed.Add(-calmAfter)
		Expect(pauses(1)).To(Equal([]time.Duration{1000}), "nothing has succeeded")
		b.Succeeded()
		b.failed = b.failed.Add(-calmAfter)
		Expect(pauses(2)).To(Equal([]time.Duration{20, 40}))
	})

	It("are no shorter where successes and failures alternate", func() {
		var b Backoff
		for range 8 {
			b.Next()
			b.Succeeded()
		}
		Expect(b.Next()).To(Equal(LongestPause))
	})
})
