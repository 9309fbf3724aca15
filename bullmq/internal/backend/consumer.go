package backend

import (
	"context"
	"time"
)

// Consumer fetches jobs, finishes or moves them, and extends the locks of running jobs.
// If the caller does not hold the lock, calls that need it return an [*Error] with the
// code [JobNotFound], [LockNotFound], [LockMismatch] or [NotInState].
type Consumer interface {
	// MoveToActive fetches the next jobs and locks them, one for each token. It
	// returns a [Fetched] for each token. The results with a job come first. It may fetch
	// fewer jobs than are ready.
	MoveToActive(ctx context.Context, now time.Time, worker Worker, tokens ...string) ([]Fetched, error)
	// ResolveFetch determines the outcome of a call whose reply was lost. jobID is the job
	// that the call was to finish, or "" if it was only to fetch a job. undone reports
	// that jobID is still active under the token, so the call may be repeated. fetched has
	// the job that was fetched under the token, if any. An earlier call may have fetched
	// that job.
	ResolveFetch(ctx context.Context, token, jobID string) (undone bool, fetched Fetched, err error)

	// MoveToFinished completes or fails jobs, each independently, in one call. It returns
	// when the call has ended, so that the caller can make the next call before it decodes
	// the reply. read decodes the reply and returns the results in the order of f.Ends. If
	// read returns an error, none or all of the jobs may have been finished.
	MoveToFinished(ctx context.Context, f Finish) (read func() ([]Ended, error))
	// MoveToDelayed delays a running job. If d.Fetch is set, it fetches another job.
	MoveToDelayed(ctx context.Context, d Delay) (Fetched, error)
	// RetryJob makes a running job ready again after a failed attempt.
	RetryJob(ctx context.Context, r Retry) error
	// MoveToWait puts a running job back to the front of its queue. It returns how
	// long the rate limit is still in effect.
	MoveToWait(ctx context.Context, jobID, token string) (time.Duration, error)
	// MoveToWaitingChildren makes a running job wait for its children, if at least one
	// child is pending. If child is set, that child must be pending. It reports whether
	// the job waits.
	MoveToWaitingChildren(ctx context.Context, jobID, token string, now time.Time, child JobRef) (bool, error)

	// ExtendLock extends a lock so that it expires after duration. It reports false if
	// the lock is no longer held.
	ExtendLock(ctx context.Context, lock Lock, duration time.Duration) (bool, error)
	// ExtendLocks extends many locks in one call.
	ExtendLocks(ctx context.Context, locks []Lock, duration time.Duration) (Renewal, error)
	// MoveStalledJobsToWait moves jobs whose worker has died back to wait, and returns
	// their ids. All workers together make the check at most once per interval.
	MoveStalledJobsToWait(ctx context.Context, now time.Time, maxStalled int, interval time.Duration) ([]string, error)
}

// Worker is the part of a worker's options that fetching a job needs.
type Worker struct {
	LockDuration time.Duration
	Name         string    // stored with the jobs; "" for none
	Limit        RateLimit // the worker's limiter; zero for none
}

// Fetched is the result of fetching a job: the job, or the reason why there is none.
type Fetched struct {
	Job  *JobRecord // nil if no job was fetched
	Hint Hint       // for the [End] of the job

	// LimitedFor is how long the rate limit is still in effect.
	LimitedFor time.Duration
	// NextDue is when the first delayed job is due. It is zero if there is no delayed
	// job, or if the call did not check.
	NextDue time.Time
	// Unknown reports that no job was fetched, but a job may be ready. Either the call did
	// not look for a job, or it used the jobs that it could fetch for other tokens.
	Unknown bool
}

// Hint is what the call that fetched a job knows about it. It makes ending the job
// cheaper. Only the backend that returned a Hint knows its meaning. The zero value is
// always valid.
type Hint uint8

// Finish is the request of [Consumer.MoveToFinished].
type Finish struct {
	Now           time.Time
	MetricsPoints int // minutes of metrics to keep; 0 collects none
	Worker        Worker
	Ends          []*End
}

// End is the outcome of a job.
type End struct {
	JobID       string
	Token       string
	ReturnValue string // JSON, of a job that completes

	// Failure is the last attempt if the job fails; nil if it completes. Attempts is the
	// number of attempts that the options of the job allow.
	Failure  *FailedAttempt
	Attempts int

	Keep  Keep
	Hint  Hint // the Hint of the [Fetched] with the job; 0 if unknown
	Fetch bool // also fetch a next job under the same token
}

// Ended is the result of an [End].
type Ended struct {
	Err  error   // the reason why the job was not finished
	Next Fetched // the next job, if Fetch of the End is set
}

// Keep selects which finished jobs of one kind, completed or failed, are kept when
// another job of that kind finishes. The zero value keeps all.
type Keep struct {
	Count    OptionalInt // keep this many of the newest jobs; 0 removes the finished job, -1 keeps all
	Age      OptionalInt // keep jobs that finished within this many seconds
	Removals OptionalInt // maximum number of jobs to remove
}

// All reports whether all jobs are kept.
func (k Keep) All() bool {
	return !k.Age.IsSet && (!k.Count.IsSet || k.Count.Value == -1)
}

// OptionalInt is a number that may not be set.
type OptionalInt struct {
	Value int
	IsSet bool
}

// Int returns an OptionalInt that is set.
func Int(value int) OptionalInt { return OptionalInt{Value: value, IsSet: true} }

// Delay is the request of [Consumer.MoveToDelayed].
type Delay struct {
	JobID string
	Token string
	Now   time.Time
	Delay time.Duration
	// Failure is the failed attempt; nil if no attempt was consumed.
	Failure *FailedAttempt

	Fetch  bool // also fetch a next job under the same token
	Worker Worker
}

// Lock identifies a lock by its job and the token that owns it.
type Lock struct{ JobID, Token string }

// Renewal is the result of extending many locks.
type Renewal struct {
	Lost      []string       // ids of the jobs whose lock is no longer held
	Cancelled []Cancellation // jobs that are cancelled and whose lock was extended
}

// FailedAttempt is what a failed attempt stores in the job's record.
type FailedAttempt struct {
	Reason     string // plain text
	StackTrace string // JSON, a list of texts
	Telemetry  string // metadata of the trace to continue; "" for none
}

// Retry is the request of [Consumer.RetryJob].
type Retry struct {
	JobID   string
	Token   string
	Now     time.Time
	LIFO    bool // the job becomes the next one to run
	Failure FailedAttempt
}
