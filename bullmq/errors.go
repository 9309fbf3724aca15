package bullmq

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/schedule"
)

// Error is returned when the state of a job or a queue does not allow a call. Its
// fields name the queue, the job and BullMQ's error code. Compare it with
// ErrJobNotFound and the other variables by errors.Is.
type Error = backend.Error

// ServerError is an error that the server returned for one job of a call with
// several jobs.
type ServerError = backend.ServerError

// Errors of calls that the state of a job or a queue does not allow. An [*Error]
// wraps one of the first eleven, which have a code in BullMQ (ErrorCode).
var (
	ErrJobNotFound          error = backend.JobNotFound          // -1: there is no such job
	ErrLockNotFound         error = backend.LockNotFound         // -2: the job has no lock: the lock has expired, or the job isn't running
	ErrNotInState           error = backend.NotInState           // -3: the job isn't in the state that the call requires, such as delayed for Promote
	ErrPendingChildren      error = backend.PendingChildren      // -4: the job can't complete while it has pending children
	ErrParentNotFound       error = backend.ParentNotFound       // -5: the parent doesn't exist
	ErrLockMismatch         error = backend.LockMismatch         // -6: another worker holds the job's lock
	ErrParentNotReplaceable error = backend.ParentNotReplaceable // -7: the job already has another parent, which still exists
	ErrSchedulerJob         error = backend.SchedulerJob         // -8: the job is the next one of a scheduler: remove the scheduler
	ErrFailedChildren       error = backend.FailedChildren       // -9: the job can't complete, or wait for children, because a child has failed it
	ErrSchedulerIDTaken     error = backend.SchedulerIDTaken     // -10: a job with the id of the scheduler's next job exists
	ErrSchedulerTimesTaken  error = backend.SchedulerTimesTaken  // -11: jobs with the ids of the scheduler's next jobs exist

	// ErrSchedulerNotFound means that there is no job scheduler with that id.
	ErrSchedulerNotFound = errors.New("there is no such job scheduler")
	// ErrDeduplicationNotFound means that no job owns a deduplication id.
	ErrDeduplicationNotFound = errors.New("no job owns the deduplication id")
)

// Errors that a [Handler] returns to control what happens to its job.
var (
	// ErrRateLimited requeues the job until the queue's rate limit has ended. It
	// consumes no attempt (BullMQ: RateLimitError). The handler must set the limit
	// first, by [Queue.RateLimit] or [Worker.RateLimit]. The function [RateLimit]
	// returns an error that sets the limit itself. If no limit is in effect, the job
	// runs again at once, as after ErrSnoozed.
	ErrRateLimited = errors.New("bullmq:rateLimitExceeded")
	// ErrSnoozed requeues the job at the front of its queue, to run again at once.
	// It consumes no attempt. [Snooze] and [SnoozeUntil] requeue the job for later.
	//
	// If a job is requeued like this repeatedly, the worker pauses before it requeues
	// the job: for 0, 1, 3, 7 ms and so on, up to a second. The pause grows with each
	// start of the job that consumed no attempt.
	ErrSnoozed = errors.New("bullmq: snoozed")
	// ErrWaitForChildren moves the job to the state waiting-children, until its pending
	// children have finished. It consumes no attempt. The handler has usually added the
	// children during this run. If no child is pending, the job runs again at once, as
	// after ErrSnoozed, so a handler must not return it each time that it runs.
	//
	// If a child with OnFailure [FailParent] has failed, the job fails without a retry.
	// (BullMQ: moveToWaitingChildren and WaitingChildrenError)
	ErrWaitForChildren = errors.New("bullmq: waiting for children")
	// ErrMovedToDelayed reports that the handler has called [Job.MoveToDelayed], which
	// has moved the job to StateDelayed (BullMQ: DelayedError).
	ErrMovedToDelayed = errors.New("bullmq:movedToDelayed")
	// ErrMovedToWait reports that the handler has called [Job.MoveToWait], which has
	// moved the job to StateWaiting (BullMQ: WaitingError).
	ErrMovedToWait = errors.New("bullmq:movedToWait")
	// ErrMovedToWaitingChildren reports that the handler has called
	// [Job.MoveToWaitingChildren], which has moved the job to StateWaitingChildren
	// (BullMQ: WaitingChildrenError).
	ErrMovedToWaitingChildren = errors.New("bullmq:movedToWaitingChildren")
	// ErrHandedOver reports that the handler has handed the job over, with the token of its
	// lock ([Job.Token]), to a program that finishes the job. The job stays active and
	// consumes no attempt yet. The worker writes nothing, no longer renews the lock, and
	// runs another job.
	//
	// The program makes a reference by [Queue.JobRef] and [Job.WithToken]. It extends the lock
	// with [Job.ExtendLock], and ends the attempt with [Fetcher.Complete] or [Fetcher.Fail].
	// The job runs again as a stalled job if the lock expires before that. The lock lasts
	// for up to [WorkerOptions.LockDuration] after the handler has returned.
	//
	// ExtendLock reports a [Queue.Cancel] of such a job.
	ErrHandedOver = errors.New("bullmq: handed over")
	// ErrUnrecoverable fails the job without a retry, even if attempts are left
	// (BullMQ: UnrecoverableError). [Unrecoverable] returns such an error for a reason.
	// If the error also wraps ErrRateLimited, ErrSnoozed or ErrWaitForChildren,
	// ErrUnrecoverable takes precedence.
	ErrUnrecoverable = errors.New("unrecoverable")
)

