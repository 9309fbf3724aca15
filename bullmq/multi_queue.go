package bullmq

import (
	"container/list"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// memberQueue is a queue of a [MultiWorker]. It is small, since most queues of a large set
// are idle. Its queueWorker is made with its first job, and dropped after a while without
// one. It implements source.
type memberQueue struct {
	f            *groupFeed
	name         string
	base, marker string // of its keys

	handler atomic.Pointer[Handler]
	limiter atomic.Pointer[Limiter] // nil for none

	// Guarded by the mu of the feed.
	spec     ServedQueue
	rank     int
	served   bool        // added and not removed since
	admitted bool        // in the ring
	group    *queueGroup // nil before the first admission; another one if its listener was released

	recent  *list.Element // in the listener's recent; nil unless admitted
	worker  *queueWorker  // nil while there is no job
	letters *deadLetters  // nil if no failed job is to be moved
	usedAt  time.Time     // when the last job was fetched or has ended
	running int           // jobs

	popped         bool      // the wake-up for a ready job was taken, and no fetch was made since
	dues           int       // counts the wake-ups with the time of a delayed job
	waitedIn       int       // the last wait of the listener that included the queue
	blockedAt      time.Time // when a fetch last found that no job may start
	emittedDrained bool      // EventDrained was emitted, and no job has been fetched since
	outage         timing.Backoff

	// As of the last look.
	mayStall  bool // jobs are active
	cancelled bool // cancellations were told to workers
	hasFailed bool // there are failed jobs; only looks with Look.Failed tell

	cancelledAfter string // the id of the last cancellation that was read; "" before the first
}

// setSpec sets how the queue is served. The caller holds the mu of the feed.
func (m *memberQueue) setSpec(q ServedQueue) {
	handler, limiter := q.Handler, q.Limiter
	if handler == nil {
		handler = m.f.handler
	}
	if limiter == nil {
		limiter = m.f.o.Worker.Limiter
	}
	m.spec = q
	m.handler.Store(&handler)
	m.limiter.Store(limiter)
	if m.worker != nil {
		m.worker.limiter.Store(limiter)
	}
}

// limit returns the limiter of the queue for a fetch.
func (m *memberQueue) limit() (limit backend.RateLimit) {
	if limiter := m.limiter.Load(); limiter != nil {
		limit = backend.RateLimit(*limiter)
	}
	return limit
}

// working returns the queueWorker of the queue, which it makes if there is none. It makes no
// call. The caller holds the mu of the feed.
func (m *memberQueue) working() *queueWorker {
	if m.worker != nil {
		return m.worker
	}
	w := &queueWorker{}
	w.init(m.f.h, m.newCore(), m.f.o.Worker)
	w.limiter.Store(m.limiter.Load())
	w.source = m
	w.handler = func(ctx context.Context, job *Job) (any, error) { return (*m.handler.Load())(ctx, job) }
	w.letters = m.deadLetters()
	m.worker, m.usedAt = w, time.Now()
	m.f.hot[m] = true
	return w
}

// newCore returns a core of the queue, which must have a group.
func (m *memberQueue) newCore() *core {
	k, err := newKeys(m.f.o.Worker.Prefix, m.name)
	if err != nil {
		panic(err) // add has checked the names
	}
	home := m.f.h.home
	c := home.withKeys(k, m.group.dialect)
	c.log = home.log.With(logQueue, m.name)
	return c
}

// mayFetch implements source. The ring of the feed decides from which queue.
func (m *memberQueue) mayFetch() bool { return true }

// finish implements source. Jobs of all queues of a group that end at the same time share
// calls.
func (m *memberQueue) finish(ctx context.Context, end backend.End, alone bool) (found, error) {
	m.f.mu.Lock()
	ends := m.group.ends
	m.f.mu.Unlock()
	do := ends.Do
	if alone {
		do = ends.DoAlone
	}
	// The reply may have a job for this slot, so it must not be missed.
	r, err := do(context.WithoutCancel(ctx), memberEnd{m, end})
	if err == nil {
		err = r.err
	}
	return r.next, err
}

// delay implements source. It fetches no job.
func (m *memberQueue) delay(ctx context.Context, d backend.Delay) (found, error) {
	m.f.mu.Lock()
	store := m.working().core.store
	m.f.mu.Unlock()
	d.Fetch = false
	_, err := store.MoveToDelayed(ctx, d)
	return found{}, err
}

// take implements source.
func (m *memberQueue) take(next found, begun time.Time) handover {
	m.f.emitDrained(next.drained)
	if next.Job == nil {
		return handover{}
	}
	return next.handOver(begun)
}

// handOver returns the job for a slot.
func (f found) handOver(lockedAt time.Time) handover {
	job := f.w.core.newJob(f.Job)
	job.token, job.hint = f.token, f.Hint
	return handover{f.w, job, lockedAt}
}

// ended implements source.
func (m *memberQueue) ended(token string) {
	m.f.mu.Lock()
	defer m.f.mu.Unlock()
	m.f.done(token)
}

// markDirty implements source.
func (m *memberQueue) markDirty() {
	m.f.mu.Lock()
	m.f.ring.Ready(m)
	m.f.mu.Unlock()
	m.f.wake()
}

// setRateLimit implements source.
func (m *memberQueue) setRateLimit(wait time.Duration) {
	if wait > 0 {
		m.stopFetchingFor(wait)
	}
}

// stopFetchingFor implements source.
func (m *memberQueue) stopFetchingFor(wait time.Duration) {
	m.f.mu.Lock()
	defer m.f.mu.Unlock()
	m.f.ring.Postpone(m, m.untilLimited(wait))
	m.f.letWait()
}

// untilLimited returns until when a rate limit keeps the queue from being fetched from.
// During a long limit the worker still fetches after each MaximumRateLimitDelay: a fetch
// promotes delayed jobs, and the limit may have been removed.
func (m *memberQueue) untilLimited(wait time.Duration) time.Time {
	return time.Now().Add(min(wait, m.f.o.Worker.MaximumRateLimitDelay))
}

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
		m = &memberQueue{f: f, name: q.Name, base: baseOf(f.o.Worker.Prefix, q.Name), emittedDrained: true}
		m.marker = m.base + "marker"
	}
	delete(f.leaving, q.Name)
	m.setSpec(q)
	m.served, m.rank = true, f.nextRank
	f.nextRank++
	f.members[m.name] = m
	f.pending = append(f.pending, m)
	rouse(f.admit)
	rouse(f.enlist)
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
	rouse(f.enlist)
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
		f.release(m.group.listener)
		f.letWait()
		rouse(f.admit)
	}
	return true
}

