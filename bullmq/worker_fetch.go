package bullmq

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// fetchUntilStopped runs fetch. When the worker stops, it signals that no more jobs are
// fetched.
func (r *runner) fetchUntilStopped() {
	if !r.fetch() {
		return
	}
	r.mu.Lock()
	r.fetching = false
	r.mu.Unlock()
	r.signal()
}

// fetch fetches jobs while slots are free and the worker is not paused. It returns true
// when the worker stops, and false when another goroutine continues in its place. It
// asks for jobs at the start, when the marker wakes it, when the first delayed job is
// due, when the rate limit ends, when a slot signals it, and at the latest after
// DrainDelay.
func (r *runner) fetch() (stopped bool) {
	var outage timing.Backoff
	var waitAgain time.Time // after a wait that failed
	for !r.stopping() {
		if !r.slots.open() {
			r.rest(&outage)
			continue
		}
		if left := r.rateLimitLeft(); left > 0 {
			r.await(left)
			continue
		}
		if r.idle() {
			if left := time.Until(waitAgain); left > 0 {
				r.restIdle(left)
				continue
			}
			job, lockedAt, err := r.waitForWork()
			if errors.Is(err, backend.ErrNoConnection) {
				waitAgain = time.Now().Add(min(timing.PollInterval, r.w.o.DrainDelay))
				continue
			}
			if err != nil {
				r.w.fault(err, "waiting for a job failed; retrying")
				waitAgain = time.Now().Add(r.w.pauseAfter(err, &outage))
				continue
			}
			outage.Succeeded()
			if job != nil {
				r.runInline(job, lockedAt)
				return false
			}
			continue
		}
		jobs, lockedAt, err := r.fetchBatch()
		if err != nil {
			r.w.fault(err, "fetching a job failed; retrying")
			timing.Sleep(r.soft, r.w.pauseAfter(err, &outage)) // not await, which jobs that end would interrupt
			continue
		}
		outage.Succeeded()
		for _, job := range jobs {
			go r.slot(handover{r.w, job, lockedAt})
		}
	}
	return true
}

// rest waits for a free slot, or for the end of a pause. If a fetch whose reply was lost
// has locked a job, that job runs even during a pause, because no other worker can run
// it until its lock expires.
func (r *runner) rest(outage *timing.Backoff) {
	if r.slots.full() {
		r.await(0)
		return
	}
	if len(r.unresolved) == 0 {
		r.releaseDelay()
		r.await(0)
		return
	}
	job, lockedAt, err := r.resolveFetches()
	switch {
	case job != nil:
		outage.Succeeded()
		go r.slot(handover{r.w, job, lockedAt})
	case err != nil:
		r.w.fault(err, "a fetch whose reply was lost could not be resolved; retrying")
		timing.Sleep(r.soft, r.w.pauseAfter(err, outage))
	default:
		r.await(outage.Next())
	}
}

// releaseDelay writes the time when the first delayed job is due back to the marker
// before the worker pauses. Other workers may not know that time, and would notice the
// job only after their DrainDelay.
func (r *runner) releaseDelay() {
	r.mu.Lock()
	due := r.nextDue
	r.nextDue = time.Time{}
	r.mu.Unlock()
	if !due.IsZero() {
		r.returnWake(backend.Wake{Woken: true, NextDue: due})
	}
}

// unresolvedFetch is a fetch whose reply was lost: the token with which it may have
// locked a job, and until when the server may still run it. Its slot stays
// reserved until the outcome is known.
type unresolvedFetch struct {
	token string
	until time.Time
}

// fetchBatch makes one fetch. If the last one returned as many jobs as it asked for,
// this one asks for twice as many. fetchBatch also returns the time from which the
// jobs' locks count.
func (r *runner) fetchBatch() ([]*Job, time.Time, error) {
	if job, lockedAt, err := r.resolveFetches(); job != nil || err != nil {
		return []*Job{job}, lockedAt, err
	}
	n := r.slots.reserve(max(1, min(r.batchHint, r.w.o.BatchSize)))
	if n == 0 {
		return nil, time.Time{}, nil
	}
	tokens := make([]string, n)
	for i := range tokens {
		tokens[i] = r.w.token()
	}
	since, begun := r.currentEpoch(), time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), timing.CallTimeout)
	defer cancel()
	each, err := r.w.core.store.MoveToActive(ctx, r.w.core.now(), r.w.backendWorker(), tokens...)
	if mayHaveRun(err) {
		for _, token := range tokens {
			r.unresolved = append(r.unresolved, unresolvedFetch{token: token})
		}
		if job, lockedAt, _ := r.resolveFetches(); job != nil {
			return []*Job{job}, lockedAt, nil
		}
		return nil, begun, err
	}
	if err != nil {
		for range tokens {
			r.slots.settle(false)
		}
		return nil, begun, err
	}
	for _, fetched := range each {
		r.slots.settle(fetched.Job != nil) // before an event is emitted whose receiver may wait for that
	}
	var jobs []*Job
	for i, fetched := range each {
		if fetched.Job != nil || i == 0 {
			if job := r.applyFetch(fetched, tokens[i], since); job != nil {
				jobs = append(jobs, job)
			}
		}
	}
	r.batchHint = 0
	if len(jobs) == n {
		r.batchHint = 2 * n
	}
	return jobs, begun, nil
}

