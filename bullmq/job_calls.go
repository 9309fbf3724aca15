package bullmq

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// State is the state of a job.
type State string

// The states, with BullMQ's names.
const (
	StateWaiting         State = "waiting"
	StateActive          State = "active"
	StateDelayed         State = "delayed"
	StatePrioritized     State = "prioritized"
	StateWaitingChildren State = "waiting-children"
	StateCompleted       State = "completed"
	StateFailed          State = "failed"
	StatePaused          State = "paused" // BullMQ 5 only
)

// UpdateProgress replaces the job's progress, as JSON, and publishes an event (BullMQ:
// updateProgress).
func (j *Job) UpdateProgress(ctx context.Context, progress any) error {
	notes, err := j.notes("report the progress of")
	if err != nil {
		return err
	}
	text, err := wire.EncodeJSON(progress)
	if err != nil {
		return fmt.Errorf("bullmq: progress of job %s can't be written as JSON: %w", j.ID, err)
	}
	if err := notes.UpdateProgress(ctx, j.ID, text); err != nil {
		return err
	}
	j.update(func() { j.Progress = json.RawMessage(text) })
	if j.core.progressed != nil {
		j.core.progressed(j, progress)
	}
	return nil
}

// UpdateJobProgress replaces the progress of a job, as [Job.UpdateProgress] does
// (BullMQ: updateJobProgress).
func (q *Queue) UpdateJobProgress(ctx context.Context, jobID string, progress any) (err error) {
	ctx, span := q.core.trace.start(ctx, SpanInternal, "updateJobProgress")
	defer span.end(&err)
	setAttr(span, attrJobID, jobID)
	job := q.JobRef(jobID)
	err = job.UpdateProgress(ctx, progress)
	setAttr(span, attrJobProgress, string(job.Progress))
	return err
}

// UpdateData replaces the job's data (BullMQ: updateData).
func (j *Job) UpdateData(ctx context.Context, data any) error {
	notes, err := j.notes("update the data of")
	if err != nil {
		return err
	}
	text, err := wire.EncodeJSON(data)
	if err != nil {
		return fmt.Errorf("bullmq: data of job %s can't be written as JSON: %w", j.ID, err)
	}
	if err := notes.UpdateData(ctx, j.ID, text); err != nil {
		return err
	}
	j.update(func() { j.Data = json.RawMessage(text) })
	return nil
}

// Log adds a row to the job's log and returns how many rows the log has.
// JobOptions.KeepLogs limits the number of rows (BullMQ: log).
func (j *Job) Log(ctx context.Context, row string) (int, error) {
	notes, err := j.notes("log a row of")
	if err != nil {
		return 0, err
	}
	stored, err := j.stored(ctx)
	if err != nil {
		return 0, err
	}
	return notes.AddLog(ctx, j.ID, row, stored.Options.KeepLogs)
}

// LogOptions configures [Queue.AddJobLog]. A nil pointer and the zero value select the
// defaults.
type LogOptions struct {
	// Keep is how many of the newest rows are kept.
	// Defaults to 0, all.
	Keep int
}

// AddJobLog adds a row to a job's log and returns how many rows the log has. options may
// be nil (BullMQ: addJobLog).
func (q *Queue) AddJobLog(ctx context.Context, jobID, row string, options *LogOptions) (int, error) {
	keep := 0
	if options != nil {
		keep = options.Keep
	}
	if err := checkCount("Keep", keep, "all rows"); err != nil {
		return 0, fmt.Errorf("bullmq: nothing was added to the log of job %s: %w", jobID, err)
	}
	return q.core.store.AddLog(ctx, jobID, row, keep)
}

// ClearLogsOptions configures [Job.ClearLogs]. A nil pointer and the zero value select
// the defaults.
type ClearLogsOptions struct {
	// Keep is how many of the newest rows are kept.
	// Defaults to 0, none.
	Keep int
}

// ClearLogs removes the rows of the job's log. options may be nil (BullMQ: clearLogs).
func (j *Job) ClearLogs(ctx context.Context, options *ClearLogsOptions) error {
	notes, err := j.notes("clear the log of")
	if err != nil {
		return err
	}
	keep := 0
	if options != nil {
		keep = options.Keep
	}
	if err := checkCount("Keep", keep, "no row"); err != nil {
		return fmt.Errorf("bullmq: the log of job %s was not cleared: %w", j.ID, err)
	}
	return notes.ClearLogs(ctx, j.ID, keep)
}

// State returns the job's current state. It returns [ErrJobNotFound] if the job is in no
// state of the queue (BullMQ: getState, which returns "unknown").
func (j *Job) State(ctx context.Context) (State, error) {
	c, err := j.coreFor("read the state of")
	if err != nil {
		return "", err
	}
	return c.state(ctx, j.ID)
}

