package bullmq

import (
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// queueView is what a worker knows of its queue: whether there may be a job to fetch, and
// when there will be.
type queueView struct {
	w *queueWorker

	mu             sync.Mutex
	epoch          int       // counts changes that are a reason to fetch
	drained        bool      // the last fetch found nothing to run
	emittedDrained bool      // EventDrained was emitted, and no job has been fetched since
	nextDue        time.Time // when the first delayed job is due; zero for none
	limitedUntil   time.Time // end of the rate limit, by the real clock
	stoppedUntil   time.Time // end of a rate limit that a handler returned although there is no limiter
}

// applyFetch records the result of a fetch. It reports whether EventDrained is to be
// emitted. since is currentEpoch from before the fetch: a reply that was in flight while a
// slot or the marker reported a change must not make the worker idle.
func (v *queueView) applyFetch(fetched backend.Fetched, since int) (emitDrained bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if fetched.Job != nil {
		v.drained, v.emittedDrained, v.limitedUntil = false, false, time.Time{}
		return false
	}
	if v.epoch == since {
		emitDrained = !v.emittedDrained
		v.drained, v.emittedDrained, v.nextDue = true, true, fetched.NextDue
	}
	v.setRateLimitLocked(fetched.LimitedFor)
	return emitDrained
}

// markDirty makes fetch check for jobs again.
func (v *queueView) markDirty() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.epoch++
	v.drained = false
}

// currentEpoch returns the number of changes so far that are a reason to fetch.
func (v *queueView) currentEpoch() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.epoch
}

// idle reports whether the last fetch found no job and nothing has changed since.
func (v *queueView) idle() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.drained
}

// rateLimitLeft returns how long fetching is still stopped, by the queue's rate limit or
// by stopFetchingFor.
func (v *queueView) rateLimitLeft() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	left := max(time.Until(v.limitedUntil), time.Until(v.stoppedUntil))
	if left <= 0 && !(v.limitedUntil.IsZero() && v.stoppedUntil.IsZero()) {
		v.limitedUntil, v.stoppedUntil, v.drained = time.Time{}, time.Time{}, false
	}
	return left
}

// stopFetchingFor stops fetching for a duration, regardless of the results of other
// fetches.
func (v *queueView) stopFetchingFor(wait time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.stoppedUntil = time.Now().Add(min(wait, v.w.o.MaximumRateLimitDelay))
}

// mayFetch reports whether stopFetchingFor is not in effect.
func (v *queueView) mayFetch() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.stoppedUntil.IsZero() || !time.Now().Before(v.stoppedUntil)
}

// setRateLimit stops fetching for a duration; 0 ends a limit.
func (v *queueView) setRateLimit(wait time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.setRateLimitLocked(wait)
}

// setRateLimitLocked is setRateLimit for callers that hold mu. During a long limit
// the worker still fetches after each MaximumRateLimitDelay: a fetch promotes
// delayed jobs, and the limit may have been removed.
func (v *queueView) setRateLimitLocked(wait time.Duration) {
	v.limitedUntil = time.Time{}
	if wait > 0 {
		v.limitedUntil = time.Now().Add(min(wait, v.w.o.MaximumRateLimitDelay))
	}
}

// untilDue returns the time until the first delayed job is due, by the clock of the
// queue. It reports whether there is one.
func (v *queueView) untilDue() (time.Duration, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.nextDue.IsZero() {
		return 0, false
	}
	return v.nextDue.Sub(v.w.core.now()), true
}

// applyWake records the result of a wait: there may be a job, or the time of the first
// delayed one is known.
func (v *queueView) applyWake(wake backend.Wake) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.epoch++
	if wake.NextDue.IsZero() {
		v.drained = false
		return
	}
	if v.nextDue.IsZero() || wake.NextDue.Before(v.nextDue) {
		v.nextDue = wake.NextDue
	}
}
