package backend

import (
	"context"
	"time"
)

// Repairer is a store in which records and states can become inconsistent, such as
// Redis.
type Repairer interface {
	// ScanKeys scans about count keys of the server from a cursor, 0 for the beginning,
	// and returns those of the queue. next is 0 after the last key. A key may be
	// returned more than once.
	ScanKeys(ctx context.Context, cursor uint64, count int) (keys []string, next uint64, err error)
	// RemoveOrphanedJobs returns those of the given ids that have keys and are in no state of
	// the queue, all at the time of the call. If remove is set, it deletes their keys.
	RemoveOrphanedJobs(ctx context.Context, ids []string, remove bool) ([]string, error)
	// StrandedJobs returns those of the given jobs that have not finished and are in no
	// state of the queue. If putBack is set, they become ready, each in front of the
	// previous one.
	StrandedJobs(ctx context.Context, ids []string, putBack bool) ([]StrandedJob, error)
	// JoinPaused joins the lists "wait" and "paused" in cases in which no other client
	// would do so.
	JoinPaused(ctx context.Context) error
	// RemovePriorityKey deletes the key in which BullMQ 3 and older kept jobs by
	// priority, and reports whether it was there.
	RemovePriorityKey(ctx context.Context) (bool, error)
}

// StrandedJob is a job that has not finished and is in no state of the queue.
type StrandedJob struct {
	ID        string
	Timestamp time.Time
}

// Dialects is a store that can write the keyspace of BullMQ 5 and that of BullMQ 6.
type Dialects interface {
	// SetDialect sets the major version of BullMQ to write, 5 or 6. It must precede all
	// other calls.
	SetDialect(major int)
	// DialectHints returns what determines the dialect of a queue. version is the version
	// that another client has written, or "". paused reports whether jobs are in the list
	// "paused", which only BullMQ 5 uses.
	DialectHints(ctx context.Context) (version string, paused bool, err error)
}
