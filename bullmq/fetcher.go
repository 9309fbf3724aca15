package bullmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/safe"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// FetcherOptions configures a [Fetcher]. A nil pointer and the zero value select the
// defaults.
// Options that a [Worker] has too have the same meaning as in [WorkerOptions].
type FetcherOptions struct {
	// Connection is a connection to share with other queues and workers. Its creator
	// closes it.
	// Defaults to a separate connection to URL.
	Connection *Connection
	// URL is the address of Redis, used if Connection is nil. Printing the options shows
	// it in full, including a password.
	// Defaults to [DefaultURL].
	URL string
	// Prefix is the first part of all keys. All clients of a queue must use the same
	// one.
	// Defaults to [DefaultPrefix].
	Prefix string
	// Dialect selects the BullMQ major version whose data layout is written.
	// Defaults to [Detect].
	Dialect Dialect
	// Name is listed by Queue.ConnectedWorkers and stored in the jobs that were fetched
	// (field pb). Queue.ConnectedWorkers does not list names with spaces or non-ASCII
	// characters.
	// Defaults to no name.
	Name string

	// Token returns the token of the lock of the next job that is fetched. It may be
	// called by several goroutines. Tokens must be unique among the jobs that are
	// active at the same time, and neither empty nor "0".
	// Defaults to unique tokens.
	Token func() string
	// LockDuration is how long the lock of a job lasts unless it is extended. If the
	// worker of a job dies, the job runs again after this time and up to two
	// StalledIntervals.
	// Defaults to 30 seconds.
	LockDuration time.Duration
	// RenewLocks makes the Fetcher renew the lock of each job that it has fetched,
	// until the job is finished or moved, or the Fetcher is closed. A job that the
	// program never finishes stays active until then. Without RenewLocks the program
	// extends the locks, with [Job.ExtendLock] or [Fetcher.ExtendLocks].
	RenewLocks bool
	// LockRenewTime is the age by which a lock is renewed. It must be shorter than
	// LockDuration.
	// Defaults to half of LockDuration.
	LockRenewTime time.Duration
	// OnCancelled is called once, on a goroutine of its own, for each job whose lock
	// RenewLocks renews and which [Queue.Cancel] has cancelled. It is called within
	// LockRenewTime. err wraps a [*CancelledError]. Stop the work then, and pass err to
	// [Fetcher.Fail]. The job may have been finished just before.
	OnCancelled func(job *Job, err error)
	// DrainDelay is how long to wait for a notification from Redis before the queue is
	// polled.
	// Defaults to 5 seconds.
	DrainDelay time.Duration
	// StalledInterval is the minimum interval, across all workers of the queue, between
	// two checks for stalled jobs: jobs whose worker no longer renews their lock.
	// Defaults to 30 seconds.
	StalledInterval time.Duration
	// MaxStalledCount is how often a job may stall and run again. When it stalls once
	// more, it fails. With -1 a job fails when it stalls for the first time.
	// Defaults to 1.
	MaxStalledCount int
	// MaxStartedAttempts is how often a job may start. A job that starts once more
	// must fail without running, however its earlier runs ended.
	// Defaults to 0, no limit.
	MaxStartedAttempts int
	// BatchSize is the maximum number of jobs that one call to Redis finishes, if
	// several goroutines finish jobs at the same time.
	// Defaults to 100.
	BatchSize int

	// Limiter limits how many jobs start within a period.
	// Defaults to no limit.
	Limiter *Limiter
	// KeepCompleted and KeepFailed apply to jobs that do not set these options
	// themselves (BullMQ: removeOnComplete, removeOnFail).
	// Defaults to [KeepAll].
	KeepCompleted Retention
	KeepFailed    Retention
	// MetricsPoints is the number of minutes for which counts of completed and failed
	// jobs are kept (BullMQ: metrics.maxDataPoints).
	// Defaults to 0, which collects none.
	MetricsPoints int
	// BackoffStrategy computes the wait before the next attempt of jobs with a custom
	// backoff type; see [CustomBackoff].
	BackoffStrategy BackoffStrategy
	// Classify decides whether and when a failed job is retried, if an attempt is left.
	// It is not called for errors that decide this themselves, such as those of
	// [Unrecoverable] and [Snooze].
	// Defaults to a retry as the job's options define it.
	Classify func(err error, job *Job) Verdict

	// OnHealth is called when Redis becomes unreachable and when it is reachable
	// again. Calls do not overlap.
	OnHealth func(Health)
	// Telemetry records traces and metrics.
	// Defaults to none.
	Telemetry Telemetry
	// Logger receives log lines.
	// Defaults to none.
	Logger Logger
	// Now returns the current time. Tests may replace it.
	// Defaults to [time.Now].
	Now func() time.Time
}

