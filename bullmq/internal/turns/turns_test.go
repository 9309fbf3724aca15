package turns

import (
	"maps"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// names returns the queues of a call, in order.
func names(call Call[int, string]) (names []int) {
	for _, quota := range call.Quotas {
		names = append(names, quota.Queue)
	}
	return names
}

// quotas returns the jobs of each queue of a call.
func quotas(call Call[int, string]) map[int]int {
	by := map[int]int{}
	for _, quota := range call.Quotas {
		by[quota.Queue] = quota.Jobs
	}
	return by
}

var _ = Describe("Turns", func() {
	plain := Share[string]{}

	// the returns the only call.
	the := func(calls []Call[int, string]) Call[int, string] {
		GinkgoHelper()
		Expect(calls).To(HaveLen(1))
		return calls[0]
	}

	Describe("of queues with the same weight", func() {
		It("go round, a burst at a time", func() {
			f := newFleet(1, 2)
			for queue := range 3 {
				f.serve(queue, endless, plain)
			}
			f.work(12, 1)
			Expect(f.starts).To(Equal([]int{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2}))
		})

		It("are exact with a burst of 1", func() {
			f := newFleet(7, 1)
			for queue := range 50 {
				f.serve(queue, endless, plain)
			}
			f.work(5000, 3)
			for start, queue := range f.starts {
				Expect(queue).To(Equal(start % 50))
			}
		})

		DescribeTable("differ by at most a burst at any time", func(slots, together int) {
			f := newFleet(slots, 4)
			for queue := range 20 {
				f.serve(queue, endless, plain)
			}
			by := map[int]int{}
			f.work(4000, together)
			for i, queue := range f.starts {
				by[queue]++
				if i > 400 && i%slots == 0 {
					least, most := endless, 0
					for queue := range 20 {
						least, most = min(least, by[queue]), max(most, by[queue])
					}
					Expect(most-least).To(BeNumerically("<=", 4+slots), "after %d starts", i)
				}
			}
		},
			Entry("with one slot", 1, 1),
			Entry("with few slots", 5, 2),
			Entry("with many slots that become free one by one", 50, 1),
			Entry("with many slots that become free together", 50, 50),
		)

		It("give a queue that was empty no claim to what it did not use", func() {
			f := newFleet(1, 1)
			f.serve(1, endless, plain)
			f.Add(2, plain)
			f.work(1000, 1)
			f.put(2, endless)
			f.starts = nil
			f.work(100, 1)
			Expect(count(f.starts)).To(Equal(map[int]int{1: 50, 2: 50}))
		})

		It("give a queue that becomes ready for each job no more than its share", func() {
			f := newFleet(1, 4)
			f.serve(1, endless, Share[string]{Weight: 100})
			f.Add(2, plain)
			for range 10000 {
				if f.jobs[2] == 0 {
					f.put(2, 1)
				}
				f.fill()
				f.finish(1)
			}
			Expect(count(f.starts)[2]).To(BeNumerically("~", 100, 5))
		})

		It("let a queue that becomes ready start within a burst of each other queue", func() {
			f := newFleet(1, 4)
			for queue := range 10 {
				f.serve(queue, endless, plain)
			}
			f.work(995, 1)
			f.Add(10, plain)
			f.put(10, 1)
			f.starts = nil
			f.work(41, 1)
			Expect(f.starts).To(ContainElement(10))
		})
	})

	Describe("by weight", func() {
		DescribeTable("give each queue its share", func(slots, together, burst int) {
			f := newFleet(slots, burst)
			for queue, weight := range []int{1, 3, 6} {
				f.serve(queue, endless, Share[string]{Weight: weight})
			}
			f.work(10000, together)
			by := count(f.starts)
			Expect(by[0]).To(BeNumerically("~", 1000, 20))
			Expect(by[1]).To(BeNumerically("~", 3000, 60))
			Expect(by[2]).To(BeNumerically("~", 6000, 120))
		},
			Entry("one by one", 1, 1, 1),
			Entry("in bursts", 1, 1, 4),
			Entry("with many slots that become free one by one", 100, 1, 4),
			Entry("with many slots that become free together", 100, 100, 4),
		)

		It("give each queue its share if only some are ready at a time", func() {
			f := newFleet(10, 4)
			for queue := range 4 {
				f.serve(queue, 0, Share[string]{Weight: 1 + queue})
			}
			for range 5000 { // more than can run, but never more than a few waiting
				for queue := range 4 {
					if f.jobs[queue] < 8 {
						f.put(queue, 8)
					}
				}
				f.fill()
				f.finish(3)
			}
			by, all := count(f.starts), len(f.starts)
			for queue := range 4 {
				Expect(by[queue]).To(BeNumerically("~", all*(1+queue)/10, all/50))
			}
		})

		It("follow a weight that changes", func() {
			f := newFleet(1, 1)
			f.serve(1, endless, plain)
			f.serve(2, endless, plain)
			f.work(100, 1)
			f.Add(2, Share[string]{Weight: 9})
			f.starts = nil
			f.work(1000, 1)
			Expect(count(f.starts)[2]).To(BeNumerically("~", 900, 10))
		})
	})

	Describe("by rank", func() {
		It("starve the queues behind one that always has jobs", func() {
			f := newFleet(10, 4)
			f.serve(1, endless, Share[string]{Rank: 1, Weight: 1000})
			f.serve(2, endless, plain)
			f.work(1000, 3)
			Expect(count(f.starts)).To(Equal(map[int]int{2: len(f.starts)}))
		})

		It("never start a job while a queue of a lower rank has one that may start", func() {
			f := newFleet(16, 4)
			for queue := range 5 {
				f.serve(queue, 0, Share[string]{Rank: queue})
			}
			for round := range 500 {
				for queue := range 5 {
					f.put(queue, (round*7+queue*5)%9)
				}
				before := len(f.starts)
				left := maps.Clone(f.jobs)
				f.fill()
				for _, queue := range f.starts[before:] {
					for lower := range queue {
						Expect(left[lower]).To(BeZero(), "queue %d had jobs when one of queue %d started", lower, queue)
					}
					left[queue]--
				}
				f.finish(11)
			}
			Expect(count(f.starts)).To(HaveLen(5))
		})

		It("serve the next queue when the first is empty, full or postponed", func() {
			f := newFleet(6, 4)
			f.serve(1, 1, Share[string]{Rank: 1})
			f.serve(2, endless, Share[string]{Rank: 2, Bound: 2})
			f.serve(3, endless, Share[string]{Rank: 3})
			f.serve(4, endless, Share[string]{Rank: 4})
			f.Postpone(3, f.now.Add(time.Hour))
			f.fill()
			Expect(count(f.starts)).To(Equal(map[int]int{1: 1, 2: 2, 4: 3}))
		})

		It("leave slots free rather than start a job of a queue behind one that may have more", func() {
			f := newFleet(10, 4)
			f.serve(1, endless, Share[string]{Group: "a"})
			f.serve(2, endless, Share[string]{Group: "b", Rank: 1})
			call := the(f.Take(10))
			Expect(call.Group).To(Equal("a"))
			Expect(call.Jobs).To(Equal(4))
		})

		It("share the slots of a rank by weight", func() {
			f := newFleet(4, 4)
			f.serve(1, endless, Share[string]{Rank: 7, Weight: 3})
			f.serve(2, endless, Share[string]{Rank: 7})
			f.serve(3, endless, Share[string]{Rank: 8})
			f.work(4000, 2)
			by := count(f.starts)
			Expect(by[1]).To(BeNumerically("~", 3000, 40))
			Expect(by[3]).To(BeZero())
		})

		It("count from the start for a queue that changes its rank", func() {
			f := newFleet(1, 1)
			f.serve(1, endless, plain)
			f.work(1000, 1)
			f.serve(2, endless, Share[string]{Rank: 1})
			f.Add(1, Share[string]{Rank: 1})
			f.starts = nil
			f.work(10, 1)
			Expect(count(f.starts)).To(Equal(map[int]int{1: 5, 2: 5}))
		})
	})

	Describe("with a bound", func() {
		It("never run more jobs of a queue", func() {
			f := newFleet(20, 4)
			f.serve(1, endless, Share[string]{Bound: 3, Weight: 100})
			f.serve(2, endless, plain)
			f.work(2000, 7)
			Expect(f.most[1]).To(Equal(3))
			Expect(count(f.starts)[1]).To(BeNumerically(">", 200))
		})

		It("never run more jobs of a queue with two calls in flight", func() {
			f := newFleet(20, 4)
			f.serve(1, endless, Share[string]{Bound: 5})
			first, second := the(f.Take(3)), the(f.Take(10))
			Expect(quotas(first)[1] + quotas(second)[1]).To(Equal(5))
			Expect(f.Take(10)).To(BeEmpty())
			f.run(second)()
			f.run(first)()
			Expect(f.State(1)).To(Equal(Full))
			Expect(f.most[1]).To(Equal(5))
		})

		It("leave the slots to other queues", func() {
			f := newFleet(20, 4)
			f.serve(1, endless, Share[string]{Bound: 1})
			f.serve(2, endless, plain)
			f.fill()
			Expect(count(f.starts)).To(Equal(map[int]int{1: 1, 2: 19}))
		})

		It("start the next job of a full queue when one ends", func() {
			f := newFleet(2, 4)
			f.serve(1, endless, Share[string]{Bound: 1})
			f.fill()
			Expect(f.State(1)).To(Equal(Full))
			Expect(f.AnyReady()).To(BeFalse())
			f.Done(1)
			Expect(f.State(1)).To(Equal(Ready))
			Expect(quotas(the(f.Take(1)))).To(Equal(map[int]int{1: 1}))
		})

		It("give a queue that was full no claim to what it could not use", func() {
			f := newFleet(10, 1)
			f.serve(1, endless, Share[string]{Bound: 1})
			f.serve(2, endless, plain)
			f.work(1000, 1)
			f.Add(1, plain)
			f.starts = nil
			f.work(1000, 1)
			Expect(count(f.starts)[1]).To(BeNumerically("~", 500, 10))
		})

		It("count the jobs of a queue that was removed and added again", func() {
			f := newFleet(10, 4)
			f.serve(1, endless, Share[string]{Bound: 2})
			f.fill()
			f.Remove(1)
			Expect(f.State(1)).To(Equal(Absent))
			f.serve(1, endless, Share[string]{Bound: 3})
			Expect(quotas(the(f.Take(5)))).To(Equal(map[int]int{1: 1}))
		})
	})

	Describe("of one call", func() {
		It("share the slots among all queues that are ready", func() {
			f := newFleet(10, 4)
			f.serve(1, endless, plain)
			f.serve(2, endless, plain)
			f.fill()
			call := f.Take(16)
			Expect(quotas(the(call))).To(Equal(map[int]int{1: 8, 2: 8}))
		})

		It("list further queues for what the first do not yield", func() {
			f := newFleet(50, 4)
			for queue := range 50 {
				f.serve(queue, 1, plain)
			}
			for _, call := range f.take() {
				Expect(call.Jobs).To(Equal(50))
				Expect(call.Quotas).To(HaveLen(50))
				f.run(call)()
			}
			Expect(f.starts).To(HaveLen(50))
		})

		It("list no more queues than slots, or a few", func() {
			f := newFleet(50, 4)
			for queue := range 50 {
				f.serve(queue, 1, plain)
			}
			Expect(names(the(f.Take(10)))).To(HaveLen(10))
			Expect(names(the(f.Take(1)))).To(HaveLen(leastListed))
		})

		It("ask a queue that yields all for twice as much", func() {
			f := newFleet(1000, 4)
			f.serve(1, endless, plain)
			var asked []int
			for range 5 {
				call := the(f.Take(100))
				asked = append(asked, call.Jobs)
				f.run(call)()
			}
			Expect(asked).To(Equal([]int{4, 8, 16, 32, 64}))
			f.jobs[1] = 10
			call := the(f.Take(100))
			Expect(call.Jobs).To(Equal(100))
			f.run(call)()
			f.put(1, endless)
			Expect(the(f.Take(100)).Jobs).To(Equal(4))
		})

		It("have separate calls for separate groups, in order of their turns", func() {
			f := newFleet(100, 4)
			for queue := range 6 {
				f.serve(queue, endless, Share[string]{Group: []string{"a", "b"}[queue%2]})
			}
			calls := f.Take(20)
			Expect(calls).To(HaveLen(2))
			Expect(calls[0].Group).To(Equal("a"))
			Expect(calls[0].Jobs).To(Equal(12))
			Expect(names(calls[0])).To(Equal([]int{0, 2, 4}))
			Expect(calls[1].Jobs).To(Equal(8))
			Expect(names(calls[1])).To(Equal([]int{1, 3, 5}))
		})

		It("are taken from some groups only, if so requested, and the others keep their turn", func() {
			f := newFleet(100, 4)
			for queue := range 4 {
				f.serve(queue, endless, Share[string]{Group: []string{"a", "b"}[queue%2]})
			}
			only := func(group string) func(string) bool { return func(g string) bool { return g == group } }
			call := the(f.TakeFrom(8, only("b")))
			Expect(call.Group).To(Equal("b"))
			Expect(names(call)).To(Equal([]int{1, 3}))
			Expect(f.TakeFrom(8, func(string) bool { return false })).To(BeEmpty())
			Expect(f.ReadyIn("a")).To(BeTrue())
			Expect(f.ReadyIn("c")).To(BeFalse())
			Expect(names(the(f.Take(8)))).To(Equal([]int{0, 2}))
		})

		It("go round over all groups", func() {
			f := newFleet(7, 1)
			for queue := range 30 {
				f.serve(queue, endless, Share[string]{Group: string(rune('a' + queue%3))})
			}
			f.work(3000, 2)
			for queue, n := range count(f.starts) {
				Expect(n).To(BeNumerically("~", 100, 2), "queue %d", queue)
			}
		})

		It("follow a queue to another group", func() {
			f := newFleet(7, 1)
			f.serve(1, endless, Share[string]{Group: "a"})
			f.Add(1, Share[string]{Group: "b"})
			Expect(the(f.Take(1)).Group).To(Equal("b"))
		})

		It("are none without a slot or a queue that is ready", func() {
			f := newFleet(7, 1)
			Expect(f.Take(10)).To(BeEmpty())
			f.serve(1, 0, plain)
			Expect(f.Take(10)).To(BeEmpty())
			f.Ready(1)
			Expect(f.Take(0)).To(BeEmpty())
			Expect(f.AnyReady()).To(BeTrue())
		})
	})

	Describe("in flight", func() {
		It("are kept by a queue that was not visited", func() {
			f := newFleet(10, 4)
			for queue := range 9 {
				f.serve(queue, endless, plain)
			}
			first := the(f.Take(6))
			Expect(names(first)).To(Equal([]int{0, 1, 2, 3, 4, 5}))
			f.run(first)() // takes 4 jobs of queue 0 and 2 of queue 1
			Expect(names(the(f.Take(6)))[:3]).To(Equal([]int{1, 2, 3}))
		})

		It("pass to other queues for a call in parallel", func() {
			f := newFleet(10, 4)
			for queue := range 9 {
				f.serve(queue, endless, plain)
			}
			f.Take(4)
			Expect(names(the(f.Take(4)))[0]).To(Equal(4))
		})

		It("are refunded if the call did not run", func() {
			f := newFleet(10, 4)
			for queue := range 3 {
				f.serve(queue, endless, Share[string]{Bound: 4})
			}
			call := the(f.Take(10))
			for _, quota := range call.Quotas {
				f.Settle(quota, 0, End{Reason: Unvisited})
			}
			again := the(f.Take(10))
			Expect(names(again)).To(Equal(names(call)))
			Expect(quotas(again)).To(Equal(quotas(call)))
		})

		It("are not refunded beyond the time when the queue became ready", func() {
			f := newFleet(1, 1)
			f.serve(1, endless, plain)
			f.serve(2, 0, plain)
			f.Ready(2)
			f.Ready(2)
			lost := the(f.Take(64)).Quotas
			for _, quota := range lost {
				if quota.Queue == 1 {
					f.Settle(quota, 0, End{Reason: Unvisited})
				}
			}
			f.work(1000, 1)
			for _, quota := range lost {
				if quota.Queue == 2 {
					f.Settle(quota, 0, End{Reason: Dry})
				}
			}
			f.put(2, endless)
			f.starts = nil
			f.work(100, 1)
			Expect(count(f.starts)).To(Equal(map[int]int{1: 50, 2: 50}))
		})
	})

	Describe("of a queue", func() {
		It("begin when it is ready and end when it is empty", func() {
			f := newFleet(10, 4)
			f.serve(1, 0, plain)
			Expect(f.State(1)).To(Equal(Empty))
			f.put(1, 3)
			Expect(f.State(1)).To(Equal(Ready))
			f.fill()
			Expect(f.State(1)).To(Equal(Empty))
			Expect(f.starts).To(HaveLen(3))
		})

		It("go on if it became ready again before the reply that it is empty", func() {
			f := newFleet(10, 4)
			f.serve(1, 1, plain)
			settle := f.run(the(f.take()))
			f.put(1, 1)
			settle()
			Expect(f.State(1)).To(Equal(Ready))
			f.fill()
			Expect(f.State(1)).To(Equal(Empty))
			Expect(f.starts).To(HaveLen(2))
		})

		It("go on if a call in parallel found more jobs than one that found none", func() {
			f := newFleet(20, 4)
			f.serve(1, 4, plain)
			first, second := the(f.Take(4)), the(f.Take(4))
			found := f.run(first)
			none := f.run(second)
			found()
			f.jobs[1] = 1 // its marker was taken for the call that found more
			none()
			Expect(f.State(1)).To(Equal(Ready))
		})

		It("end while it is paused, until it is woken or its time has come", func() {
			f := newFleet(10, 4)
			f.serve(1, endless, plain)
			f.paused[1] = true
			f.fill()
			Expect(f.State(1)).To(Equal(Blocked))
			wait, expected := f.Advance(f.now, f.now)
			Expect(expected).To(BeTrue())
			Expect(wait).To(Equal(time.Minute))
			Expect(f.State(1)).To(Equal(Blocked))
			f.Ready(1)
			Expect(f.State(1)).To(Equal(Ready))
			f.fill()
			f.now = f.now.Add(time.Minute)
			_, expected = f.Advance(f.now, f.now)
			Expect(expected).To(BeFalse())
			Expect(f.State(1)).To(Equal(Ready))
		})

		It("go on when a job of a paused queue ends, which may have freed its global concurrency", func() {
			f := newFleet(10, 1)
			f.serve(1, endless, plain)
			f.run(the(f.Take(1)))()
			f.paused[1] = true
			f.fill()
			Expect(f.State(1)).To(Equal(Blocked))
			f.Done(1)
			Expect(f.State(1)).To(Equal(Ready))
			f.fill()
			Expect(f.State(1)).To(Equal(Blocked))
			f.Unblock(1)
			Expect(f.State(1)).To(Equal(Ready))
		})

		It("go on if a job ended before the reply that the queue is paused", func() {
			f := newFleet(10, 1)
			f.serve(1, endless, plain)
			f.run(the(f.Take(1)))()
			f.paused[1] = true
			settle := f.run(the(f.Take(1)))
			f.Done(1)
			settle()
			Expect(f.State(1)).To(Equal(Ready))
		})

		It("end until the time to which it is postponed", func() {
			f := newFleet(10, 4)
			f.serve(1, endless, plain)
			call := the(f.Take(1))
			f.Settle(call.Quotas[0], 1, End{Reason: Limited, Until: f.now.Add(2 * time.Second)})
			Expect(f.State(1)).To(Equal(Postponed))
			f.Postpone(1, f.now.Add(time.Second))
			f.Ready(1)
			f.Done(1)
			f.Due(1, f.now)
			wait, _ := f.Advance(f.now, f.now)
			Expect(wait).To(Equal(2 * time.Second))
			Expect(f.State(1)).To(Equal(Postponed))
			Expect(f.AnyReady()).To(BeFalse())
			f.Postpone(1, f.now.Add(3*time.Second))
			f.Advance(f.now.Add(2*time.Second), f.now)
			Expect(f.State(1)).To(Equal(Postponed))
			f.Advance(f.now.Add(3*time.Second), f.now)
			Expect(f.State(1)).To(Equal(Ready))
		})

		It("begin when its first delayed job is due, by the clock of the queue", func() {
			f := newFleet(10, 4)
			f.serve(1, 0, plain)
			f.serve(2, 0, plain)
			clock := f.now.Add(-24 * time.Hour)
			f.Due(1, clock.Add(time.Minute))
			f.Due(2, clock.Add(time.Hour))
			f.Due(1, clock.Add(time.Second))
			f.Due(1, clock.Add(2*time.Second))
			f.Due(2, time.Time{})
			wait, _ := f.Advance(f.now, clock)
			Expect(wait).To(Equal(time.Second))
			Expect(f.NextDue(1)).To(Equal(clock.Add(time.Second)))
			Expect(f.NextDue(2)).To(BeZero())
			_, expected := f.Advance(f.now, clock.Add(time.Second))
			Expect(expected).To(BeFalse())
			Expect(f.State(1)).To(Equal(Ready))
			Expect(f.NextDue(1)).To(BeZero())
			Expect(f.State(2)).To(Equal(Empty))
		})

		It("end when it is removed, whatever is in flight", func() {
			f := newFleet(10, 4)
			f.serve(1, endless, plain)
			f.serve(2, endless, plain)
			f.Due(1, f.now)
			call := the(f.Take(8))
			f.Remove(1)
			f.Remove(1)
			f.run(call)()
			f.Ready(1)
			f.Postpone(1, f.now)
			f.Unblock(1)
			f.Due(1, f.now)
			f.Advance(f.now, f.now)
			Expect(f.State(1)).To(Equal(Absent))
			Expect(f.Len()).To(Equal(1))
			Expect(names(the(f.Take(2)))).To(Equal([]int{2}))
			f.finish(8)
			Expect(f.members).To(HaveLen(1))
		})

		It("show its state, and whether to wait for it", func() {
			f := newFleet(10, 4)
			f.serve(1, 0, plain)
			f.serve(2, endless, plain)
			f.serve(3, endless, Share[string]{Bound: 1})
			f.serve(4, endless, plain)
			f.paused[4] = true
			f.run(the(f.Take(16)))()
			f.serve(5, endless, plain)
			f.Postpone(5, f.now)
			Expect(maps.Collect(f.States())).To(Equal(map[int]State{1: Empty, 2: Ready, 3: Full, 4: Blocked, 5: Postponed}))
			var waits []State
			for _, state := range f.States() {
				if state.Waits() {
					waits = append(waits, state)
				}
			}
			Expect(waits).To(ConsistOf(Empty, Blocked))
			for range f.States() {
				break
			}
		})
	})
})
