package backendtest

import (
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

func (s *suite) jobs() {
	ginkgo.Describe("A job", func() {
		ginkgo.It("that does not exist is nil, in no state and without an outcome", func() {
			Expect(s.Store.Job(s.ctx, "gone")).To(BeNil())
			Expect(s.Store.Summary(s.ctx, "gone")).To(BeNil())
			s.expectState("gone", backend.Unknown)
			Expect(s.Store.Outcome(s.ctx, "gone")).To(Equal(backend.Outcome{State: backend.Unknown}))
		})

		ginkgo.It("that has not ended has no outcome", func() {
			s.add(named("a"))
			Expect(s.Store.Outcome(s.ctx, "a")).To(Equal(backend.Outcome{}))
		})

		ginkgo.It("has a summary without its data", func() {
			s.run("a")
			summary, err := s.Store.Summary(s.ctx, "a")
			Expect(err).NotTo(HaveOccurred())
			Expect(summary.Name).To(Equal("a"))
			Expect(summary.Opts).To(Equal(`{"attempts":2}`))
			Expect(summary.AttemptsStarted).To(Equal(1))
			Expect(summary.Data).To(BeEmpty())
		})

		ginkgo.It("has the progress and the data that were stored last", func() {
			s.add(named("a"))
			Expect(s.Store.UpdateProgress(s.ctx, "a", `{"done":1}`)).To(Succeed())
			Expect(s.Store.UpdateData(s.ctx, "a", `[1, 2]`)).To(Succeed())
			Expect(string(s.record("a").Progress)).To(Equal(`{"done":1}`))
			Expect(string(s.record("a").Data)).To(Equal(`[1, 2]`))
		})

		ginkgo.It("has a log that keeps the newest rows, oldest first", func() {
			s.add(named("a"))
			for n, row := range []string{"one", "two", "three"} {
				Expect(s.Store.AddLog(s.ctx, "a", row, 0)).To(Equal(n + 1))
			}
			Expect(s.Store.AddLog(s.ctx, "a", "four", 3)).To(Equal(3))
			rows, total, err := s.Store.Logs(s.ctx, "a", 0, 1)
			Expect(err).NotTo(HaveOccurred())
			Expect(rows).To(Equal([]string{"two", "three"}))
			Expect(total).To(Equal(3))
			Expect(s.Store.ClearLogs(s.ctx, "a", 1)).To(Succeed())
			rows, _, err = s.Store.Logs(s.ctx, "a", 0, -1)
			Expect(err).NotTo(HaveOccurred())
			Expect(rows).To(Equal([]string{"four"}))
		})

		ginkgo.It("that is delayed becomes ready by Promote", func() {
			s.add(delayed("a", time.Hour))
			Expect(s.Store.Promote(s.ctx, "a")).To(Succeed())
			s.expectState("a", backend.Waiting)
			Expect(s.Store.Promote(s.ctx, "a")).To(MatchError(backend.NotInState))
			Expect(s.Store.Promote(s.ctx, "gone")).To(MatchError(backend.NotInState))
		})

		ginkgo.It("that is delayed gets another delay by ChangeDelay, counted from now", func() {
			s.add(delayed("a", time.Hour))
			Expect(s.Store.ChangeDelay(s.ctx, "a", now.Add(time.Minute), time.Second)).To(Succeed())
			Expect(s.record("a").Delay).To(Equal(time.Second))
			Expect(s.fetchAt(now.Add(time.Minute))).To(BeEmpty())
			Expect(s.fetchAt(now.Add(time.Minute + time.Second))).To(Equal("a"))
			Expect(s.Store.ChangeDelay(s.ctx, "a", now, time.Second)).To(MatchError(backend.NotInState))
		})

		ginkgo.It("moves to another place by ChangePriority", func() {
			s.add(named("a"), prioritized("b", 2), prioritized("c", 1))
			Expect(s.Store.ChangePriority(s.ctx, "a", 2, false)).To(Succeed())
			s.expectState("a", backend.Prioritized)
			Expect(s.Store.ChangePriority(s.ctx, "b", 0, false)).To(Succeed())
			s.expectState("b", backend.Waiting)
			Expect(s.order()).To(Equal([]string{"b", "c", "a"}))
		})

		ginkgo.It("that has ended runs again by Reprocess", func() {
			s.run("a")
			s.fail("a", "boom")
			Expect(s.Store.Reprocess(s.ctx, "a", backend.Reprocess{From: backend.Completed})).To(MatchError(backend.NotInState))
			Expect(s.Store.Reprocess(s.ctx, "a", backend.Reprocess{From: backend.Failed, ResetAttemptsMade: true})).To(Succeed())
			record := s.record("a")
			Expect(record.AttemptsMade).To(BeZero())
			Expect(record.AttemptsStarted).To(Equal(1))
			Expect(record.FinishedOn).To(BeZero())
			Expect(s.fetch()).To(Equal("a"))
		})

		ginkgo.It("is gone after Remove, from its state and with its record", func() {
			s.add(named("a"), delayed("b", time.Hour))
			Expect(s.Store.Remove(s.ctx, "a", false)).To(Equal(backend.Removed))
			Expect(s.Store.Remove(s.ctx, "b", false)).To(Equal(backend.Removed))
			Expect(s.Store.Counts(s.ctx, backend.Waiting, backend.Delayed)).To(Equal([]int{0, 0}))
			Expect(s.Store.Job(s.ctx, "a")).To(BeNil())
			Expect(s.Store.Remove(s.ctx, "a", false)).To(Equal(backend.NotFound))
		})

		ginkgo.DescribeTable("that does not exist is refused by", func(call func() error) {
			Expect(call()).To(MatchError(backend.JobNotFound))
		},
			ginkgo.Entry("UpdateProgress", func() error { return s.Store.UpdateProgress(s.ctx, "gone", "1") }),
			ginkgo.Entry("UpdateData", func() error { return s.Store.UpdateData(s.ctx, "gone", "1") }),
			ginkgo.Entry("AddLog", func() error { _, err := s.Store.AddLog(s.ctx, "gone", "row", 0); return err }),
			ginkgo.Entry("ChangeDelay", func() error { return s.Store.ChangeDelay(s.ctx, "gone", now, time.Second) }),
			ginkgo.Entry("ChangePriority", func() error { return s.Store.ChangePriority(s.ctx, "gone", 1, false) }),
			ginkgo.Entry("Reprocess", func() error {
				return s.Store.Reprocess(s.ctx, "gone", backend.Reprocess{From: backend.Failed})
			}),
		)
	})
}
