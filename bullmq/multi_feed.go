package bullmq

import (
	"context"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/batch"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/turns"
)

// groupFeed is the feed of a [MultiWorker]. Its ring knows which queues may have a job, and
// decides which one is next.
//
// Jobs are fetched in two ways. The calls that end jobs fetch others for the same slots, of
// any queue (multi_finish.go). The dispatcher fetches for the slots that are free (fetch, in
// this file). Three sources tell the ring that a queue may have a job: the listeners, which
// wait for the markers of the queues (multi_wait.go), the looks (multi_looks.go), and the
// replies to fetches.
type groupFeed struct {
	h         *host
	o         MultiWorkerOptions
	handler   Handler                    // of queues without one of their own; may be nil
	newWaiter func() backend.GroupWaiter // for a listener
	letters   *groupLetters              // nil without WorkerOptions.DeadLetters
	r         *runner                    // nil before start

	admit    chan struct{}  // signals that pending has queues
	admitted chan struct{}  // closed once the first queues are admitted
	enlist   chan struct{}  // signals that members has changed, for the registration
	lookNow  chan struct{}  // signals that lookAt has listeners
	work     sync.WaitGroup // goroutines that may fetch jobs or take wake-ups; added to while mu is held and ending is not set

	mu        sync.Mutex
	running   bool // fetch has begun
	ending    bool // fetch waits for work
	ring      *turns.Turns[*memberQueue, *queueGroup]
	members   map[string]*memberQueue // the served queues, by name
	leaving   map[string]*memberQueue // others of which jobs run
	markers   map[string]*memberQueue // the queues in the ring, by marker
	hot       map[*memberQueue]bool   // with a queueWorker
	tokens    map[string]*memberQueue // the queue of each job that runs, by the token of its lock
	nextRank  int
	pending   []*memberQueue  // to be admitted to the ring
	admitting map[string]bool // the hash tags of the queues that are being admitted
	listeners map[listenerKey]*listener
	groups    map[groupKey]*queueGroup
	former    backend.GroupWaiter // of a listener that was released; nil for none
	returns   []unusedWake        // wake-ups of removed queues

	placing   int // replies whose jobs are not in their slots yet
	held      int // slots that calls of the dispatcher and lost calls have reserved
	lost      []*lostFetch
	resolving bool // a goroutine resolves lost

	lookAt    map[*listener]time.Time // whose queues need a full look, and when
	glancedAt time.Time
}

// groupKey identifies a group.
type groupKey struct {
	listener *listener
	dialect  Dialect
}

// queueGroup is a set of queues that one call can concern: they are in one slot of a
// cluster, and have one dialect.
type queueGroup struct {
	f        *groupFeed
	listener *listener
	dialect  Dialect
	store    backend.Group
	finisher backend.Group // the same, over dedicated connections
	ends     *batch.Batcher[memberEnd, memberEnded]

	// Guarded by the mu of the feed.
	busy      bool // the dispatcher has a call in flight
	failing   bool // the last of these calls has failed; the next one reserves one slot
	lost      int  // calls whose replies were lost; no other call fetches before they are resolved
	outage    timing.Backoff
	until     time.Time // the dispatcher makes no call before
	glancing  bool      // a quick look is in flight
	lookAgain bool      // a full look was requested while one was in flight
}

func newGroupFeed(h *host, o MultiWorkerOptions, handler Handler) *groupFeed {
	return &groupFeed{
		h: h, o: o, handler: handler, newWaiter: h.home.groupWaiters(h.home.keys.clientName(h.nameSuffix())),
		admit: make(chan struct{}, 1), admitted: make(chan struct{}), enlist: make(chan struct{}, 1), lookNow: make(chan struct{}, 1),
		ring:    turns.New[*memberQueue, *queueGroup](o.Burst),
		members: map[string]*memberQueue{}, leaving: map[string]*memberQueue{}, markers: map[string]*memberQueue{},
		hot: map[*memberQueue]bool{}, tokens: map[string]*memberQueue{},
		listeners: map[listenerKey]*listener{}, groups: map[groupKey]*queueGroup{}, lookAt: map[*listener]time.Time{},
		admitting: map[string]bool{},
	}
}

// start implements feed.
func (f *groupFeed) start(r *runner) { f.r = r }

// markDirty implements feed. It is called when the worker is paused or resumed and when its
// concurrency changes, which signal handles.
func (f *groupFeed) markDirty() {}

// signal implements feed. It ends the waits if no job may be fetched.
func (f *groupFeed) signal() {
	if f.r.slots.open() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.listeners {
		l.interrupt()
	}
}

// interrupt implements feed.
func (f *groupFeed) interrupt() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.listeners {
		l.interrupt()
	}
}