// ExtendLock makes the job's lock expire after a duration from now, and reports
// whether the job's token still owns the lock. A [Worker] renews the locks of its
// jobs itself. ExtendLock is for jobs of a [Fetcher] (BullMQ: extendLock).
//
// If [Queue.Cancel] has cancelled the job, ExtendLock extends the lock, and returns true
// and an error that wraps a [*CancelledError]. Stop the work then, and pass the error to
// [Fetcher.Fail].
//
// The job needs a lock token, see [Job.WithToken].
func (j *Job) ExtendLock(ctx context.Context, duration time.Duration) (bool, error) {
	c, err := j.locked("extend the lock of")
	if err != nil {
		return false, err
	}
	if err := checkMillis("duration", duration, time.Millisecond); err != nil {
		return false, fmt.Errorf("bullmq: the lock of job %s was not extended: %w", j.ID, err)
	}
	renewal, err := c.store.ExtendLocks(ctx, []backend.Lock{{JobID: j.ID, Token: j.token}}, duration)
	if err != nil {
		return false, err
	}
	for _, cancelled := range renewal.Cancelled {
		err = j.cancellation(cancelled)
	}
	return len(renewal.Lost) == 0, err
}

// MoveToDelayed delays the running job until a time, without using an attempt (BullMQ:
// moveToDelayed). A handler that calls it must return [ErrMovedToDelayed] afterwards. To do
// both in one step, return [SnoozeUntil] instead. If the time has passed, the call may
// pause first, as [Job.MoveToWait] does.
//
// The job needs a lock token, see [Job.WithToken].
func (j *Job) MoveToDelayed(ctx context.Context, at time.Time) error {
	c, err := j.locked("delay")
	if err != nil {
		return err
	}
	now := c.now()
	delay := untilMillis(now, at)
	if delay == 0 {
		j.pauseBeforeRerun(ctx)
	}
	left := c.locks.leave(j.ID, j.token)
	_, err = c.store.MoveToDelayed(ctx, backend.Delay{JobID: j.ID, Token: j.token, Now: now, Delay: delay})
	left(err == nil)
	if err == nil {
		j.update(func() { j.Delay = delay })
		c.measure(ctx, j, "delayed")
	}
	return err
}

// MoveToWait moves the running job to the front of the waiting jobs, without using an
// attempt (BullMQ: moveToWait). A handler that calls it must return [ErrMovedToWait]
// afterwards. To do both in one step, return [ErrSnoozed] instead. If the job was requeued
// several times without using an attempt, the call pauses first, but not longer than until
// ctx ends. ErrSnoozed describes the pause.
//
// The job needs a lock token, see [Job.WithToken].
func (j *Job) MoveToWait(ctx context.Context) error {
	c, err := j.locked("requeue")
	if err != nil {
		return err
	}
	j.pauseBeforeRerun(ctx)
	left := c.locks.leave(j.ID, j.token)
	_, err = c.store.MoveToWait(ctx, j.ID, j.token)
	left(err == nil)
	if err == nil {
		c.measure(ctx, j, "waiting")
	}
	return err
}

// MoveToWaitingChildren moves the running job to waiting-children until its pending
// children have finished (BullMQ: moveToWaitingChildren). If no child is pending, it does
// nothing and returns false. If it returns true, the handler must return
// [ErrMovedToWaitingChildren]. To do both in one step, return [ErrWaitForChildren] instead.
//
// The error is [ErrFailedChildren] if a child with [FailParent] has failed. If the handler
// returns that error, wrapped or not, the job fails permanently, even if attempts are left.
//
// The job needs a lock token, see [Job.WithToken].
func (j *Job) MoveToWaitingChildren(ctx context.Context) (bool, error) {
	return j.MoveToWaitingChild(ctx, "")
}

// MoveToWaitingChild does what [Job.MoveToWaitingChildren] does if the child with
// childKey is pending (BullMQ: moveToWaitingChildren with child). If that child is not
// pending, it does nothing and returns false. Once moved, the job waits for all its
// children.
func (j *Job) MoveToWaitingChild(ctx context.Context, childKey string) (bool, error) {
	c, err := j.locked("wait for the children of")
	if err != nil {
		return false, err
	}
	left := c.locks.leave(j.ID, j.token)
	moved, err := c.store.MoveToWaitingChildren(ctx, j.ID, j.token, c.now(), backend.ParseJobRef(childKey))
	left(moved)
	if moved {
		c.measure(ctx, j, "waiting-children")
	}
	return moved, err
}

