// Package turns decides from which of many queues a worker fetches next.
//
// Queues that may have a job take turns, by start-time fair queuing. Each queue has a virtual
// time. Each job that starts advances the virtual time of its queue by 1/weight. The queue
// with the least virtual time is next. A queue that becomes ready again starts at the virtual
// time of the other queues, so it can't make up for turns that it did not use. A queue of a
// lower rank always comes before a queue of a higher rank.
//
// The package uses neither Redis nor a clock. Its callers report the results of their calls
// and pass the time as an argument.
package turns

import (
	"iter"
	"math"
	"time"
)

// Turns is a set of queues that share the slots of a worker. K identifies a queue, and G
// a group of queues from which one call can fetch. It is not safe for concurrent use.
type Turns[K, G comparable] struct {
	burst   int
	members map[K]*member[K, G]
	listed  []*member[K, G]     // all members that were not removed
	added   uint64              // number of queues added so far
	ranks   map[int]*rank       // by number
	groups  map[G]*group[K, G]  // groups that have members
	ready   heap[*group[K, G]]  // groups with a queue to choose, the next one first
	timed   heap[*member[K, G]] // blocked and postponed queues, by the time when that state ends
	delayed heap[*member[K, G]] // queues with a delayed job, by the time when the job is due
}

// Share is how a queue shares the slots with the others.
type Share[G comparable] struct {
	// Weight is the share of the starts that the queue gets while others have jobs too.
	// Defaults to 1.
	Weight int
	// Rank puts the queue behind those of a lower rank, whatever their weights.
	Rank int
	// Bound is how many jobs of the queue may run at the same time.
	// Defaults to no bound.
	Bound int
	// Group is the group of the queue. A call fetches from queues of one group.
	Group G
}

// State is what is known of a queue.
type State int

// The states.
const (
	// Absent means that the queue is not in the set.
	Absent State = iota
	// Empty means that no job was ready when the queue was last fetched from.
	Empty
	// Ready means that there may be a job.
	Ready
	// Full means that as many jobs run as the bound of the queue allows.
	Full
	// Blocked means that no job may start, because the queue is paused or at its global
	// concurrency.
	Blocked
	// Postponed means that the queue must not be fetched from before a time.
	Postponed
)

// Waits reports whether a worker should wait for a wake-up of a queue in this state.
func (s State) Waits() bool { return s == Empty || s == Blocked }

// member is a queue of the set. Its virtual time is base + starts/weight.
type member[K, G comparable] struct {
	key    K
	age    uint64 // orders queues with the same virtual time
	share  Share[G]
	rank   *rank
	group  *group[K, G]
	state  State // never Full: shown derives Full from the numbers below
	listed int   // index in Turns.listed, or -1 for a queue that was removed

	running, reserved int
	hint              int // number of jobs to ask for, if that is more than a burst

	base   float64
	starts int64
	turn   float64 // virtual time at which the queue's turn began
	floor  float64 // least virtual time since the queue became ready

	arrivals, ends uint64 // counters; a reply is out of date if they changed while it was in flight

	until time.Time // end of the state, if Blocked or Postponed
	due   time.Time // of the first delayed job; zero for none

	inReady, inTimed, inDelayed int // places in the heaps, -1 if not there

	quota, jobs int // during Take: index+1 in the quotas of its call, and the jobs so far
}

// rank is the queues of one rank. Its virtual time, now, is that of the queue chosen last.
type rank struct {
	number  int
	now     float64
	members int
}

type group[K, G comparable] struct {
	key     G
	members int
	ready   heap[*member[K, G]] // queues to choose, the next one first
	inReady int                 // place in Turns.ready, -1 if not there
	call    int                 // during Take: index+1 of its call
}

