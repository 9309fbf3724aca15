package backendtest

import (
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

func (s *suite) cancelling() {
	ginkgo.Describe("A job that Cancel has cancelled", func() {
		const failure = "cancelled: no longer wanted"
		cancel := func(id string) (backend.CancelOutcome, error) {
			return s.Store.Cancel(s.ctx, id, failure, "no longer wanted", "")
		}

		ginkgo.It("is the next to be fetched, with the reason, from any state before active", func() {
			s.add(named("first"), named("waits"), prioritized("ranks", 3), delayed("later", time.Hour))
			s.addFlow(named("parent"), s.childOf("parent", "child"))
			for _, id := range []string{"waits", "ranks", "later", "parent"} {
				Expect(cancel(id)).To(Equal(backend.CancelQueued), id)
				Expect(s.record(id).DeferredFailure).To(Equal(failure), id)
				Expect(s.record(id).Delay).To(BeZero(), id)
				Expect(s.fetch()).To(Equal(id))
			}
			Expect(s.fetch()).To(Equal("first"))
			Expect(s.fetch()).To(Equal("child"))
		})

		ginkgo.It("is reported by the renewal of its lock while it runs, and by CancelRequests", func() {
			s.run("a")
			s.run("b")
			locks := []backend.Lock{{JobID: "a", Token: token}, {JobID: "b", Token: token}}
			Expect(s.Store.ExtendLocks(s.ctx, locks, lockTime)).To(And(HaveField("Lost", BeEmpty()), HaveField("Cancelled", BeEmpty())))
			Expect(cancel("a")).To(Equal(backend.CancelRunning))
			Expect(s.Store.ExtendLocks(s.ctx, locks, lockTime)).To(And(
				HaveField("Lost", BeEmpty()), HaveField("Cancelled", Equal([]backend.Cancellation{{JobID: "a", Failure: failure}}))))
			Expect(s.Store.Cancellations(s.ctx, []string{"a", "b", "gone"})).To(Equal([]backend.Cancellation{{JobID: "a", Failure: failure}}))
			requests, err := s.Store.CancelRequests(s.ctx, "0-0")
			Expect(err).NotTo(HaveOccurred())
			Expect(requests).To(HaveLen(1))
			Expect(requests[0]).To(And(HaveField("JobID", "a"), HaveField("Reason", "no longer wanted"), HaveField("Recorded", true)))
			Expect(s.Store.CancelRequests(s.ctx, requests[0].ID)).To(BeEmpty())
		})

		ginkgo.It("is no longer cancelled once it has finished, whether it completed or failed", func() {
			for id, failed := range map[string]bool{"a": true, "b": false} {
				s.run(id)
				Expect(cancel(id)).To(Equal(backend.CancelRunning))
				if failed {
					s.fail(id, failure)
				} else {
					s.complete(id, "1")
				}
				Expect(s.record(id).DeferredFailure).To(BeEmpty())
				Expect(s.record(id).Cancelled).To(BeTrue(), "a mark that stays")
				Expect(cancel(id)).To(Equal(backend.CancelFinished))
				Expect(s.record(id).DeferredFailure).To(BeEmpty())
			}
		})

		ginkgo.It("by a request is cancelled once, without another entry", func() {
			s.add(named("a"))
			Expect(s.Store.Cancel(s.ctx, "a", failure, "", "5-1")).To(Equal(backend.CancelQueued))
			Expect(s.Store.Cancel(s.ctx, "a", failure, "", "5-1")).To(Equal(backend.CancelRepeated))
			Expect(s.Store.Cancel(s.ctx, "a", failure, "", "5-2")).To(Equal(backend.CancelQueued))
			Expect(s.fetch()).To(Equal("a"))
			Expect(s.Store.Cancel(s.ctx, "a", failure, "", "5-3")).To(Equal(backend.CancelRunning))
			Expect(s.Store.CancelRequests(s.ctx, "0-0")).To(BeEmpty())
		})

		ginkgo.It("has to exist", func() {
			_, err := cancel("gone")
			Expect(err).To(MatchError(backend.JobNotFound))
		})
	})

	ginkgo.Describe("JobAndState", func() {
		ginkgo.It("reads a job with its state and the position of the last event", func() {
			s.add(named("a"), delayed("b", time.Hour))
			last, err := s.Store.LastEvent(s.ctx)
			Expect(err).NotTo(HaveOccurred())
			record, state, position, err := s.Store.JobAndState(s.ctx, "b", true)
			Expect(err).NotTo(HaveOccurred())
			Expect(record.Delay).To(Equal(time.Hour))
			Expect(state).To(Equal(backend.Delayed))
			Expect(position).To(Equal(last.ID))
			record, state, _, err = s.Store.JobAndState(s.ctx, "gone", false)
			Expect(err).NotTo(HaveOccurred())
			Expect(record).To(BeNil())
			Expect(state).To(Equal(backend.Unknown))
		})
	})
}
