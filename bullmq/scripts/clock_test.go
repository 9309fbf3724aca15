package scripts

import (
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = ginkgo.Describe("The server's clock", func() {
	var clock *serverClock
	// reply observes a call that took a time, and ran after a part of that, while our clock was ahead.
	reply := func(took, after, ahead time.Duration) {
		begun := time.Now().Add(-took)
		clock.observe(begun.Add(after-ahead).UnixMicro(), begun)
	}
	ginkgo.BeforeEach(func() { clock = &serverClock{} })

	ginkgo.It("counts from before the call, so that no job seems to be due before it is", func() {
		reply(100*time.Millisecond, 20*time.Millisecond, time.Minute)
		Expect(clock.best.Known).To(BeTrue())
		Expect(clock.best.Ahead).To(BeNumerically("~", time.Minute-20*time.Millisecond, time.Millisecond))
		Expect(clock.best.Unsure).To(BeNumerically(">=", 100*time.Millisecond))
	})

	ginkgo.It("is known best from the shortest call, until a call contradicts that", func() {
		reply(100*time.Millisecond, 80*time.Millisecond, 0)
		reply(2*time.Millisecond, time.Millisecond, 0)
		best := clock.best
		Expect(best.Ahead).To(BeNumerically("~", -time.Millisecond, time.Millisecond))
		reply(time.Second, 900*time.Millisecond, 0)
		Expect(clock.best).To(Equal(best))
		reply(time.Second, 900*time.Millisecond, time.Hour) // one of the clocks was set
		Expect(clock.best.Ahead).To(BeNumerically("~", time.Hour-900*time.Millisecond, time.Millisecond))
		reply(time.Second, 100*time.Millisecond, -time.Hour)
		Expect(clock.best.Ahead).To(BeNumerically("~", -time.Hour-100*time.Millisecond, time.Millisecond))
	})

	ginkgo.It("stays unknown where replies don't report it", func() {
		clock.observe(0, time.Now())
		Expect(clock.best.Known).To(BeFalse())
	})
})
