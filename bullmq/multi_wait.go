package bullmq

import (
	"container/list"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// listenerKey identifies a listener: by the connection, and on a cluster by the hash tag.
type listenerKey struct {
	home *core
	tag  string
}

// listener waits for the markers of the queues that one blocking command can wait for: those
// in one slot of a cluster, or all queues of another server.
//
// It waits while a job may be fetched and no queue is ready. Whoever takes a marker must
// fetch soon, since no other worker is woken by it. The wait includes the queues that are
// empty or blocked.
//
// The server does work for each marker when a wait begins and when it ends. So a wait for
// many queues is cheap only if it lasts. If waits for more than hotQueues queues end often,
// the listener waits for the recently used queues only, and makes quick looks at the others.
type listener struct {
	f      *groupFeed
	key    listenerKey
	home   *core
	waiter backend.GroupWaiter
	wake   chan struct{} // signals that the conditions of the wait have changed
	lively chan struct{} // signals that a partial wait has begun

	// Guarded by the mu of the feed.
	groups      []*queueGroup
	released    bool // it has no queues any more, and its goroutines end
	waiting     bool
	waitedAt    time.Time    // when the last wait ended
	turn        int          // counts the waits
	interrupted int          // the last one that was interrupted
	last        *memberQueue // that was woken; the next wait begins with the queue behind it

	recent     *list.List    // the queues in the ring, the most recently used one first
	spent      time.Duration // of the server by recent waits, less than it may
	spentAt    time.Time     // when spent was computed
	livelyTill time.Time     // waits are for the recently used queues until then
	partial    bool          // the wait is one of those

	lookedAt time.Time     // when the last full look ended
	lookTook time.Duration // how long that look took
}

const (
	// hotQueues is how many queues a wait may include however often waits end.
	hotQueues = 256
	// waitPerKey is what a wait costs the server for each queue.
	waitPerKey = 1200 * time.Nanosecond
	// waitShare is the part of the server's time that waits for more queues may take.
	waitShare = 0.05
	// livelyFor is how long waits are for the recently used queues once others cost too much.
	livelyFor = time.Second
)

// listenerOf returns the listener of a queue, and begins it if it is new. The caller holds
// mu.
func (f *groupFeed) listenerOf(base string) *listener {
	key := listenerKey{f.h.home, f.tagOf(base)}
	l := f.listeners[key]
	if l == nil {
		l = &listener{f: f, key: key, home: key.home, wake: make(chan struct{}, 1), lively: make(chan struct{}, 1), recent: list.New()}
		l.waiter = f.newWaiter()
		f.listeners[key] = l
		f.spawn(l.run)
		f.spawn(l.glanceAtOthers)
	}
	return l
}

// release ends a listener of a cluster that has no queues and no running jobs any more. Calls in
// flight about its former queues can still use it. The caller holds mu.
func (f *groupFeed) release(l *listener) {
	if l.key.tag == "" || l.released || l.recent.Len() > 0 {
		return
	}
	for _, m := range f.leaving {
		if m.group.listener == l {
			return
		}
	}
	l.released = true
	delete(f.listeners, l.key)
	delete(f.lookAt, l)
	for _, g := range l.groups {
		delete(f.groups, groupKey{l, g.dialect})
	}
	f.former = l.waiter // all share a connection, which close closes
	l.interrupt()
	rouse(l.wake)
	rouse(l.lively)
}

// isReleased reports whether the goroutines of the listener end.
func (l *listener) isReleased() bool {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	return l.released
}

// use records that a queue is in use. The caller holds the mu of the feed.
func (l *listener) use(m *memberQueue) {
	if m.recent != nil {
		l.recent.MoveToFront(m.recent)
	}
}

// run waits for markers until the worker stops.
func (l *listener) run() {
	f := l.f
	var outage timing.Backoff
	for !f.r.stopping() && !l.isReleased() {
		// The wait begins before the conditions are checked, so that a change in between
		// interrupts it.
		l.waiter.Begin()
		markers, block := l.begin()
		if len(markers) == 0 {
			l.waiter.End()
			select {
			case <-l.wake:
			case <-f.r.soft.Done():
			}
			continue
		}
		woken := l.waiter.Wait(block, markers)
		l.waiter.End()
		unused := l.apply(woken)
		switch {
		case errors.Is(woken.Err, backend.ErrNoConnection):
			timing.Sleep(f.r.soft, min(timing.PollInterval, f.o.Worker.DrainDelay))
			l.poll()
		case woken.Err != nil:
			f.h.reportFault(f.h.log, "", woken.Err, "waiting for jobs failed; retrying")
			timing.Sleep(f.r.soft, f.h.pauseAfter(woken.Err, &outage))
			f.lookSoon(l) // a marker may have been lost
		default:
			if unused {
				f.giveBack(l, []backend.GroupWake{woken})
			}
			if woken.Cut {
				f.lookAfterCut(l)
			}
			outage.Succeeded()
		}
	}
}

// begin returns the markers to wait for, and how long, or none if the listener must not wait
// now.
func (l *listener) begin() (markers []string, block time.Duration) {
	f := l.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.r.stopping() || !l.mayWait() {
		return nil, 0
	}
	l.turn++
	block = f.o.Worker.DrainDelay
	count := l.count()
	if l.partial = count > hotQueues && !l.afford(time.Duration(count)*waitPerKey); l.partial {
		markers = l.mostRecent()
		l.partial = len(markers) == hotQueues // with fewer, there are no others
	}
	if l.partial {
		block = min(block, time.Until(l.livelyTill))
		rouse(l.lively)
	} else {
		markers = l.all()
	}
	l.waiting = len(markers) > 0
	return markers, block
}

// count returns the number of queues to wait for, or a higher one: that of all its queues. The
// caller holds the mu of the feed.
func (l *listener) count() (n int) {
	if l.recent.Len() <= hotQueues || time.Now().Before(l.livelyTill) {
		return l.recent.Len()
	}
	for m, state := range l.f.ring.States() {
		if m.group.listener == l && state.Waits() {
			n++
		}
	}
	return n
}

// all returns the markers of all queues to wait for. It begins behind the queue that was
// woken last, because the server takes the first marker that is set. The caller holds the mu
// of the feed.
func (l *listener) all() []string {
	var markers []string
	from := 0
	for m, state := range l.f.ring.States() {
		if m.group.listener != l {
			continue
		}
		if state.Waits() {
			m.waitedIn = l.turn
			markers = append(markers, m.marker)
		}
		if m == l.last {
			from = len(markers)
		}
	}
	return append(slices.Clone(markers[from:]), markers[:from]...)
}

// mostRecent returns the markers of the queues to wait for that were used last. The others
// are left to glanceAtOthers. The caller holds the mu of the feed.
func (l *listener) mostRecent() (markers []string) {
	var queues []*memberQueue
	for e := l.recent.Front(); e != nil && len(queues) < hotQueues; e = e.Next() {
		if m := e.Value.(*memberQueue); l.f.ring.State(m).Waits() {
			queues = append(queues, m)
		}
	}
	if len(queues) == 0 {
		return nil
	}
	for _, m := range queues {
		m.waitedIn = l.turn
		markers = append(markers, m.marker)
	}
	return markers
}

// afford reports whether the server can be asked for a wait for many queues, which costs it
// some time. The caller holds the mu of the feed.
func (l *listener) afford(cost time.Duration) bool {
	now := time.Now()
	l.spent = max(0, l.spent-time.Duration(waitShare*float64(now.Sub(l.spentAt))))
	l.spentAt = now
	if now.Before(l.livelyTill) {
		return false
	}
	if l.spent += cost; l.spent > time.Duration(waitShare*float64(livelyFor)) {
		l.spent -= cost
		l.livelyTill = now.Add(livelyFor)
		return false
	}
	return true
}

// glanceAtOthers makes quick looks at the queues that a partial wait does not include, until
// the worker stops. It claims the times of delayed jobs, since their markers would stay.
func (l *listener) glanceAtOthers() {
	f := l.f
	var next time.Time
	for {
		select {
		case <-l.lively:
		case <-f.r.soft.Done():
			return
		}
		if l.isReleased() {
			return
		}
		for {
			timing.Sleep(f.r.soft, time.Until(next))
			queues := l.others()
			if queues == nil {
				break
			}
			err := f.lookAtQueues(f.r.soft, queues, backend.Look{Quick: true, Claim: true})
			if err != nil && !f.r.stopping() {
				f.h.log.Debug("a look for jobs failed; a full one follows", logError, err)
				f.lookSoon(l) // it may have claimed the time of a delayed job
			}
			next = time.Now().Add(glancePause(len(queues)))
		}
	}
}

// others returns the queues to look at beside a partial wait, or nil if there is no such
// wait.
func (l *listener) others() (queues []*memberQueue) {
	f := l.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if !l.waiting || !l.partial || f.r.stopping() {
		return nil
	}
	queues = []*memberQueue{}
	for m, state := range f.ring.States() {
		if m.group.listener == l && state.Waits() && m.waitedIn != l.turn {
			queues = append(queues, m)
		}
	}
	return queues
}

// mayWait reports whether a job may be fetched, and no queue is ready. The caller holds the
// mu of the feed.
func (l *listener) mayWait() bool {
	if l.waiting || l.released || l.f.placing > 0 || !l.f.r.slots.open() {
		return false
	}
	return !slices.ContainsFunc(l.groups, func(g *queueGroup) bool { return l.f.ring.ReadyIn(g) })
}

// apply records the result of a wait. It reports whether the wake-up is not used.
func (l *listener) apply(woken backend.GroupWake) (unused bool) {
	f := l.f
	f.mu.Lock()
	defer f.mu.Unlock()
	l.waiting, l.waitedAt = false, time.Now()
	if !woken.Woken {
		return false
	}
	m := f.markers[woken.Marker]
	if m == nil || f.r.stopping() || !f.r.slots.open() {
		return true
	}
	l.last = m
	l.use(m)
	if woken.NextDue.IsZero() {
		m.popped = true
		f.ring.Ready(m)
	} else {
		m.dues++
		f.ring.Due(m, woken.NextDue)
	}
	f.wake()
	return false
}

// include makes the wait include a queue. The caller holds the mu of the feed.
func (l *listener) include(m *memberQueue) {
	switch {
	case l.mayWait():
		rouse(l.wake)
	case l.waiting && m.waitedIn != l.turn && !l.partial:
		l.interrupt()
	}
}

// interrupt ends the wait, if there is one. The caller holds the mu of the feed.
func (l *listener) interrupt() {
	if l.waiting && l.interrupted != l.turn {
		l.interrupted = l.turn
		go l.waiter.Interrupt()
	}
}

// unusedWake is a wake-up to put back.
type unusedWake struct {
	l    *listener
	wake backend.GroupWake
}

// wakeUps returns the wake-ups of a queue that were taken and not used, and forgets them. The
// caller holds mu.
func (f *groupFeed) wakeUps(m *memberQueue) (wakes []unusedWake) {
	if m.popped {
		m.popped = false
		wakes = append(wakes, unusedWake{m.group.listener, backend.GroupWake{Wake: backend.Wake{Woken: true}, Marker: m.marker, Member: "0"}})
	}
	if due := f.ring.NextDue(m); !due.IsZero() {
		f.ring.Due(m, time.Time{})
		wakes = append(wakes, unusedWake{m.group.listener, dueWake(m, due)})
	}
	return wakes
}

// dueWake returns the wake-up with the time of the first delayed job.
func dueWake(m *memberQueue, due time.Time) backend.GroupWake {
	return backend.GroupWake{Wake: backend.Wake{Woken: true}, Marker: m.marker, Member: "1", Score: float64(due.UnixMilli())}
}

// returnWakeUps puts back all wake-ups that were taken and not used, before the worker
// pauses or stops. Other workers may not know when the first delayed job of a queue is due.
func (f *groupFeed) returnWakeUps() {
	f.mu.Lock()
	all := f.returns
	f.returns = nil
	for m := range f.ring.States() {
		all = append(all, f.wakeUps(m)...)
	}
	f.mu.Unlock()
	f.putBack(all)
}

// putBack puts back wake-ups.
func (f *groupFeed) putBack(all []unusedWake) {
	by := map[*listener][]backend.GroupWake{}
	for _, one := range all {
		by[one.l] = append(by[one.l], one.wake)
	}
	var calls sync.WaitGroup
	for l, wakes := range by { // a node of a cluster may not reply
		calls.Go(func() { f.giveBack(l, wakes) })
	}
	calls.Wait()
}

// giveBack puts back wake-ups of the queues of a listener, for other workers.
func (f *groupFeed) giveBack(l *listener, wakes []backend.GroupWake) {
	for some := range slices.Chunk(wakes, 1000) {
		if err := l.waiter.Return(some...); err != nil {
			f.h.log.Warn("markers could not be written back; idle workers fetch again after their DrainDelay at the latest", logError, err)
			return
		}
	}
}

// poll looks for wake-ups in place of a wait, while there is no connection for it.
func (l *listener) poll() {
	f := l.f
	f.mu.Lock()
	var queues []*memberQueue
	for m, state := range f.ring.States() {
		if m.group.listener == l && state.Waits() {
			queues = append(queues, m)
		}
	}
	f.mu.Unlock()
	if err := f.lookAtQueues(f.r.soft, queues, backend.Look{Quick: true, Claim: true}); err != nil && !f.r.stopping() {
		f.h.reportFault(f.h.log, "", err, "looking for jobs failed; retrying")
		f.lookSoon(l) // it may have claimed the time of a delayed job
	}
}
