package bullmq

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/turns"
)

// A look reads which of many queues need attention, without a change. A quick look finds
// markers. A full look also finds jobs for which there is no marker, because a worker has
// died after it took the marker, or because a client of BullMQ 4 has added the job.

const (
	lookSize  = 500                  // queues of one call
	lookPause = 5 * time.Millisecond // between two such calls of a full look, for other clients of the server
)

// lookSoon makes a full look at the queues of a listener, or at all for nil, that claims the
// times of delayed jobs. A wake-up of theirs may have been lost.
func (f *groupFeed) lookSoon(l *listener) {
	f.mu.Lock()
	now := time.Now()
	for _, each := range f.listeners {
		if l == nil || l == each {
			f.lookAt[each] = now
		}
	}
	f.mu.Unlock()
	rouse(f.lookNow)
}

// lookAfterCut is lookSoon with a pause since the last look, so that these looks take a limited
// part of the time. It is called after a wait that was ended without the server, which may
// happen often.
func (f *groupFeed) lookAfterCut(l *listener) {
	f.mu.Lock()
	at := l.lookedAt.Add(max(glancePause(f.ring.Len()), lookShare*l.lookTook))
	if f.lookAt[l].IsZero() || at.Before(f.lookAt[l]) {
		f.lookAt[l] = at
	}
	f.mu.Unlock()
	rouse(f.lookNow)
}

// lookShare bounds the part of the time that looks after cut waits take: one in so many.
const lookShare = 20

// look makes full looks until the worker stops: at all queues at an interval, and at those of
// lookSoon at once. It also drops the queueWorkers of queues that have become idle.
func (f *groupFeed) look() {
	var looks perGroup
	defer looks.all.Wait()
	next := time.Now().Add(f.lookInterval())
	for {
		timer := time.NewTimer(time.Until(f.nextLook(next)))
		select {
		case <-timer.C:
		case <-f.lookNow:
		case <-f.r.soft.Done():
			timer.Stop()
			return
		}
		timer.Stop()
		if paused, _ := f.r.slots.paused(); paused {
			next = time.Now().Add(f.lookInterval())
			f.takeSoon(time.Now()) // the resumption looks at all
			continue
		}
		now := time.Now()
		soon := f.takeSoon(now)
		for g, queues := range f.byGroup(soon) {
			if !looks.start(g, func(outage *timing.Backoff) { f.lookIn(g, queues, backend.Look{Claim: true}, outage) }) {
				f.mu.Lock()
				g.lookAgain = true
				f.mu.Unlock()
			}
		}
		if len(soon) == 0 && now.Before(next) {
			continue
		}
		if len(soon) == 0 {
			for g, queues := range f.byGroup(f.all()) {
				looks.start(g, func(outage *timing.Backoff) { f.lookIn(g, queues, backend.Look{}, outage) })
			}
		}
		next = time.Now().Add(f.lookInterval())
		f.dropCold()
	}
}

// lookInterval returns the interval between full looks at all queues.
func (f *groupFeed) lookInterval() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(f.o.Worker.DrainDelay, time.Duration(f.ring.Len())*time.Millisecond)
}

// nextLook returns when the next look is due: at a time, or before that by lookSoon.
func (f *groupFeed) nextLook(at time.Time) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, soon := range f.lookAt {
		if soon.Before(at) {
			at = soon
		}
	}
	return at
}

// lookIn makes a full look at queues of one group. After a failure it requests another one.
func (f *groupFeed) lookIn(g *queueGroup, queues []*memberQueue, l backend.Look, outage *timing.Backoff) {
	begun := time.Now()
	err := f.lookAtGroup(f.r.soft, g, queues, l)
	if f.r.stopping() {
		return
	}
	if err == nil {
		outage.Succeeded()
	} else {
		f.h.reportFault(f.h.log, "", err, "looking for jobs failed; retrying")
		timing.Sleep(f.r.soft, f.h.pauseAfter(err, outage))
	}
	f.mu.Lock()
	again := g.lookAgain
	g.lookAgain = false
	g.listener.lookedAt, g.listener.lookTook = time.Now(), time.Since(begun)
	f.mu.Unlock()
	switch {
	case err != nil:
		f.lookSoon(g.listener)
	case again:
		f.lookAfterCut(g.listener)
	}
}

// all returns the queues in the ring.
func (f *groupFeed) all() []*memberQueue {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]*memberQueue, 0, f.ring.Len())
	for m := range f.ring.States() {
		all = append(all, m)
	}
	return all
}

// takeSoon returns the queues of lookSoon that are due, which are forgotten.
func (f *groupFeed) takeSoon(now time.Time) (soon []*memberQueue) {
	f.mu.Lock()
	defer f.mu.Unlock()
	due := map[*listener]bool{}
	for l, at := range f.lookAt {
		if !at.After(now) {
			due[l] = true
			delete(f.lookAt, l)
		}
	}
	if len(due) == 0 {
		return nil
	}
	for m := range f.ring.States() {
		if due[m.group.listener] {
			soon = append(soon, m)
		}
	}
	return soon
}

// byGroup returns queues by their groups. It leaves out queues that were never admitted.
func (f *groupFeed) byGroup(queues []*memberQueue) map[*queueGroup][]*memberQueue {
	f.mu.Lock()
	defer f.mu.Unlock()
	by := map[*queueGroup][]*memberQueue{}
	for _, m := range queues {
		if m.group != nil {
			by[m.group] = append(by[m.group], m)
		}
	}
	return by
}

