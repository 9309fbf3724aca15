package backend

import (
	"context"
	"time"
)

// Add is a job to be added.
type Add struct {
	// State is the state in which the job starts: Waiting, Delayed, Prioritized or
	// WaitingChildren.
	State State

	ID        string // "" for the queue's next number
	Name      string
	Data      string // JSON
	Opts      string // JSON, as it is to be stored
	Timestamp time.Time
	Delay     time.Duration
	Priority  int
	LIFO      bool
	// DelayText and TimestampText are stored instead of Delay and Timestamp, unless
	// they are nil and "". They are texts in the options of another client. Only Redis
	// can store them.
	DelayText     *string
	TimestampText string

	Parent       JobRef
	ParentPolicy string // JSON: the parent, and what the job's failure does to it
	SchedulerID  string // of the scheduler that adds it

	Deduplication Deduplication
}

// Deduplication keeps a job from being added while another one with the same
// deduplication id is there. The zero value has no id and does nothing.
type Deduplication struct {
	ID               string
	TTL              time.Duration // 0 for as long as the other job has not ended
	Extend           bool
	Replace          bool
	KeepLastIfActive bool
	Reschedule       bool
}

// IsPlain reports whether the job needs nothing but its place in the queue. Plain
// jobs can be added together in one call, and none of them is refused.
func (a *Add) IsPlain() bool {
	if a.ID != "" || !a.Parent.IsZero() || a.SchedulerID != "" || a.Deduplication.ID != "" {
		return false
	}
	hasDelay := a.Delay != 0 || a.DelayText != nil
	switch a.State {
	case Waiting:
		return !hasDelay && a.Priority == 0
	case Prioritized:
		return !hasDelay
	default:
		return a.State == Delayed
	}
}

// AddOutcome is what an add did.
type AddOutcome int

// The outcomes of an add.
const (
	Added         AddOutcome = iota
	AlreadyExists            // a job with the same id exists; nothing was added
	Deduplicated             // another job owns the deduplication id; nothing was added
)

// AddResult is the result of an Add.
type AddResult struct {
	// JobID is the id of the added job, of the existing one, or of the owner of the
	// deduplication id; "" after an error.
	JobID   string
	Outcome AddOutcome
	// Err is why the job was not added: an [*Error] if the store refused it,
	// [ErrNotSent] if it was not sent because jobs before it had failed.
	Err error
}

// FlowJob is a job of a flow, on its queue.
type FlowJob struct {
	Queue Store // of the same connection
	Add   *Add
}

// Producer adds jobs.
type Producer interface {
	// AddBatch adds jobs in order, in as few calls as it can, and returns what
	// became of each. Each job is added or refused by itself. Jobs that follow a
	// call in which the server or the way to it has failed may not be sent.
	AddBatch(ctx context.Context, jobs []*Add) []AddResult

	// AddFlow adds the jobs of flows, of any queues, all or none. A parent comes
	// before its children. Parents whose children have all completed before then
	// wait to be processed. The error means that no job was added, or that it is not
	// known.
	AddFlow(ctx context.Context, jobs []FlowJob, now time.Time) ([]AddResult, error)

	// CheckReach returns why no call can change this queue and another one, which is
	// so on a cluster that keeps them on different nodes; nil if one can.
	CheckReach(prefix, queue string) error
}
