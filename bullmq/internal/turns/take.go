package turns

import (
	"math"
	"time"
)

// leastListed is the minimum number of queues that a call lists, if there are as many. So a
// call for a single job finds one even if the first queues have no job.
const leastListed = 4

// Call is a call that fetches jobs from queues of a group.
type Call[K, G comparable] struct {
	Group G
	// Jobs is how many jobs the call may fetch.
	Jobs int
	// Quotas are the queues to fetch from, in this order, until the call has fetched Jobs
	// jobs. There are more quotas than needed, in case the first queues have fewer jobs than
	// their quotas.
	Quotas []Quota[K, G]
}

// Quota is how many jobs a call may fetch from one queue. Each quota must be settled, see
// [Turns.Settle].
type Quota[K, G comparable] struct {
	Queue K
	Jobs  int

	member         *member[K, G]
	arrivals, ends uint64 // as of the member when it was chosen
}

// Take chooses queues for n free slots. Until a quota is settled, its jobs count as started:
// against the bound of the queue, and for the turns.
//
// A queue gets at most a burst of the slots. If the last call fetched as many jobs from the
// queue as its quota allowed, the queue gets up to twice as many. Slots that this leaves free
// are for the next Take.
func (t *Turns[K, G]) Take(n int) []Call[K, G] {
	return t.TakeFrom(n, nil)
}

// TakeFrom is Take from the groups for which in returns true. A nil in stands for all.
func (t *Turns[K, G]) TakeFrom(n int, in func(G) bool) []Call[K, G] {
	if in != nil {
		defer t.setAside(in)()
	}
	var calls []Call[K, G]
	var aside []*member[K, G] // out of the heap until the end
	lowest := math.MaxInt     // no rank behind this one may be chosen
	for left := n; left > 0 && t.ready.size() > 0; {
		m := t.ready.first().ready.first()
		if m.rank.number > lowest {
			break
		}
		m.rank.now = max(m.rank.now, m.turn)
		jobs := min(left, m.restOfTurn(t.burst), m.room(), m.most(t.burst)-m.jobs)
		left -= jobs
		calls = t.choose(calls, m, jobs)
		calls[m.group.call-1].Jobs += jobs
		if m.room() > 0 && m.jobs < m.most(t.burst) {
			t.update(m)
			continue
		}
		if m.room() > 0 {
			lowest = min(lowest, m.rank.number)
		}
		t.leave(m)
		aside = append(aside, m)
	}
	for i := range calls {
		g := t.groups[calls[i].Group]
		for len(calls[i].Quotas) < max(n, leastListed) && g.ready.size() > 0 {
			m := g.ready.first()
			t.leave(m)
			aside = append(aside, m)
			if m.quota == 0 {
				calls = t.choose(calls, m, min(t.burst, m.room()))
			}
		}
		t.raise(calls[i])
	}
	for _, m := range aside {
		t.update(m)
	}
	for i := range calls {
		t.groups[calls[i].Group].call = 0
		for j := range calls[i].Quotas {
			m := calls[i].Quotas[j].member
			m.quota, m.jobs = 0, 0
		}
	}
	return calls
}

// setAside takes the groups for which in returns false out of the heap, until the
// returned function is called.
func (t *Turns[K, G]) setAside(in func(G) bool) (putBack func()) {
	var others []*group[K, G]
	for _, g := range t.ready.all {
		if !in(g.key) {
			others = append(others, g)
		}
	}
	for _, g := range others {
		t.ready.remove(g)
	}
	return func() {
		for _, g := range others {
			t.ready.push(g)
		}
	}
}

// choose adds jobs to the quota of a queue.
func (t *Turns[K, G]) choose(calls []Call[K, G], m *member[K, G], jobs int) []Call[K, G] {
	if m.group.call == 0 {
		calls = append(calls, Call[K, G]{Group: m.group.key})
		m.group.call = len(calls)
	}
	c := &calls[m.group.call-1]
	if m.quota == 0 {
		c.Quotas = append(c.Quotas, Quota[K, G]{Queue: m.key, member: m, arrivals: m.arrivals, ends: m.ends})
		m.quota = len(c.Quotas)
	}
	c.Quotas[m.quota-1].Jobs += jobs
	m.jobs += jobs
	m.reserved += jobs
	t.charge(m, jobs)
	return calls
}

