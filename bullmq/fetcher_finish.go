package bullmq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// Complete completes a job with a return value, which is stored as JSON. It sets the
// fields of job to the stored values. If job is known by its id alone, its record is
// read first (BullMQ: job.moveToCompleted).
func (f *Fetcher) Complete(ctx context.Context, job *Job, value any) error {
	_, err := f.complete(ctx, job, value, false)
	return err
}

// CompleteAndFetch completes a job as [Fetcher.Complete] does, and fetches the next job
// in the same call, with the same token. It returns [ErrNoJob] if the job was completed
// and no other one is ready.
//
// If the next job belongs to a scheduler, the scheduler's following job is added only when
// this Fetcher finishes the next job. BullMQ does not add the following job at all.
func (f *Fetcher) CompleteAndFetch(ctx context.Context, job *Job, value any) (*Job, error) {
	return f.next(f.complete(ctx, job, value, true))
}

func (f *Fetcher) complete(ctx context.Context, job *Job, value any, fetch bool) (*Job, error) {
	if err := f.owns(job, "complete"); err != nil {
		return nil, err
	}
	res := outcome(value, nil)
	if res.err != nil {
		return nil, fmt.Errorf("bullmq: job %s was not completed: %w", job.ID, res.err)
	}
	if err := job.load(ctx); err != nil {
		return nil, err
	}
	return f.end(ctx, job, decision{action: complete}, res, fetch)
}

// Fail ends an attempt of a job (BullMQ: job.moveToFailed). The job is retried, at once or
// later, or fails permanently, as if a handler had returned reason. Fail sets the fields of
// job to the stored values. If job is known by its id alone, its record is read first.
//
// If reason is the error by which [Job.ExtendLock] reports that the job was cancelled, or
// wraps that error, the job fails with the reason of the cancellation and is not retried.
//
// A job that was requeued several times without using an attempt is requeued after a
// pause of up to a second, so that it does not loop. Fail waits for that pause.
func (f *Fetcher) Fail(ctx context.Context, job *Job, reason error) error {
	_, err := f.fail(ctx, job, reason, false)
	return err
}

// FailAndFetch ends an attempt as [Fetcher.Fail] does, and fetches the next job in the
// same call, as [Fetcher.CompleteAndFetch] does. It returns [ErrNoJob] if the attempt
// was ended and no job is ready, or if the call could not fetch one.
func (f *Fetcher) FailAndFetch(ctx context.Context, job *Job, reason error) (*Job, error) {
	return f.next(f.fail(ctx, job, reason, true))
}

func (f *Fetcher) fail(ctx context.Context, job *Job, reason error, fetch bool) (*Job, error) {
	if err := f.owns(job, "fail"); err != nil {
		return nil, err
	}
	if err := job.load(ctx); err != nil {
		return nil, err
	}
	if reason == nil {
		reason = errors.New("")
	}
	reason = childrenFailure(job, reason)
	var cancelled *cancelFailure
	if errors.As(reason, &cancelled) {
		reason = &cancelFailure{cancelled.text, reason}
	}
	d, err := f.w.judge(ctx, job, reason)
	if err != nil {
		return nil, fmt.Errorf("bullmq: job %s was left as it is: %w", job.ID, err)
	}
	return f.end(ctx, job, d, result{err: reason}, fetch)
}

// next returns [ErrNoJob] if there is neither a job nor an error.
func (f *Fetcher) next(job *Job, err error) (*Job, error) {
	if job == nil && err == nil {
		err = ErrNoJob
	}
	return job, err
}

// owns returns an error for a job without a token, and for a job of another queue. In
// this queue, another job may have the same id.
func (f *Fetcher) owns(job *Job, verb string) error {
	c, err := job.coreFor(verb)
	if err != nil {
		return err
	}
	if c.keys.base != f.w.core.keys.base {
		return fmt.Errorf("bullmq: %s job %s of queue %s: the Fetcher is of queue %s; use a Fetcher of the job's queue", verb, job.ID, job.QueueName(), f.QueueName())
	}
	_, err = job.locked(verb)
	return err
}

// end writes the outcome of a job. It returns the next job, or nil if there is none.
func (f *Fetcher) end(ctx context.Context, job *Job, d decision, res result, fetch bool) (*Job, error) {
	if job.schedulerPending {
		if err := f.advance(ctx, job); err != nil {
			return nil, err
		}
		job.schedulerPending = false
	}
	if d.action == giveBack || d.action == limited && d.wait == 0 {
		f.pauseBeforeRerun(ctx, job)
	}
	begun := time.Now()
	left := f.w.locks.leave(job.ID, job.token)
	planned := d.action
	fetched, err := f.w.write(ctx, job, &d, res, fetch, false)
	if err == nil && d.action != planned { // no child is pending
		f.pauseBeforeRerun(ctx, job)
		fetched, err = f.w.write(ctx, job, &d, res, fetch, false)
	}
	left(err == nil)
	if err != nil {
		return nil, err
	}
	f.w.measureEnd(ctx, job, d.action)
	f.w.noteEnd(job, d, res)
	if fetched.Job == nil {
		return nil, nil
	}
	next := f.newFetchedJob(fetched.Fetched, job.token, begun)
	next.schedulerPending = next.SchedulerID != ""
	return next, nil
}

// pauseBeforeRerun waits for the job's rerunPause, as a Worker does. It uses at most half
// of the time that is left until ctx ends, so that the outcome can still be written. If
// the program extends the locks, it uses at most half of the rest of the first
// LockDuration. The pause ends when the Fetcher is closed.
func (f *Fetcher) pauseBeforeRerun(ctx context.Context, job *Job) {
	wait := job.rerunPause()
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end)/2)
	}
	if !f.renew {
		wait = min(wait, job.ProcessedOn.Add(f.w.o.LockDuration).Sub(f.w.core.now())/2)
	}
	if wait <= 0 {
		return
	}
	ctx, cancel := f.w.untilClosed(ctx)
	defer cancel()
	timing.Sleep(ctx, wait)
}

// ExtendLocks extends the locks of jobs, in one call, so that they expire after a
// duration from now. It returns the ids of the jobs whose token no longer owns the lock
// (BullMQ: extendLocks).
//
// If [Queue.Cancel] has cancelled some of the jobs, ExtendLocks extends their locks, and
// returns a [*BulkError] with an error for each of them, as [Job.ExtendLock] returns it.
func (f *Fetcher) ExtendLocks(ctx context.Context, jobs []*Job, duration time.Duration) (lost []string, err error) {
	locks := make([]backend.Lock, len(jobs))
	for i, job := range jobs {
		if job == nil {
			return nil, fmt.Errorf("bullmq: no lock was extended: job %d of %d is nil", i, len(jobs))
		}
		if err := f.owns(job, "extend the lock of"); err != nil {
			return nil, err
		}
		locks[i] = backend.Lock{JobID: job.ID, Token: job.token}
	}
	if err := checkMillis("duration", duration, time.Millisecond); err != nil {
		return nil, fmt.Errorf("bullmq: no locks were extended: %w", err)
	}
	renewal, err := f.w.core.store.ExtendLocks(ctx, locks, duration)
	if err != nil {
		return nil, err
	}
	if len(renewal.Cancelled) == 0 {
		return renewal.Lost, nil
	}
	notices := make([]error, len(jobs))
	for _, cancelled := range renewal.Cancelled {
		for i, job := range jobs {
			if job.ID == cancelled.JobID {
				notices[i] = job.cancellation(cancelled)
			}
		}
	}
	return renewal.Lost, &BulkError{notices}
}
