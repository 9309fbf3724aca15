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
			Expect(s.Store.Drain(s.ctx, false)).To(Succeed())
			Expect(s.Store.Counts(s.ctx, states...)).To(Equal([]int{0, 0, 1, 1}))
			Expect(s.Store.Drain(s.ctx, true)).To(Succeed())
			Expect(s.Store.Counts(s.ctx, states...)).To(Equal([]int{0, 0, 0, 1}))
			Expect(s.Store.Job(s.ctx, "d")).To(BeNil())
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
	})
}
