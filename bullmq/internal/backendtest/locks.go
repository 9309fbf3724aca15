package backendtest

import (
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

func (s *suite) locks() {
	ginkgo.Describe("A lock", func() {
		ginkgo.It("is extended for its owner alone", func() {
			s.run("a")
			Expect(s.Store.ExtendLock(s.ctx, backend.Lock{JobID: "a", Token: token}, lockTime)).To(BeTrue())
			Expect(s.Store.ExtendLock(s.ctx, backend.Lock{JobID: "a", Token: "other"}, lockTime)).To(BeFalse())
		})

		ginkgo.It("is extended with others in one call, which returns the jobs whose lock is lost", func() {
			s.run("a")
			s.run("b")
			locks := []backend.Lock{{JobID: "a", Token: token}, {JobID: "b", Token: "other"}, {JobID: "gone", Token: token}}
			Expect(s.Store.ExtendLocks(s.ctx, locks, lockTime)).To(HaveField("Lost", ConsistOf("b", "gone")))
		})

		ginkgo.It("keeps its job from being removed", func() {
			s.run("a")
			Expect(s.Store.Remove(s.ctx, "a", false)).To(Equal(backend.Locked))
			s.expectState("a", backend.Active)
		})

		ginkgo.It("keeps its job active, which waits again if two checks have found no lock", func() {
			check := func() ([]string, error) {
				s.Elapse(5 * time.Millisecond)
				return s.Store.MoveStalledJobsToWait(s.ctx, now, 1, time.Millisecond)
			}
			s.run("kept")
			s.run("lost")
			Expect(s.Store.ExtendLock(s.ctx, backend.Lock{JobID: "lost", Token: token}, time.Millisecond)).To(BeTrue())
			Expect(check()).To(BeEmpty())
			Expect(check()).To(Equal([]string{"lost"}))
			s.expectState("lost", backend.Waiting)
			s.expectState("kept", backend.Active)
			Expect(s.record("lost").StalledCounter).To(Equal(1))
		})

		ginkgo.It("fails its job if it was lost more often than a job may stall", func() {
			s.run("lost")
			Expect(s.Store.ExtendLock(s.ctx, backend.Lock{JobID: "lost", Token: token}, time.Millisecond)).To(BeTrue())
			for range 2 {
				s.Elapse(5 * time.Millisecond)
				_, err := s.Store.MoveStalledJobsToWait(s.ctx, now, 0, time.Millisecond)
				Expect(err).NotTo(HaveOccurred())
			}
			Expect(s.record("lost").DeferredFailure).NotTo(BeEmpty())
		})

		ginkgo.It("is checked once in an interval", func() {
			s.run("lost")
			Expect(s.Store.ExtendLock(s.ctx, backend.Lock{JobID: "lost", Token: token}, time.Millisecond)).To(BeTrue())
			s.Elapse(5 * time.Millisecond)
			for range 3 {
				Expect(s.Store.MoveStalledJobsToWait(s.ctx, now, 1, time.Minute)).To(BeEmpty())
			}
			s.expectState("lost", backend.Active)
		})
	})
}