// resolveFetches looks for the jobs of fetches whose reply was lost and returns the
// first. After an error the outcome is still unknown: fetch calls it again before
// it fetches another job, or the job would be left to the stalled check.
func (r *runner) resolveFetches() (*Job, time.Time, error) {
	for _, d := range slices.Clone(r.unresolved) {
		job, lockedAt, err := r.resolveFetch(d.token)
		if err != nil {
			return nil, lockedAt, err
		}
		if job != nil || time.Now().After(d.until) {
			r.unresolved = slices.DeleteFunc(r.unresolved, func(o unresolvedFetch) bool { return o == d })
			r.slots.settle(job != nil)
		}
		if job != nil {
			return job, lockedAt, nil
		}
	}
	return nil, time.Time{}, nil
}

// resolveFetch looks for the job that a fetch locked with a token.
func (r *runner) resolveFetch(token string) (*Job, time.Time, error) {
	since, begun := r.currentEpoch(), time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), timing.CallTimeout)
	defer cancel()
	_, fetched, err := r.w.core.store.ResolveFetch(ctx, token, "")
	if err != nil || fetched.Job == nil {
		return nil, begun, err
	}
	// The lock is as old as the lost reply. Renewed now, it counts from now.
	held, err := r.w.core.store.ExtendLock(ctx, backend.Lock{JobID: fetched.Job.ID, Token: token}, r.w.o.LockDuration)
	if err != nil || !held {
		return nil, begun, err
	}
	return r.applyFetch(fetched, token, since), begun, nil
}

// applyFetch records the result of a fetch and returns the job, if any. since is
// currentEpoch from before the fetch: a reply that was in flight while a slot or
// the marker reported a change must not make the worker idle.
func (r *runner) applyFetch(fetched backend.Fetched, token string, since int) *Job {
	r.mu.Lock()
	emitDrained := false
	if fetched.Job != nil {
		r.drained, r.emittedDrained, r.limitedUntil = false, false, time.Time{}
	} else {
		if r.epoch == since {
			emitDrained = !r.emittedDrained
			r.drained, r.emittedDrained, r.nextDue = true, true, fetched.NextDue
		}
		r.setRateLimitLocked(fetched.LimitedFor)
	}
	r.mu.Unlock()
	if emitDrained {
		r.w.emit(WorkerEvent{Type: EventDrained})
	}
	if fetched.Job == nil {
		return nil
	}
	job := r.w.core.newJob(fetched.Job)
	job.token, job.hint = token, fetched.Hint
	return job
}

// markDirty makes fetch check for jobs again.
func (r *runner) markDirty() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch++
	r.drained = false
}

// currentEpoch returns the number of changes so far that are a reason to fetch.
func (r *runner) currentEpoch() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.epoch
}

// idle reports whether the last fetch found no job and nothing has changed since.
func (r *runner) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.drained
}

// rateLimitLeft returns how long fetching is still stopped, by the queue's rate limit or
// by stopFetchingFor.
func (r *runner) rateLimitLeft() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := max(time.Until(r.limitedUntil), time.Until(r.stoppedUntil))
	if left <= 0 && !(r.limitedUntil.IsZero() && r.stoppedUntil.IsZero()) {
		r.limitedUntil, r.stoppedUntil, r.drained = time.Time{}, time.Time{}, false
	}
	return left
}

// stopFetchingFor stops fetching for a duration, regardless of the results of other
// fetches.
func (r *runner) stopFetchingFor(wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stoppedUntil = time.Now().Add(min(wait, r.w.o.MaximumRateLimitDelay))
}

// fetchingStopped reports whether stopFetchingFor is in effect.
func (r *runner) fetchingStopped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.stoppedUntil.IsZero() && time.Now().Before(r.stoppedUntil)
}