// New returns an empty set. burst is how many jobs of a queue start in one turn while other
// queues have jobs too. It is at least 1.
func New[K, G comparable](burst int) *Turns[K, G] {
	return &Turns[K, G]{
		burst:   max(1, burst),
		members: map[K]*member[K, G]{},
		ranks:   map[int]*rank{},
		groups:  map[G]*group[K, G]{},
		ready: heap[*group[K, G]]{
			before: func(a, b *group[K, G]) bool { return comesBefore(a.ready.first(), b.ready.first()) },
			place:  func(g *group[K, G]) *int { return &g.inReady },
		},
		timed: heap[*member[K, G]]{
			before: func(a, b *member[K, G]) bool { return a.until.Before(b.until) },
			place:  func(m *member[K, G]) *int { return &m.inTimed },
		},
		delayed: heap[*member[K, G]]{
			before: func(a, b *member[K, G]) bool { return a.due.Before(b.due) },
			place:  func(m *member[K, G]) *int { return &m.inDelayed },
		},
	}
}

// comesBefore reports whether the turn of a comes before the turn of b.
func comesBefore[K, G comparable](a, b *member[K, G]) bool {
	if a.rank != b.rank {
		return a.rank.number < b.rank.number
	}
	if a.turn != b.turn {
		return a.turn < b.turn
	}
	return a.age < b.age
}

// Add adds a queue, which is empty until Ready is called. If the queue is in the set
// already, Add changes its share. If a queue was removed and is added again, jobs that still
// run count against its bound.
func (t *Turns[K, G]) Add(k K, share Share[G]) {
	share.Weight = max(1, share.Weight)
	m := t.members[k]
	if m == nil {
		m = &member[K, G]{key: k, inReady: -1, inTimed: -1, inDelayed: -1, listed: -1}
		t.members[k] = m
	}
	if m.listed < 0 {
		t.added++
		m.age, m.state, m.listed = t.added, Empty, len(t.listed)
		m.base, m.starts, m.hint = 0, 0, 0
		t.listed = append(t.listed, m)
	} else {
		t.leave(m)
		m.base, m.starts = m.virtual(), 0
	}
	formerRank, formerGroup := m.rank, m.group
	m.share = share
	t.join(m)
	if formerRank != nil {
		if formerRank != m.rank {
			m.base = 0 // each rank has a virtual time of its own
		}
		t.quit(formerRank, formerGroup)
	}
	t.renew(m)
	t.update(m)
}

// join adds a queue to its rank and its group.
func (t *Turns[K, G]) join(m *member[K, G]) {
	m.rank = t.ranks[m.share.Rank]
	if m.rank == nil {
		m.rank = &rank{number: m.share.Rank}
		t.ranks[m.share.Rank] = m.rank
	}
	m.rank.members++
	m.group = t.groups[m.share.Group]
	if m.group == nil {
		m.group = &group[K, G]{key: m.share.Group, inReady: -1}
		m.group.ready = heap[*member[K, G]]{before: comesBefore[K, G], place: func(m *member[K, G]) *int { return &m.inReady }}
		t.groups[m.share.Group] = m.group
	}
	m.group.members++
}

// quit undoes join.
func (t *Turns[K, G]) quit(r *rank, g *group[K, G]) {
	if r.members--; r.members == 0 {
		delete(t.ranks, r.number)
	}
	if g.members--; g.members == 0 {
		delete(t.groups, g.key)
	}
}

// Remove removes a queue. The caller may still settle quotas of the queue, and report the end
// of its jobs.
func (t *Turns[K, G]) Remove(k K) {
	m := t.members[k]
	if m == nil || m.listed < 0 {
		return
	}
	t.leave(m)
	t.quit(m.rank, m.group)
	m.rank, m.group = nil, nil
	t.timed.remove(m)
	t.delayed.remove(m)
	m.due = time.Time{}
	last := t.listed[len(t.listed)-1]
	t.listed[m.listed], last.listed = last, m.listed
	t.listed[len(t.listed)-1] = nil
	t.listed = t.listed[:len(t.listed)-1]
	m.listed = -1
	t.forget(m)
}

