package backendtest

import (
	"fmt"
	"slices"
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

func (s *suite) upkeepOfMany() {
	ginkgo.It("extends locks, and tells for each which are lost and which jobs were cancelled", func() {
		q := s.members(3)
		s.start(q[0], "a", "b")
		s.start(q[2], "a")
		_, err := q[2].Cancel(s.ctx, "a", "cancelled: no", "no", "")
		Expect(err).NotTo(HaveOccurred())
		renewals, err := s.Group.ExtendLocksOf(s.ctx, []backend.QueueLocks{
			{Queue: q[0].key, Locks: []backend.Lock{{JobID: "a", Token: "a"}, {JobID: "b", Token: "other"}}},
			{Queue: q[1].key},
			{Queue: q[2].key, Locks: []backend.Lock{{JobID: "a", Token: "a"}, {JobID: "gone", Token: "a"}}},
		}, lockTime)
		Expect(err).NotTo(HaveOccurred())
		Expect(renewals).To(HaveLen(3))
		for _, renewal := range renewals {
			Expect(renewal.Err).NotTo(HaveOccurred())
		}
		Expect(renewals[0].Lost).To(Equal([]string{"b"}))
		Expect(renewals[0].Cancelled).To(BeEmpty())
		Expect(renewals[1].Lost).To(BeEmpty())
		Expect(renewals[2].Lost).To(Equal([]string{"gone"}))
		Expect(renewals[2].Cancelled).To(Equal([]backend.Cancellation{{JobID: "a", Failure: "cancelled: no"}}))
	})

	ginkgo.It("checks each for stalled jobs, once in an interval", func() {
		q := s.members(3)
		for _, one := range q[:2] {
			s.start(one, "lost", "kept")
			Expect(one.ExtendLock(s.ctx, backend.Lock{JobID: "lost", Token: "lost"}, time.Millisecond)).To(BeTrue())
		}
		_, err := q[1].MoveStalledJobsToWait(s.ctx, now, 1, time.Hour) // marks the active jobs
		Expect(err).NotTo(HaveOccurred())
		check := func(interval time.Duration) (ids [][]string) {
			s.Elapse(5 * time.Millisecond)
			moved, err := s.Group.MoveStalledJobsOf(s.ctx, keysOf(q), now, 1, interval)
			Expect(err).NotTo(HaveOccurred())
			for _, of := range moved {
				Expect(of.Err).NotTo(HaveOccurred())
				ids = append(ids, of.JobIDs)
			}
			return ids
		}
		Expect(check(time.Millisecond)).To(HaveExactElements(BeEmpty(), BeEmpty(), BeEmpty()))
		Expect(check(time.Hour)).To(HaveExactElements(Equal([]string{"lost"}), BeEmpty(), BeEmpty()))
		Expect(check(time.Hour)).To(HaveExactElements(BeEmpty(), BeEmpty(), BeEmpty()))
		Expect(q[0].State(s.ctx, "lost")).To(Equal(backend.Waiting))
		Expect(q[0].State(s.ctx, "kept")).To(Equal(backend.Active))
		Expect(q[1].State(s.ctx, "lost")).To(Equal(backend.Active), "another worker has made the check")
	})

	ginkgo.It("reads the cancellations of each, and what determines its dialect", func() {
		q := s.members(3)
		s.start(q[1], "a")
		_, err := q[1].Cancel(s.ctx, "a", "cancelled: no", "no", "")
		Expect(err).NotTo(HaveOccurred())
		Expect(q[2].InitMeta(s.ctx, 1000, "bullmq:5.1.0")).To(Succeed())
		var after []backend.QueuePosition
		for _, one := range q {
			after = append(after, backend.QueuePosition{Queue: one.key, After: "0-0"})
		}
		requests, err := s.Group.CancelRequestsOf(s.ctx, after)
		Expect(err).NotTo(HaveOccurred())
		want, err := q[1].CancelRequests(s.ctx, "0-0")
		Expect(err).NotTo(HaveOccurred())
		Expect(want).To(HaveLen(1))
		Expect(requests).To(HaveExactElements(BeEmpty(), Equal(want), BeEmpty()))
		after[1].After = want[0].ID
		Expect(s.Group.CancelRequestsOf(s.ctx, after)).To(HaveExactElements(BeEmpty(), BeEmpty(), BeEmpty()))

		hints, err := s.Group.DialectHintsOf(s.ctx, keysOf(q))
		Expect(err).NotTo(HaveOccurred())
		Expect(hints).To(HaveExactElements(backend.QueueDialect{}, backend.QueueDialect{}, backend.QueueDialect{Version: "bullmq:5.1.0"}))
	})
}

func (s *suite) looks() {
	ginkgo.It("sees which of them need attention, and changes nothing", func() {
		q := s.members(7)
		s.fill(q[1], named("a"))
		s.fill(q[2], delayed("a", time.Hour))
		s.start(q[3], "a")
		s.start(q[4], "a")
		_, err := q[4].Cancel(s.ctx, "a", "cancelled: no", "no", "")
		Expect(err).NotTo(HaveOccurred())
		s.start(q[5], "a")
		_, err = q[5].MoveToFinished(s.ctx, backend.Finish{Now: now, Worker: worker, Ends: []*backend.End{
			{JobID: "a", Token: "a", Failure: &backend.FailedAttempt{Reason: "boom", StackTrace: "[]"}, Attempts: 1, Keep: keepAll},
		}})()
		Expect(err).NotTo(HaveOccurred())
		s.fill(q[6], named("a"))
		Expect(q[6].Pause(s.ctx)).To(Succeed())
		before := make([][]any, len(q))
		for i := range q {
			before[i] = s.contentsOf(q[i])
		}
		look := func(l backend.Look) []backend.Seen {
			ginkgo.GinkgoHelper()
			seen, err := s.Group.LookAtQueues(s.ctx, keysOf(q), l)
			Expect(err).NotTo(HaveOccurred())
			return seen
		}
		want := []backend.Seen{{Index: 1, Ready: true}, {Index: 2, NextDue: now.Add(time.Hour)}, {Index: 3, Running: true}, {Index: 4, Running: true, Cancelled: true}}
		Expect(look(backend.Look{})).To(Equal(want))
		Expect(look(backend.Look{Failed: true})).To(Equal(append(slices.Clone(want), backend.Seen{Index: 5, Failed: true})))
		Expect(look(backend.Look{Vanished: true})).To(ContainElement(backend.Seen{Index: 0, Vanished: true}))
		quick := look(backend.Look{Quick: true})
		Expect(quick).To(ContainElements(want[0], want[1]))
		for _, seen := range quick {
			Expect(seen).To(Equal(backend.Seen{Index: seen.Index, Ready: seen.Ready, NextDue: seen.NextDue}))
			Expect(seen.Index).NotTo(BeElementOf(0, 6))
		}
		for i := range q {
			Expect(s.contentsOf(q[i])).To(Equal(before[i]))
		}
	})

	ginkgo.It("can claim the times of delayed jobs, which wake nobody then, until they are returned", func() {
		q := s.members(2)
		at := now.Add(time.Hour)
		for _, quick := range []bool{false, true} {
			look := backend.Look{Quick: true}
			for _, one := range q {
				s.fill(one, delayed(fmt.Sprint("later", quick), time.Hour))
			}
			claimed, err := s.Group.LookAtQueues(s.ctx, keysOf(q), backend.Look{Quick: quick, Claim: true})
			Expect(err).NotTo(HaveOccurred())
			Expect(claimed).To(HaveLen(2))
			for i, seen := range claimed {
				Expect(seen.NextDue).To(BeTemporally("~", at, time.Millisecond))
				Expect(s.seenBy(look, q[i])).To(Equal(backend.Seen{}))
			}
			Expect(s.Group.ReturnDues(s.ctx, []backend.QueueDue{{Queue: q[0].key, At: at}, {Queue: q[1].key, At: at.Add(time.Second)}})).To(Succeed())
			Expect(s.seenBy(look, q[1]).NextDue).To(BeTemporally("~", at.Add(time.Second), time.Millisecond))
			Expect(s.Group.ReturnDues(s.ctx, []backend.QueueDue{{Queue: q[1].key, At: at}})).To(Succeed())
			Expect(s.Group.ReturnDues(s.ctx, []backend.QueueDue{{Queue: q[1].key, At: at.Add(time.Minute)}})).To(Succeed())
			Expect(s.seenBy(look, q[1]).NextDue).To(BeTemporally("~", at, time.Millisecond), "the earliest one stays")
		}
	})
}