// eachGroup calls a function for each group at the same time, so that a node of a cluster
// that does not reply delays only the calls to it. It returns an error of one of the calls.
func eachGroup(by map[*queueGroup][]*memberQueue, call func(*queueGroup, []*memberQueue) error) (failed error) {
	if len(by) == 1 {
		for g, queues := range by {
			return call(g, queues)
		}
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	for g, queues := range by {
		all.Go(func() {
			if err := call(g, queues); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = err
			}
		})
	}
	all.Wait()
	return failed
}

// lookAtQueues looks at queues and records what it finds. It returns an error of a call. The
// looks at queues of other groups are made all the same.
func (f *groupFeed) lookAtQueues(ctx context.Context, queues []*memberQueue, l backend.Look) error {
	return eachGroup(f.byGroup(queues), func(g *queueGroup, of []*memberQueue) error { return f.lookAtGroup(ctx, g, of, l) })
}

// lookAtGroup looks at queues of one group. It stops at the first error of a call.
func (f *groupFeed) lookAtGroup(ctx context.Context, g *queueGroup, queues []*memberQueue, l backend.Look) error {
	calls := ctx
	if l.Claim { // the reply has the only trace of what was claimed
		calls = context.WithoutCancel(ctx)
	}
	for some := range slices.Chunk(queues, lookSize) {
		if &some[0] != &queues[0] && !l.Quick {
			timing.Sleep(ctx, lookPause)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		call, cancel := context.WithTimeout(calls, timing.CallTimeout)
		seen, err := g.store.LookAtQueues(call, basesOf(some), l)
		cancel()
		if err != nil {
			return err
		}
		f.saw(some, seen, l)
	}
	return nil
}

// saw records the result of a look.
func (f *groupFeed) saw(queues []*memberQueue, seen []backend.Seen, l backend.Look) {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.wake()
	if !l.Quick {
		for _, m := range queues {
			m.mayStall, m.cancelled = false, false
			m.hasFailed = m.hasFailed && !l.Failed
		}
	}
	now := time.Now()
	for _, s := range seen {
		m := queues[s.Index]
		m.mayStall, m.cancelled = m.mayStall || s.Running, m.cancelled || s.Cancelled
		m.hasFailed = m.hasFailed || s.Failed
		if !s.NextDue.IsZero() {
			m.dues++
			f.ring.Due(m, s.NextDue)
			if l.Claim && !m.admitted {
				f.returns = append(f.returns, unusedWake{m.group.listener, dueWake(m, s.NextDue)})
				rouse(f.admit)
			}
		}
		if s.Ready && f.mayBecomeReady(m, l, now) {
			f.ring.Ready(m)
		}
	}
}

// mayBecomeReady reports whether a queue that a look has found is to be fetched from. A quick
// look leaves the marker of a queue that is at its global concurrency, and would find it
// again and again. The caller holds mu.
func (f *groupFeed) mayBecomeReady(m *memberQueue, l backend.Look, now time.Time) bool {
	switch f.ring.State(m) {
	case turns.Empty:
		return true
	case turns.Ready: // a call in flight may find it empty
		return !l.Quick
	case turns.Blocked:
		return !l.Quick || now.Sub(m.blockedAt) >= longestGlancePause
	}
	return false
}

const (
	shortestGlancePause = 5 * time.Millisecond
	longestGlancePause  = 100 * time.Millisecond
	glancePerQueue      = 2 * time.Microsecond // twenty times what a quick look costs Redis, so that looks take 5 % of a core
)

// glancePause returns the pause between two quick looks at some queues.
func glancePause(queues int) time.Duration {
	return min(max(shortestGlancePause, time.Duration(queues)*glancePerQueue), longestGlancePause)
}

// glance begins a quick look at the queues that are not ready, if no listener has waited for
// them for a while. It is called when jobs are fetched. Without it, the queues with jobs would
// keep the slots. The caller holds mu.
func (f *groupFeed) glance(now time.Time) {
	pause := glancePause(f.ring.Len())
	if now.Sub(f.glancedAt) < pause || f.ring.Len() < 2 {
		return
	}
	f.glancedAt = now
	by := map[*queueGroup][]*memberQueue{}
	for m, state := range f.ring.States() {
		if l := m.group.listener; state.Waits() && !l.waiting && now.Sub(l.waitedAt) >= pause && !m.group.glancing {
			by[m.group] = append(by[m.group], m)
		}
	}
	for g, queues := range by {
		g.glancing = f.spawn(func() {
			if err := f.lookAtGroup(f.r.soft, g, queues, backend.Look{Quick: true}); err != nil && !f.r.stopping() {
				f.h.log.Debug("a look for jobs failed; the next one follows", logError, err)
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			g.glancing, f.glancedAt = false, time.Now()
		})
	}
}

// coldAfter is how long a queue keeps its queueWorker without a job.
const coldAfter = time.Minute

// dropCold drops the queueWorkers of queues without jobs.
func (f *groupFeed) dropCold() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for m := range f.hot {
		if m.running == 0 && time.Since(m.usedAt) > coldAfter && !m.worker.locks.any() {
			m.worker = nil
			delete(f.hot, m)
		}
	}
}
