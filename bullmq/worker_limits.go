package bullmq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// NameLimit limits the jobs of a queue that have one name, across all workers with a limit
// for that name. See WorkerOptions.Limits.
type NameLimit struct {
	// Concurrency is the number of jobs with the name that run at the same time. A job counts
	// while it has its lock. So if a worker dies, its jobs no longer count when their locks
	// have expired.
	// Defaults to 0, no limit.
	Concurrency int
	// Limiter limits how many jobs with the name start within a period. A retry is another
	// start. If Redis permits a start and the reply is lost, that start counts though the job
	// is delayed.
	// Defaults to no limit.
	Limiter *Limiter
}

func checkLimits(limits map[string]NameLimit) error {
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		limit := limits[name]
		if name == "" {
			return errors.New("one of Limits has an empty name")
		}
		if err := checkText("the name in Limits", name); err != nil {
			return err
		}
		if err := checkCount("Concurrency", limit.Concurrency, "no limit"); err != nil {
			return fmt.Errorf("limit of name %.80q: %w", name, err)
		}
		if limit.Limiter == nil {
			continue
		}
		if err := limit.Limiter.check(); err != nil {
			return fmt.Errorf("limit of name %.80q: %w", name, err)
		}
	}
	return nil
}

// admit asks whether a job may start under the limits of its name. Otherwise it returns the
// result that delays the job without using an attempt. If Redis can't be asked, the job does
// not start.
func (a *attempt) admit() error {
	w, job := a.w, a.job
	limit, limited := w.o.Limits[job.Name]
	if !limited || limit == (NameLimit{}) {
		return nil
	}
	store, ok := w.core.store.(backend.NameLimits)
	if !ok {
		return nil
	}
	start := backend.NamedStart{JobID: job.ID, Token: job.token, Name: job.Name, Concurrency: limit.Concurrency}
	if limit.Limiter != nil {
		start.Starts = backend.RateLimit(*limit.Limiter)
	}
	ctx, cancel := context.WithTimeout(w.core.trace.outliving(a.ctx), w.endTimeout())
	defer cancel()
	granted, wait, err := store.StartNamed(ctx, start)
	switch {
	case err != nil:
		w.fault(err, "the limit of a job's name could not be read; the job is delayed", logJob, job.ID, logName, job.Name)
	case granted:
		return nil
	default:
		job.update(func() { job.AttemptsStarted = max(0, job.AttemptsStarted-1) })
	}
	waited := w.core.now().Sub(job.Timestamp.Add(job.Options.Delay))
	return Snooze(wait + untilNextTry(waited, rand.Float64()))
}

// untilNextTry returns how long a job that may not start waits before it tries again: about
// an eighth of the time for which it has waited. chance is a random number in [0,1).
func untilNextTry(waited time.Duration, chance float64) time.Duration {
	wait := min(max(waited/8, timing.ShortestLimitPause), timing.LongestLimitPause)
	return (wait*3/4 + time.Duration(chance*float64(wait/2))).Round(time.Millisecond)
}