// close implements feed.
func (f *groupFeed) close() {
	f.mu.Lock()
	waiters := make([]backend.GroupWaiter, 0, len(f.listeners)+1)
	for _, l := range f.listeners {
		waiters = append(waiters, l.waiter)
	}
	if f.former != nil {
		waiters = append(waiters, f.former)
	}
	f.mu.Unlock()
	var all sync.WaitGroup
	for _, waiter := range waiters {
		all.Go(waiter.Close) // several listeners may share a connection, which may be closed again
	}
	all.Wait()
}

// wake makes fetch check its conditions again.
func (f *groupFeed) wake() {
	if f.r == nil {
		return
	}
	rouse(f.r.wake)
}

// rouse signals a channel with room for one signal.
func rouse(signal chan struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

// spawn runs a function that fetch waits for at the end. The caller holds mu. It returns
// false if fetch has ended.
func (f *groupFeed) spawn(run func()) bool {
	if f.ending || !f.running {
		return false
	}
	f.work.Go(run)
	return true
}

// fetch implements feed. It is the dispatcher: it fetches jobs for free slots from the
// queues whose turn it is, until the worker stops.
func (f *groupFeed) fetch() (stopped bool) {
	f.mu.Lock()
	f.running = true
	f.work.Go(f.admitPending)
	f.work.Go(f.look)
	f.mu.Unlock()
	paused := false
	for !f.r.stopping() {
		if now, _ := f.r.slots.paused(); now {
			paused = true
			f.mu.Lock()
			f.resolveLost()
			f.mu.Unlock()
			f.returnWakeUps()
			f.r.await(0)
			continue
		}
		if paused {
			paused = false
			f.lookSoon(nil)
		}
		f.r.await(f.dispatch())
	}
	f.mu.Lock()
	f.resolveLost()
	f.ending = true
	f.mu.Unlock()
	f.interrupt()
	f.work.Wait()
	f.resolveLast()
	f.returnWakeUps()
	return true
}

// dispatch begins a call for each group from which jobs can be fetched. It returns after
// which time it must be called again; 0 if that is not known.
func (f *groupFeed) dispatch() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	wait, expected := f.ring.Advance(now, f.h.home.now())
	retryAt := func(at time.Time) {
		if left := at.Sub(now); !expected || left < wait {
			wait, expected = left, true
		}
	}
	f.resolveLost()
	if n := f.r.slots.reserveFree(f.o.Worker.BatchSize, f.held); n > 0 {
		free := n
		take := func(most int, failing bool) bool {
			calls := f.ring.TakeFrom(min(n, most), func(g *queueGroup) bool {
				if g.until.After(now) {
					retryAt(g.until)
					return false
				}
				return !g.busy && g.lost == 0 && g.failing == failing
			})
			for _, call := range calls {
				n -= call.Jobs
				f.held += call.Jobs
				call.Group.busy = true
				fetch := f.prepare(call)
				f.work.Go(func() { call.Group.fetch(fetch) })
			}
			return len(calls) > 0
		}
		for n > 0 && take(f.share(), false) {
		}
		for n > 0 && take(1, true) {
		}
		if n < free {
			f.glance(now)
		}
		for range n {
			f.r.slots.settle(false)
		}
	}
	f.letWait()
	if !expected {
		return 0
	}
	return max(wait, time.Nanosecond)
}

// share returns how many slots a call of the dispatcher may reserve. On a cluster with several
// groups it is a part of the slots, so that a call to a node that does not reply leaves slots for
// the queues of the other nodes. The caller holds mu.
func (f *groupFeed) share() int {
	if len(f.groups) < 2 || !f.h.home.client.IsCluster() {
		return f.o.Worker.BatchSize
	}
	return max(1, f.h.Concurrency()/len(f.groups))
}

// letWait wakes the listeners that may wait. The caller holds mu.
func (f *groupFeed) letWait() {
	for _, l := range f.listeners {
		if l.mayWait() {
			rouse(l.wake)
		}
	}
}

// fetch makes a call of the dispatcher, and runs the jobs that it returns.
func (g *queueGroup) fetch(fetch *groupFetch) {
	f := g.f
	begun := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), timing.CallTimeout)
	served, err := g.store.ServeQueues(ctx, f.request(nil, fetch))()
	cancel()
	result := f.settle(fetch, served, err)
	for _, next := range result.jobs {
		f.run(next, begun)
	}
	for range fetch.Jobs - len(result.jobs) - result.lost {
		f.r.slots.settle(false)
	}
	f.mu.Lock()
	f.placing--
	f.letWait()
	f.held -= fetch.Jobs - result.lost
	g.busy, g.failing = false, err != nil
	if err == nil {
		g.outage.Succeeded()
	} else {
		g.until = time.Now().Add(f.h.pauseAfter(err, &g.outage))
	}
	f.mu.Unlock()
	if err != nil {
		f.h.reportFault(f.h.log, "", err, "fetching jobs failed; retrying")
	}
	f.signal()
	f.wake()
	f.report(result)
	f.emitDrained(result.drained)
}