// worker returns the options of the Worker that the Fetcher uses.
func (o FetcherOptions) worker() WorkerOptions {
	return WorkerOptions{
		Connection: o.Connection, URL: o.URL, Prefix: o.Prefix, Dialect: o.Dialect, Name: o.Name,
		LockDuration: o.LockDuration, LockRenewTime: o.LockRenewTime, DrainDelay: o.DrainDelay,
		StalledInterval: o.StalledInterval, MaxStalledCount: o.MaxStalledCount, MaxStartedAttempts: o.MaxStartedAttempts,
		BatchSize: o.BatchSize,
		Limiter:   o.Limiter, KeepCompleted: o.KeepCompleted, KeepFailed: o.KeepFailed, MetricsPoints: o.MetricsPoints,
		BackoffStrategy: o.BackoffStrategy, Classify: o.Classify,
		OnHealth: o.OnHealth, Telemetry: o.Telemetry, Logger: o.Logger, Now: o.Now,
	}
}

// Fetcher fetches the jobs of a queue one by one, for a program that has a loop of its
// own instead of a [Worker] with a handler. It is safe for concurrent use (BullMQ: a
// Worker without a processor).
//
// The program must do the following, which [Worker.Run] does otherwise:
//
//   - finish each job with [Fetcher.Complete] or [Fetcher.Fail]
//   - extend each job's lock before LockDuration has passed, unless RenewLocks is set
//   - call [Fetcher.CheckStalled] from time to time
type Fetcher struct {
	w         *Worker // never run
	token     func() string
	renew     bool
	cancelled func(job *Job, err error) // nil without OnCancelled
}

// NewFetcher connects to a queue and returns a Fetcher. ctx bounds this call only. The
// Fetcher lives until [Fetcher.Close] is called. options may be nil.
func NewFetcher(ctx context.Context, queueName string, options *FetcherOptions) (*Fetcher, error) {
	var o FetcherOptions
	if options != nil {
		o = *options
	}
	w, err := newEngine(ctx, "fetcher", queueName, o.worker())
	if err != nil {
		return nil, err
	}
	f := &Fetcher{w: w, token: o.Token, renew: o.RenewLocks, cancelled: o.OnCancelled}
	if f.token == nil {
		f.token = w.token
	}
	if f.renew {
		safe.Go(w.closed, w.locks.run)
	}
	return f, nil
}

// QueueName returns the name of the queue.
func (f *Fetcher) QueueName() string { return f.w.QueueName() }

// Health reports whether Redis can be reached. It makes no call.
func (f *Fetcher) Health() Health { return f.w.Health() }

// Close ends the Fetcher. Calls of Fetch that wait return [ErrClosed]. Jobs that were
// fetched and not finished stay active until a check for stalled jobs returns them to
// the queue. Close always returns nil.
func (f *Fetcher) Close() error { return f.w.Close() }

// Job returns a job of the queue, or [ErrJobNotFound]. The job has no lock token; see
// [Job.WithToken].
func (f *Fetcher) Job(ctx context.Context, id string) (*Job, error) { return f.w.Job(ctx, id) }

// JobRef returns a job that is known by its id alone, as [Queue.JobRef] does.
func (f *Fetcher) JobRef(id string) *Job { return f.w.JobRef(id) }

// RateLimit stops the workers of the queue for a duration, as [Worker.RateLimit] does.
func (f *Fetcher) RateLimit(ctx context.Context, wait time.Duration) error {
	return f.w.RateLimit(ctx, wait)
}