// Promote makes the delayed job ready now (BullMQ: promote).
func (j *Job) Promote(ctx context.Context) error {
	c, err := j.coreFor("promote")
	if err != nil {
		return err
	}
	err = c.store.Promote(ctx, j.ID)
	if err == nil {
		j.update(func() { j.Delay = 0 })
	}
	return err
}

// ChangeDelay changes the delay of the delayed job (BullMQ: changeDelay). The new delay
// starts now and must be in whole milliseconds. A negative delay makes the job ready at
// once.
func (j *Job) ChangeDelay(ctx context.Context, delay time.Duration) error {
	c, err := j.coreFor("change the delay of")
	if err != nil {
		return err
	}
	if err := checkDelay("delay", delay); err != nil {
		return fmt.Errorf("bullmq: the delay of job %s was not changed: %w", j.ID, err)
	}
	err = c.store.ChangeDelay(ctx, j.ID, c.now(), delay)
	if err == nil {
		j.update(func() { j.Delay = delay })
	}
	return err
}

// ChangePriorityOptions configures [Job.ChangePriority]. A nil pointer and the zero
// value select the defaults.
type ChangePriorityOptions struct {
	// LIFO places the job before the others of its priority instead of after them.
	LIFO bool
}

// ChangePriority changes the priority of the job. 0 means no priority. options may be nil
// (BullMQ: changePriority).
func (j *Job) ChangePriority(ctx context.Context, priority int, options *ChangePriorityOptions) error {
	c, err := j.coreFor("change the priority of")
	if err != nil {
		return err
	}
	if err := checkPriority(priority); err != nil {
		return fmt.Errorf("bullmq: the priority of job %s was not changed: %w", j.ID, err)
	}
	err = c.store.ChangePriority(ctx, j.ID, priority, options != nil && options.LIFO)
	if err == nil {
		j.update(func() { j.Priority = priority })
	}
	return err
}

// RetryOptions configures [Job.Retry]. A nil pointer and the zero value select the
// defaults.
type RetryOptions struct {
	// ResetAttemptsMade sets AttemptsMade to 0, so that all attempts are left.
	ResetAttemptsMade bool
	// ResetAttemptsStarted sets AttemptsStarted to 0.
	ResetAttemptsStarted bool
}

// Retry moves a job that has failed or completed back to wait, so that it runs again.
// from is the state that the job is in. options may be nil (BullMQ: retry).
func (j *Job) Retry(ctx context.Context, from State, options *RetryOptions) error {
	c, err := j.coreFor("retry")
	if err != nil {
		return err
	}
	if from != StateFailed && from != StateCompleted {
		return fmt.Errorf("bullmq: job %s can be retried from %s and %s, not from %q", j.ID, StateFailed, StateCompleted, from)
	}
	var o RetryOptions
	if options != nil {
		o = *options
	}
	stored, err := j.stored(ctx)
	if err != nil {
		return err
	}
	if err := c.store.Reprocess(ctx, j.ID, backend.Reprocess{
		From: backend.State(from), LIFO: stored.Options.LIFO,
		ResetAttemptsMade: o.ResetAttemptsMade, ResetAttemptsStarted: o.ResetAttemptsStarted,
	}); err != nil {
		return err
	}
	j.update(func() {
		j.FailedReason, j.ReturnValue, j.ProcessedOn, j.FinishedOn = "", nil, time.Time{}, time.Time{}
		if o.ResetAttemptsMade {
			j.AttemptsMade = 0
		}
		if o.ResetAttemptsStarted {
			j.AttemptsStarted = 0
		}
	})
	return nil
}

// JobLogs reads a page of a job's log and returns how many rows the log has (BullMQ:
// getJobLogs).
func (q *Queue) JobLogs(ctx context.Context, jobID string, page Page) (rows []string, count int, err error) {
	bounds := page.bounds
	if !page.Ascending { // the rows are stored oldest first
		bounds = page.reversed
	}
	from, to, err := bounds()
	if err != nil {
		return nil, 0, err
	}
	rows, count, err = q.core.store.Logs(ctx, jobID, from, to)
	if !page.Ascending {
		slices.Reverse(rows)
	}
	return rows, count, err
}

// JobRef returns a Job of which only the ID is set. Its methods act on the stored job like
// the methods of a Job from [Queue.Job]. A method that needs the job's options reads them
// first. [Job.Decode] and [Job.MarshalJSON] return an error, because the other fields are
// not set. JobRef makes no call and doesn't check that the job exists.
func (q *Queue) JobRef(id string) *Job { return &Job{ID: id, core: q.core, isRef: true} }

// JobRef returns a Job of the worker's queue of which only the ID is set, as [Queue.JobRef]
// does.
func (w *queueWorker) JobRef(id string) *Job { return &Job{ID: id, core: w.core, isRef: true} }
