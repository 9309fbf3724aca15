package backendtest

import (
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

func (s *suite) reading() {
	ginkgo.Describe("Reading", func() {
		ginkgo.It("counts the jobs of each state in the order of the request", func() {
			s.run("running")
			s.add(named("a"), named("b"), delayed("d", time.Hour), prioritized("p", 1))
			Expect(s.Store.Counts(s.ctx, backend.Delayed, backend.Waiting, backend.Prioritized, backend.Active, backend.Failed)).
				To(Equal([]int{1, 2, 1, 1, 0}))
		})

		ginkgo.It("counts the delayed jobs that are due", func() {
			s.add(delayed("a", time.Second), delayed("b", time.Hour))
			Expect(s.Store.CountDelayed(s.ctx, now)).To(BeZero())
			Expect(s.Store.CountDelayed(s.ctx, now.Add(time.Minute))).To(Equal(1))
		})

		ginkgo.It("counts the completed and the failed jobs that finished before a time", func() {
			s.run("a")
			s.complete("a", "1")
			s.run("b")
			s.fail("b", "broken")
			for id, state := range map[string]backend.State{"a": backend.Completed, "b": backend.Failed} {
				at := s.record(id).FinishedOn
				Expect(s.Store.CountFinished(s.ctx, state, at)).To(BeZero())
				Expect(s.Store.CountFinished(s.ctx, state, at.Add(time.Millisecond))).To(Equal(1))
			}
		})

		ginkgo.It("returns the time of the oldest job of each state, and the time when the first delayed job is due", func() {
			later := plain("later")
			later.Timestamp = now.Add(time.Minute)
			low, high := prioritized("low", 9), prioritized("high", 1)
			high.Timestamp = now.Add(time.Minute)
			s.run("running")
			s.add(named("a"), later, low, high, delayed("d", time.Hour))
			oldest, err := s.Store.Oldest(s.ctx, backend.Waiting, backend.Prioritized, backend.Delayed, backend.Active)
			Expect(err).NotTo(HaveOccurred())
			for i, want := range []time.Time{now, now, now.Add(time.Hour), now} {
				Expect(oldest[i]).To(BeTemporally("==", want), "state %d", i)
			}
		})

		ginkgo.It("returns the zero time for states without jobs", func() {
			oldest, err := s.Store.Oldest(s.ctx, backend.Waiting, backend.Prioritized, backend.Delayed, backend.Active)
			Expect(err).NotTo(HaveOccurred())
			Expect(oldest).To(HaveLen(4))
			Expect(oldest).To(HaveEach(BeZero()))
		})

		ginkgo.It("returns the times of the newest finished jobs, in pages", func() {
			early, late := named("early"), delayed("late", time.Minute)
			early.Timestamp, early.Opts = now.Add(-time.Hour), `{"backoff":{"type":"fixed","delay":5}}`
			late.Timestamp, late.Opts = now.Add(-time.Hour), `{"delay":60000}`
			s.add(early)
			Expect(s.fetchAt(now.Add(-time.Minute))).To(Equal("early"))
			s.complete("early", "1")
			s.add(late)
			Expect(s.fetch()).To(Equal("late"))
			s.fail("late", "boom")
			jobs, next, err := s.Store.Timings(s.ctx, backend.TimingsFrom{}, 10)
			Expect(err).NotTo(HaveOccurred())
			Expect(next).To(Equal(backend.TimingsFrom{Completed: 1, Failed: 1}))
			Expect(jobs).To(ConsistOf(
				backend.JobTiming{ID: "early", Name: "early", State: backend.Completed, AttemptsMade: 1, Ready: now.Add(-time.Hour), ProcessedOn: now.Add(-time.Minute), FinishedOn: now},
				backend.JobTiming{ID: "late", Name: "late", State: backend.Failed, AttemptsMade: 1, Ready: now.Add(-59 * time.Minute), ProcessedOn: now, FinishedOn: now},
			))
			first, next, err := s.Store.Timings(s.ctx, backend.TimingsFrom{}, 1)
			Expect(err).NotTo(HaveOccurred())
			second, next, err := s.Store.Timings(s.ctx, next, 1)
			Expect(err).NotTo(HaveOccurred())
			Expect(append(first, second...)).To(Equal(jobs))
			none, _, err := s.Store.Timings(s.ctx, next, 1)
			Expect(err).NotTo(HaveOccurred())
			Expect(none).To(BeEmpty())
		})

		ginkgo.It("counts the jobs of each priority", func() {
			s.add(named("none"), prioritized("a", 2), prioritized("b", 2), prioritized("c", 7))
			Expect(s.Store.CountsPerPriority(s.ctx, 7, 2, 0, 1)).To(Equal([]int{1, 2, 1, 0}))
		})

		ginkgo.It("returns a page of the jobs of a state, from either end", func() {
			s.add(named("a"), named("b"), named("c"))
			Expect(s.Store.JobIDs(s.ctx, backend.Page{From: 0, To: 1, Ascending: true}, backend.Waiting)).To(Equal([]string{"a", "b"}))
			Expect(s.Store.JobIDs(s.ctx, backend.Page{From: 0, To: 1}, backend.Waiting)).To(Equal([]string{"c", "b"}))
			Expect(s.Store.JobIDs(s.ctx, backend.Page{From: 5, To: 9}, backend.Waiting)).To(BeEmpty())
		})

		idsAfter := func(state backend.State, after *backend.JobPosition, others ...string) (ids []string) {
			ginkgo.GinkgoHelper()
			jobs, err := s.Store.JobsAfter(s.ctx, state, after, others, 2)
			Expect(err).NotTo(HaveOccurred())
			for _, job := range jobs {
				ids = append(ids, job.ID)
			}
			return ids
		}

		ginkgo.It("returns the waiting jobs after a position, wherever that job is now", func() {
			s.add(named("a"), named("b"), named("c"), named("d"))
			jobs, err := s.Store.JobsAfter(s.ctx, backend.Waiting, nil, nil, 10)
			Expect(err).NotTo(HaveOccurred())
			Expect(jobs).To(Equal([]backend.JobPosition{{ID: "d"}, {ID: "c", Index: 1}, {ID: "b", Index: 2}, {ID: "a", Index: 3}}))
			Expect(idsAfter(backend.Waiting, &jobs[1])).To(Equal([]string{"b", "a"}))
			s.add(named("e"))
			Expect(idsAfter(backend.Waiting, &jobs[1], "d")).To(Equal([]string{"b", "a"}))
			Expect(idsAfter(backend.Waiting, &backend.JobPosition{ID: "gone", Index: 1}, "also", "d")).To(Equal([]string{"c", "b"}))
			Expect(idsAfter(backend.Waiting, &backend.JobPosition{ID: "gone", Index: 9000}, "also", "b")).To(Equal([]string{"a"}))
			Expect(idsAfter(backend.Waiting, &backend.JobPosition{ID: "gone", Index: 1})).To(Equal([]string{"e", "d"}))
			Expect(idsAfter(backend.Waiting, &jobs[3])).To(BeEmpty())
		})

		ginkgo.It("returns the delayed jobs after a position, even if that job is gone", func() {
			s.add(delayed("a", time.Hour), delayed("b", 2*time.Hour), delayed("c", 3*time.Hour))
			jobs, err := s.Store.JobsAfter(s.ctx, backend.Delayed, nil, nil, 10)
			Expect(err).NotTo(HaveOccurred())
			Expect(jobs).To(HaveLen(3))
			Expect(idsAfter(backend.Delayed, &jobs[0])).To(Equal([]string{"b", "a"}))
			jobs[1].ID = "bb" // an id that would come before b
			Expect(idsAfter(backend.Delayed, &jobs[1])).To(Equal([]string{"b", "a"}))
			jobs[1].ID = "aa"
			Expect(idsAfter(backend.Delayed, &jobs[1])).To(Equal([]string{"a"}))
		})

		ginkgo.It("reports which jobs are in a state", func() {
			s.run("running")
			s.add(named("a"), named("b"), delayed("d", time.Hour))
			Expect(s.Store.AreInState(s.ctx, backend.Waiting, 0, []string{"b", "a", "d", "running", "gone"})).To(Equal([]int{0, 1, -1, -1, -1}))
			Expect(s.Store.AreInState(s.ctx, backend.Waiting, 9000, []string{"b", "a", "d"})).To(Equal([]int{0, 1, -1}))
			Expect(s.Store.AreInState(s.ctx, backend.Delayed, 0, []string{"a", "d"})).To(Equal([]int{-1, 0}))
			Expect(s.Store.AreInState(s.ctx, backend.Active, 0, []string{"a", "running"})).To(Equal([]int{-1, 0}))
		})

		ginkgo.It("returns the records of the jobs of several states", func() {
			s.add(named("a"), prioritized("p", 4))
			records, err := s.Store.Jobs(s.ctx, allJobs, backend.Prioritized, backend.Waiting)
			Expect(err).NotTo(HaveOccurred())
			Expect(records).To(HaveLen(2))
			Expect(records[0].Priority).To(Equal(4))
			Expect(string(records[1].Data)).To(Equal(data))
		})

		ginkgo.It("reports whether the global concurrency is reached", func() {
			one := 1
			Expect(s.Store.SetGlobalConcurrency(s.ctx, &one)).To(Succeed())
			Expect(s.Store.IsMaxed(s.ctx)).To(BeFalse())
			s.run("a")
			Expect(s.Store.IsMaxed(s.ctx)).To(BeTrue())
			s.add(named("b"))
			Expect(s.fetch()).To(BeEmpty())
			Expect(s.Store.SetGlobalConcurrency(s.ctx, nil)).To(Succeed())
			Expect(s.fetch()).To(Equal("b"))
		})

		ginkgo.It("returns for how long the rate limit holds", func() {
			Expect(s.Store.RateLimitTTL(s.ctx, 0)).To(BeNumerically("<", 0))
			Expect(s.Store.SetGlobalRateLimit(s.ctx, &backend.RateLimit{Max: 1, Duration: time.Minute})).To(Succeed())
			Expect(s.Store.RateLimitTTL(s.ctx, 0)).To(BeZero())
			s.run("a")
			Expect(s.Store.RateLimitTTL(s.ctx, 0)).To(BeNumerically("~", time.Minute, 10*time.Second))
			Expect(s.Store.RemoveRateLimit(s.ctx)).To(BeTrue())
			Expect(s.Store.RemoveRateLimit(s.ctx)).To(BeFalse())
		})
	})
}