// settled is the result of a call that fetched jobs.
type settled struct {
	jobs    []found
	lost    int            // tokens whose jobs are not known
	drained []*memberQueue // in which no job is ready any more, so that EventDrained is due
	faults  []queueFault
}

type queueFault struct {
	m   *memberQueue
	err error
}

// settle records the reply to a call that fetched jobs. When these jobs are in their slots, the
// caller subtracts 1 from placing and calls letWait. A wait that began before would be ended
// at once if no slot is left.
func (f *groupFeed) settle(fetch *groupFetch, served backend.Served, err error) (result settled) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.placing++
	if mayHaveRun(err) {
		f.lose(&lostFetch{group: fetch.Group, quotas: fetch.Quotas, tokens: fetch.tokens, whole: true})
		return settled{lost: len(fetch.tokens)}
	}
	now := time.Now()
	for i, quota := range fetch.Quotas {
		m := quota.Queue
		if i >= len(served.Takes) {
			f.ring.Settle(quota, 0, turns.End{})
			f.changed(m)
			continue
		}
		taken := served.Takes[i]
		m.popped = false
		if taken.Err != nil {
			f.lose(&lostFetch{group: fetch.Group, quotas: fetch.Quotas[i : i+1], tokens: taken.Tokens})
			f.ring.Postpone(m, now.Add(m.outage.Next()))
			result.lost += len(taken.Tokens)
			result.faults = append(result.faults, queueFault{m, taken.Err})
			continue
		}
		m.outage.Succeeded()
		f.ring.Settle(quota, len(taken.Jobs), f.endOf(m, taken, now))
		if taken.Dry {
			f.setDue(m, taken.NextDue, m.dues == fetch.dues[i])
		}
		for _, job := range taken.Jobs {
			result.jobs = append(result.jobs, f.adopt(m, job.Job, job.Hint, job.Token))
		}
		if taken.Dry && len(taken.Jobs) == 0 && !m.emittedDrained {
			m.emittedDrained = true
			result.drained = append(result.drained, m)
		}
		f.changed(m)
	}
	return result
}

// endOf returns how the visit of a queue ended. The caller holds mu.
func (f *groupFeed) endOf(m *memberQueue, taken backend.Taken, now time.Time) turns.End {
	switch {
	case taken.Dry:
		return turns.End{Reason: turns.Dry}
	case taken.LimitedFor > 0:
		return turns.End{Reason: turns.Limited, Until: m.untilLimited(taken.LimitedFor)}
	case len(taken.Jobs) == 0:
		m.blockedAt = now
		return turns.End{Reason: turns.Paused, Until: now.Add(f.o.Worker.DrainDelay)}
	}
	return turns.End{Reason: turns.More}
}

// setDue records when the first delayed job of a queue is due; zero for none. current
// reports whether no other time was heard of since that was read. The caller holds mu.
func (f *groupFeed) setDue(m *memberQueue, due time.Time, current bool) {
	if current {
		f.ring.Due(m, time.Time{})
	}
	if !due.IsZero() {
		f.ring.Due(m, due)
	}
}

// adopt records that a job runs. The caller holds mu.
func (f *groupFeed) adopt(m *memberQueue, job *backend.JobRecord, hint backend.Hint, token string) found {
	w := m.working()
	m.running++
	m.usedAt, m.emittedDrained = time.Now(), false
	m.group.listener.use(m)
	f.tokens[token] = m
	if !m.served {
		f.leaving[m.name] = m
	}
	return found{Fetched: backend.Fetched{Job: job, Hint: hint}, w: w, token: token, looked: true}
}

// done records that a job has ended, unless that is recorded already. The caller holds mu.
func (f *groupFeed) done(token string) {
	m := f.tokens[token]
	if m == nil {
		return
	}
	delete(f.tokens, token)
	m.running--
	m.usedAt = time.Now()
	f.ring.Done(m)
	f.changed(m)
	if !m.served && m.running == 0 && f.leaving[m.name] == m {
		delete(f.leaving, m.name)
		f.release(m.group.listener)
	}
}

// changed makes the listener include a queue in its wait, if it should and does not. The
// caller holds mu.
func (f *groupFeed) changed(m *memberQueue) {
	if m.admitted && f.ring.State(m).Waits() {
		m.group.listener.include(m)
	}
}

// report logs the errors of single queues.
func (f *groupFeed) report(result settled) {
	for _, fault := range result.faults {
		f.h.reportFault(f.h.home.log.With(logQueue, fault.m.name), fault.m.name, fault.err, "fetching a job failed; retrying")
	}
}

// emitDrained emits EventDrained for each of some queues.
func (f *groupFeed) emitDrained(queues []*memberQueue) {
	for _, m := range queues {
		f.h.emit(WorkerEvent{Type: EventDrained, QueueName: m.name})
	}
}

// run runs a job in a slot that is reserved.
func (f *groupFeed) run(next found, lockedAt time.Time) {
	f.r.slots.settle(true)
	go f.r.slot(next.handOver(lockedAt))
}
