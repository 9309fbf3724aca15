package turns

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// A world is a server with queues, and a worker that fetches from them as Turns decide.
// Calls reach the server, and replies the worker, in any order. What happens is decided
// by the bytes of choices.
type world struct {
	turns   *Turns[int, string]
	choices []byte
	now     time.Time
	queues  [12]queue
	calls   []*fetch // not at the server yet
	replies []*fetch // not at the worker yet
	ended   []int    // queues of jobs that have ended, not at the server yet
}

// A queue is what the server and the worker have of a queue.
type queue struct {
	jobs, active int
	paused       bool
	concurrency  int // 0 for none
	marker       bool
	delayed      []time.Time
	limited      time.Time

	served            bool
	share             Share[string]
	running, reserved int // of the worker
}

type fetch struct {
	call Call[int, string]
	got  []int
	ends []End
	dues []time.Time
	lost bool // the worker knows that it did not run
}

func newWorld(choices []byte) *world {
	return &world{turns: New[int, string](1 + len(choices)%5), choices: choices, now: time.UnixMilli(1_700_000_000_000)}
}

// choose returns a number below n.
func (w *world) choose(n int) int {
	if len(w.choices) == 0 {
		return 0
	}
	c := int(w.choices[0])
	w.choices = w.choices[1:]
	return c % n
}

func (w *world) any() (int, *queue) {
	i := w.choose(len(w.queues))
	return i, &w.queues[i]
}

func (w *world) share() Share[string] {
	c := w.choose(256)
	return Share[string]{Weight: c % 8, Rank: c / 8 % 2, Bound: []int{0, 0, 1, 5}[c/16%4], Group: []string{"a", "b"}[c/64%2]}
}

func (q *queue) held() bool { return q.paused || q.concurrency > 0 && q.active >= q.concurrency }

// signal sets the marker, as the scripts do that make a job ready.
func (q *queue) signal() {
	if !q.held() {
		q.marker = true
	}
}

// step lets something happen.
func (w *world) step() {
	i, q := w.any()
	switch w.choose(15) {
	case 0, 1:
		q.jobs += 1 + w.choose(6)
		q.signal()
	case 2:
		q.delayed = append(q.delayed, w.now.Add(time.Duration(w.choose(20))*time.Second))
		slices.SortFunc(q.delayed, time.Time.Compare)
		w.turns.Due(i, q.delayed[0]) // as the marker tells, which is not modelled
	case 3:
		q.paused = !q.paused
		q.marker = !q.paused
	case 4:
		q.concurrency = w.choose(4)
		q.marker = true
	case 5:
		q.limited = w.now.Add(time.Duration(w.choose(5)) * time.Second)
	case 6:
		q.share = w.share()
		w.turns.Add(i, q.share)
		if !q.served { // a look or a take follows in any case
			w.turns.Ready(i)
		}
		q.served = true
	case 7:
		if w.choose(4) == 0 {
			w.turns.Remove(i)
			q.served = false
		}
	case 8:
		w.turns.Postpone(i, w.now.Add(time.Duration(w.choose(3))*time.Second))
	case 9, 10:
		w.take(w.choose(40))
	case 11:
		if len(w.calls) > 0 {
			w.serve(w.choose(len(w.calls)))
		}
	case 12:
		if len(w.replies) > 0 {
			w.settle(w.choose(len(w.replies)))
		}
	case 13:
		if q.running > 0 {
			q.running--
			w.turns.Done(i)
			w.ended = append(w.ended, i)
		}
		if len(w.ended) > 0 {
			w.end(w.choose(len(w.ended)))
		}
	case 14:
		w.now = w.now.Add(time.Duration(w.choose(3000)) * time.Millisecond)
		w.turns.Advance(w.now, w.now)
		w.listen()
	}
}

func (w *world) take(n int) {
	calls := w.turns.Take(n)
	all := 0
	for _, call := range calls {
		all += call.Jobs
		for _, quota := range call.Quotas {
			q := &w.queues[quota.Queue]
			q.reserved += quota.Jobs
			if bound := q.share.Bound; bound > 0 && q.running+q.reserved > bound {
				panic(fmt.Sprintf("queue %d runs %d and reserves %d of %d", quota.Queue, q.running, q.reserved, bound))
			}
			if !q.served || q.share.Group != call.Group || quota.Jobs < 1 {
				panic(fmt.Sprintf("quota %+v of group %q for queue %+v", quota, call.Group, *q))
			}
		}
		w.calls = append(w.calls, &fetch{call: call, lost: w.choose(8) == 1})
	}
	if all > n {
		panic(fmt.Sprintf("%d jobs for %d slots", all, n))
	}
}

