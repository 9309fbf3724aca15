package backendtest

import (
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

func (s *suite) administration() {
	ginkgo.Describe("Administration", func() {
		ginkgo.It("pauses a queue, which then lets no job start, and resumes it", func() {
			s.add(named("a"))
			Expect(s.Store.Pause(s.ctx)).To(Succeed())
			meta, err := s.Store.Meta(s.ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(meta.Paused).To(BeTrue())
			s.add(named("b"))
			Expect(s.fetch()).To(BeEmpty())
			Expect(s.Store.Resume(s.ctx)).To(Succeed())
			Expect(s.order()).To(Equal([]string{"a", "b"}))
		})

		ginkgo.It("stores the settings of a queue, and removes them", func() {
			three := 3
			Expect(s.Store.InitMeta(s.ctx, 100, "bullmq:1.2.3")).To(Succeed())
			Expect(s.Store.SetGlobalConcurrency(s.ctx, &three)).To(Succeed())
			Expect(s.Store.SetGlobalRateLimit(s.ctx, &backend.RateLimit{Max: 5, Duration: time.Second})).To(Succeed())
			Expect(s.Store.Meta(s.ctx)).To(Equal(backend.Meta{
				Version: "bullmq:1.2.3", Concurrency: &three, MaxEvents: 100,
				RateLimit: &backend.RateLimit{Max: 5, Duration: time.Second}, HasMax: true,
			}))
			Expect(s.Store.SetGlobalConcurrency(s.ctx, nil)).To(Succeed())
			Expect(s.Store.SetGlobalRateLimit(s.ctx, nil)).To(Succeed())
			Expect(s.Store.Meta(s.ctx)).To(Equal(backend.Meta{Version: "bullmq:1.2.3", MaxEvents: 100}))
		})

		ginkgo.It("drains the waiting jobs, and on request the delayed ones", func() {
			s.run("running")
			s.add(named("a"), prioritized("p", 1), delayed("d", time.Hour))
			states := []backend.State{backend.Waiting, backend.Prioritized, backend.Delayed, backend.Active}
			Expect(s.Store.Drain(s.ctx, false, 100)).To(BeFalse())
			Expect(s.Store.Counts(s.ctx, states...)).To(Equal([]int{0, 0, 1, 1}))
			Expect(s.Store.Drain(s.ctx, true, 100)).To(BeFalse())
			Expect(s.Store.Counts(s.ctx, states...)).To(Equal([]int{0, 0, 0, 1}))
			Expect(s.Store.Job(s.ctx, "d")).To(BeNil())
		})

		ginkgo.It("drains in several calls, beside jobs of schedulers that stay", func() {
			s.add(named("a"), named("b"), prioritized("p", 1), prioritized("q", 1), delayed("d", time.Hour), delayed("e", time.Hour))
			for _, id := range []string{"one", "two", "three"} {
				_, _, err := s.Store.AddJobScheduler(s.ctx, backend.SchedulerAdd{
					ID: id, Now: now, Name: "tick", Data: data, Template: "{}", Opts: `{"repeat":{"pattern":"0 * * * *"}}`, Due: now.Add(time.Minute),
					Repeat: backend.SchedulerRepeat{Pattern: "0 * * * *"},
				})
				Expect(err).NotTo(HaveOccurred())
			}
			calls := 1
			for {
				again, err := s.Store.Drain(s.ctx, true, 1)
				Expect(err).NotTo(HaveOccurred())
				if !again {
					break
				}
				calls++
			}
			Expect(calls).To(BeNumerically("~", 5, 2)) // a call removes at least one job, and at most four
			Expect(s.Store.Counts(s.ctx, backend.Waiting, backend.Prioritized, backend.Delayed)).To(Equal([]int{0, 0, 3}))
		})

		ginkgo.It("cleans old jobs of a state, up to a limit", func() {
			for _, id := range []string{"a", "b", "c"} {
				s.run(id)
				s.complete(id, "1")
			}
			Expect(s.Store.Clean(s.ctx, backend.Completed, now.Add(-time.Second), 0)).To(BeEmpty())
			Expect(s.Store.Clean(s.ctx, backend.Completed, now.Add(time.Second), 2)).To(HaveLen(2))
			Expect(s.Store.Counts(s.ctx, backend.Completed)).To(Equal([]int{1}))
		})

		ginkgo.It("moves the failed jobs back to wait", func() {
			s.run("a")
			s.fail("a", "boom")
			again, err := s.Store.MoveJobsToWait(s.ctx, backend.MoveJobs{From: backend.Failed, Count: 100})
			Expect(err).NotTo(HaveOccurred())
			Expect(again).To(BeFalse())
			s.expectState("a", backend.Waiting)
			Expect(s.record("a").FailedReason).To(BeEmpty())
		})

		ginkgo.It("obliterates only a paused queue, and one with running jobs only by force", func() {
			s.run("running")
			s.add(named("a"))
			_, err := s.Store.Obliterate(s.ctx, 100, false)
			Expect(err).To(MatchError(backend.ErrNotPaused))
			Expect(s.Store.Pause(s.ctx)).To(Succeed())
			_, err = s.Store.Obliterate(s.ctx, 100, false)
			Expect(err).To(MatchError(backend.ErrActiveJobs))
			again, err := s.Store.Obliterate(s.ctx, 100, true)
			Expect(err).NotTo(HaveOccurred())
			Expect(again).To(BeFalse())
			Expect(s.Store.Job(s.ctx, "running")).To(BeNil())
			Expect(s.Store.Meta(s.ctx)).To(Equal(backend.Meta{}))
		})

		ginkgo.It("removes a queue only if it is unused, with its finished jobs only if told to", func() {
			remove := func(finished, used, again bool) {
				ginkgo.GinkgoHelper()
				isUsed, isLeft, err := s.Store.RemoveUnused(s.ctx, 2, finished)
				Expect(err).NotTo(HaveOccurred())
				Expect([]bool{isUsed, isLeft}).To(Equal([]bool{used, again}))
			}
			for _, id := range []string{"a", "b"} {
				s.run(id)
				remove(true, true, false) // the job is active
				s.fail(id, "boom")
				remove(false, true, false)
			}
			s.add(named("c"))
			remove(true, true, false)
			Expect(s.Store.Remove(s.ctx, "c", false)).To(Equal(backend.Removed))
			remove(true, false, true)
			remove(true, false, false)
			Expect(s.Store.Job(s.ctx, "a")).To(BeNil())
			Expect(s.Store.Meta(s.ctx)).To(Equal(backend.Meta{}))
		})
	})
}
