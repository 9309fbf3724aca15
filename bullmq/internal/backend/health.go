package backend

import "time"

// Health describes whether the store can be reached.
type Health struct {
	// Reachable reports whether the store replies and can serve.
	Reachable bool
	// Since is when the present state began.
	Since time.Time
	// Err is the reason why the store is unreachable. After an outage it is still the reason
	// of that outage. It is nil before the first outage.
	Err error
}

// HealthWatch watches the calls of one user of a [Connection] to find out whether the
// store can be reached.
type HealthWatch interface {
	// State returns the last known state. It makes no call.
	State() Health
	// OnChange sets the function to call with each change. Calls are made in a separate
	// goroutine, in order, and do not overlap.
	OnChange(onChange func(Health))
	// Recovered returns a channel that is closed when the store can serve again. It
	// returns nil while no probe runs.
	Recovered() <-chan struct{}
}
