package bullmq

import (
	"container/list"
	"context"
	"sync/atomic"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
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
	group    *queueGroup // set once, with the first admission

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
	do := m.group.ends.Do
	if alone {
		do = m.group.ends.DoAlone
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
