package backend

import (
	"context"
	"time"
)

// Consumer gives up jobs that are running, and keeps the locks of those that run
// on. Calls that need the lock return an [*Error] with the code [JobNotFound],
// [LockNotFound], [LockMismatch] or [NotInState] if it is not held.
type Consumer interface {
	// RetryJob makes a job ready again whose attempt has failed.
	RetryJob(ctx context.Context, r Retry) error
	// MoveToWait puts a running job back to the front of its queue. It returns for how
	// long the rate limit holds.
	MoveToWait(ctx context.Context, jobID, token string) (time.Duration, error)
	// MoveToWaitingChildren makes a running job wait for its children, or only as long
	// as child is pending unless that is zero. It reports false if there is none to
	// wait for.
	MoveToWaitingChildren(ctx context.Context, jobID, token string, now time.Time, child JobRef) (bool, error)

	// ExtendLock makes a lock last for a time from now. It reports false if the lock
	// is not held any more.
	ExtendLock(ctx context.Context, lock Lock, duration time.Duration) (bool, error)
	// ExtendLocks extends many locks in one call, and returns the ids of the jobs
	// whose lock is not held any more.
	ExtendLocks(ctx context.Context, locks []Lock, duration time.Duration) ([]string, error)
	// MoveStalledJobsToWait makes a check for jobs whose worker is gone, at most one
	// in an interval over all workers, and returns the ids of those that wait again.
	MoveStalledJobsToWait(ctx context.Context, now time.Time, maxStalled int, interval time.Duration) ([]string, error)
}

// Lock names a lock by its job and the token that owns it.
type Lock struct{ JobID, Token string }

// FailedAttempt is what a failed attempt stores in the job's record.
type FailedAttempt struct {
	Reason     string // plain text
	StackTrace string // JSON, a list of texts
	Telemetry  string // metadata of the trace that goes on; "" for none
}

// Retry makes a job ready again.
type Retry struct {
	JobID   string
	Token   string
	Now     time.Time
	LIFO    bool // it is the next one to run
	Failure FailedAttempt
}
