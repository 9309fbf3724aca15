package bullmq

import (
	"context"
	"slices"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/turns"
)

// A look reads which of many queues need attention, without a change. A quick look finds
// markers. A full look also finds jobs for which there is no marker, because a worker has
// died after it took the marker, or because a client of BullMQ 4 has added the job.

// add makes the worker serve a queue, or changes how it does.
func (f *groupFeed) add(q ServedQueue) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members[q.Name]
	if m != nil {
		m.setSpec(q)
		if m.admitted {
			f.ring.Add(m, f.o.share(m))
			f.changed(m)
			f.wake()
		}
		return
	}
	if m = f.leaving[q.Name]; m == nil {
		m = &memberQueue{f: f, name: q.Name, base: baseOf(f.o.Worker.Prefix, q.Name)}
		m.marker = m.base + "marker"
	}
	delete(f.leaving, q.Name)
	m.setSpec(q)
	m.served, m.rank = true, f.nextRank
	f.nextRank++
	f.members[m.name] = m
	f.pending = append(f.pending, m)
	rouse(f.admit)
}

// remove makes the worker stop serving a queue. It reports whether it was served.
func (f *groupFeed) remove(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members[name]
	if m == nil {
		return false
	}
	delete(f.members, name)
	m.served = false
	if m.running > 0 {
		f.leaving[name] = m
	}
	if m.admitted {
		f.returns = append(f.returns, f.wakeUps(m)...)
		f.ring.Remove(m)
		delete(f.markers, m.marker)
		m.group.listener.recent.Remove(m.recent)
		m.admitted, m.recent = false, nil
		m.group.listener.interrupt() // a wait that has the marker would take it
		f.letWait()
		rouse(f.admit)
	}
	return true
}

// admitPending admits the queues that were added to the ring, and puts back the wake-ups of
// those that were removed, until the worker stops.
func (f *groupFeed) admitPending() {
	var outage timing.Backoff
	for !f.r.stopping() {
		f.mu.Lock()
		pending, returns := f.pending, f.returns
		f.pending, f.returns = nil, nil
		f.mu.Unlock()
		f.putBack(returns)
		if len(pending) == 0 {
			closeOnce(f.admitted)
			select {
			case <-f.admit:
			case <-f.r.soft.Done():
			}
			continue
		}
		rest, err := f.admitQueues(pending)
		if len(rest) > 0 {
			f.mu.Lock()
			f.pending = append(rest, f.pending...)
			f.mu.Unlock()
		}
		if err != nil {
			f.h.reportFault(f.h.home.log, "", err, "queues could not be added to the worker; retrying")
			timing.Sleep(f.r.soft, f.h.pauseAfter(err, &outage))
			continue
		}
		outage.Succeeded()
	}
}

// admitQueues admits queues to the ring. It returns those for which that must be repeated.
func (f *groupFeed) admitQueues(queues []*memberQueue) (rest []*memberQueue, err error) {
	for some := range slices.Chunk(queues, lookSize) {
		if err == nil {
			var again []*memberQueue
			again, err = f.admitSome(some)
			rest = append(rest, again...)
		} else {
			rest = append(rest, some...)
		}
	}
	return rest, err
}

