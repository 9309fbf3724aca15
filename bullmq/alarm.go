package bullmq

import (
	"sync/atomic"
	"time"
)

// alarm calls ring once a time is over, unless stopped before, and closer to the
// moment than a timer does: in a process that is idle, Go's timers on Linux are
// late by 0.6 ms in the middle and by 1 ms often, and this by 0.1 to 0.2 ms. As
// with a timer, stop says whether it was in time: ring was or will be called
// where it was not.
func alarm(wait time.Duration, ring func()) (stop func() bool) {
	at := time.Now().Add(wait)
	var over atomic.Bool // stopped or rung, whichever was first
	timer := time.AfterFunc(wait-timerSlack, func() {
		if left := time.Until(at); left > 0 && !over.Load() {
			sleepExactly(min(left, timerSlack))
		}
		if over.CompareAndSwap(false, true) {
			ring()
		}
	})
	return func() bool {
		timer.Stop()
		return over.CompareAndSwap(false, true)
	}
}

// timerSlack is by how much timers may be late: the rest is slept through.
const timerSlack = 1500 * time.Microsecond
