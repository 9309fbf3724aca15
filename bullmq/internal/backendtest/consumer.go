package backendtest

import (
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

func (s *suite) consumer() {
	ginkgo.Describe("A running job", func() {
		ginkgo.It("is active, and knows when and how often it was started", func() {
			s.run("a")
			s.expectState("a", backend.Active)
			record := s.record("a")
			Expect(record.AttemptsStarted).To(Equal(1))
			Expect(record.AttemptsMade).To(BeZero())
			Expect(record.ProcessedOn).NotTo(BeZero())
		})

		ginkgo.It("completes with its return value", func() {
			s.run("a")
			s.complete("a", `{"ok":true}`)
			Expect(s.Store.Outcome(s.ctx, "a")).To(Equal(backend.Outcome{State: backend.Completed, Value: `{"ok":true}`}))
			record := s.record("a")
			Expect(string(record.ReturnValue)).To(Equal(`{"ok":true}`))
			Expect(record.FinishedOn).To(BeTemporally("==", now))
			Expect(record.AttemptsMade).To(Equal(1))
		})

		ginkgo.It("fails with its reason", func() {
			s.run("a")
			s.fail("a", "boom")
			Expect(s.Store.Outcome(s.ctx, "a")).To(Equal(backend.Outcome{State: backend.Failed, Value: "boom"}))
			Expect(s.record("a").FailedReason).To(Equal("boom"))
		})

		ginkgo.It("can't complete while it has pending children", func() {
			s.run("parent")
			s.add(s.childOf("parent", "a"))
			Expect(s.finish("parent", "1", false)).To(MatchError(backend.PendingChildren))
			s.expectState("parent", backend.Active)
		})

		ginkgo.It("becomes ready again by RetryJob, last of those that wait, with what its attempt left", func() {
			s.run("a")
			s.add(named("b"))
			Expect(s.Store.RetryJob(s.ctx, backend.Retry{
				JobID: "a", Token: token, Now: now, Failure: backend.FailedAttempt{Reason: "boom", StackTrace: `["at line 1"]`},
			})).To(Succeed())
			record := s.record("a")
			Expect(record.FailedReason).To(Equal("boom"))
			Expect(record.StackTrace).To(Equal([]string{"at line 1"}))
			Expect(record.AttemptsMade).To(Equal(1))
			Expect(s.order()).To(Equal([]string{"b", "a"}))
		})

		ginkgo.It("is the next one after RetryJob with LIFO", func() {
			s.run("a")
			s.add(named("b"))
			Expect(s.Store.RetryJob(s.ctx, backend.Retry{JobID: "a", Token: token, Now: now, LIFO: true})).To(Succeed())
			Expect(s.order()).To(Equal([]string{"a", "b"}))
		})

		ginkgo.It("goes back to the front by MoveToWait, and has made no attempt", func() {
			s.run("a")
			s.add(named("b"))
			_, err := s.Store.MoveToWait(s.ctx, "a", token)
			Expect(err).NotTo(HaveOccurred())
			Expect(s.record("a").AttemptsMade).To(BeZero())
			Expect(s.order()).To(Equal([]string{"a", "b"}))
		})

		ginkgo.It("waits for its children by MoveToWaitingChildren, if it has any", func() {
			s.run("parent")
			Expect(s.Store.MoveToWaitingChildren(s.ctx, "parent", token, now, backend.JobRef{})).To(BeFalse())
			s.add(s.childOf("parent", "a"))
			Expect(s.Store.MoveToWaitingChildren(s.ctx, "parent", token, now, backend.JobRef{})).To(BeTrue())
			s.expectState("parent", backend.WaitingChildren)
			Expect(s.fetch()).To(Equal("a"))
			s.complete("a", "1")
			s.expectState("parent", backend.Waiting)
		})

		ginkgo.DescribeTable("is not changed by a call without its lock:", func(call func(id, token string) error) {
			s.run("a")
			Expect(call("a", "other")).To(MatchError(backend.LockMismatch))
			s.expectState("a", backend.Active)
			Expect(call("gone", token)).To(MatchError(backend.JobNotFound))
			s.add(named("b"))
			Expect(call("b", token)).To(MatchError(backend.LockNotFound))
			s.expectState("b", backend.Waiting)
		},
			ginkgo.Entry("Finish", func(id, token string) error {
				return s.Finish(s.ctx, now, backend.Lock{JobID: id, Token: token}, "1", false)
			}),
			ginkgo.Entry("RetryJob", func(id, token string) error {
				return s.Store.RetryJob(s.ctx, backend.Retry{JobID: id, Token: token, Now: now})
			}),
			ginkgo.Entry("MoveToWait", func(id, token string) error {
				_, err := s.Store.MoveToWait(s.ctx, id, token)
				return err
			}),
		)
	})
}

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
			Expect(s.Store.ExtendLocks(s.ctx, locks, lockTime)).To(ConsistOf("b", "gone"))
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
