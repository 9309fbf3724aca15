package bullmq

import (
	"errors"
	"fmt"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/schedule"
)

// Error is returned when the store works but the state of a job or a queue
// doesn't allow the call. Its fields name the queue, the job and BullMQ's code.
// Compare it by errors.Is with ErrJobNotFound and the other variables.
type Error = backend.Error

// ServerError is an error of the server for one job of a call about several.
type ServerError = backend.ServerError

// Reasons for which a call is refused. An *Error wraps one of the first eleven,
// which have a code in BullMQ (ErrorCode).
var (
	ErrJobNotFound          error = backend.JobNotFound          // -1: there is no such job
	ErrLockNotFound         error = backend.LockNotFound         // -2: nobody holds the job's lock: it has expired, or the job isn't running
	ErrNotInState           error = backend.NotInState           // -3: the job isn't in the state that the call requires, such as delayed for Promote
	ErrPendingChildren      error = backend.PendingChildren      // -4: the job can't complete while it has pending children
	ErrParentNotFound       error = backend.ParentNotFound       // -5: the parent doesn't exist
	ErrLockMismatch         error = backend.LockMismatch         // -6: another worker holds the job's lock
	ErrParentNotReplaceable error = backend.ParentNotReplaceable // -7: the job already has another parent, which still exists
	ErrSchedulerJob         error = backend.SchedulerJob         // -8: the job is the next one of a scheduler: remove the scheduler
	ErrFailedChildren       error = backend.FailedChildren       // -9: the job can't complete, or wait for children, because a child has failed it
	ErrSchedulerIDTaken     error = backend.SchedulerIDTaken     // -10: a job with the id of the scheduler's next job exists
	ErrSchedulerSlotsTaken  error = backend.SchedulerSlotsTaken  // -11: jobs with the ids of the scheduler's next jobs exist

	// ErrSchedulerNotFound means that there is no job scheduler with that id.
	ErrSchedulerNotFound = errors.New("bullmq: there is no such job scheduler")
	// ErrDeduplicationNotFound means that no job owns a deduplication id.
	ErrDeduplicationNotFound = errors.New("bullmq: no job owns the deduplication id")
)

// What a handler returns to say more than that the job failed.
var (
	// ErrRateLimited sends the job back until the queue's rate limit, set before
	// with [Queue.RateLimit] or [Worker.RateLimit], is over, without using an
	// attempt (BullMQ: RateLimitError). [RateLimit] does both at once, and its
	// comment says what happens without a limiter. While no limit holds, the job
	// runs again at once, as after ErrSnoozed.
	ErrRateLimited = errors.New("bullmq:rateLimitExceeded")
	// ErrSnoozed sends the job back to the front of its line without using an
	// attempt, to run again at once; Snooze does so after a time. The worker
	// keeps a job that is sent back like this again and again for a moment first:
	// no time, 1 ms, 3 ms, 7 ms and so on, a second at most, by the number of the
	// job's starts that have used no attempt.
	ErrSnoozed = errors.New("bullmq: snoozed")
	// ErrMovedToDelayed says that the handler has moved the job to delayed
	// itself, with Job.MoveToDelayed (BullMQ: DelayedError).
	ErrMovedToDelayed = errors.New("bullmq:movedToDelayed")
	// ErrMovedToWait says that the handler has moved the job to wait itself,
	// with Job.MoveToWait (BullMQ: WaitingError).
	ErrMovedToWait = errors.New("bullmq:movedToWait")
	// ErrMovedToWaitingChildren says that the handler has parked the job until
	// its children have ended, with Job.MoveToWaitingChildren (BullMQ:
	// WaitingChildrenError).
	ErrMovedToWaitingChildren = errors.New("bullmq:movedToWaitingChildren")
	// ErrUnrecoverable fails the job for good, whatever attempts are left; wrap
	// a reason with Unrecoverable. It takes precedence over ErrRateLimited and
	// ErrSnoozed in the same error (BullMQ: UnrecoverableError).
	ErrUnrecoverable = errors.New("unrecoverable")
)

