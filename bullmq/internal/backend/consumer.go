package backend

import (
	"context"
	"time"
)

// Consumer fetches jobs, finishes or moves them, and extends the locks of those that
// are running. Calls that need the lock return an [*Error] with the code
// [JobNotFound], [LockNotFound], [LockMismatch] or [NotInState] if it is not held.
type Consumer interface {
	// MoveToActive fetches the next jobs and locks them, one for each token. It
	// returns a [Fetched] for each token, those with a job first. It may fetch fewer
	// jobs than are ready.
	MoveToActive(ctx context.Context, now time.Time, worker Worker, tokens ...string) ([]Fetched, error)
	// ResolveFetch determines the outcome of a call whose reply was lost. undone reports
	// that jobID is still active under the token, so the call may be repeated. fetched has the job
	// that the call has fetched under the token, if any, which may be the job of an
	// earlier call. jobID is "" if the call was to fetch a job only.
	ResolveFetch(ctx context.Context, token, jobID string) (undone bool, fetched Fetched, err error)

	// MoveToFinished completes or fails jobs, each independently, in one call. It
	// returns after the call, so that the next one can be made. read then reads the
	// reply and returns the results in the order of f.Ends. If read returns an error,
	// none or all of the jobs may have been finished.
	MoveToFinished(ctx context.Context, f Finish) (read func() ([]Ended, error))
	// MoveToDelayed delays a running job, and fetches another one if d.Fetch is set.
	MoveToDelayed(ctx context.Context, d Delay) (Fetched, error)
	// RetryJob makes a job whose attempt has failed ready again.
	RetryJob(ctx context.Context, r Retry) error
	// MoveToWait puts a running job back to the front of its queue. It returns how
	// long the rate limit is still in effect.
	MoveToWait(ctx context.Context, jobID, token string) (time.Duration, error)
	// MoveToWaitingChildren makes a running job wait for its children if one of them is
	// pending. If child is set, that one must be pending. Otherwise it reports false.
	MoveToWaitingChildren(ctx context.Context, jobID, token string, now time.Time, child JobRef) (bool, error)

	// ExtendLock extends a lock so that it expires after duration. It reports false if
	// the lock is no longer held.
	ExtendLock(ctx context.Context, lock Lock, duration time.Duration) (bool, error)
	// ExtendLocks extends many locks in one call.
	ExtendLocks(ctx context.Context, locks []Lock, duration time.Duration) (Renewal, error)
	// MoveStalledJobsToWait checks for jobs whose worker has died, at most once per
	// interval over all workers. It returns the ids of those that it moved back to wait.
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
	// NextDue is when the first delayed job is due. It is zero if there is none, or if
	// that was not checked.
	NextDue time.Time
	// Unknown reports that no job was fetched, but one may be ready: the call did not
	// look for one, or fetched as many jobs as it could for other tokens.
	Unknown bool
}

// Hint is information about a job from the call that fetched it, which makes its end
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

	// Failure is the last attempt of a job that fails; nil for a job that completes.
	// Attempts is the number of attempts that the options of the job allow.
	Failure  *FailedAttempt
	Attempts int

	Keep  Keep
	Hint  Hint // as it was returned with the job; 0 if it is unknown
	Fetch bool // fetch a next job under the same token
}

// Ended is the result of an [End].
type Ended struct {
	Err  error   // the reason why the job was not finished
	Next Fetched // of an End with Fetch
}

// Keep selects which finished jobs of one kind are kept when another one finishes. The
// zero value keeps all.
type Keep struct {
	Count    OptionalInt // the newest ones; 0 removes the finished job, -1 keeps all
	Age      OptionalInt // seconds
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

	Fetch  bool // fetch a next job under the same token
	Worker Worker
}

// Lock identifies a lock by its job and the token that owns it.
type Lock struct{ JobID, Token string }

// Renewal is the result of extending many locks.
type Renewal struct {
	Lost      []string       // ids of the jobs whose lock is not held any more
	Cancelled []Cancellation // of those whose lock was extended
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