// setRateLimit stops fetching for a duration; 0 ends a limit.
func (r *runner) setRateLimit(wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.setRateLimitLocked(wait)
}

// setRateLimitLocked is setRateLimit for callers that hold mu. During a long limit
// the worker still fetches after each MaximumRateLimitDelay: a fetch promotes
// delayed jobs, and the limit may have been removed.
func (r *runner) setRateLimitLocked(wait time.Duration) {
	r.limitedUntil = time.Time{}
	if wait > 0 {
		r.limitedUntil = time.Now().Add(min(wait, r.w.o.MaximumRateLimitDelay))
	}
}

// untilDue returns the time until the first delayed job is due, by the clock of the
// queue. It reports whether there is one.
func (r *runner) untilDue() (time.Duration, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.nextDue.IsZero() {
		return 0, false
	}
	return r.nextDue.Sub(r.w.core.now()), true
}

// restIdle waits for at most the given time, while the worker can't wait for the marker.
// It returns earlier if there is a reason to fetch.
func (r *runner) restIdle(most time.Duration) {
	if due, delayed := r.untilDue(); delayed {
		if due <= 0 {
			r.markDirty()
			return
		}
		most = min(most, due)
	}
	r.await(most)
}

// await sleeps until it is signalled, the given time has passed (0 for no limit), or the
// worker stops.
func (r *runner) await(most time.Duration) {
	var over <-chan time.Time
	if most > 0 {
		timer := time.NewTimer(most)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
	case <-r.wake:
	case <-r.soft.Done():
	}
}

// waitForWork waits for the marker, and fetches a job in the same step if possible. The
// wait is interrupted in three cases:
//
//   - The first delayed job is due. This needs a timer, because Redis checks the
//     timeouts of blocked clients only every 100 ms.
//   - A slot signals that there may be work, or that no job may be fetched any more.
//   - The worker stops.
func (r *runner) waitForWork() (*Job, time.Time, error) {
	// The wait begins before the conditions are checked, so that a change in between
	// interrupts it.
	r.waiter.Begin()
	defer r.waiter.End()
	if r.stopping() || !r.idle() || r.rateLimitLeft() > 0 {
		return nil, time.Time{}, nil
	}
	block := r.w.o.DrainDelay
	due, delayed := r.untilDue()
	if delayed {
		if due <= 0 {
			r.markDirty()
			return nil, time.Time{}, nil
		}
		// The timer ends the wait. If it can't, the wait ends by itself soon after.
		block = min(block, due+timing.TimerDelay)
		defer timing.After(due, r.waiter.Interrupt)()
	}
	if r.slots.reserve(1) == 0 {
		return nil, time.Time{}, nil
	}
	token, since, begun := r.w.token(), r.currentEpoch(), time.Now()
	wake, found, err := r.waiter.WaitAndFetch(block, r.w.core.now(), r.w.backendWorker(), token)
	if mayHaveRun(err) {
		// It may also run later: Redis may not have noticed yet that the connection is
		// closed.
		r.unresolved = append(r.unresolved, unresolvedFetch{token, begun.Add(block + timing.BlockMargin)})
	} else {
		r.slots.settle(found.Job != nil)
	}
	isKnown := err == nil && !found.Unknown
	if isKnown {
		if job := r.applyFetch(found, token, since); job != nil {
			return job, r.fetchedAt(job), nil
		}
	}
	switch {
	case wake.Err != nil:
		r.markDirty()
		return nil, time.Time{}, wake.Err
	case r.stopping() || !r.slots.open():
		r.returnWake(wake)
	case !isKnown:
		r.applyWake(wake)
	}
	return nil, time.Time{}, nil
}

// fetchedAt returns when a job was fetched, according to its ProcessedOn.
func (r *runner) fetchedAt(job *Job) time.Time {
	return time.Now().Add(-max(0, r.w.core.now().Sub(job.ProcessedOn)))
}

// applyWake records the result of a wait: there may be a job, or the time of the first
// delayed one is known.
func (r *runner) applyWake(wake backend.Wake) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch++
	if wake.NextDue.IsZero() {
		r.drained = false
		return
	}
	if r.nextDue.IsZero() || wake.NextDue.Before(r.nextDue) {
		r.nextDue = wake.NextDue
	}
}

// returnWake puts back a wake-up that this worker does not use, for another worker.
func (r *runner) returnWake(wake backend.Wake) {
	if err := r.waiter.Return(wake); err != nil {
		r.w.core.log.Warn("a marker could not be written back; idle workers fetch again after their DrainDelay at the latest", logError, err)
	}
}