// Causes of the end of a handler's context, for context.Cause.
var (
	// ErrLockLost: another worker may run the job by now; what this handler
	// returns can't be written any more.
	ErrLockLost = errors.New("bullmq: the job's lock is lost")
	// ErrShutdown: the worker stops and ShutdownTimeout is almost over. A
	// handler that now returns an error gives its job back, without an attempt
	// used.
	ErrShutdown = errors.New("bullmq: the worker shuts down")
)

// ErrJobLocked: a worker holds the job, so it can't be removed.
var ErrJobLocked = errors.New("bullmq: a worker holds the job, or one of its children")

// ErrNoNextRun is returned by UpsertScheduler for a pattern whose next run isn't
// found, such as one of dates that don't occur, and given to the worker's Error event
// when a scheduler stops for that. BullMQ adds no job then, and reports nothing.
var ErrNoNextRun = schedule.ErrNoNextRun

// ErrNoQueue is returned by methods of a Job that was made by hand, as for the
// test of a handler. Such a job can be decoded and shown, but there is no queue for
// it to act on.
var ErrNoQueue = errors.New("it belongs to no queue; get the job from Queue.Job, Queue.Add or a worker's handler")

// ErrClosed is returned by calls on something that was closed.
var ErrClosed = backend.ErrClosed

type unrecoverable struct{ reason error }

func (u unrecoverable) Error() string   { return u.reason.Error() }
func (u unrecoverable) Unwrap() []error { return []error{u.reason, ErrUnrecoverable} }

// Unrecoverable wraps the reason for which a job must not be tried again. The
// job's failedReason is the reason's text.
func Unrecoverable(reason error) error {
	if reason == nil {
		reason = ErrUnrecoverable
	}
	return unrecoverable{reason}
}

type rateLimited struct{ wait time.Duration }

func (r rateLimited) Error() string { return ErrRateLimited.Error() }
func (r rateLimited) Unwrap() error { return ErrRateLimited }

// RateLimit, returned by a handler, stops the whole queue for a time, because
// whatever the jobs talk to has asked for it, and sends this job back without
// using an attempt (BullMQ: queue.rateLimit and RateLimitError).
//
// Workers obey it if they have a limiter: a [Limiter] of their own, or that of
// [Queue.SetGlobalRateLimit]. The job then waits at the front of its line. Where
// the worker has no limiter and the queue has none either, the job is delayed by
// the time, as [Snooze] does; this worker takes no other job meanwhile, for at
// most MaximumRateLimitDelay, and logs a warning once; other workers without a
// limiter go on.
func RateLimit(wait time.Duration) error { return rateLimited{wait} }

type snoozed struct{ wait time.Duration }

func (s snoozed) Error() string { return fmt.Sprintf("%v for %v", ErrSnoozed, s.wait) }
func (s snoozed) Unwrap() error { return ErrSnoozed }

// Snooze, returned by a handler, sends the job back to run again after a time,
// counted from when the worker writes it in whole milliseconds, or at once for
// less than one. It uses no attempt, is no failure, and leaves no trace but the
// delay. AttemptsStarted counts such runs too: a handler, or
// WorkerOptions.MaxStartedAttempts, can bound them. (BullMQ: moveToDelayed and
// DelayedError, or moveToWait and WaitingError, in one call.)
func Snooze(wait time.Duration) error { return snoozed{wait} }

// JobFailedError is the result of a job that failed, for those who wait for it.
type JobFailedError struct {
	QueueName, JobID string
	Reason           string // failedReason, as its worker wrote it
}

func (e *JobFailedError) Error() string {
	return fmt.Sprintf("bullmq: job %s of %s failed: %s", e.JobID, e.QueueName, e.Reason)
}

// BulkError is returned by [Queue.AddBulk] when some of the jobs were not added.
// errors.Is and errors.As look at the errors of all of them.
type BulkError struct {
	Errs []error // by the job's index; nil for one that was added
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

// Of returns why one job was not added; nil if it was.
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

// Unwrap returns the errors. One that several jobs in a row share is there once.
func (e *BulkError) Unwrap() []error {
	var errs []error
	for _, err := range e.Errs {
		if err != nil && (len(errs) == 0 || err != errs[len(errs)-1]) {
			errs = append(errs, err)
		}
	}
	return errs
}