// serve runs a call at the server, as the script does.
func (w *world) serve(i int) {
	f := w.calls[i]
	w.calls = slices.Delete(w.calls, i, i+1)
	w.replies = append(w.replies, f)
	n := len(f.call.Quotas)
	f.got, f.ends, f.dues = make([]int, n), make([]End, n), make([]time.Time, n)
	left := f.call.Jobs
	for i, quota := range f.call.Quotas {
		if left == 0 || f.lost {
			break
		}
		q := &w.queues[quota.Queue]
		for len(q.delayed) > 0 && !q.delayed[0].After(w.now) {
			q.delayed = q.delayed[1:]
			q.jobs++
			q.signal()
		}
		if len(q.delayed) > 0 {
			f.dues[i] = q.delayed[0]
		}
		most := min(left, quota.Jobs)
		if q.concurrency > 0 {
			most = min(most, q.concurrency-q.active)
		}
		switch {
		case q.limited.After(w.now):
			f.ends[i] = End{Reason: Limited, Until: q.limited}
			continue
		case q.held():
			f.ends[i] = End{Reason: Paused, Until: w.now.Add(5 * time.Second)}
			continue
		}
		got := min(most, q.jobs)
		q.jobs -= got
		q.active += got
		left -= got
		f.got[i], f.ends[i] = got, End{Reason: More}
		q.marker = true
		if got < most {
			f.ends[i], q.marker = End{Reason: Dry}, false
		}
	}
}

// settle lets a reply arrive.
func (w *world) settle(i int) {
	f := w.replies[i]
	w.replies = slices.Delete(w.replies, i, i+1)
	for i, quota := range f.call.Quotas {
		q := &w.queues[quota.Queue]
		q.reserved -= quota.Jobs
		q.running += f.got[i]
		w.turns.Settle(quota, f.got[i], f.ends[i])
		if !f.dues[i].IsZero() {
			w.turns.Due(quota.Queue, f.dues[i])
		}
	}
}

// end lets the end of a job reach the server, and the reply to it the worker. The reply
// reports whether jobs are waiting.
func (w *world) end(i int) {
	queue := w.ended[i]
	w.ended = slices.Delete(w.ended, i, i+1)
	q := &w.queues[queue]
	q.active--
	w.turns.Unblock(queue)
	if q.jobs > 0 {
		w.turns.Ready(queue)
	}
}

// listen takes the markers of the queues that the worker waits for.
func (w *world) listen() {
	for i := range w.queues {
		if q := &w.queues[i]; q.marker && w.turns.State(i).Waits() {
			q.marker = false
			w.turns.Ready(i)
		}
	}
}

// rest lets everything that is in flight arrive.
func (w *world) rest() {
	for len(w.calls) > 0 {
		w.serve(0)
	}
	for len(w.replies) > 0 {
		w.settle(0)
	}
	for i := range w.queues {
		for q := &w.queues[i]; q.running > 0; q.running-- {
			w.turns.Done(i)
			w.ended = append(w.ended, i)
		}
	}
	for len(w.ended) > 0 {
		w.end(0)
	}
	w.listen()
}

// check compares what the worker knows with what is so, and finds jobs that nothing
// would notice.
func (w *world) check() {
	w.turns.check()
	for i := range w.queues {
		q, m := &w.queues[i], w.turns.members[i]
		if m == nil {
			if q.running+q.reserved > 0 || q.served {
				panic(fmt.Sprintf("queue %d is forgotten", i))
			}
			continue
		}
		if m.running != q.running || m.reserved != q.reserved {
			panic(fmt.Sprintf("queue %d runs %d and reserves %d, not %d and %d", i, q.running, q.reserved, m.running, m.reserved))
		}
		state := w.turns.State(i)
		if len(w.calls)+len(w.replies)+len(w.ended)+q.running > 0 || !q.served || q.marker && state.Waits() {
			continue
		}
		if q.jobs > 0 && !q.paused && (state == Empty || state == Full || state == Blocked) {
			panic(fmt.Sprintf("queue %d has %d jobs and is %d: %+v", i, q.jobs, state, *q))
		}
		if len(q.delayed) > 0 && state == Empty && w.turns.NextDue(i).IsZero() {
			panic(fmt.Sprintf("queue %d has delayed jobs that are not noticed: %+v", i, *q))
		}
	}
}