// CheckStalled checks for jobs whose worker has died, and returns the ids of those that
// it moved back to wait. A job is stalled if two checks in a row find it without a
// lock. It may be called at any time: across all workers of the queue, at most one
// check is made per StalledInterval (BullMQ: startStalledCheckTimer).
func (f *Fetcher) CheckStalled(ctx context.Context) (jobIDs []string, err error) {
	return f.w.findStalled(ctx)
}

// Fetch returns the next job. It waits for a job until ctx ends, and then returns the
// cause of ctx. A job that was fetched at the moment when ctx ended stays active until
// CheckStalled finds it (BullMQ: getNextJob).
//
// While Redis is unreachable or can't serve, Fetch retries and logs the failures. If ctx
// ends meanwhile, the error wraps the cause of ctx and the error of Redis. Fetch returns
// other errors at once, such as a missing permission.
//
// A job with a DeferredFailure must not run. Pass the failure to Fail, wrapped in
// [Unrecoverable]. In the dialect of BullMQ 5, Fetch fails such jobs itself.
func (f *Fetcher) Fetch(ctx context.Context) (*Job, error) { return f.fetchTraced(ctx, true) }

// TryFetch returns the next job as [Fetcher.Fetch] does, but neither waits nor retries.
// It returns [ErrNoJob] if no job is ready (BullMQ: getNextJob without block).
func (f *Fetcher) TryFetch(ctx context.Context) (*Job, error) { return f.fetchTraced(ctx, false) }

func (f *Fetcher) fetchTraced(ctx context.Context, wait bool) (*Job, error) {
	job, err := f.fetch(ctx, wait)
	if err == nil || errors.Is(err, ErrNoJob) {
		f.w.noteFetched(ctx, job, wait)
	}
	return job, err
}

func (f *Fetcher) fetch(ctx context.Context, wait bool) (*Job, error) {
	w := f.w
	a := fetchAttempts{w: w, token: f.token()}
	if err := checkToken(a.token); err != nil {
		return nil, a.failed(err)
	}
	ctx, cancel := w.untilClosed(ctx)
	defer cancel()
	var waiter backend.Waiter
	defer func() {
		if waiter != nil {
			waiter.Close()
		}
	}()
	for {
		if w.closed.Err() != nil {
			return nil, a.failed(ErrClosed)
		}
		begun := time.Now()
		fetched, err := a.fetchOne(ctx)
		switch {
		case err != nil:
		case fetched.Job != nil:
			job := f.newFetchedJob(fetched, a.token, begun)
			if reason := w.refusal(job); reason != nil && w.core.dialect == V5 {
				if err := f.Fail(ctx, job, reason); err != nil {
					return nil, err
				}
				continue
			}
			if err := f.advance(ctx, job); err != nil {
				return nil, err
			}
			return job, nil
		case !wait:
			return nil, ErrNoJob
		default:
			a.succeeded()
			if waiter == nil {
				waiter = w.core.newWaiter(w.core.keys.clientName(w.nameSuffix()))
			}
			err = waiter.WaitWithin(ctx, f.untilPoll(fetched))
		}
		if err != nil {
			if err := a.pause(ctx, err, wait); err != nil {
				return nil, err
			}
		}
	}
}

// untilPoll returns how long to wait for the marker after a fetch that found no job.
func (f *Fetcher) untilPoll(fetched backend.Fetched) time.Duration {
	left := f.w.o.DrainDelay
	if fetched.LimitedFor > 0 {
		left = min(left, fetched.LimitedFor)
	}
	if !fetched.NextDue.IsZero() {
		left = min(left, max(fetched.NextDue.Sub(f.w.core.now()), time.Millisecond))
	}
	return left
}

// fetchAttempts is the state of one call of Fetch, which retries while Redis is
// unreachable or can't serve.
type fetchAttempts struct {
	w      *Worker
	token  string
	lost   bool // a fetch whose reply was lost may have locked a job
	last   error
	outage timing.Backoff
}

