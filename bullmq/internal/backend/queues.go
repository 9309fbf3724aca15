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
	// LastEvents returns the last event of queues, which are given as for Summaries.
	LastEvents(ctx context.Context, queues []string) ([]LastEvent, error)
	// Memory measures some keys of queues and of samples of their jobs, in the order of the
	// argument, in one call. The queues are given as in Summaries. samples is the number of jobs
	// of each state to look at.
	Memory(ctx context.Context, queues []string, samples int) ([]QueueMemory, error)
}

// LastEvent is what [QueueFinder.LastEvents] returns of a queue.
type LastEvent struct {
	ID string // "0-0" if there is none
	// Err is a [*QueueError] if the events can't be read.
	Err error
}

// EventsWaiter waits for events of many queues, over one separate connection. One goroutine
// waits, between Begin and End. Any other may interrupt it.
type EventsWaiter interface {
	// Begin, End and Interrupt are like the methods of a [Waiter].
	Begin()
	End()
	Interrupt()

	// Wait waits, for at most block, until any of the queues has an event after its position,
	// and returns the indexes of all queues that have one. It fails if the events of one of the
	// queues can't be read.
	Wait(block time.Duration, queues []EventsAfter) (changed []int, err error)
	// Poll is Wait without waiting, over the shared connections.
	Poll(ctx context.Context, queues []EventsAfter) (changed []int, err error)

	// Close closes the connection.
	Close()
}

// EventsAfter is a position in the events of a queue.
type EventsAfter struct {
	Queue string // prefix of its keys, including the last colon
	ID    string // of the event before the position
}

// QueueMemory is what [QueueFinder.Memory] returns of a queue.
type QueueMemory struct {
	// Err is a [*QueueError] if the queue contains values that the call can't process. The
	// other fields are then empty.
	Err error

	Measured            bool  // whether memory may be measured; otherwise all bytes are 0
	Keys, Bytes, Events int64 // of the keys that are not those of jobs; Events is a part of Bytes
	Jobs                map[State]SampledMemory
	Schedulers          SampledMemory
}

// SampledMemory is the memory of a sample.
type SampledMemory struct {
	Count   int64 // of all
	Sampled int64 // number of those that were looked at
	Keys    int64 // of the sample
	Bytes   int64 // of the sample
}

// QueueSummary is what [QueueFinder.Summaries] returns of a queue.
type QueueSummary struct {
	// Err is a [*QueueError] if the queue contains values that the call can't process. The
	// other fields are then empty.
	Err error

	Counts map[State]int       // of all states
	Oldest map[State]time.Time // see [Reading.Oldest]; a state without jobs is missing

	Version       string // of the client that created the queue, such as bullmq:6.7.0; "" if unknown
	Paused        bool
	Concurrency   int  // global; 0 if there is none
	Stopped       bool // the global concurrency is 0
	LimitMax      int  // jobs per LimitDuration; 0 if there is no limit
	LimitDuration time.Duration
	LimitedFor    time.Duration // for how long the rate limit is in effect; 0 if it is not

	IDs        int // the counter of ids, which an add increases
	Schedulers int // number of job schedulers, without the paused ones
	// PausedSchedulers is the number of paused ones; 0 if the client may not read them.
	PausedSchedulers int
	// DeadLetters reports whether one of the jobs of Oldest is a dead letter.
	DeadLetters bool

	Completed, Failed Metrics
}