// check panics if the parts of the set contradict each other.
func (t *Turns[K, G]) check() {
	listed, choosable := 0, 0
	ranks, groups := map[*rank]int{}, map[*group[K, G]]int{}
	var first *member[K, G]
	for k, m := range t.members {
		if m.listed < 0 {
			if m.running+m.reserved == 0 || m.inReady >= 0 || m.inTimed >= 0 || m.inDelayed >= 0 {
				panic(fmt.Sprintf("%v was removed and is there: %+v", k, m))
			}
			continue
		}
		listed++
		ranks[m.rank]++
		groups[m.group]++
		choose := m.state == Ready && m.room() > 0
		if t.listed[m.listed] != m || choose != (m.inReady >= 0) || (m.state == Blocked || m.state == Postponed) != (m.inTimed >= 0) ||
			m.due.IsZero() != (m.inDelayed < 0) || m.quota != 0 || m.jobs != 0 || m.group.call != 0 {
			panic(fmt.Sprintf("%v is at the wrong place: %+v", k, m))
		}
		if v := m.virtual(); v < m.floor || m.turn > v || v-m.turn >= float64(t.burst)/float64(m.share.Weight) {
			panic(fmt.Sprintf("%v is at %v in the turn of %v, not before %v", k, v, m.turn, m.floor))
		}
		if choose {
			choosable++
			if first == nil || comesBefore(m, first) {
				first = m
			}
		}
	}
	if listed != len(t.listed) || len(ranks) != len(t.ranks) || len(groups) != len(t.groups) {
		panic("the lists have other queues than the set")
	}
	for r, members := range ranks {
		if t.ranks[r.number] != r || r.members != members {
			panic(fmt.Sprintf("rank %+v has %d queues", r, members))
		}
	}
	for g, members := range groups {
		if t.groups[g.key] != g || g.members != members || (g.inReady >= 0) != (g.ready.size() > 0) {
			panic(fmt.Sprintf("group %v has %d queues", g.key, members))
		}
		g.ready.check()
		choosable -= g.ready.size()
	}
	if choosable != 0 || (first != nil) != t.AnyReady() || first != nil && t.ready.first().ready.first() != first {
		panic("not the queue whose turn it is comes first")
	}
	t.ready.check()
	t.timed.check()
	t.delayed.check()
}

func (h *heap[T]) check() {
	for i, e := range h.all {
		if *h.place(e) != i || i > 0 && h.before(e, h.all[(i-1)/2]) {
			panic(fmt.Sprintf("the heap is out of order at %d", i))
		}
	}
}

// live lets everything happen that the choices say. At the end all jobs are started that
// may start.
func (w *world) live() {
	for i := range 8 {
		w.queues[i].served = true
		w.turns.Add(i, w.queues[i].share)
		w.turns.Ready(i)
	}
	for step := 0; len(w.choices) > 0; step++ {
		w.step()
		w.check()
		if step%64 == 63 {
			w.rest()
			w.check()
		}
	}
	for range 50 {
		w.rest()
		w.check()
		w.now = w.now.Add(10 * time.Second)
		w.turns.Advance(w.now, w.now)
		for i := 0; w.turns.AnyReady(); i++ {
			if i > 10000 {
				panic("the worker does not come to rest")
			}
			w.take(30)
			w.rest()
			w.check()
		}
	}
	for i := range w.queues {
		if q := &w.queues[i]; q.served && !q.paused && q.jobs+len(q.delayed) > 0 {
			panic(fmt.Sprintf("jobs of queue %d have not started: %+v", i, *q))
		}
	}
}

func FuzzTurns(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 5 {
		f.Add(randomChoices(random, 2000))
	}
	f.Fuzz(func(_ *testing.T, choices []byte) { newWorld(choices[:min(len(choices), 20000)]).live() })
}

func randomChoices(random *rand.Rand, n int) []byte {
	choices := make([]byte, n)
	for i := range choices {
		choices[i] = byte(random.Uint32())
	}
	return choices
}

var _ = Describe("A worker whose calls overtake each other", func() {
	It("notices all jobs and keeps all bounds", func() {
		seed := uint64(GinkgoRandomSeed())
		for i := range uint64(50) {
			func() {
				defer func() { Expect(recover()).To(BeNil(), "seed %d, %d", seed, i) }()
				newWorld(randomChoices(rand.New(rand.NewPCG(seed, i)), 4000)).live()
			}()
		}
	})

	It("starves no queue", func() {
		random := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 0))
		for range 30 {
			f := newFleet(1+random.IntN(60), 1+random.IntN(8))
			weights, sum := make([]int, 2+random.IntN(30)), 0
			for queue := range weights {
				weights[queue] = 1 + random.IntN(9)
				sum += weights[queue]
				f.serve(queue, endless, Share[string]{Weight: weights[queue]})
			}
			f.work(20000, 1+random.IntN(f.slots))
			last := make([]int, len(weights))
			for start, queue := range f.starts {
				// Calls in flight hold quotas that they don't use, so the next turn of a queue may be some rounds late.
				most := 8 * (f.burst*(sum/weights[queue]+len(weights)) + f.slots)
				Expect(start-last[queue]).To(BeNumerically("<=", most), "queue %d of weights %v, %d slots, bursts of %d", queue, weights, f.slots, f.burst)
				last[queue] = start
			}
			for queue, n := range count(f.starts) {
				Expect(float64(n) / float64(len(f.starts))).To(BeNumerically("~", float64(weights[queue])/float64(sum), 0.03))
			}
		}
	})
})