// fetchOne fetches one job. If the reply is lost, it looks for the job that the call may
// have locked. If that fails too, the next call looks for it again.
func (a *fetchAttempts) fetchOne(ctx context.Context) (backend.Fetched, error) {
	ctx, cancel := context.WithTimeout(ctx, timing.CallTimeout)
	defer cancel()
	store := a.w.core.store
	var failed error
	if !a.lost {
		each, err := store.MoveToActive(ctx, a.w.core.now(), a.w.backendWorker(), a.token)
		if err == nil {
			return each[0], nil
		}
		if !mayHaveRun(err) {
			return backend.Fetched{}, err
		}
		a.lost, failed = true, err
	}
	_, found, err := store.ResolveFetch(ctx, a.token, "")
	held := false
	if err == nil && found.Job != nil { // its lock is as old as the lost reply
		held, err = store.ExtendLock(ctx, backend.Lock{JobID: found.Job.ID, Token: a.token}, a.w.o.LockDuration)
	}
	if err != nil {
		return backend.Fetched{}, cmp.Or(failed, err)
	}
	a.lost = false
	if held {
		return found, nil
	}
	return backend.Fetched{}, failed
}

// succeeded records that Redis has replied.
func (a *fetchAttempts) succeeded() {
	a.last = nil
	a.outage.Succeeded()
}

// pause waits before another attempt. It returns an error if there must be none.
func (a *fetchAttempts) pause(ctx context.Context, err error, retry bool) error {
	switch {
	case ctx.Err() != nil:
		return a.ended(ctx, err)
	case !retry, errors.Is(err, ErrClosed), !isTransient(err),
		classify(err) == backend.ClientClosed && a.outage.AtLongest(): // the caller's own client is closed
		return a.failed(err)
	}
	a.last = err
	a.w.fault(err, "fetching a job failed; retrying")
	timing.Sleep(ctx, a.w.pauseAfter(err, &a.outage))
	if served := a.w.core.conn.Health().Recovered(); served != nil {
		select {
		case <-served:
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return a.ended(ctx, nil)
	}
	return nil
}

// ended returns the error of a fetch whose context has ended. err is the error of the
// call that was in flight, or nil.
func (a *fetchAttempts) ended(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case a.w.closed.Err() != nil && mayHaveRun(err):
		return a.failed(backend.ErrCutOff)
	case a.w.closed.Err() != nil:
		return a.failed(ErrClosed)
	case a.last != nil:
		return a.failed(fmt.Errorf("%w; Redis could not be read: %w", cause, a.last))
	default:
		return cause
	}
}

func (a *fetchAttempts) failed(err error) error {
	return fmt.Errorf("bullmq: fetch a job of queue %s: %w", a.w.QueueName(), err)
}

// newFetchedJob returns the job of a fetch that began at begun. With RenewLocks it starts
// renewing the lock.
func (f *Fetcher) newFetchedJob(fetched backend.Fetched, token string, begun time.Time) *Job {
	job := f.w.core.newJob(fetched.Job)
	job.token = token
	if f.renew {
		lock := heldLock{token: token, renewed: begun, lose: func(error) {}}
		if f.cancelled != nil {
			lock.cancel = func(c backend.Cancellation) {
				f.w.guard("OnCancelled", func() { f.cancelled(job, job.cancellation(c)) })
			}
		}
		f.w.locks.hold(job.ID, lock)
	}
	return job
}

// advance adds the next job of the scheduler that added the job.
func (f *Fetcher) advance(ctx context.Context, job *Job) error {
	if job.SchedulerID == "" {
		return nil
	}
	err := f.w.advance(ctx, job)
	var stopped *scheduleError
	if errors.As(err, &stopped) {
		f.w.fault(err, "a job scheduler stops; its last job is fetched; correct it with Queue.UpsertScheduler", logJob, job.ID, logName, job.Name)
		return nil
	}
	if err != nil {
		f.w.locks.release(job.ID, job.token)
		return fmt.Errorf("bullmq: job %s is left to the check for stalled jobs, because the next job of its scheduler could not be added: %w", job.ID, err)
	}
	return nil
}
