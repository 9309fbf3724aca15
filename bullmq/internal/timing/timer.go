// Package timing contains the time limits and timers of the SDK: a sleep with a
// context, growing pauses, and a timer that is precise in an idle process.
package timing

import (
	"sync/atomic"
	"time"
)

// After calls a function after a duration. It is more precise than [time.AfterFunc],
// which on Linux is late by up to a millisecond in an idle process; see docs/adr/0009.
// As with a [time.Timer], stop returns false if the function was called or is about to be
// called.
func After(wait time.Duration, call func()) (stop func() bool) {
	at := time.Now().Add(wait)
	var over atomic.Bool // stopped or called, whichever was first
	timer := time.AfterFunc(wait-timerSlack, func() {
		if left := time.Until(at); left > 0 && !over.Load() {
			sleepExactly(min(left, timerSlack))
		}
		if over.CompareAndSwap(false, true) {
			call()
		}
	})
	return func() bool {
		timer.Stop()
		return over.CompareAndSwap(false, true)
	}
}

// timerSlack is how late a timer may be. A timer is used for the wait except for its last
// part, which has this length. That part is slept.
const timerSlack = 1500 * time.Microsecond