// raise raises the quotas of queues that precede queues of a higher rank in the call. So the
// call comes to the queues of the higher rank only if no job of the others can start.
func (t *Turns[K, G]) raise(call Call[K, G]) {
	last := call.Quotas[len(call.Quotas)-1].member.rank
	for i := range call.Quotas {
		q := &call.Quotas[i]
		if q.member.rank == last {
			break
		}
		more := min(call.Jobs-q.Jobs, q.member.room())
		if more > 0 {
			q.Jobs += more
			q.member.reserved += more
			t.charge(q.member, more)
		}
	}
}

// restOfTurn returns how many more jobs of the queue start before the turn of another queue.
func (m *member[K, G]) restOfTurn(burst int) int {
	done := int(m.starts % int64(burst))
	if done < 0 {
		done += burst
	}
	return burst - done
}

// most returns how many jobs to ask the queue for in one call.
func (m *member[K, G]) most(burst int) int { return max(burst, m.hint) }

// Reason is why a call fetched no more jobs from a queue.
type Reason int

// The reasons.
const (
	// Unvisited means that the call ended before it came to the queue, or did not run.
	Unvisited Reason = iota
	// More means that the queue may have further jobs.
	More
	// Dry means that no further job was ready.
	Dry
	// Paused means that no job may start, because the queue is paused or at its global
	// concurrency.
	Paused
	// Limited means that the queue must not be fetched from for a time, because of its
	// rate limit or after an error.
	Limited
)

// End is how a visit of a queue ended.
type End struct {
	Reason Reason
	// Until is when a Limited queue may be fetched from again. For a Paused queue it is when
	// to try again if nothing is heard of the queue before.
	Until time.Time
}

// Settle records how many jobs a call has fetched for a quota. The rest of the quota no
// longer counts, so a queue that was not visited keeps its turn.
//
// If there was a new reason to fetch from the queue after Take, the queue stays ready even if
// the call found no job.
func (t *Turns[K, G]) Settle(q Quota[K, G], got int, end End) {
	m := q.member
	m.reserved -= q.Jobs
	m.running += got
	if m.listed < 0 {
		t.forget(m)
		return
	}
	t.charge(m, got-q.Jobs)
	if end.Reason != Unvisited {
		if got >= q.Jobs {
			m.hint = max(m.hint, 2*got)
		} else {
			m.hint = 0
		}
	}
	upToDate := m.arrivals == q.arrivals
	switch {
	case end.Reason == More:
		t.wake(m)
	case end.Reason == Limited:
		t.postpone(m, end.Until)
	case end.Reason == Dry && upToDate && m.state == Ready:
		m.state = Empty
	case end.Reason == Paused && upToDate && m.ends == q.ends && m.state == Ready:
		m.state, m.until = Blocked, end.Until
		t.timed.push(m)
	}
	t.update(m)
}

// Done records that a job of a queue has ended, so that another job may start. Done may be
// called before the end is sent to the server, if the call that sends the end also fetches
// afterwards.
func (t *Turns[K, G]) Done(k K) {
	m := t.members[k]
	if m == nil {
		return
	}
	full := m.room() <= 0
	m.running--
	if m.listed < 0 {
		t.forget(m)
		return
	}
	t.unblock(m)
	if full && m.state == Ready {
		t.renew(m)
		t.update(m)
	}
}

// Unblock records that the server has ended a job for which Done was called earlier. A call
// between Done and Unblock may have found the queue at its global concurrency.
func (t *Turns[K, G]) Unblock(k K) {
	if m := t.members[k]; m != nil && m.listed >= 0 {
		t.unblock(m)
	}
}

func (t *Turns[K, G]) unblock(m *member[K, G]) {
	m.ends++
	if m.state == Blocked {
		t.wake(m)
	}
}
