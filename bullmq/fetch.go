package bullmq

import (
	"context"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/scripts"
)

// fetch takes jobs while slots are free, until the worker stops. It looks at
// the start, when woken by the marker, when the first delayed job is due, when
// the rate limit ends, when a slot has learned of something, and after
// DrainDelay in any case.
func (r *runner) fetch() {
	var outage, waitOutage backoffTimer
	for !r.stopping() {
		if r.full() {
			r.await(0)
			continue
		}
		if left := r.limited(); left > 0 {
			r.await(left)
			continue
		}
		if r.idle() {
			if err := r.waitForWork(); err != nil {
				r.w.fault(err, "Redis can't be waited on for jobs; trying again")
				r.await(waitOutage.next())
			} else {
				waitOutage.reset()
			}
			continue
		}
		job, taken, err := r.take()
		if err != nil {
			r.w.fault(err, "no job could be taken; trying again")
			r.await(outage.next())
			continue
		}
		outage.reset()
		if job != nil {
			r.occupy(job, taken)
		}
	}
}

// take makes one look. The time answered is from when the job's lock counts.
func (r *runner) take() (*Job, time.Time, error) {
	if r.doubt != "" {
		if job, taken, err := r.settleTake(); job != nil || err != nil {
			return job, taken, err
		}
	}
	token, since, begun := r.w.token(), r.newsSoFar(), time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	taken, err := r.w.core.store.Take(ctx, r.w.core.nowMs(), r.w.takeAs(token))
	if err == nil {
		return r.learn(taken, token, since), begun, nil
	}
	if mayHaveRun(err) {
		r.doubt = token
		if job, taken, _ := r.settleTake(); job != nil {
			return job, taken, nil
		}
	}
	return nil, begun, err
}

// settleTake asks for the job of a take whose answer was lost. An error means
// that this is still unknown: it is asked again before another job is taken,
// or the job would be left to the stalled check.
func (r *runner) settleTake() (*Job, time.Time, error) {
	token, since, begun := r.doubt, r.newsSoFar(), time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	_, taken, err := r.w.core.store.FindTaken(ctx, token, "")
	if err != nil {
		return nil, begun, err
	}
	if taken.JobID != "" {
		// The lock is as old as the lost answer; renewed now it counts from now.
		held, err := r.w.core.store.ExtendLock(ctx, scripts.Lock{JobID: taken.JobID, Token: token}, r.w.o.LockDuration.Milliseconds())
		if err != nil {
			return nil, begun, err
		}
		if !held {
			taken.JobID = ""
		}
	}
	r.doubt = ""
	if taken.JobID == "" {
		return nil, begun, nil
	}
	return r.learn(taken, token, since), begun, nil
}

// learn takes in what a look has found, and answers the job, if any. since is
// newsSoFar from before the look: an answer that was on its way while a slot or
// the marker told of something new must not put the worker to rest.
func (r *runner) learn(taken scripts.Taken, token string, since int) *Job {
	r.mu.Lock()
	var drained bool
	if taken.JobID != "" {
		r.drained, r.limitedUntil = false, time.Time{}
	} else {
		if r.news == since {
			drained = !r.drained
			r.drained, r.nextDueMs = true, taken.NextDueMs
		}
		r.holdBack(time.Duration(taken.LimitedMs) * time.Millisecond)
	}
	r.mu.Unlock()
	if drained && r.w.o.Events.Drained != nil {
		r.w.guard("Drained", r.w.o.Events.Drained)
	}
	if taken.JobID == "" {
		return nil
	}
	job := r.w.core.readJob(taken.JobID, taken.Hash)
	job.token = token
	return job
}

// look makes the next round of fetch look again.
func (r *runner) look() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.news++
	r.drained = false
}

func (r *runner) newsSoFar() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.news
}

func (r *runner) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.drained
}

// limited is how long the rate limit holds.
func (r *runner) limited() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := time.Until(r.limitedUntil)
	if left <= 0 && !r.limitedUntil.IsZero() {
		r.limitedUntil, r.drained = time.Time{}, false
	}
	return left
}

// limit stops looking for a time.
func (r *runner) limit(wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holdBack(wait)
}

// holdBack is limit, for those who hold mu. A look promotes delayed jobs even
// while the limit holds, and it may have been lifted: so there is one from time
// to time.
func (r *runner) holdBack(wait time.Duration) {
	r.limitedUntil = time.Time{}
	if wait > 0 {
		r.limitedUntil = time.Now().Add(min(wait, r.w.o.MaximumRateLimitDelay))
	}
}

// untilDue is how long until the first delayed job is due, by the clock of
// the queue.
func (r *runner) untilDue() (time.Duration, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.nextDueMs == 0 {
		return 0, false
	}
	return time.UnixMilli(r.nextDueMs).Sub(r.w.core.now()), true
}

// await sleeps until woken, for at most a time (0 for no bound), or until the
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

// waitForWork blocks on the marker. A timer of our own ends that when the first
// delayed job is due, since Redis ends a blocked wait on its 100 ms tick only;
// nudge ends it when a slot has learned of something, and so does the end of
// the worker.
func (r *runner) waitForWork() error {
	// First said, then checked: what changes in between finds a wait to end.
	r.marker.begin()
	defer r.marker.end()
	if r.stopping() || !r.idle() || r.limited() > 0 {
		return nil
	}
	block := r.w.o.DrainDelay
	due, delayed := r.untilDue()
	if delayed {
		if due <= 0 {
			r.look()
			return nil
		}
		block = min(block, due)
		defer time.AfterFunc(due, r.marker.interrupt).Stop()
	}
	p := r.marker.wait(block)
	switch {
	case r.stopping():
		r.marker.handOn(p)
	case p.err != nil:
		r.look()
		return p.err
	default:
		r.woken(p)
	}
	return nil
}

// woken reads a marker: "0", or none, means look; "1" carries the time of the
// first delayed job.
func (r *runner) woken(p popped) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.news++
	if p.score <= 0 {
		r.drained = false
		return
	}
	if due := int64(p.score); r.nextDueMs == 0 || due < r.nextDueMs {
		r.nextDueMs = due
	}
}

const callTimeout = 10 * time.Second

// backoffTimer spaces out attempts to reach Redis: short at first, so that a
// blink costs little, a second at most, so that its return is noticed soon.
type backoffTimer struct{ wait time.Duration }

func (b *backoffTimer) next() time.Duration {
	b.wait = min(max(2*b.wait, 20*time.Millisecond), time.Second)
	return b.wait
}

func (b *backoffTimer) reset() { b.wait = 0 }
