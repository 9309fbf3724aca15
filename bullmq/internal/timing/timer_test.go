package timing

import (
	"runtime"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A precise timer", func() {
	It("never calls before its time", func() {
		for n := range 40 {
			wait := time.Duration(n*170) * time.Microsecond
			Expect(lateness(wait, precise)).To(BeNumerically(">=", 0), "after %v", wait)
		}
	})

	It("is late by less than half as much as time.AfterFunc on Linux", func() {
		if runtime.GOOS != "linux" {
			Skip("other systems sleep without the kernel's timers")
		}
		Eventually(func(g Gomega) { // a busy machine makes both late
			var ours, theirs []time.Duration
			for n := range 40 {
				wait := time.Duration(2000+n*170) * time.Microsecond
				ours = append(ours, lateness(wait, precise))
				theirs = append(theirs, lateness(wait, func(wait time.Duration, call func()) { time.AfterFunc(wait, call) }))
			}
			g.Expect(median(ours)).To(BeNumerically("<", median(theirs)/2))
		}, 20*time.Second).Should(Succeed())
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

func precise(wait time.Duration, call func()) { After(wait, call) }

// lateness returns how much later than after wait a timer calls.
func lateness(wait time.Duration, start func(wait time.Duration, call func())) time.Duration {
	GinkgoHelper()
	begun, called := time.Now(), make(chan time.Duration, 1)
	start(wait, func() { called <- time.Since(begun) })
	var after time.Duration
	Eventually(called).Should(Receive(&after))
	return after - wait
}

func median(durations []time.Duration) time.Duration {
	slices.Sort(durations)
	return durations[len(durations)/2]
}
