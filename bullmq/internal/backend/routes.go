package backend

import (
	"context"
	"time"
)

// Routes is a store that can move jobs to other queues before they run. CheckReach of
// [Producer] tells whether it can for two queues.
type Routes interface {
	// ForwardJob moves a running job to another queue, where it waits as if it had been
	// added there. The start is not counted. A job that would not be added there is
	// dropped, which the outcome tells.
	ForwardJob(ctx context.Context, f Forward) (AddResult, error)
	// MoveWaiting moves jobs that are waiting, prioritized, or delayed and due, to another
	// queue, all at once. It returns their ids in that queue, and "" for a job that is in none
	// of these states, which it leaves alone.
	MoveWaiting(ctx context.Context, to QueueRef, now time.Time, jobs []MovedJob) ([]string, error)
}

// Forward is a running job to move to another queue.
type Forward struct {
	JobID, Token string
	To           QueueRef
	Now          time.Time

	Deduplication Deduplication // its modes; the id is that of the job's record
	LIFO          bool
}

// MovedJob is a waiting job to move to another queue.
type MovedJob struct {
	ID   string
	Opts string // its options from then on, as JSON

	Deduplication Deduplication // its modes; the id is that of the job's record
	LIFO          bool
}
