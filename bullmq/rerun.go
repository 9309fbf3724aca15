package bullmq

import (
	"context"
	"time"
)

// A job that its handler sends back to run at once, with no attempt used, can go
// on like that for ever. The first such run follows at once; each further one
// comes after a pause that doubles, up to a second.

const longestRerunPause = time.Second

// rerunPause returns how long the job waits before it runs again at once: by the
// number of its starts, in any process, that have used no attempt.
func (j *Job) rerunPause() time.Duration {
	free := j.AttemptsStarted - j.AttemptsMade - j.madeSince - 1 // without the one under way
	if free <= 0 {
		return 0
	}
	if free >= 10 {
		return longestRerunPause
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
	sleep(ctx, wait)
}

// pauseBeforeRerun does so for a job that its handler moves itself.
func (j *Job) pauseBeforeRerun(ctx context.Context, token string) {
	k := j.core.locks
	if !k.holds(j.ID, token) {
		return
	}
	if stored, err := j.stored(ctx, "atm", "attemptsMade", "ats"); err == nil {
		k.worker.pauseBeforeRerun(ctx, stored)
	}
}