// Causes with which a handler's context is cancelled, as context.Cause returns them.
var (
	// ErrLockLost means that the worker no longer holds the job's lock. Another
	// worker may already run the job. The result of this handler is discarded.
	ErrLockLost = errors.New("bullmq: the job's lock is lost")
	// ErrShutdown means that the worker is about to stop waiting for the handler. If
	// the handler then returns an error, the job is requeued without consuming an
	// attempt.
	ErrShutdown = errors.New("bullmq: the worker shuts down")
)

// ErrJobLocked means that a worker holds a job. [Queue.Remove] and [Job.Remove] return it
// if a worker holds the job or a descendant that would be removed too.
// [Queue.ReplayDeadLetter] returns it if a worker holds the dead letter.
var ErrJobLocked = errors.New("a worker holds the job or one of its children; try again when they have finished")

// ErrNoNextRun is returned by [Queue.UpsertScheduler] if the pattern has no next run, or
// no run until [Repeat.EndDate]. An example is "0 0 31 4,6 *" (April 31 or June 31). A
// worker emits ErrNoNextRun as an error event when a scheduler stops before its EndDate.
// BullMQ reports no error in either case.
var ErrNoNextRun = schedule.ErrNoNextRun

// ErrNoQueue is returned by methods of a Job that belongs to no queue, such as a
// Job literal in the test of a handler. bullmqtest.NewJob makes a job for such a test.
var ErrNoQueue = errors.New("it belongs to no queue; get the job from Queue.Job, Queue.Add or a worker's handler")

// ErrNoJob is returned by [Fetcher.TryFetch], [Fetcher.CompleteAndFetch] and
// [Fetcher.FailAndFetch] when no job is ready. CompleteAndFetch and FailAndFetch have
// written the outcome of the given job in that case.
var ErrNoJob = errors.New("bullmq: no job is ready")

// ErrClosed is returned by calls on a Queue, Worker, QueueEvents, FlowProducer or
// Connection that was closed.
var ErrClosed = backend.ErrClosed

type unrecoverable struct{ reason error }

func (u unrecoverable) Error() string   { return u.reason.Error() }
func (u unrecoverable) Unwrap() []error { return []error{u.reason, ErrUnrecoverable} }

// Unrecoverable returns an error that fails the job without a retry. The text of
// reason becomes the job's failedReason.
func Unrecoverable(reason error) error {
	if reason == nil {
		reason = ErrUnrecoverable
	}
	return unrecoverable{reason}
}

type rateLimited struct{ wait time.Duration }

func (r rateLimited) Error() string { return ErrRateLimited.Error() }
func (r rateLimited) Unwrap() error { return ErrRateLimited }

// RateLimit returns an error with which a handler stops the whole queue for a
// duration, for instance when an external service replies that it is overloaded. The
// handler's job is requeued without consuming an attempt (BullMQ: queue.rateLimit and
// RateLimitError).
//
// Workers obey the limit if they have a [Limiter], or if the queue has a limit from
// [Queue.SetGlobalRateLimit]. The job then waits at the front of its queue.
//
// If neither the worker nor the queue has a limiter, the job is delayed by the
// duration, as by [Snooze]. This worker fetches no other job meanwhile, for at most
// MaximumRateLimitDelay, and logs a warning once. Other workers without a limiter
// continue.
func RateLimit(wait time.Duration) error { return rateLimited{wait} }

type snoozed struct{ wait time.Duration }

func (s snoozed) Error() string { return fmt.Sprintf("%v for %v", ErrSnoozed, s.wait) }
func (s snoozed) Unwrap() error { return ErrSnoozed }

