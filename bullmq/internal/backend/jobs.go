package backend

import (
	"context"
	"time"
)

// Jobs reads and changes single jobs. Calls that change a job return an [*Error]
// with the code [JobNotFound] if there is none.
type Jobs interface {
	// Job reads a job. It returns nil if there is none.
	Job(ctx context.Context, jobID string) (*JobRecord, error)
	// Summary reads some fields of a job: Name, Opts, the attempts, ProcessedOn and
	// DeduplicationID. It returns nil if there is no such job.
	Summary(ctx context.Context, jobID string) (*JobRecord, error)
	// State returns the state of a job, or Unknown if there is no such job.
	State(ctx context.Context, jobID string) (State, error)
	// JobAndState reads a job and its state as of one moment. If position is set, it also
	// reads the id of the last event. The record is nil if there is no such job.
	JobAndState(ctx context.Context, jobID string, position bool) (record *JobRecord, state State, lastEvent string, err error)
	// Outcome returns how a job has finished.
	Outcome(ctx context.Context, jobID string) (Outcome, error)

	// UpdateProgress replaces a job's progress, which is JSON, and publishes an event.
	UpdateProgress(ctx context.Context, jobID, progress string) error
	// UpdateData replaces a job's data, which is JSON.
	UpdateData(ctx context.Context, jobID, data string) error

	// AddLog adds a row to a job's log and returns the number of rows. It keeps the newest
	// keep rows, or all if keep is 0.
	AddLog(ctx context.Context, jobID, row string, keep int) (int, error)
	// Logs reads a range of a job's log, oldest first. total is the number of all rows.
	Logs(ctx context.Context, jobID string, from, to int) (rows []string, total int, err error)
	// ClearLogs removes all rows of a job's log except the newest keep rows.
	ClearLogs(ctx context.Context, jobID string, keep int) error

	// Promote makes a delayed job ready now. [NotInState] means that it is not
	// delayed, or that there is no such job.
	Promote(ctx context.Context, jobID string) error
	// ChangeDelay changes the delay of a delayed job. The delay starts at now.
	ChangeDelay(ctx context.Context, jobID string, now time.Time, delay time.Duration) error
	// ChangePriority changes the priority of a job; 0 means no priority. If lifo is set,
	// the job becomes the next one of that priority.
	ChangePriority(ctx context.Context, jobID string, priority int, lifo bool) error
	// Reprocess moves a finished job back to waiting.
	Reprocess(ctx context.Context, jobID string, r Reprocess) error
	// Remove removes a job and, if children is set, all its descendants.
	Remove(ctx context.Context, jobID string, children bool) (RemoveOutcome, error)
	// RemoveDeduplicationKey frees a deduplication id if the job owns it, and
	// reports whether it did.
	RemoveDeduplicationKey(ctx context.Context, deduplicationID, jobID string) (bool, error)
}

// Outcome is how a job has finished.
type Outcome struct {
	// State is Completed or Failed. It is Unknown if there is no such job, and "" if the
	// job has not finished.
	State State
	// Value is the return value (JSON) of a completed job, or the reason (plain text) of a
	// failed job.
	Value string
}

// Reprocess configures [Jobs.Reprocess].
type Reprocess struct {
	From                 State // Completed or Failed
	LIFO                 bool  // the job becomes the next one to run
	ResetAttemptsMade    bool
	ResetAttemptsStarted bool
}

// RemoveOutcome is the outcome of a removal.
type RemoveOutcome int

// The outcomes of a removal.
const (
	Locked RemoveOutcome = iota // a worker holds the job or one of its children; nothing was removed
	Removed
	NotFound // there is no such job
)
