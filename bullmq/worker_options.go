package bullmq

import (
	"cmp"
	"fmt"
	"maps"
	"time"
)

// WorkerOptions configures a [Worker]. A nil pointer and the zero value select
// the defaults.
type WorkerOptions struct {
	// Connection is a connection to share with other queues and workers. Its
	// creator closes it.
	// Defaults to a separate connection to URL.
	Connection *Connection
	// URL is the address of Redis, used if Connection is nil. Printing the options shows
	// it in full, including a password.
	// Defaults to [DefaultURL].
	URL string
	// Prefix is the first part of all keys. All clients of a queue must use the
	// same one.
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
	// Concurrency is the number of jobs that run at the same time.
	// [Worker.SetConcurrency] changes it later.
	// Defaults to 1.
	Concurrency int

	// BatchSize is the maximum number of jobs that one call to Redis fetches or
	// finishes. Jobs that finish while a call is in flight share the next call.
	// No job waits for a batch to fill. With 1 each job has a separate call.
	// Defaults to 100.
	BatchSize int

	// LockDuration is how long the lock of a job lasts unless it is extended. If the
	// worker of a job dies, the job runs again after this time and up to two
	// StalledIntervals.
	// Defaults to 30 seconds.
	LockDuration time.Duration
	// LockRenewTime is the age by which a lock is renewed. It must be shorter than
	// LockDuration.
	// Defaults to half of LockDuration.
	LockRenewTime time.Duration
	// SkipLockRenewal disables the renewal of locks. Use it only if every job is
	// certain to finish within LockDuration.
	SkipLockRenewal bool
	// StalledInterval is the minimum interval, across all workers of the queue, between
	// two checks for stalled jobs: jobs whose worker no longer renews their lock.
	// Defaults to 30 seconds.
	StalledInterval time.Duration
	// MaxStalledCount is how often a job may stall and run again. When it stalls once
	// more, it fails. With -1 a job fails when it stalls for the first time.
	// Defaults to 1.
	MaxStalledCount int
	// SkipStalledCheck disables this worker's part in the check for stalled jobs.
	// At least one worker of the queue must make the check.
	SkipStalledCheck bool
	// MaxStartedAttempts is how often a job may start. A job that starts once
	// more fails without running, however its earlier runs ended.
	// Defaults to 0, no limit.
	MaxStartedAttempts int

	// DrainDelay is how long to wait for a notification from Redis before the queue is
	// polled.
	// Defaults to 5 seconds.
	DrainDelay time.Duration
	// Limiter limits how many jobs start within a period.
	// Defaults to no limit.
	Limiter *Limiter
	// MaximumRateLimitDelay is the longest time between two polls while a rate
	// limit is in effect.
	// Defaults to 30 seconds.
	MaximumRateLimitDelay time.Duration
	// Limits limits the jobs with a name, by that name, across all workers of the queue that
	// have a limit for it. Give each of them the same limit. Workers without one, and those of
	// BullMQ, run such jobs without regard to the limit.
	//
	// A job that may not start is delayed. It tries again after about an eighth of the time
	// for which it has waited, and after 30 seconds at the latest. That uses no attempt and is
	// not counted as a start. Jobs of one name may start in another order than they were
	// added. Each try costs Redis some calls, so put jobs that form long backlogs into a queue
	// of their own.
	// Defaults to no limits.
	Limits map[string]NameLimit
	// KeepCompleted and KeepFailed apply to jobs that do not set these options
	// themselves (BullMQ: removeOnComplete, removeOnFail).
	// Defaults to [KeepAll].
	KeepCompleted Retention
	KeepFailed    Retention
	// MetricsPoints is the number of minutes for which counts of completed and
	// failed jobs are kept (BullMQ: metrics.maxDataPoints).
	// Defaults to 0, which collects none.
	MetricsPoints int

	// BackoffStrategy computes the wait before the next attempt of jobs with a
	// custom backoff type; see [CustomBackoff].
	BackoffStrategy BackoffStrategy
	// Classify decides whether and when a failed job is retried, if an attempt is left.
	// It is not called for errors that decide this themselves, such as those of
	// [Unrecoverable] and [Snooze].
	// Defaults to a retry as the job's options define it.
	Classify func(err error, job *Job) Verdict

	// ShutdownTimeout is how long Run waits for running jobs after its context has
	// ended or Close was called. The handlers' contexts are cancelled with the cause
	// [ErrShutdown] when a tenth of the time is left, or a second if that is less.
	// [Worker.Shutdown] sets a different bound.
	// Defaults to 30 seconds.
	ShutdownTimeout time.Duration

	// JobLog stores lines of [LoggerFromContext] in the log of the job.
	// Defaults to nil, which stores none.
	JobLog *JobLogOptions
	// QueueOptions are the options of the queues of [QueueFromContext]. Their
	// Connection and URL are not used. Prefix, Dialect, Telemetry, Logger and Now
	// default to those of the worker.
	QueueOptions *QueueOptions

	// DeadLetters moves jobs of the queue that have failed for good to another queue,
	// also those that other clients have failed.
	// Defaults to nil: failed jobs stay.
	DeadLetters *DeadLetterOptions

	// Registration configures how the worker registers itself, for [Queue.Workers] and
	// [ListWorkers].
	// Defaults to nil, the defaults of [RegistrationOptions].
	Registration *RegistrationOptions

	// Events are functions to call when a job or the worker changes.
	Events WorkerEvents
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

// fill checks the options and sets the defaults.
func (o *WorkerOptions) fill() error {
	type duration struct {
		name     string
		value    *time.Duration
		standard time.Duration
	}
	for _, d := range []duration{
		{"LockDuration", &o.LockDuration, 30 * time.Second},
		{"StalledInterval", &o.StalledInterval, 30 * time.Second},
		{"DrainDelay", &o.DrainDelay, 5 * time.Second},
		{"MaximumRateLimitDelay", &o.MaximumRateLimitDelay, 30 * time.Second},
		{"ShutdownTimeout", &o.ShutdownTimeout, 30 * time.Second},
	} {
		if *d.value == 0 {
			*d.value = d.standard
		}
		if err := checkMillis(d.name, *d.value, time.Millisecond); err != nil {
			return err
		}
	}
	if err := checkMillis("LockRenewTime", o.LockRenewTime, 0); err != nil {
		return err
	}
	if o.LockRenewTime == 0 {
		o.LockRenewTime = o.LockDuration / 2
	}
	if o.LockRenewTime >= o.LockDuration {
		return fmt.Errorf("LockRenewTime %v must be shorter than LockDuration %v", o.LockRenewTime, o.LockDuration)
	}
	if err := o.Dialect.check(); err != nil {
		return err
	}
	if o.Concurrency == 0 {
		o.Concurrency = 1
	}
	if o.Concurrency < 0 {
		return fmt.Errorf("Concurrency %d is less than 1", o.Concurrency)
	}
	if o.MaxStalledCount < -1 {
		return fmt.Errorf("MaxStalledCount %d is less than -1; -1 means that a job fails when it stalls once", o.MaxStalledCount)
	}
	o.MaxStalledCount = cmp.Or(o.MaxStalledCount, 1)
	o.Limits = maps.Clone(o.Limits)
	if err := checkLimits(o.Limits); err != nil {
		return err
	}
	if o.JobLog != nil {
		jobLog := *o.JobLog
		if err := jobLog.fill(); err != nil {
			return err
		}
		o.JobLog = &jobLog
	}
	var registration RegistrationOptions
	if o.Registration != nil {
		registration = *o.Registration
	}
	if err := registration.fill(); err != nil {
		return err
	}
	o.Registration = &registration
	if o.DeadLetters != nil {
		letters := *o.DeadLetters
		if err := letters.fill(o.KeepFailed); err != nil {
			return err
		}
		o.DeadLetters = &letters
	}
	if o.Limiter != nil {
		if err := o.Limiter.check(); err != nil {
			return err
		}
	}
	return cmp.Or(
		checkBatchSize(&o.BatchSize), checkText("Name", o.Name),
		checkCount("MaxStartedAttempts", o.MaxStartedAttempts, "no bound"),
		checkCount("MetricsPoints", o.MetricsPoints, "that none are collected"),
		o.KeepCompleted.check("KeepCompleted"), o.KeepFailed.check("KeepFailed"),
	)
}