// Snooze returns an error with which a handler requeues its job, to run again after
// wait. The wait is rounded down to whole milliseconds, and begins when the worker writes
// it to Redis. If wait is less than a millisecond, the job runs again at once.
//
// A snooze consumes no attempt and does not count as a failure. AttemptsStarted
// counts such runs too, so a handler or WorkerOptions.MaxStartedAttempts can limit
// them. (BullMQ: moveToDelayed and DelayedError, or moveToWait and WaitingError.)
func Snooze(wait time.Duration) error { return snoozed{wait} }

type snoozedUntil struct{ at time.Time }

func (s snoozedUntil) Error() string {
	return fmt.Sprintf("%v until %s", ErrSnoozed, s.at.Format(time.RFC3339Nano))
}
func (s snoozedUntil) Unwrap() error { return ErrSnoozed }

// SnoozeUntil returns an error with which a handler requeues its job, to run again at the
// given time. Otherwise it is like [Snooze]. The time is rounded down to whole
// milliseconds. If it has passed, the job runs again at once.
func SnoozeUntil(at time.Time) error { return snoozedUntil{at} }

// JobFailedError is returned by a call that waits for a job, or reads the result of a
// child, if the job or the child failed.
type JobFailedError struct {
	QueueName, JobID string
	Reason           string // failedReason, as the worker stored it
}

func (e *JobFailedError) Error() string {
	return fmt.Sprintf("bullmq: job %s of %s failed: %s", e.JobID, e.QueueName, e.Reason)
}

// SizeLimitError is returned by a call that adds a job whose data exceeds
// JobOptions.SizeLimit. The job is not added.
type SizeLimitError struct {
	Size  int // of the data, in bytes of JSON
	Limit int // JobOptions.SizeLimit, or that of the queue's defaults
}

func (e *SizeLimitError) Error() string {
	return fmt.Sprintf("data of %d bytes exceeds SizeLimit, %d bytes: store the payload elsewhere and put its address into the job", e.Size, e.Limit)
}

// BulkError is returned by [Queue.AddBulk] when some of the jobs were not added, and by
// [Fetcher.ExtendLocks] when some of the jobs are cancelled. errors.Is and errors.As
// examine all errors.
type BulkError struct {
	Errs []error // by the job's index; nil for a job without an error
}

// bulkError returns the errors of results as a BulkError; nil if there are none.
func bulkError(results []backend.AddResult) error {
	var failed *BulkError
	for i := range results {
		if results[i].Err == nil {
			continue
		}
		if failed == nil {
			failed = &BulkError{make([]error, len(results))}
		}
		failed.Errs[i] = results[i].Err
	}
	if failed == nil {
		return nil
	}
	return failed
}

// Of returns the error of one job, or nil if it has none.
func (e *BulkError) Of(index int) error {
	if e == nil {
		return nil
	}
	return e.Errs[index]
}

func (e *BulkError) Error() string {
	for i, err := range e.Errs {
		if err != nil {
			return fmt.Sprintf("job %d of the bulk: %v", i, err)
		}
	}
	return "no job of the bulk has failed"
}

// Unwrap returns the errors. An error shared by consecutive jobs is returned once.
func (e *BulkError) Unwrap() []error {
	var errs []error
	for _, err := range e.Errs {
		if err != nil && (len(errs) == 0 || err != errs[len(errs)-1]) {
			errs = append(errs, err)
		}
	}
	return errs
}

// UnfinishedError is returned by [Worker.Run] and [Worker.Shutdown] when jobs did
// not finish before the worker had to stop. The stalled check of another worker
// returns them to the queue.
type UnfinishedError struct {
	QueueName string
	// JobIDs are the ids of the jobs whose handlers were still running.
	JobIDs []string
	// Unwritten are the ids of the jobs whose handlers had returned, but whose
	// results could not be written to Redis.
	Unwritten []string
}

func (e *UnfinishedError) Error() string {
	var left []string
	if n := len(e.JobIDs); n > 0 {
		left = append(left, fmt.Sprintf("%d still running: %v", n, e.JobIDs))
	}
	if n := len(e.Unwritten); n > 0 {
		left = append(left, fmt.Sprintf("%d finished but not written to Redis: %v", n, e.Unwritten))
	}
	return fmt.Sprintf("bullmq: jobs of %s were not finished when the shutdown timeout ended (%s); the stalled check of another worker will run them again", e.QueueName, strings.Join(left, "; "))
}
