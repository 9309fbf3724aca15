package backendtest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

func (s *suite) serving() {
	ginkgo.It("ends jobs, and fetches others from any of them, with the tokens that those before have left", func() {
		q := s.members(4)
		s.start(q[0], "a", "b")
		s.start(q[1], "a")
		s.fill(q[0], named("next"))
		s.fill(q[2], named("x"), named("y"), named("z"))
		lost := completion("a", "1")
		served := s.serve([]string{"t1", "t2", "t3"}, []backend.QueueEnds{
			{Queue: q[0].key, Ends: []*backend.End{{JobID: "a", Token: "a", ReturnValue: "1"}, {JobID: "b", Token: "other", ReturnValue: "2"}}},
			{Queue: q[1].key, Ends: []*backend.End{lost}},
		},
			backend.Take{Queue: q[3].key, Most: 2}, backend.Take{Queue: q[0].key, Most: 2},
			backend.Take{Queue: q[2].key, Most: 2}, backend.Take{Queue: q[1].key, Most: 2})
		Expect(served.Ends[0].Errs).To(HaveExactElements(BeNil(), MatchError(backend.LockMismatch)))
		Expect(served.Ends[1].Errs).To(HaveExactElements(MatchError(backend.LockMismatch)))
		Expect(served.Takes).To(HaveLen(3), "no token is left for the last")
		Expect(owned(served.Takes[0])).To(BeEmpty())
		Expect(owned(served.Takes[1])).To(Equal([]string{"next by t1"}))
		Expect(owned(served.Takes[2])).To(Equal([]string{"x by t2", "y by t3"}))
		Expect(q[0].State(s.ctx, "a")).To(Equal(backend.Completed))
		Expect(q[0].State(s.ctx, "b")).To(Equal(backend.Active))
		Expect(q[2].Counts(s.ctx, backend.Active, backend.Waiting)).To(Equal([]int{2, 1}))
	})

	ginkgo.It("tells which of them have further jobs, if it ends jobs of them and fetches none", func() {
		q := s.members(5)
		ends := make([]backend.QueueEnds, len(q))
		for i := range q {
			s.start(q[i], "a", "b")
			ends[i] = backend.QueueEnds{Queue: q[i].key, Ends: []*backend.End{completion("a", "1")}}
			ends[i].Ends[0].Token = "a"
		}
		s.fill(q[1], named("next"))
		s.fill(q[2], prioritized("urgent", 3))
		s.fill(q[3], delayed("later", time.Hour))
		s.fill(q[4], named("next"))
		served := s.serve([]string{"t"}, ends, backend.Take{Queue: q[4].key, Most: 1})
		var waiting []bool
		for _, ended := range served.Ends {
			Expect(ended.Errs).To(HaveExactElements(BeNil()))
			waiting = append(waiting, ended.Waiting)
		}
		Expect(waiting).To(Equal([]bool{false, true, true, false, false}), "the call has fetched from the last")
	})

	ginkgo.It("tells why it fetched no more from each", func() {
		q := s.members(6)
		s.fill(q[0], named("a"), delayed("later", time.Hour))
		s.fill(q[1], named("a"), named("b"))
		s.fill(q[2], named("a"))
		Expect(q[2].Pause(s.ctx)).To(Succeed())
		s.fill(q[3], named("a"))
		Expect(q[3].SetGlobalConcurrency(s.ctx, new(0))).To(Succeed())
		s.fill(q[4], named("a"), named("b"))
		limit := backend.RateLimit{Max: 1, Duration: time.Minute}
		served := s.serve([]string{"t1", "t2", "t3", "t4", "t5"}, nil,
			backend.Take{Queue: q[0].key, Most: 2}, backend.Take{Queue: q[1].key, Most: 1}, backend.Take{Queue: q[2].key, Most: 1},
			backend.Take{Queue: q[3].key, Most: 1}, backend.Take{Queue: q[4].key, Most: 2, Limit: limit}, backend.Take{Queue: q[5].key, Most: 1})
		Expect(owned(served.Takes[0])).To(Equal([]string{"a by t1"}))
		Expect(served.Takes[0].Dry).To(BeTrue())
		Expect(served.Takes[0].NextDue).To(Equal(now.Add(time.Hour)))
		Expect(owned(served.Takes[1])).To(Equal([]string{"a by t2"}))
		Expect(served.Takes[1].Dry).To(BeFalse())
		Expect(served.Takes[2]).To(Equal(backend.Taken{}), "paused")
		Expect(served.Takes[3]).To(Equal(backend.Taken{}), "at its global concurrency")
		Expect(owned(served.Takes[4])).To(Equal([]string{"a by t3"}))
		Expect(served.Takes[5]).To(Equal(backend.Taken{Dry: true}))

		limited := s.serve([]string{"t6"}, nil, backend.Take{Queue: q[4].key, Most: 1, Limit: limit}).Takes[0]
		Expect(limited.Jobs).To(BeEmpty())
		Expect(limited.Dry).To(BeFalse())
		Expect(limited.LimitedFor).To(BeNumerically("~", time.Minute, 20*time.Second))
		unlimited := s.serve([]string{"t7"}, nil, backend.Take{Queue: q[4].key, Most: 1}).Takes[0]
		Expect(owned(unlimited)).To(Equal([]string{"b by t7"}))
	})

	ginkgo.It("leaves a wake-up only where jobs are left", func() {
		q := s.members(2)
		s.fill(q[0], named("a"))
		s.fill(q[1], named("a"), named("b"))
		s.serve([]string{"t1", "t2"}, nil, backend.Take{Queue: q[0].key, Most: 1}, backend.Take{Queue: q[1].key, Most: 1})
		quick := backend.Look{Quick: true}
		Expect(s.seenBy(quick, q[0]).Ready).To(BeTrue(), "it isn't known to be dry")
		Expect(s.seenBy(quick, q[1]).Ready).To(BeTrue())
		s.serve([]string{"t3", "t4", "t5"}, nil, backend.Take{Queue: q[0].key, Most: 1}, backend.Take{Queue: q[1].key, Most: 2})
		Expect(s.seenBy(quick, q[0]).Ready).To(BeFalse())
		Expect(s.seenBy(quick, q[1]).Ready).To(BeFalse())
		s.fill(q[0], named("c"))
		Expect(s.seenBy(quick, q[0]).Ready).To(BeTrue())
	})

	ginkgo.It("can be looked up when its reply was lost, by the tokens of the jobs that it has locked", func() {
		q := s.members(3)
		s.start(q[0], "other")
		s.fill(q[2], named("a"), named("b"))
		tokens := []string{"t1", "t2", "t3"}
		s.serve(tokens, nil, backend.Take{Queue: q[1].key, Most: 3}, backend.Take{Queue: q[2].key, Most: 3})
		locked, err := s.Group.ResolveFetches(s.ctx, keysOf(q), tokens)
		Expect(err).NotTo(HaveOccurred())
		var found []string
		for _, job := range locked {
			Expect(job.Queue).To(Equal(q[2].key))
			Expect(job.Job.Data).To(MatchJSON(data))
			found = append(found, job.Job.ID+" by "+job.Token)
		}
		Expect(found).To(ConsistOf("a by t1", "b by t2"))
		Expect(s.Group.ResolveFetches(s.ctx, keysOf(q), []string{"t3"})).To(BeEmpty())
	})
}

