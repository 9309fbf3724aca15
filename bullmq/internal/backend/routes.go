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
	// MoveRequested moves a job that is waiting, prioritized, delayed or failed to another
	// queue, and returns its id there. A delayed job stays delayed. A job that would be dropped,
	// or is part of something else, stays where it is: the obstacle tells why, and id is "".
	MoveRequested(ctx context.Context, to QueueRef, now time.Time, job MovedJob) (id string, obstacle MoveObstacle, err error)
}

// MoveObstacle is why a job was not moved to another queue.
type MoveObstacle int

// The obstacles.
const (
	MoveNotInState MoveObstacle = iota // it is running, completed, waiting for children, or in no state
	MoveNoJob                          // there is no such job
	MoveInFlow                         // it has a parent or children
	MoveScheduled                      // a scheduler has added it
	MoveTaken                          // the other queue has a job with its id or its deduplication id
)

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
