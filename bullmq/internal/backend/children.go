package backend

import "context"

// Children reads and changes the dependencies of parents.
type Children interface {
	// Children reads all children of a job as they are at one moment.
	Children(ctx context.Context, jobID string) (Dependencies, error)
	// ChildValues reads the return values of a job's completed children.
	ChildValues(ctx context.Context, jobID string) ([]ChildResult, error)
	// IgnoredFailures reads the failed children whose failure the job ignores, with the
	// reasons.
	IgnoredFailures(ctx context.Context, jobID string) ([]ChildResult, error)
	// ScanChildren reads a part of a job's children.
	ScanChildren(ctx context.Context, jobID string, from ChildScan) (ChildPage, error)
	// ChildRange reads a range of a job's children of one kind, and returns the number of
	// all children of that kind. If processed is set, it reads completed children with their
	// values, otherwise pending children. The order does not change until a child is added
	// or removed.
	ChildRange(ctx context.Context, jobID string, processed bool, from, to int) (children []ChildResult, total int, err error)
	// ChildCounts counts a job's children.
	ChildCounts(ctx context.Context, jobID string) (ChildCounts, error)

	// JobsOf reads jobs of any queues. The records are in the order of the argument. The
	// record of a job that does not exist is nil.
	JobsOf(ctx context.Context, jobs []JobRef) ([]*JobRecord, error)
	// JobLabels reads the names of jobs of any queues, and why they have failed. The labels
	// are in the order of the argument. The label of a job that does not exist is empty.
	JobLabels(ctx context.Context, jobs []JobRef) ([]JobLabel, error)

	// RemoveUnprocessedChildren removes a job's children that are neither finished nor
	// active.
	RemoveUnprocessedChildren(ctx context.Context, jobID string) error
	// RemoveChildDependency detaches a child from its parent and reports whether the
	// parent waited for it. [ParentNotFound] means that the parent does not exist.
	RemoveChildDependency(ctx context.Context, jobID string) (bool, error)
}

// ChildResult is a child with its result.
type ChildResult struct {
	Child JobRef
	// Value is the return value (JSON) of a completed child, the reason of a failed
	// child, or "" for a pending child.
	Value string
}

// JobLabel describes a job to a reader: its name, and the reason of its failure.
type JobLabel struct{ Name, FailedReason string }

// Dependencies are the children of a job.
type Dependencies struct {
	Processed []ChildResult
	Pending   []JobRef
	Ignored   []ChildResult // failures that the parent ignores
	Failed    []JobRef      // children whose failure fails the parent
}

// Scan selects where to read children of one kind, and about how many of them.
type Scan struct {
	Cursor uint64 // 0 for the beginning; otherwise the cursor that the previous page returned
	Count  int
}

// ChildScan is a Scan for each kind of children; nil for a kind that is not read.
type ChildScan struct{ Processed, Pending, Ignored, Failed *Scan }

// ChildPage is a part of a job's children. In Next, a kind is nil if no children of that
// kind are left.
type ChildPage struct {
	Dependencies
	Next ChildScan
}

// ChildCounts is the number of children of each kind.
type ChildCounts struct{ Processed, Pending, Ignored, Failed int }