// forget deletes the record of a removed queue, if none of its jobs and quotas is in flight.
func (t *Turns[K, G]) forget(m *member[K, G]) {
	if m.listed < 0 && m.running == 0 && m.reserved == 0 {
		delete(t.members, m.key)
	}
}

// Ready records that a queue may have a job. It has no effect while the queue is
// postponed.
func (t *Turns[K, G]) Ready(k K) {
	if m := t.members[k]; m != nil && m.listed >= 0 {
		t.wake(m)
	}
}

// wake makes a queue ready, unless it is postponed.
func (t *Turns[K, G]) wake(m *member[K, G]) {
	m.arrivals++
	if m.state != Empty && m.state != Blocked {
		return
	}
	t.timed.remove(m)
	m.state = Ready
	t.renew(m)
	t.update(m)
}

// State returns what is known of a queue.
func (t *Turns[K, G]) State(k K) State {
	m := t.members[k]
	if m == nil || m.listed < 0 {
		return Absent
	}
	return m.shown()
}

// States returns all queues with their states. The order stays the same while no queue
// is removed.
func (t *Turns[K, G]) States() iter.Seq2[K, State] {
	return func(yield func(K, State) bool) {
		for _, m := range t.listed {
			if !yield(m.key, m.shown()) {
				return
			}
		}
	}
}

// AnyReady reports whether Take would return a call.
func (t *Turns[K, G]) AnyReady() bool { return t.ready.size() > 0 }

// ReadyIn reports whether there is a queue of a group to choose.
func (t *Turns[K, G]) ReadyIn(g G) bool {
	of := t.groups[g]
	return of != nil && of.ready.size() > 0
}

// Len returns the number of queues.
func (t *Turns[K, G]) Len() int { return len(t.listed) }

func (m *member[K, G]) shown() State {
	if m.state != Postponed && m.room() <= 0 {
		return Full
	}
	return m.state
}

// room returns how many further jobs the bound of the queue allows.
func (m *member[K, G]) room() int {
	if m.share.Bound <= 0 {
		return math.MaxInt
	}
	return m.share.Bound - m.running - m.reserved
}

// virtual returns the virtual time of the queue.
func (m *member[K, G]) virtual() float64 {
	return m.base + float64(m.starts)/float64(m.share.Weight)
}

// renew sets the virtual time of a queue that becomes ready to that of its rank, unless the
// queue is ahead of its rank.
func (t *Turns[K, G]) renew(m *member[K, G]) {
	m.floor = m.rank.now
	t.charge(m, 0)
}

// charge advances the virtual time of a queue by a number of starts. A negative number takes
// back starts that did not happen. The queue keeps its turn for a whole burst.
func (t *Turns[K, G]) charge(m *member[K, G], starts int) {
	m.starts += int64(starts)
	if m.virtual() < m.floor {
		m.base, m.starts = m.floor, 0
	}
	burst := int64(t.burst)
	bursts := m.starts / burst
	if m.starts%burst < 0 {
		bursts--
	}
	m.turn = m.base + float64(bursts*burst)/float64(m.share.Weight)
}

// update is called after a change. It adds a queue to the queues to choose from, or takes it
// out.
func (t *Turns[K, G]) update(m *member[K, G]) {
	if m.listed < 0 || m.state != Ready || m.room() <= 0 {
		t.leave(m)
		return
	}
	g := m.group
	if m.inReady < 0 {
		g.ready.push(m)
	} else {
		g.ready.fix(m)
	}
	if g.inReady < 0 {
		t.ready.push(g)
	} else {
		t.ready.fix(g)
	}
}

// leave takes a queue out of the queues to choose from.
func (t *Turns[K, G]) leave(m *member[K, G]) {
	if m.inReady < 0 {
		return
	}
	g := m.group
	g.ready.remove(m)
	if g.ready.size() == 0 {
		t.ready.remove(g)
	} else {
		t.ready.fix(g)
	}
}
