package bullmq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// Limiter limits how many jobs start within a period, across all workers of the
// queue (BullMQ: limiter).
//
// It counts in fixed windows. The first job opens a window of Duration, in which
// at most Max jobs start. The first job after that window opens the next one. So
// up to 2*Max-1 jobs may start within a Duration that spans two windows.
type Limiter struct {
	Max      int           // at least 1
	Duration time.Duration // whole milliseconds
}

func (l Limiter) check() error {
	if l.Max < 1 || l.Duration < time.Millisecond {
		return fmt.Errorf("Limiter needs a Max of at least 1 and a Duration of at least a millisecond, not %d and %v", l.Max, l.Duration)
	}
	return checkMillis("Limiter.Duration", l.Duration, time.Millisecond)
}

// RateLimit stops all workers of the queue that have a [Limiter], for a duration. If the
// queue has a global rate limit, it stops all workers. Otherwise workers without a
// Limiter continue. A handler that calls it returns [ErrRateLimited] afterwards. To do
// both in one step, a handler returns the error of the function [RateLimit] instead
// (BullMQ: worker.rateLimit).
func (w *queueWorker) RateLimit(ctx context.Context, wait time.Duration) (err error) {
	ctx, span := w.core.trace.start(ctx, SpanInternal, "rateLimit")
	defer span.end(&err)
	w.describe(span)
	setAttr(span, attrWorkerRateLimit, wait.Milliseconds())
	return w.core.rateLimit(ctx, wait)
}

// underRateLimit returns the decision for a job whose handler returned [ErrRateLimited]
// or the error of [RateLimit]. With a limiter, the job is requeued at the front. Without
// one, this worker would not stop fetching, and the job would run again at once. So the
// job is delayed by the duration of the limit instead.
func (w *queueWorker) underRateLimit(ctx context.Context, job *Job, reason error) decision {
	ctx, cancel := context.WithTimeout(ctx, w.endTimeout())
	defer cancel()
	wait := askedRateLimit(reason)
	if wait == 0 {
		wait, _ = w.core.stoppedFor(ctx) // 0 if it can't be read
	}
	if wait == 0 || w.obeysRateLimit(ctx) {
		return decision{action: limited, wait: wait}
	}
	w.warnUnlimited.Do(func() {
		w.core.log.Warn("a handler returned a rate limit, but no limiter enforces one for all workers; its job is delayed and this worker fetches no other job meanwhile; give the workers a Limiter, or call Queue.SetGlobalRateLimit",
			logJob, job.ID, logName, job.Name)
	})
	return decision{action: delayForRateLimit, wait: wait}
}

// askedRateLimit returns the duration of an error from RateLimit, in whole
// milliseconds, or 0 if it has none.
func askedRateLimit(err error) time.Duration {
	var asked rateLimited
	errors.As(err, &asked)
	return max(0, asked.wait.Truncate(time.Millisecond))
}

// stoppedFor returns how long a limit set by RateLimit is still in effect.
func (c *core) stoppedFor(ctx context.Context) (time.Duration, error) {
	left, err := c.store.RateLimitTTL(ctx, wire.MaxSafeInteger)
	return max(0, left), err
}

// obeysRateLimit reports whether the worker stops fetching during a rate limit, because
// it or the queue has a limiter.
func (w *queueWorker) obeysRateLimit(ctx context.Context) bool {
	if w.limiter.Load() != nil {
		return true
	}
	meta, err := w.core.store.Meta(ctx)
	return err == nil && meta.HasMax
}

// rerunPause returns how long to wait before the job is requeued without consuming an
// attempt, so that the job does not loop without a pause. The pause is 0, 1, 3, 7 ms and
// so on, up to LongestRerunPause. It grows with the number of starts that consumed no
// attempt, counted across all processes.
func (j *Job) rerunPause() time.Duration {
	free := j.AttemptsStarted - j.AttemptsMade - j.attemptsSince - 1 // not counting the current one
	if free <= 0 {
		return 0
	}
	if free >= 10 {
		return timing.LongestRerunPause
	}
	return (1<<free - 1) * time.Millisecond
}

// pauseBeforeRerun waits for the job's rerunPause, while the worker still holds the
// job. It returns early when ctx ends or the worker stops.
func (w *queueWorker) pauseBeforeRerun(ctx context.Context, job *Job) {
	wait := job.rerunPause()
	if w.o.SkipLockRenewal {
		wait = min(wait, w.o.LockDuration/4)
	}
	if wait == 0 {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if r := w.current(); r != nil {
		defer context.AfterFunc(r.soft, cancel)()
	}
	timing.Sleep(ctx, wait)
}

// pauseBeforeRerun is [queueWorker.pauseBeforeRerun] for a job that its handler moves.
func (j *Job) pauseBeforeRerun(ctx context.Context) {
	k := j.core.locks
	if !k.holds(j.ID, j.token) {
		return
	}
	if stored, err := j.stored(ctx); err == nil {
		k.worker.pauseBeforeRerun(ctx, stored)
	}
}
