package backendtest

import (
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

func (s *suite) routes() {
	ginkgo.Describe("A store with Routes", func() {
		var own backend.Routes
		var other backend.Store
		var ref backend.QueueRef
		ginkgo.BeforeEach(func() {
			var ok bool
			if own, ok = s.Store.(backend.Routes); !ok {
				ginkgo.Skip("this backend can't move jobs to another queue")
			}
			ref = backend.QueueRef{Prefix: s.Prefix, Name: s.Name + "@gpu"}
			other = s.Another(ref.Name)
		})
		forward := func(id string) backend.AddResult {
			ginkgo.GinkgoHelper()
			result, err := own.ForwardJob(s.ctx, backend.Forward{JobID: id, Token: token, To: ref, Now: now})
			Expect(err).NotTo(HaveOccurred())
			s.expectState(id, backend.Unknown)
			return result
		}
		addThere := func(jobs ...*backend.Add) (ids []string) {
			ginkgo.GinkgoHelper()
			for _, result := range other.AddBatch(s.ctx, jobs) {
				Expect(result.Err).NotTo(HaveOccurred())
				ids = append(ids, result.JobID)
			}
			return ids
		}
		// orderThere fetches all jobs of the other queue, and returns their ids.
		orderThere := func() (ids []string) {
			ginkgo.GinkgoHelper()
			for {
				taken, err := other.MoveToActive(s.ctx, now, worker, token)
				Expect(err).NotTo(HaveOccurred())
				if idOf(taken[0]) == "" {
					return ids
				}
				ids = append(ids, taken[0].Job.ID)
			}
		}

		ginkgo.It("forwards a running job as if it had been added to the other queue, and does not count its start", func() {
			s.add(named("a"))
			before := s.record("a")
			Expect(s.fetch()).To(Equal("a"))
			Expect(forward("a")).To(Equal(backend.AddResult{JobID: "a"}))
			after, err := other.Job(s.ctx, "a")
			Expect(err).NotTo(HaveOccurred())
			Expect(after).To(Equal(before))
			Expect(other.State(s.ctx, "a")).To(Equal(backend.Waiting))
			Expect(orderThere()).To(Equal([]string{"a"}))
		})

		ginkgo.It("forwards a job only for the worker that holds it", func() {
			s.run("a")
			for id, forward := range map[string]backend.Forward{"a": {JobID: "a", Token: "foreign"}, "none": {JobID: "none", Token: token}} {
				forward.To, forward.Now = ref, now
				_, err := own.ForwardJob(s.ctx, forward)
				Expect(err).To(BeAssignableToTypeOf(&backend.Error{}), id)
			}
			s.expectState("a", backend.Active)
			Expect(other.State(s.ctx, "a")).To(Equal(backend.Unknown))
		})

		ginkgo.It("keeps the priority of a forwarded job, and puts a LIFO job first", func() {
			s.add(prioritized("late", 9), prioritized("soon", 2), named("plain"), named("lifo"))
			for range 4 {
				id := s.fetch()
				_, err := own.ForwardJob(s.ctx, backend.Forward{JobID: id, Token: token, To: ref, Now: now, LIFO: id == "lifo"})
				Expect(err).NotTo(HaveOccurred())
			}
			Expect(orderThere()).To(Equal([]string{"lifo", "plain", "soon", "late"}))
		})

		ginkgo.It("keeps the number of a forwarded job if it is free, and never assigns it again", func() {
			ids := s.add(plain("one"), plain("two"), plain("three"))
			Expect(addThere(plain("there"))).To(Equal([]string{"1"}))
			Expect(s.order()).To(Equal(ids))
			Expect(forward("3").JobID).To(Equal("3"))
			Expect(addThere(plain("next"))).To(Equal([]string{"4"}))
			renumbered := forward("1")
			Expect(renumbered.Outcome).To(Equal(backend.Added))
			Expect(renumbered.JobID).NotTo(BeElementOf("1", "3", "4"))
			job, err := other.Job(s.ctx, renumbered.JobID)
			Expect(err).NotTo(HaveOccurred())
			Expect(job.Name).To(Equal("one"))
			Expect(forward("2").JobID).To(Equal("2"))
		})

		ginkgo.It("drops a forwarded job whose custom id is taken", func() {
			addThere(named("a"))
			s.run("a")
			Expect(forward("a")).To(Equal(backend.AddResult{JobID: "a", Outcome: backend.AlreadyExists}))
			Expect(s.Store.Job(s.ctx, "a")).To(BeNil())
			Expect(orderThere()).To(Equal([]string{"a"}))
		})

		ginkgo.It("takes the deduplication id of a forwarded job along", func() {
			once := func(id string) *backend.Add {
				a := named(id)
				a.Deduplication.ID = "d"
				return a
			}
			s.add(once("a"))
			Expect(s.fetch()).To(Equal("a"))
			Expect(forward("a").Outcome).To(Equal(backend.Added))
			Expect(s.Store.DeduplicationOwner(s.ctx, "d")).To(BeEmpty())
			Expect(other.DeduplicationOwner(s.ctx, "d")).To(Equal("a"))
			s.add(once("b"))
			Expect(s.fetch()).To(Equal("b"))
			Expect(forward("b")).To(Equal(backend.AddResult{JobID: "a", Outcome: backend.Deduplicated}))
			Expect(s.Store.DeduplicationOwner(s.ctx, "d")).To(BeEmpty())
			Expect(orderThere()).To(Equal([]string{"a"}))
		})

		ginkgo.It("lets a parent wait for a child that was forwarded", func() {
			s.addFlow(named("parent"), s.childOf("parent", "child"))
			Expect(s.fetch()).To(Equal("child"))
			Expect(forward("child").JobID).To(Equal("child"))
			Expect(s.fetch()).To(BeEmpty())
			Expect(orderThere()).To(Equal([]string{"child"}))
			ended, err := other.MoveToFinished(s.ctx, backend.Finish{Now: now, Worker: worker, Ends: []*backend.End{completion("child", "7")}})()
			Expect(err).NotTo(HaveOccurred())
			Expect(ended[0].Err).NotTo(HaveOccurred())
			Expect(s.fetch()).To(Equal("parent"))
		})

		ginkgo.It("lets a parent no longer wait for a child that was dropped", func() {
			there := named("owner")
			there.Deduplication.ID = "d"
			addThere(there)
			child := s.childOf("parent", "child")
			child.Deduplication.ID = "d"
			s.addFlow(named("parent"), child)
			Expect(s.fetch()).To(Equal("child"))
			Expect(forward("child")).To(Equal(backend.AddResult{JobID: "owner", Outcome: backend.Deduplicated}))
			s.expectState("parent", backend.Waiting)
			Expect(s.fetch()).To(Equal("parent"))
		})

		ginkgo.It("moves no job to the queue in which it is", func() {
			s.add(named("running"), named("ready"))
			Expect(s.fetch()).To(Equal("running"))
			same := backend.QueueRef{Prefix: s.Prefix, Name: s.Name}
			_, err := own.ForwardJob(s.ctx, backend.Forward{JobID: "running", Token: token, To: same, Now: now})
			Expect(err).To(HaveOccurred())
			_, err = own.MoveWaiting(s.ctx, same, now, []backend.MovedJob{{ID: "ready", Opts: "{}"}})
			Expect(err).To(HaveOccurred())
			s.expectState("running", backend.Active)
			s.complete("running", "1")
			Expect(s.fetch()).To(Equal("ready"))
		})

		ginkgo.It("gives a child a new number if its id is taken", func() {
			addThere(named("child"))
			s.addFlow(named("parent"), s.childOf("parent", "child"))
			Expect(s.fetch()).To(Equal("child"))
			forwarded := forward("child")
			Expect(forwarded.Outcome).To(Equal(backend.Added))
			Expect(orderThere()).To(Equal([]string{"child", forwarded.JobID}))
			for _, id := range []string{"child", forwarded.JobID} {
				s.expectState("parent", backend.WaitingChildren)
				ended, err := other.MoveToFinished(s.ctx, backend.Finish{Now: now, Worker: worker, Ends: []*backend.End{completion(id, "7")}})()
				Expect(err).NotTo(HaveOccurred())
				Expect(ended[0].Err).NotTo(HaveOccurred())
			}
			Expect(s.fetch()).To(Equal("parent"))
		})

		ginkgo.It("lets a forwarded parent wait for children that it has", func() {
			s.run("parent")
			s.add(s.childOf("parent", "child"))
			Expect(forward("parent").JobID).To(Equal("parent"))
			Expect(orderThere()).To(Equal([]string{"parent"}))
			Expect(other.MoveToWaitingChildren(s.ctx, "parent", token, now, backend.JobRef{})).To(BeTrue())
			Expect(s.fetch()).To(Equal("child"))
			s.complete("child", "7")
			Expect(orderThere()).To(Equal([]string{"parent"}))
		})

		ginkgo.It("does not let a forwarded job advance a scheduler", func() {
			a := named("a")
			a.SchedulerID = "nightly"
			s.add(a)
			Expect(s.fetch()).To(Equal("a"))
			forward("a")
			Expect(other.Job(s.ctx, "a")).To(HaveField("SchedulerID", ""))
		})

		ginkgo.It("moves jobs that are ready with new options, and leaves others", func() {
			s.add(named("waiting"), prioritized("urgent", 3), delayed("later", time.Minute), delayed("due", time.Second))
			s.add(named("last"))
			Expect(s.fetch()).To(Equal("waiting"))
			const opts = `{"attempts":3}`
			ids, err := own.MoveWaiting(s.ctx, ref, now.Add(time.Second), []backend.MovedJob{
				{ID: "waiting", Opts: opts}, {ID: "last", Opts: opts}, {ID: "urgent", Opts: opts},
				{ID: "later", Opts: opts}, {ID: "due", Opts: opts}, {ID: "none", Opts: opts},
			})
			Expect(err).NotTo(HaveOccurred())
			Expect(ids).To(Equal([]string{"", "last", "urgent", "", "due", ""}))
			s.expectState("waiting", backend.Active)
			s.expectState("later", backend.Delayed)
			s.expectState("last", backend.Unknown)
			Expect(other.Job(s.ctx, "last")).To(HaveField("Opts", opts))
			Expect(other.Job(s.ctx, "due")).To(HaveField("Delay", time.Duration(0)))
			Expect(orderThere()).To(Equal([]string{"last", "due", "urgent"}))
		})

		ginkgo.It("moves a job at the request of a user, also a delayed one, unless it is part of something else", func() {
			scheduled := named("scheduled")
			scheduled.SchedulerID = "nightly"
			s.run("running")
			s.add(named("waiting"), delayed("later", time.Minute), scheduled)
			move := func(id string) (string, backend.MoveObstacle) {
				ginkgo.GinkgoHelper()
				moved, obstacle, err := own.MoveRequested(s.ctx, ref, now, backend.MovedJob{ID: id, Opts: "{}"})
				Expect(err).NotTo(HaveOccurred())
				return moved, obstacle
			}
			moved, _ := move("waiting")
			Expect(moved).To(Equal("waiting"))
			moved, _ = move("later")
			Expect(moved).To(Equal("later"))
			Expect(other.State(s.ctx, "later")).To(Equal(backend.Delayed))
			for id, want := range map[string]backend.MoveObstacle{
				"running": backend.MoveNotInState, "none": backend.MoveNoJob, "scheduled": backend.MoveScheduled,
			} {
				moved, obstacle := move(id)
				Expect(moved).To(BeEmpty())
				Expect(obstacle).To(Equal(want), id)
			}
		})
	})
}
