package backend

import (
	"context"
	"time"
)

// FlowReader reads the jobs of flows, of any queues, without their data.
type FlowReader interface {
	// ReadFlow reads jobs and their children, level by level, in one call of bounded duration.
	// It reads at least one of the given jobs. On a cluster, the jobs must be in one hash slot.
	// It finds children in other slots, but does not read them.
	ReadFlow(ctx context.Context, read FlowRead) (FlowPart, error)
	// FlowAncestors returns the parent of a job, the parent's parent and so on, at most max.
	// It makes one call.
	FlowAncestors(ctx context.Context, job JobRef, max int) (FlowAncestors, error)
}

// FlowRead selects what [FlowReader.ReadFlow] reads.
type FlowRead struct {
	Jobs    []FlowStart
	MaxJobs int // to read
	Room    int // number of children to find
	// MaxDepth is the depth at which the children of jobs are not found, and MaxChildren the
	// number of children to find of a job, at most 10,000.
	MaxDepth, MaxChildren int
	MaxText               int // the length of texts to return, in bytes
}

// FlowStart is a job to read. It must be complete.
type FlowStart struct {
	JobRef
	Depth int
}

// FlowPart is what [FlowReader.ReadFlow] has read. The jobs have indexes: first those of
// FlowRead.Jobs, then those of Found.
type FlowPart struct {
	Found []FlowChild
	// Records are the records of the first jobs, nil for those that were not read. The jobs
	// after the last record were not read either.
	Records []*FlowRecord
}

// FlowChild is a child that was found.
type FlowChild struct {
	JobRef
	Parent int // index
	Kind   ChildKind
}

// ChildKind is what the parent of a job knows of its outcome.
type ChildKind int

// The kinds of children.
const (
	ChildFailed    ChildKind = iota + 1 // its failure fails the parent
	ChildIgnored                        // it has failed, and the parent ignores it
	ChildPending                        // the parent waits for it
	ChildProcessed                      // it has completed
)

// FlowRecord is a job without data.
type FlowRecord struct {
	// Err is why the job can't be read. The other fields are then empty.
	Err error
	// Missing reports that there is no such job. The other fields are then empty.
	Missing bool

	Name                               string // its beginning
	Timestamp, ProcessedOn, FinishedOn time.Time
	AttemptsMade                       int
	FailedReason                       string // its beginning; "" if it is much longer than FlowRead.MaxText
	FailedReasonSize                   int    // of the whole, in bytes
	State                              State  // "" for none
	Children                           ChildCounts
}

// FlowAncestors are the ancestors of a job.
type FlowAncestors struct {
	Jobs []JobRef // the parent first
	End  AncestorsEnd
}

// AncestorsEnd is why no more ancestors were read.
type AncestorsEnd string

// The reasons.
const (
	AncestorsRoot      AncestorsEnd = "root"      // the last job has no parent
	AncestorsGone      AncestorsEnd = "gone"      // the last job, or the given one, does not exist
	AncestorsElsewhere AncestorsEnd = "elsewhere" // the last job is in another hash slot, so it was not read
	AncestorsAgain     AncestorsEnd = "again"     // the last job is an ancestor of itself
	AncestorsMore      AncestorsEnd = "more"      // there may be more
)
