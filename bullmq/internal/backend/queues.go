package backend

import (
	"context"
	"time"
)

// QueueFinder finds the queues in a store.
type QueueFinder interface {
	// EachQueue passes the names of the queues with a prefix, such as bull, to each, until
	// each returns false. No name is passed twice. Queues that are added or removed meanwhile
	// may be passed or not.
	EachQueue(ctx context.Context, prefix string, each func(names []string) (more bool)) error
	// Summaries returns what is in queues, in the order of the argument, in one call. Each
	// queue is given by the prefix of its keys, including the last colon, such as bull:orders:.
	// On a cluster, the queues must be in one hash slot. minutes is the number of points of the
	// metrics.
	Summaries(ctx context.Context, queues []string, minutes int) ([]QueueSummary, error)
}

// QueueSummary is what [QueueFinder.Summaries] returns of a queue.
type QueueSummary struct {
	// Err is a [*QueueError] if the queue contains values that the call can't process. The
	// other fields are then empty.
	Err error

	Counts map[State]int       // of all states
	Oldest map[State]time.Time // see [Reading.Oldest]; a state without jobs is missing

	Paused        bool
	Concurrency   int // global; 0 if there is none
	LimitMax      int // jobs per LimitDuration; 0 if there is no limit
	LimitDuration time.Duration
	LimitedFor    time.Duration // for how long the rate limit is in effect; 0 if it is not

	IDs        int // the counter of ids, which an add increases
	Schedulers int // number of job schedulers
	// DeadLetters reports whether one of the jobs of Oldest is a dead letter.
	DeadLetters bool

	Completed, Failed Metrics
}
