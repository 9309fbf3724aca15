package scripts

import (
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// idsOf returns the ids of added jobs, none of which existed or was deduplicated.
func idsOf(added []backend.AddResult) (ids []string) {
	ginkgo.GinkgoHelper()
	for _, result := range added {
		Expect(result.Err).NotTo(HaveOccurred())
		Expect(result.Outcome).To(Equal(backend.Added))
		ids = append(ids, result.JobID)
	}
	return ids
}

// brick returns a job to add in a given state.
func brick(state backend.State, id string) backend.Add {
	return backend.Add{State: state, ID: id, Name: "brick", Data: "{}", Opts: "{}", Timestamp: now, Delay: time.Millisecond, Priority: 1}
}

var _ = ginkgo.Describe("An add", func() {
	for name, state := range map[string]backend.State{
		"addStandardJob": backend.Waiting, "addDelayedJob": backend.Delayed, "addPrioritizedJob": backend.Prioritized, "addParentJob": backend.WaitingChildren,
	} {
		for dialect, version := range dialects {
			ginkgo.It("with "+name+" of BullMQ "+version[1:]+" reports whether the job was added, exists already, or was deduplicated", func() {
				f := newFixture(client)
				f.Dialect = dialect

				ginkgo.By("adding a job")
				Expect(f.add(brick(state, "a"))).To(Equal(backend.AddResult{JobID: "a"}))

				ginkgo.By("adding a job whose id exists")
				Expect(f.add(brick(state, "a"))).To(Equal(backend.AddResult{JobID: "a", Outcome: backend.AlreadyExists}))

				ginkgo.By("adding a job whose deduplication id another job owns")
				owner, other := brick(state, "owner"), brick(state, "other")
				owner.Deduplication.ID, other.Deduplication.ID = "wall", "wall"
				Expect(f.add(owner)).To(Equal(backend.AddResult{JobID: "owner"}))
				Expect(f.add(other)).To(Equal(backend.AddResult{JobID: "owner", Outcome: backend.Deduplicated}))

				ginkgo.By("adding a job whose id and deduplication id exist")
				Expect(f.add(owner)).To(Equal(backend.AddResult{JobID: "owner", Outcome: backend.AlreadyExists}))

				ginkgo.By("adding all of them in one call")
				Expect(f.addAll(brick(state, "a"), brick(state, "b"), other)).To(Equal([]backend.AddResult{
					{JobID: "a", Outcome: backend.AlreadyExists}, {JobID: "b"}, {JobID: "owner", Outcome: backend.Deduplicated},
				}))
			})
		}
	}

	ginkgo.It("reports that a job which replaces a delayed owner of its deduplication id was added", func() {
		f := newFixture(client)
		owner, other := brick(backend.Delayed, "owner"), brick(backend.Delayed, "other")
		owner.Deduplication.ID, other.Deduplication = "wall", backend.Deduplication{ID: "wall", Replace: true}
		Expect(f.add(owner)).To(Equal(backend.AddResult{JobID: "owner"}))
		Expect(f.add(other)).To(Equal(backend.AddResult{JobID: "other"}))
	})

	ginkgo.It("reports that a job which is kept until the active owner finishes was deduplicated", func() {
		f := newFixture(client)
		owner := brick(backend.Waiting, "owner")
		owner.Delay, owner.Priority = 0, 0
		owner.Deduplication = backend.Deduplication{ID: "wall", KeepLastIfActive: true}
		Expect(f.add(owner)).To(Equal(backend.AddResult{JobID: "owner"}))
		_, err := f.take(now, backend.Worker{LockDuration: 30 * time.Second})
		Expect(err).NotTo(HaveOccurred())
		owner.ID = "other"
		Expect(f.add(owner)).To(Equal(backend.AddResult{JobID: "owner", Outcome: backend.Deduplicated}))
	})

	ginkgo.It("reports the outcome of each job of a flow", func() {
		f := newFixture(client)
		child := func(id string) backend.Add {
			add := brick(backend.Waiting, id)
			add.Parent, add.ParentPolicy = f.ref("wall"), `{"id":"wall","queueKey":"`+shown(f.base)+`"}`
			return add
		}
		owned, deduplicated := brick(backend.Waiting, "owner"), child("other")
		owned.Deduplication.ID, deduplicated.Deduplication.ID = "d", "d"
		Expect(f.addAll(brick(backend.Waiting, "there"), owned)).To(HaveLen(2))
		var jobs []backend.FlowJob
		for _, add := range []backend.Add{brick(backend.WaitingChildren, "wall"), child("new"), child("there"), deduplicated} {
			jobs = append(jobs, backend.FlowJob{Queue: f.Store, Add: &add})
		}
		added, err := f.AddFlow(f.ctx, jobs, now)
		Expect(err).NotTo(HaveOccurred())
		Expect(added).To(Equal([]backend.AddResult{
			{JobID: "wall"}, {JobID: "new"}, {JobID: "there", Outcome: backend.AlreadyExists}, {JobID: "owner", Outcome: backend.Deduplicated},
		}))
	})
})

var _ = ginkgo.Describe("A removal", func() {
	ginkgo.It("reports that it removed the job", func() {
		f := newFixture(client)
		Expect(f.add(brick(backend.Waiting, "a"))).To(Equal(backend.AddResult{JobID: "a"}))
		Expect(f.Remove(f.ctx, "a", true)).To(Equal(backend.Removed))
		Expect(f.Remove(f.ctx, "a", true)).To(Equal(backend.NotFound))
	})

	ginkgo.It("reports that it removed an id from a state, even without a hash", func() {
		f := newFixture(client)
		f.set("RPUSH", "wait", "a")
		Expect(f.Remove(f.ctx, "a", true)).To(Equal(backend.Removed))
		Expect(f.state()).To(BeEmpty())
	})

	ginkgo.It("reports that there is no such job, and writes nothing", func() {
		f := newFixture(client)
		Expect(f.Remove(f.ctx, "a", true)).To(Equal(backend.NotFound))
		Expect(f.state()).To(BeEmpty())
	})

	ginkgo.It("reports that the job is locked by a worker", func() {
		f := newFixture(client)
		f.running("a", "t")
		before := f.state()
		Expect(f.Remove(f.ctx, "a", true)).To(Equal(backend.Locked))
		Expect(f.state()).To(Equal(before))
	})

	ginkgo.It("reports that a child is locked by a worker, unless the children are kept", func() {
		f := newFixture(client)
		f.set("HSET", "wall", "name", "wall")
		f.set("SADD", "wall:dependencies", f.base+"a")
		f.running("a", "t")
		Expect(f.Remove(f.ctx, "wall", true)).To(Equal(backend.Locked))
		Expect(f.Remove(f.ctx, "wall", false)).To(Equal(backend.Removed))
	})
})
