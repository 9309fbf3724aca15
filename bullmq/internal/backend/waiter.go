package backend

import "time"

// Wake is how a wait for work has ended.
type Wake struct {
	// Woken reports whether there was a wake-up. No other worker has it then, unless
	// it is returned.
	Woken bool
	// NextDue is when the first delayed job is due. It is zero if a job may be ready.
	NextDue time.Time
	// Err is why there was no wait.
	Err error
}
