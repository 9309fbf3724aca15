package bullmq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/redisstore"
	"github.com/17a2ac88/bullmq-go/bullmq/scripts"
)

// GetNextJob takes the next job by hand, for a scheduler of one's own: nil
// when there is none, after waiting for at most wait, and at once while the
// worker is paused. The token becomes the
// lock's; make one for each job, never "0", and renew the lock with
// Job.ExtendLock before LockDuration is over. A job with a DeferredFailure is
// to be failed with it and not run; in the dialect of BullMQ 5 that is done here. Call CheckStalled from time to time: it also
// finds a job that was taken at the very moment when ctx ended (BullMQ:
// getNextJob).
func (w *Worker) GetNextJob(ctx context.Context, token string, wait time.Duration) (*Job, error) {
	job, err := w.nextByHand(ctx, token, wait)
	if err == nil {
		w.noteHandedOut(ctx, job, wait)
	}
	return job, err
}

func (w *Worker) nextByHand(ctx context.Context, token string, wait time.Duration) (*Job, error) {
	if token == "" || token == "0" {
		return nil, errors.New(`bullmq: a lock token must be neither empty nor "0", which would own every lock`)
	}
	ctx, cancel := w.untilClosed(ctx)
	defer cancel()
	end := time.Now().Add(wait)
	var waiter *redisstore.Waiter
	defer func() {
		if waiter != nil {
			waiter.Close()
		}
	}()
	for {
		if w.closed.Err() != nil {
			return nil, fmt.Errorf("bullmq: worker of queue %s: %w", w.core.keys.queue, ErrClosed)
		}
		paused, turn := w.slots.paused()
		if paused {
			return nil, nil
		}
		taken, err := w.takeOne(ctx, token)
		if mayHaveRun(err) {
			// The answer was lost: a job that came with it is still to be had.
			if _, found, unknown := w.core.store.FindTaken(ctx, token, ""); unknown == nil && found.JobID != "" {
				taken, err = found, nil
			}
		}
		if err != nil {
			return nil, w.cutOff(err)
		}
		if taken.JobID != "" {
			job := w.deliver(taken.JobID, taken.Hash, token)
			if reason := w.refusal(job); reason != nil && w.core.dialect == V5 {
				if _, err := w.Fail(ctx, job, token, reason, false); err != nil {
					return nil, err
				}
				continue
			}
			return w.startByHand(ctx, job)
		}
		left := time.Until(end)
		if left <= 0 {
			return nil, nil
		}
		if taken.LimitedMs > 0 {
			left = min(left, time.Duration(taken.LimitedMs)*time.Millisecond)
		}
		if taken.NextDueMs > 0 {
			left = min(left, max(time.UnixMilli(taken.NextDueMs).Sub(w.core.now()), time.Millisecond))
		}
		if waiter == nil {
			waiter = w.core.newWaiter(w.core.keys.clientName(w.nameSuffix()))
		}
		waiting, stop := context.WithCancelCause(ctx)
		forget := context.AfterFunc(turn, func() { stop(errPaused) })
		err = waiter.WaitWithin(waiting, left)
		forget()
		stop(nil)
		if errors.Is(err, errPaused) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (w *Worker) takeOne(ctx context.Context, token string) (scripts.Taken, error) {
	each, err := w.core.store.Take(ctx, w.core.nowMs(), w.takes(), token)
	if err != nil {
		return scripts.Taken{}, err
	}
	return each[0], nil
}

// untilClosed is a context that also ends when the worker is closed, which ends
// calls over a caller's own client.
func (w *Worker) untilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	forget := context.AfterFunc(w.closed, func() { cancel(ErrClosed) })
	return ctx, func() {
		forget()
		cancel(nil)
	}
}

// cutOff is the error of a call whose context was ended by the worker's end.
func (w *Worker) cutOff(err error) error {
	if errors.Is(err, context.Canceled) && w.closed.Err() != nil {
		return fmt.Errorf("bullmq: worker of queue %s: %w", w.QueueName(), backend.ErrCutOff)
	}
	return err
}

// errPaused ends a wait by hand.
var errPaused = errors.New("bullmq: the worker is paused")

// startByHand lets the scheduler that made the job go on, as Run would.
func (w *Worker) startByHand(ctx context.Context, job *Job) (*Job, error) {
	if job.SchedulerID == "" {
		return job, nil
	}
	err := w.advance(ctx, job)
	var stopped *scheduleError
	if errors.As(err, &stopped) {
		w.fault(err, "a job scheduler stops; its last job is fetched; correct it with Queue.UpsertScheduler", logJob, job.ID, logName, job.Name)
		return job, nil
	}
	if err != nil {
		return nil, fmt.Errorf("bullmq: job %s is left to the stalled check, for its scheduler could not go on: %w", job.ID, err)
	}
	return job, nil
}

func (w *Worker) deliver(id string, hash []string, token string) *Job {
	job := w.core.readJob(id, hash)
	job.token = token
	return job
}

// Complete ends a job that was taken by hand, and with fetchNext takes the
// next one under the same token; nil when there is none. When that one is a
// scheduler's, the run after it is set up only when it is ended here itself,
// since BullMQ doesn't do so at all. The job then says what was written; the record
// of a handle is read first (BullMQ: job.moveToCompleted).
func (w *Worker) Complete(ctx context.Context, job *Job, token string, value any, fetchNext bool) (*Job, error) {
	if err := w.has(job, "complete"); err != nil {
		return nil, err
	}
	res := outcome(value, nil)
	if res.err != nil {
		return nil, fmt.Errorf("bullmq: job %s was not completed: %w", job.ID, res.err)
	}
	if err := job.load(ctx); err != nil {
		return nil, err
	}
	return w.end(ctx, job, token, decision{action: complete}, res, fetchNext)
}

// Fail ends an attempt at a job that was taken by hand: it is tried again, now
// or later, or fails for good, as Run would decide; the job then says what was
// written. The record of a handle is read first (BullMQ: job.moveToFailed).
func (w *Worker) Fail(ctx context.Context, job *Job, token string, reason error, fetchNext bool) (*Job, error) {
	if err := w.has(job, "fail"); err != nil {
		return nil, err
	}
	if err := job.load(ctx); err != nil {
		return nil, err
	}
	if reason == nil {
		reason = errors.New("")
	}
	reason = childrenFailure(job, reason)
	d, err := w.judge(ctx, job, reason)
	if err != nil {
		return nil, fmt.Errorf("bullmq: job %s was left as it is: %w", job.ID, err)
	}
	return w.end(ctx, job, token, d, result{err: reason}, fetchNext)
}

// has refuses a job that isn't of the worker's queue, where another job may have
// its id.
func (w *Worker) has(job *Job, verb string) error {
	c, err := job.at(verb)
	if err == nil && c.keys.base != w.core.keys.base {
		err = fmt.Errorf("bullmq: %s job %s of queue %s: the worker is of queue %s; use a worker of the job's queue", verb, job.ID, job.QueueName(), w.QueueName())
	}
	return err
}

func (w *Worker) end(ctx context.Context, job *Job, token string, d decision, res result, fetchNext bool) (*Job, error) {
	if job.schedulerPending {
		if _, err := w.startByHand(ctx, job); err != nil {
			return nil, err
		}
		job.schedulerPending = false
	}
	locked := *job
	locked.token = token
	taken, err := w.write(ctx, &locked, d, res, fetchNext, false)
	if err == nil {
		w.measureEnd(ctx, job, d.action)
		w.noteEnd(job, d, res)
	}
	if err != nil || taken.JobID == "" {
		return nil, err
	}
	next := w.deliver(taken.JobID, taken.Hash, token)
	next.schedulerPending = next.SchedulerID != ""
	return next, nil
}

// ExtendLocks makes the locks of jobs taken by hand last for a time from now,
// in one call for all, and answers the ids of those whose token no longer owns
// the lock (BullMQ: extendLocks).
func (w *Worker) ExtendLocks(ctx context.Context, jobs []*Job, tokens []string, duration time.Duration) ([]string, error) {
	if len(jobs) != len(tokens) {
		return nil, fmt.Errorf("bullmq: %d jobs and %d tokens don't make pairs", len(jobs), len(tokens))
	}
	locks := make([]backend.Lock, len(jobs))
	for i, job := range jobs {
		if job == nil {
			return nil, fmt.Errorf("bullmq: no lock was extended: job %d of %d is nil", i, len(jobs))
		}
		if job.core != nil {
			if err := w.has(job, "extend the lock of"); err != nil {
				return nil, err
			}
		}
		locks[i] = backend.Lock{JobID: job.ID, Token: tokens[i]}
	}
	if err := checkMillis("duration", duration, time.Millisecond); err != nil {
		return nil, fmt.Errorf("bullmq: no locks were extended: %w", err)
	}
	return w.core.store.ExtendLocks(ctx, locks, duration)
}
