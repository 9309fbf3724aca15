package backend

import "time"

// Health says whether the store can be reached.
type Health struct {
	// Reachable reports whether the store replies and can serve.
	Reachable bool
	// Since is when that began.
	Since time.Time
	// Err is why the store can't be reached, or why it last could not; nil before
	// the first outage.
	Err error
}
