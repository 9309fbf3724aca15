package backend

import "time"

// Health is whether the store can be reached.
type Health struct {
	// Reachable reports whether the store replies and can serve.
	Reachable bool
	// Since is when that began.
	Since time.Time
	// Err is why the store can't be reached, or why it last was not. It is nil before
	// the first outage.
	Err error
}

// HealthWatch knows from the calls of one user of a [Connection] whether the store
// can be reached.
type HealthWatch interface {
	// State returns what is known. It makes no call.
	State() Health
	// OnChange sets the function that is called with each change, on a goroutine of
	// its own, one call at a time and in order.
	OnChange(onChange func(Health))
	// InDoubt returns a channel that is closed when the store can serve; nil if there
	// is no doubt that it can.
	InDoubt() <-chan struct{}
}
