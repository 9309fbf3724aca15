// Package timing has the timers of the SDK: a sleep that a context ends, pauses
// that grow, and a timer that is precise in an idle process.
package timing

import (
	"sync/atomic"
	"time"
)

// After calls a function once a time is over. It is more precise than
// [time.AfterFunc], which on Linux is late by up to a millisecond in an idle
// process; see docs/adr/0009. As with a timer, stop reports whether it was in
// time: if not, the function was called or is about to be.
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

// timerSlack is how late a timer may be. That much is slept instead.
const timerSlack = 1500 * time.Microsecond
