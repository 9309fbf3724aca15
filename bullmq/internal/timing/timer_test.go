package timing

import (
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A precise timer", func() {
	It("calls when its time is over, never before, and mostly at once", func() {
		var late []time.Duration
		for n := range 40 {
			wait := time.Duration(n*170) * time.Microsecond
			begun, rung := time.Now(), make(chan time.Duration, 1)
			After(wait, func() { rung <- time.Since(begun) })
			var after time.Duration
			Eventually(rung).Should(Receive(&after))
			Expect(after).To(BeNumerically(">=", wait))
			late = append(late, after-wait)
		}
		slices.Sort(late)
		Expect(late[len(late)/2]).To(BeNumerically("<", 5*time.Millisecond), "on a busy machine too")
	})

	It("does not call once it is stopped, even in its last moment", func() {
		for n := range 40 {
			rung := make(chan bool, 1)
			stop := After(3*time.Millisecond, func() { rung <- true })
			time.Sleep(time.Duration(n*50) * time.Microsecond)
			if stop() {
				Consistently(rung, 5*time.Millisecond).ShouldNot(Receive(), "stopped in time, after %d µs", n*50)
			} else {
				Eventually(rung).Should(Receive(), "it was quicker, after %d µs", n*50)
			}
			Expect(stop()).To(BeFalse(), "there is nothing left to stop")
		}
	})
})
