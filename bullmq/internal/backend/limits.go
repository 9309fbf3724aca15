package backend

import (
	"context"
	"time"
)

// NameLimits is a store that can limit how many jobs with a name run. It is optional.
type NameLimits interface {
	// StartNamed asks whether a running job may start under the limits of its name. If it may,
	// it counts as running for as long as it has its lock, and as started. Otherwise the
	// start of the job is not counted as one of its starts, and wait is how long the limit of
	// starts is still in effect; 0 if that is not the reason.
	StartNamed(ctx context.Context, s NamedStart) (granted bool, wait time.Duration, err error)
}

// NamedStart is the request of [NameLimits.StartNamed].
type NamedStart struct {
	JobID, Token string
	Name         string
	Concurrency  int       // of jobs with the name; 0 for no limit
	Starts       RateLimit // zero for no limit
}
