package bullmq

import (
	"context"
	"errors"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// underRateLimit decides what becomes of a job whose handler has met a rate limit.
// With a limiter it waits for the limit's end at the front of its line. Without
// one no worker would wait for that, and the job would run again at once: it is
// delayed for as long instead.
func (w *Worker) underRateLimit(ctx context.Context, job *Job, reason error) decision {
	ctx, cancel := context.WithTimeout(ctx, w.endTimeout())
	defer cancel()
	wait := askedRateLimit(reason)
	if wait == 0 {
		wait, _ = w.core.stoppedFor(ctx) // none where that can't be asked
	}
	if wait == 0 || w.obeysRateLimit(ctx) {
		return decision{action: limited, wait: wait}
	}
	w.warnUnlimited.Do(func() {
		w.core.log.Warn("a handler returned a rate limit, but no limiter enforces one for all workers; its job is delayed and this worker fetches no other job meanwhile; give the workers a Limiter, or call Queue.SetGlobalRateLimit",
			logJob, job.ID, logName, job.Name)
	})
	return decision{action: heldBack, wait: wait}
}

// askedRateLimit returns the time that an error from RateLimit asks for, in whole
// milliseconds.
func askedRateLimit(err error) time.Duration {
	var asked rateLimited
	errors.As(err, &asked)
	return max(0, asked.wait.Truncate(time.Millisecond))
}

// stoppedFor returns for how long a RateLimit of a queue or a worker still holds.
func (c *core) stoppedFor(ctx context.Context) (time.Duration, error) {
	left, err := c.store.RateLimitTTL(ctx, wire.MaxSafeInteger)
	return max(0, left), err
}

// obeysRateLimit reports whether the worker takes no job while a rate limit
// holds: with a limiter of its own or a global one.
func (w *Worker) obeysRateLimit(ctx context.Context) bool {
	if w.o.Limiter != nil {
		return true
	}
	meta, err := w.core.store.Meta(ctx)
	return err == nil && meta.HasMax
}

// rerunPause returns how long a job waits that its handler sends back to run at
// once without using an attempt, since it may do so for ever. The first such run
// follows at once. Then the pause doubles with each start, in any process, that has
// used no attempt.
func (j *Job) rerunPause() time.Duration {
	free := j.AttemptsStarted - j.AttemptsMade - j.madeSince - 1 // without the one under way
	if free <= 0 {
		return 0
	}
	if free >= 10 {
		return timing.LongestRerunPause
	}
	return (1<<free - 1) * time.Millisecond
}

// pauseBeforeRerun waits while the worker still holds the job. The wait ends
// early when ctx ends or the worker stops.
func (w *Worker) pauseBeforeRerun(ctx context.Context, job *Job) {
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

// pauseBeforeRerun does so for a job that its handler moves itself.
func (j *Job) pauseBeforeRerun(ctx context.Context) {
	k := j.core.locks
	if !k.holds(j.ID, j.token) {
		return
	}
	if stored, err := j.stored(ctx); err == nil {
		k.worker.pauseBeforeRerun(ctx, stored)
	}
}