// admitPending admits the queues that were added to the ring, and puts back the wake-ups of
// those that were removed, until the worker stops. On a cluster, the queues of each hash tag
// are admitted on their own, so that a node that does not reply does not keep out the queues
// of the others.
func (f *groupFeed) admitPending() {
	begun := time.Now()
	late := time.NewTimer(timing.AdmissionWait)
	defer late.Stop()
	for !f.r.stopping() {
		f.mu.Lock()
		returns := f.returns
		f.returns = nil
		by, rest := map[string][]*memberQueue{}, []*memberQueue(nil)
		for _, m := range f.pending {
			if tag := f.tagOf(m.base); f.admitting[tag] {
				rest = append(rest, m)
			} else {
				by[tag] = append(by[tag], m)
			}
		}
		f.pending = rest
		for tag, queues := range by {
			f.admitting[tag] = f.spawn(func() { f.admitQueues(tag, queues) })
		}
		done := len(f.admitting) == 0 || f.ring.Len() > 0 && time.Since(begun) >= timing.AdmissionWait
		f.mu.Unlock()
		if done {
			closeOnce(f.admitted)
		}
		f.putBack(returns)
		select {
		case <-f.admit:
		case <-late.C:
		case <-f.r.soft.Done():
		}
	}
}

// admitQueues admits queues of one hash tag to the ring. It repeats that for those whose
// dialect could not be read, until it is done or the worker stops.
func (f *groupFeed) admitQueues(tag string, queues []*memberQueue) {
	var outage timing.Backoff
	for len(queues) > 0 && !f.r.stopping() {
		var rest []*memberQueue
		var failed error
		for some := range slices.Chunk(queues, lookSize) {
			if failed != nil {
				rest = append(rest, some...)
				continue
			}
			var again []*memberQueue
			again, failed = f.admitSome(some)
			rest = append(rest, again...)
		}
		if failed == nil {
			break
		}
		f.h.reportFault(f.h.log, "", failed, "queues could not be added to the worker; retrying")
		timing.Sleep(f.r.soft, f.h.pauseAfter(failed, &outage))
		queues = rest
	}
	f.mu.Lock()
	delete(f.admitting, tag)
	f.mu.Unlock()
	rouse(f.admit)
}

// admitSome admits queues of one hash tag. Those whose dialect could not be read are returned.
func (f *groupFeed) admitSome(queues []*memberQueue) (rest []*memberQueue, failed error) {
	dialects, failed := f.dialects(queues)
	if dialects == nil {
		return queues, failed
	}
	f.mu.Lock()
	var admitted []*memberQueue
	for i, m := range queues {
		if !m.served || m.admitted {
			continue
		}
		if dialects[i] == Detect {
			rest = append(rest, m)
			continue
		}
		if m.group == nil || m.group.listener.released {
			m.group = f.groupOf(m, dialects[i])
		}
		m.admitted, m.mayStall = true, true // until a look has found that no job is active
		f.markers[m.marker] = m
		m.recent = m.group.listener.recent.PushBack(m)
		f.ring.Add(m, f.o.share(m))
		admitted = append(admitted, m)
	}
	f.mu.Unlock()
	if paused, _ := f.r.slots.paused(); !paused { // the resumption looks at all
		if err := f.lookAtQueues(f.r.soft, admitted, backend.Look{Claim: true}); err != nil && f.r.soft.Err() == nil {
			f.h.reportFault(f.h.log, "", err, "looking for jobs failed; retrying")
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
	return rest, failed
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

// dialects returns the dialect of each queue: Detect if it could not be read for now, with the
// error of one such queue.
func (f *groupFeed) dialects(queues []*memberQueue) (_ []Dialect, failed error) {
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
			failed = hint.Err
			continue
		}
		dialects[i] = V6
		if hint.Err == nil {
			dialects[i] = dialectOf(hint.Version, hint.Paused)
		}
	}
	return dialects, failed
}

func basesOf(queues []*memberQueue) []string {
	bases := make([]string, len(queues))
	for i, m := range queues {
		bases[i] = m.base
	}
	return bases
}

// tagOf returns the hash tag of the keys of a queue, or "" if the server is no cluster. There
// all queues can be in one call.
func (f *groupFeed) tagOf(base string) string {
	if !f.h.home.client.IsCluster() {
		return ""
	}
	return wire.HashTag(base)
}
