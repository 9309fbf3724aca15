package chaos

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A clock that jumps", func() {
	It("by a minute in either direction, in one worker and one producer, loses no job", func() {
		onlyInFull()
		l := lightLoad(5 * time.Second)
		l.goWorkers = 1
		t := begin("clocks of one Go worker and one producer jump by 1 min", at(startServer()), l)
		astray, err := t.fleet.Start(within(20*time.Second), Go, "-jumps")
		Expect(err).NotTo(HaveOccurred())
		for _, ahead := range []time.Duration{time.Minute, -time.Minute, time.Minute, 0, -time.Minute, 0} {
			Expect(astray.Send(ahead.String())).To(Succeed())
			t.clock.Jump(ahead)
			time.Sleep(1500 * time.Millisecond)
		}
		t.faultEnded()
		// Delayed jobs added by a clock that is ahead are due up to a minute later.
		account := t.settle(tolerance{late: time.Minute})
		Expect(account.Stalls).To(BeZero())
	})
})
