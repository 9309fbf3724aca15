package backend

import (
	"context"
	"time"
)

// Repairer is a store whose records can get apart from its states, as those of
// Redis can.
type Repairer interface {
	// ScanKeys looks at about count keys of the server from a cursor on, 0 for the
	// beginning, and returns those of the queue. next is 0 after the last key. A key
	// may come more than once.
	ScanKeys(ctx context.Context, cursor uint64, count int) (keys []string, next uint64, err error)
	// RemoveOrphanedJobs returns those of some ids that are in no state of the
	// queue, and deletes what there is of them if remove is set.
	RemoveOrphanedJobs(ctx context.Context, ids []string, remove bool) ([]string, error)
	// StrandedJobs returns those of some ids that were to run and are in no state of
	// the queue. With putBack they become ready, each in front of the one before it.
	StrandedJobs(ctx context.Context, ids []string, putBack bool) ([]StrandedJob, error)
	// JoinPaused joins the lists wait and paused where no other client would.
	JoinPaused(ctx context.Context) error
	// RemovePriorityKey deletes the key in which BullMQ 3 and older kept jobs by
	// priority, and reports whether it was there.
	RemovePriorityKey(ctx context.Context) (bool, error)
}

// StrandedJob is a job that was to run and is in no state of the queue.
type StrandedJob struct {
	ID        string
	Timestamp time.Time
}

// Dialects is a store that can write the keyspace of BullMQ 5 as well as that of
// BullMQ 6.
type Dialects interface {
	// SetDialect sets the major version of BullMQ to write, 5 or 6, before any other
	// call.
	SetDialect(major int)
	// DialectHints returns by what the dialect of a queue is told: the version that
	// another client has written, "" for none, and whether jobs are in the list
	// paused, where only BullMQ 5 puts them.
	DialectHints(ctx context.Context) (version string, paused bool, err error)
}
