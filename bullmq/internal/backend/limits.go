package backend

import (
	"context"
	"time"
)

// NameLimits is a store that can limit how many jobs with a name run. It is optional.
type NameLimits interface {
	// StartNamed asks whether a running job may start under the limits of its name. If it
	// may, it counts as started, and as running for as long as it has its lock. Otherwise
	// the start of the job is not counted as one of its starts. wait is then how long the
	// limit of starts is still in effect, or 0 if too many jobs with the name are running.
	StartNamed(ctx context.Context, s NamedStart) (granted bool, wait time.Duration, err error)
}

// NamedStart is the request of [NameLimits.StartNamed].
type NamedStart struct {
	JobID, Token string
	Name         string
	Concurrency  int       // of jobs with the name; 0 for no limit
	Starts       RateLimit // zero for no limit
}
