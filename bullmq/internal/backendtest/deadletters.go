package backendtest

import (
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

func (s *suite) deadLetters() {
	ginkgo.Describe("A store with DeadLetters", func() {
		// dead is the queue of the letters, and own the queue of the suite.
		var dead, own backend.DeadLetters
		var deadStore backend.Store
		var deadRef, ownRef backend.QueueRef
		ginkgo.BeforeEach(func() {
			var ok bool
			if own, ok = s.Store.(backend.DeadLetters); !ok {
				ginkgo.Skip("this backend can't move failed jobs to another queue")
			}
			ownRef, deadRef = backend.QueueRef{Prefix: s.Prefix, Name: s.Name}, backend.QueueRef{Prefix: s.Prefix, Name: s.Name + "-dead"}
			deadStore = s.Another(deadRef.Name)
			dead = deadStore.(backend.DeadLetters)
		})
		// failAt fails a job at a time.
		failAt := func(id string, at time.Time) {
			ginkgo.GinkgoHelper()
			s.run(id)
			ended, err := s.Store.MoveToFinished(s.ctx, backend.Finish{Now: at, Worker: worker, Ends: []*backend.End{failure(id, "boom")}})()
			Expect(err).NotTo(HaveOccurred())
			Expect(ended[0].Err).NotTo(HaveOccurred())
		}
		move := func(m backend.MoveFailed) backend.MovedFailed {
			ginkgo.GinkgoHelper()
			m.From, m.Now = ownRef, now
			if m.Count == 0 {
				m.Count = 10
			}
			moved, err := dead.MoveFailed(s.ctx, m)
			Expect(err).NotTo(HaveOccurred())
			return moved
		}
		// bury fails a job and returns the id of its letter.
		bury := func(id string, at time.Time) string {
			ginkgo.GinkgoHelper()
			failAt(id, at)
			moved := move(backend.MoveFailed{})
			Expect(moved.IDs).To(HaveLen(1))
			return moved.IDs[0]
		}

		ginkgo.It("moves failed jobs of another queue once, as waiting jobs that say what they were", func() {
			failAt("a", now)
			failAt("b", now.Add(time.Second))
			moved := move(backend.MoveFailed{Records: true})
			Expect(moved).To(And(HaveField("Seen", 2), HaveField("Stay", 0), HaveField("Pending", 0)))
			Expect(moved.IDs).To(HaveLen(2))
			Expect(moved.Records).To(HaveLen(2))
			for i, id := range []string{"a", "b"} {
				Expect(moved.Records[i]).To(And(HaveField("ID", moved.IDs[i]), HaveField("Name", id), HaveField("FailedReason", "boom")))
				Expect(moved.Records[i].Opts).To(And(ContainSubstring(`"id":"`+id+`"`), ContainSubstring(`"queue":"`+ownRef.String()+`"`), Not(ContainSubstring("cancelled"))))
				Expect(deadStore.State(s.ctx, moved.IDs[i])).To(Equal(backend.Waiting))
				s.expectState(id, backend.Unknown)
			}
			Expect(move(backend.MoveFailed{})).To(Equal(backend.MovedFailed{}))
			Expect(dead.JobOptions(s.ctx, backend.Page{From: 1, To: 5, Ascending: true}, backend.Waiting)).To(HaveExactElements(ContainSubstring(`"id":"b"`)))
			Expect(dead.JobOptions(s.ctx, backend.Page{From: 2, To: 5, Ascending: true}, backend.Waiting)).To(BeEmpty())
		})

		ginkgo.It("looks at some of the jobs, from the oldest since a time on", func() {
			for i, id := range []string{"a", "b", "c", "d"} {
				failAt(id, now.Add(time.Duration(i)*time.Second))
			}
			Expect(move(backend.MoveFailed{Since: now.Add(time.Second), Skip: 1, Count: 1})).To(And(HaveField("Seen", 1), HaveField("IDs", HaveLen(1))))
			s.expectState("c", backend.Unknown)
			Expect(move(backend.MoveFailed{Since: now.Add(time.Minute)}).Seen).To(BeZero())
			Expect(move(backend.MoveFailed{Count: 1}).Seen).To(Equal(1))
			s.expectState("a", backend.Unknown)
			Expect(move(backend.MoveFailed{Since: now.Add(time.Second)}).Seen).To(Equal(2))
		})

		ginkgo.It("leaves a job whose children can still end", func() {
			s.addFlow(named("parent"), s.childWith("parent", "bad", "fpof"), s.childOf("parent", "late"))
			Expect(s.fetch()).To(Equal("bad"))
			s.fail("bad", "boom")
			Expect(s.order()).To(ContainElement("parent"))
			s.fail("parent", "child failed")
			Expect(move(backend.MoveFailed{})).To(And(HaveField("Seen", 2), HaveField("Stay", 1), HaveField("Pending", 1), HaveField("IDs", HaveLen(1))))
			s.expectState("parent", backend.Failed)
			s.complete("late", "1")
			Expect(move(backend.MoveFailed{})).To(And(HaveField("Stay", 0), HaveField("IDs", HaveLen(1))))
		})

		ginkgo.It("moves a job that was cancelled on request only, and marks its letter", func() {
			const reason = "cancelled: no longer wanted"
			s.run("a")
			Expect(s.Store.Cancel(s.ctx, "a", reason, "no longer wanted", "")).To(Equal(backend.CancelRunning))
			s.fail("a", reason)
			Expect(move(backend.MoveFailed{})).To(Equal(backend.MovedFailed{Seen: 1, Stay: 1}))
			moved := move(backend.MoveFailed{Cancelled: true, Records: true})
			Expect(moved.IDs).To(HaveLen(1))
			Expect(moved.Records[0].Opts).To(ContainSubstring(`"cancelled":true`))
		})

		ginkgo.It("finds the newest letter of a job", func() {
			Expect(dead.FindDeadLetter(s.ctx, s.ref("a"))).To(BeNil())
			for _, at := range []time.Time{now, now.Add(time.Second)} {
				letter := bury("a", at)
				found, err := dead.FindDeadLetter(s.ctx, s.ref("a"))
				Expect(err).NotTo(HaveOccurred())
				Expect(found).To(And(HaveField("ID", letter), HaveField("Name", "a")))
			}
			bury("b", now)
			Expect(dead.FindDeadLetter(s.ctx, s.ref("c"))).To(BeNil())
			Expect(own.FindDeadLetter(s.ctx, s.ref("a"))).To(BeNil())
		})

		ginkgo.It("puts letters of another queue back, and reports why it does not", func() {
			replayed, held, taken := bury("replayed", now), bury("held", now), bury("taken", now)
			s.add(named("taken"))
			Expect(deadStore.AddBatch(s.ctx, []*backend.Add{named("none")})[0].Err).NotTo(HaveOccurred())
			for i, id := range []string{replayed, held} { // the first ends, the second is held
				fetched, err := deadStore.MoveToActive(s.ctx, now, worker, token)
				Expect(err).NotTo(HaveOccurred())
				Expect(idOf(fetched[0])).To(Equal(id))
				if i == 0 {
					ended, err := deadStore.MoveToFinished(s.ctx, backend.Finish{Now: now, Worker: worker, Ends: []*backend.End{completion(id, "1")}})()
					Expect(err).NotTo(HaveOccurred())
					Expect(ended[0].Err).NotTo(HaveOccurred())
				}
			}
			Expect(own.ReplayDeadLetters(s.ctx, deadRef, []backend.Letter{
				{ID: replayed, JobID: "replayed"}, {ID: held, JobID: "held"}, {ID: taken, JobID: "taken"}, {ID: "none", JobID: "none"},
				{ID: taken, JobID: "replayed"}, {ID: "gone", JobID: "gone"},
			})).To(Equal([]backend.ReplayOutcome{
				backend.Replayed, backend.LetterHeld, backend.JobExists, backend.NoLetter, backend.NoLetter, backend.LetterGone,
			}))
			s.expectState("replayed", backend.Waiting)
			Expect(s.record("replayed")).To(And(HaveField("FailedReason", ""), HaveField("AttemptsMade", 0)))
			Expect(dead.FindDeadLetter(s.ctx, s.ref("replayed"))).To(BeNil())
			Expect(dead.FindDeadLetter(s.ctx, s.ref("held"))).NotTo(BeNil())
		})
	})
}