func (f *groupFeed) admitSome(queues []*memberQueue) (rest []*memberQueue, err error) {
	dialects, err := f.dialects(queues)
	if err != nil {
		return queues, err
	}
	f.mu.Lock()
	var admitted []*memberQueue
	for i, m := range queues {
		if !m.served || m.admitted {
			continue
		}
		if m.group == nil {
			m.group = f.groupOf(m, dialects[i])
		}
		m.admitted = true
		f.markers[m.marker] = m
		m.recent = m.group.listener.recent.PushBack(m)
		f.ring.Add(m, f.o.share(m))
		admitted = append(admitted, m)
	}
	f.mu.Unlock()
	if paused, _ := f.r.slots.paused(); !paused { // the resumption looks at all
		if err := f.lookAtQueues(f.r.soft, admitted, backend.Look{Claim: true}); err != nil && f.r.soft.Err() == nil {
			f.h.reportFault(f.h.home.log, "", err, "looking for jobs failed; retrying")
			f.mu.Lock()
			for _, m := range admitted {
				f.ring.Ready(m)
			}
			f.mu.Unlock()
			f.wake()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range admitted {
		f.changed(m)
	}
	return nil, nil
}

// groupOf returns the group of a queue. The caller holds mu.
func (f *groupFeed) groupOf(m *memberQueue, dialect Dialect) *queueGroup {
	key := groupKey{f.listenerOf(m.base), dialect}
	g := f.groups[key]
	if g == nil {
		g = newQueueGroup(f, key.listener, dialect)
		f.groups[key] = g
		key.listener.groups = append(key.listener.groups, g)
	}
	return g
}

// dialects returns the dialect of each queue.
func (f *groupFeed) dialects(queues []*memberQueue) ([]Dialect, error) {
	dialects := make([]Dialect, len(queues))
	if f.o.Worker.Dialect != Detect {
		for i := range dialects {
			dialects[i] = f.o.Worker.Dialect
		}
		return dialects, nil
	}
	ctx, cancel := context.WithTimeout(f.r.soft, timing.CallTimeout)
	defer cancel()
	store, _, _ := f.h.home.groups(V6)
	hints, err := store.DialectHintsOf(ctx, basesOf(queues))
	if err != nil {
		return nil, err
	}
	for i, hint := range hints {
		if hint.Err != nil && !classify(hint.Err).Lasting() {
			return nil, hint.Err
		}
		dialects[i] = V6
		if hint.Err == nil {
			dialects[i] = dialectOf(hint.Version, hint.Paused)
		}
	}
	return dialects, nil
}

func basesOf(queues []*memberQueue) []string {
	bases := make([]string, len(queues))
	for i, m := range queues {
		bases[i] = m.base
	}
	return bases
}

const (
	lookSize  = 500                  // queues of one call
	lookPause = 5 * time.Millisecond // between two such calls of a full look, for other clients of the server
)

// lookSoon makes a full look at the queues of a listener, or at all for nil, that claims the
// times of delayed jobs. A wake-up of theirs may have been lost.
func (f *groupFeed) lookSoon(l *listener) {
	f.mu.Lock()
	for _, each := range f.listeners {
		if l == nil || l == each {
			f.lookAt[each] = true
		}
	}
	f.mu.Unlock()
	rouse(f.lookNow)
}

// look makes full looks until the worker stops: at all queues at an interval, and at those of
// lookSoon at once. It also drops the queueWorkers of queues that have become idle.
func (f *groupFeed) look() {
	var outage timing.Backoff
	for {
		f.mu.Lock()
		wait := max(f.o.Worker.DrainDelay, time.Duration(f.ring.Len())*time.Millisecond)
		f.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-f.lookNow:
		case <-f.r.soft.Done():
			timer.Stop()
			return
		}
		timer.Stop()
		if paused, _ := f.r.slots.paused(); paused {
			continue
		}
		var err error
		if soon := f.takeSoon(); len(soon) > 0 {
			err = f.lookAtQueues(f.r.soft, soon, backend.Look{Claim: true})
		} else {
			err = f.lookAtQueues(f.r.soft, f.all(), backend.Look{})
		}
		f.dropCold()
		if f.r.stopping() {
			return
		}
		if err == nil {
			outage.Succeeded()
			continue
		}
		f.h.reportFault(f.h.home.log, "", err, "looking for jobs failed; retrying")
		timing.Sleep(f.r.soft, f.h.pauseAfter(err, &outage))
		f.lookSoon(nil)
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

// takeSoon returns the queues of lookSoon, which are forgotten.
func (f *groupFeed) takeSoon() (soon []*memberQueue) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.lookAt) == 0 {
		return nil
	}
	for m := range f.ring.States() {
		if f.lookAt[m.group.listener] {
			soon = append(soon, m)
		}
	}
	clear(f.lookAt)
	return soon
}

// lookAtQueues looks at queues and records what it finds. It returns the last error of a call.
func (f *groupFeed) lookAtQueues(ctx context.Context, queues []*memberQueue, l backend.Look) (failed error) {
	by := map[*queueGroup][]*memberQueue{}
	f.mu.Lock()
	for _, m := range queues {
		if m.group != nil {
			by[m.group] = append(by[m.group], m)
		}
	}
	f.mu.Unlock()
	calls := ctx
	if l.Claim { // the reply has the only trace of what was claimed
		calls = context.WithoutCancel(ctx)
	}
	first := true
	for g, of := range by {
		for some := range slices.Chunk(of, lookSize) {
			if !first && !l.Quick {
				timing.Sleep(ctx, lookPause)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			first = false
			call, cancel := context.WithTimeout(calls, timing.CallTimeout)
			seen, err := g.store.LookAtQueues(call, basesOf(some), l)
			cancel()
			if err != nil {
				failed = err
				break
			}
			f.saw(some, seen, l)
		}
	}
	return failed
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
	if f.glancing || now.Sub(f.glancedAt) < pause || f.ring.Len() < 2 {
		return
	}
	f.glancedAt = now
	var queues []*memberQueue
	for m, state := range f.ring.States() {
		if l := m.group.listener; state.Waits() && !l.waiting && now.Sub(l.waitedAt) >= pause {
			queues = append(queues, m)
		}
	}
	if len(queues) == 0 {
		return
	}
	f.glancing = f.spawn(func() {
		if err := f.lookAtQueues(f.r.soft, queues, backend.Look{Quick: true}); err != nil && !f.r.stopping() {
			f.h.home.log.Debug("a look for jobs failed; the next one follows", logError, err)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.glancing, f.glancedAt = false, time.Now()
	})
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
