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
	Opts      string // JSON, as it is stored
	Timestamp time.Time
	Delay     time.Duration
	Priority  int
	LIFO      bool
	// DelayText, if not nil, is stored instead of Delay. TimestampText, if not "", is
	// stored instead of Timestamp. They are for jobs whose options give the delay or the
	// timestamp as a string, as other clients may write them. Only Redis can store them.
	DelayText     *string
	TimestampText string

	Parent       JobRef
	ParentPolicy string // JSON: the parent, and the effect of the job's failure on it
	SchedulerID  string // of the scheduler that adds the job

	Deduplication Deduplication
}

// Deduplication prevents a job from being added while another one owns the same
// deduplication id. The zero value has no id and no effect.
type Deduplication struct {
	ID string
	// TTL is how long the job owns the id after it is added; 0 means until it finishes.
	// It has no effect with KeepLastIfActive.
	TTL              time.Duration
	Extend           bool
	Replace          bool
	KeepLastIfActive bool
	Reschedule       bool
}

// IsPlain reports whether the job is plain: it has no custom id, parent, children,
// scheduler or deduplication, and its State fits its delay and its priority. Plain jobs
// can be added together in one call, and the store refuses none of them.
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

// AddOutcome is the outcome of an add.
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
	// Err is the error of the add. It is an [*Error] if the store refused the job, and
	// [ErrNotSent] if the job was not sent because the server or the connection failed
	// in an earlier call. After another error the job may have been added.
	Err error
}

// FlowJob is a job of a flow, on its queue.
type FlowJob struct {
	Queue Store // of the same connection
	Add   *Add
}

// Producer adds jobs.
type Producer interface {
	// AddBatch adds jobs in order, in as few calls as possible, and returns the result of
	// each. Each job is added or refused independently. If the server or the connection
	// fails in a call, the jobs of the calls after it may not be sent.
	AddBatch(ctx context.Context, jobs []*Add) []AddResult

	// AddFlow adds the jobs of flows, of any queues, in one transaction. A parent
	// precedes its children. If all children of a parent have completed before the call,
	// the parent becomes ready at once. After an error no job was added, or the outcome
	// is unknown.
	AddFlow(ctx context.Context, jobs []FlowJob, now time.Time) ([]AddResult, error)

	// CheckReach returns an error if one call can't change both this queue and the given
	// one. That is so on a cluster, unless the keys of both have the same hash tag.
	CheckReach(prefix, queue string) error
}