// servingAlike compares the effect of one call for several queues with that of separate calls
// for each queue, as far as a store can tell.
func (s *suite) servingAlike() {
	ginkgo.It("has the effect of the calls of each, whatever jobs they have", func() {
		seed := rand.Uint64()
		ginkgo.By(fmt.Sprint("seed ", seed))
		for round := range 15 {
			random := rand.New(rand.NewPCG(seed, uint64(round)))
			about := fmt.Sprintf("round %d of seed %d", round, seed)
			count := 1 + random.IntN(3)
			together, apart := s.members(count), s.members(count)
			var tokens []string
			for i := range 1 + random.IntN(6) {
				tokens = append(tokens, fmt.Sprint("t", i))
			}
			request := backend.Serve{Now: now, MetricsPoints: 5, Worker: worker, Tokens: tokens}
			var errs [][]error
			for n := range count {
				var running, waiting []string
				for i := range random.IntN(4) {
					running = append(running, fmt.Sprint("r", i))
				}
				for i := range random.IntN(4) {
					waiting = append(waiting, fmt.Sprint("w", i))
				}
				ranked, later, paused, concurrency := random.IntN(2) == 0, random.IntN(2) == 0, random.IntN(5) == 0, random.IntN(4)
				outcomes := random.Perm(6)
				arrange := func(q member) (ends []*backend.End) {
					s.start(q, running...)
					for _, id := range waiting {
						s.fill(q, named(id))
					}
					if ranked {
						s.fill(q, prioritized("ranked", 2))
					}
					if later {
						s.fill(q, delayed("later", time.Hour))
					}
					if paused {
						Expect(q.Pause(s.ctx)).To(Succeed())
					}
					if concurrency == 0 {
						Expect(q.SetGlobalConcurrency(s.ctx, new(2))).To(Succeed())
					}
					for i, id := range running {
						end := &backend.End{JobID: id, Token: id, ReturnValue: `"done"`, Keep: keepAll}
						switch outcomes[i] {
						case 0:
							end.Failure, end.Attempts = &backend.FailedAttempt{Reason: "boom", StackTrace: "[]"}, 1
						case 1:
							end.Token = "other"
						case 2:
							end.Keep = backend.Keep{Count: backend.Int(0)}
						case 3:
							end.Keep = backend.Keep{Count: backend.Int(1)}
						}
						ends = append(ends, end)
					}
					return ends
				}
				if ends := arrange(together[n]); len(ends) > 0 {
					request.Ends = append(request.Ends, backend.QueueEnds{Queue: together[n].key, Ends: ends})
				}
				if ends := arrange(apart[n]); len(ends) > 0 {
					ended, err := apart[n].MoveToFinished(s.ctx, backend.Finish{Now: now, MetricsPoints: 5, Worker: worker, Ends: ends})()
					Expect(err).NotTo(HaveOccurred())
					of := []error{}
					for _, one := range ended {
						of = append(of, one.Err)
					}
					errs = append(errs, of)
				}
			}
			order := random.Perm(count)
			for _, n := range order {
				request.Takes = append(request.Takes, backend.Take{Queue: together[n].key, Most: 1 + random.IntN(3)})
			}
			served, err := s.Group.ServeQueues(s.ctx, request)()
			Expect(err).NotTo(HaveOccurred(), about)
			for i, ended := range served.Ends {
				for j, why := range ended.Errs {
					Expect(why == nil).To(Equal(errs[i][j] == nil), about)
				}
			}
			for i, taken := range served.Takes {
				most := min(request.Takes[i].Most, len(tokens))
				one, err := apart[order[i]].MoveToActive(s.ctx, now, worker, tokens[:most]...)
				Expect(err).NotTo(HaveOccurred(), about)
				var want []backend.TakenJob
				for j, fetched := range one {
					if fetched.Job != nil {
						want = append(want, backend.TakenJob{Job: fetched.Job, Hint: fetched.Hint, Token: tokens[j]})
					}
				}
				Expect(taken.Jobs).To(Equal(want), about)
				if len(want) == 0 {
					Expect(taken.NextDue).To(Equal(one[0].NextDue), about)
				}
				tokens = tokens[len(want):]
			}
			for n := range count {
				Expect(s.contentsOf(together[n])).To(Equal(s.contentsOf(apart[n])), "%s: queue %d", about, n)
			}
		}
	})
}

// contentsOf returns the jobs of all states, in their order, with their records, and the
// metrics.
func (s *suite) contentsOf(q member) (contents []any) {
	ginkgo.GinkgoHelper()
	for _, state := range []backend.State{backend.Waiting, backend.Paused, backend.Prioritized, backend.Delayed, backend.Active, backend.Completed, backend.Failed} {
		records, err := q.Jobs(s.ctx, allJobs, state)
		Expect(err).NotTo(HaveOccurred())
		contents = append(contents, state)
		for _, record := range records {
			contents = append(contents, *record)
		}
	}
	for _, state := range []backend.State{backend.Completed, backend.Failed} {
		metrics, err := q.Metrics(s.ctx, state, 0, -1)
		Expect(err).NotTo(HaveOccurred())
		contents = append(contents, metrics.Count)
	}
	return contents
}
