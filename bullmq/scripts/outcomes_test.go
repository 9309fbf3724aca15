package scripts

import (
	"strings"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// idsOf are the ids of some adds, none of which met another job.
func idsOf(added []AddResult) (ids []string) {
	ginkgo.GinkgoHelper()
	for _, result := range added {
		Expect(result.Outcome).To(Equal(Added))
		ids = append(ids, result.JobID)
	}
	return ids
}

// brick is a job that a call adds in a given state.
func brick(kind Kind, id string) Add {
	return Add{Kind: kind, ID: id, Name: "brick", Data: "{}", Opts: "{}", Timestamp: "1700000000000", Delay: "1", Priority: "1"}
}

var _ = ginkgo.Describe("An add reports", func() {
	for name, kind := range map[string]Kind{
		"addStandardJob": Standard, "addDelayedJob": Delayed, "addPrioritizedJob": Prioritized, "addParentJob": Parent,
	} {
		for dialect, version := range dialects {
			ginkgo.It("the outcome of "+name+" in "+version, func() {
				f := newFixture(client)
				f.Dialect = dialect

				ginkgo.By("adding a job")
				Expect(f.Add(f.ctx, brick(kind, "a"))).To(Equal(AddResult{"a", Added}))

				ginkgo.By("adding a job whose id exists")
				Expect(f.Add(f.ctx, brick(kind, "a"))).To(Equal(AddResult{"a", AlreadyExists}))

				ginkgo.By("adding a job whose deduplication id another job owns")
				owner, other := brick(kind, "owner"), brick(kind, "other")
				owner.DedupID, other.DedupID = "wall", "wall"
				Expect(f.Add(f.ctx, owner)).To(Equal(AddResult{"owner", Added}))
				Expect(f.Add(f.ctx, other)).To(Equal(AddResult{"owner", Deduplicated}))

				ginkgo.By("adding a job whose id and deduplication id exist")
				Expect(f.Add(f.ctx, owner)).To(Equal(AddResult{"owner", AlreadyExists}))

				ginkgo.By("adding all of them in one call")
				added, err := f.AddMany(f.ctx, []Add{brick(kind, "a"), brick(kind, "b"), other})
				Expect(err).To(BeNil())
				Expect(added).To(Equal([]AddResult{{"a", AlreadyExists}, {"b", Added}, {"owner", Deduplicated}}))
			})
		}
	}

	ginkgo.It("that a job which replaces a delayed owner of its deduplication id was added", func() {
		f := newFixture(client)
		owner, other := brick(Delayed, "owner"), brick(Delayed, "other")
		owner.DedupID, other.DedupID, other.DedupFlags = "wall", "wall", "r"
		Expect(f.Add(f.ctx, owner)).To(Equal(AddResult{"owner", Added}))
		Expect(f.Add(f.ctx, other)).To(Equal(AddResult{"other", Added}))
	})

	ginkgo.It("that a job which is kept until the active owner finishes was deduplicated", func() {
		f := newFixture(client)
		owner := brick(Standard, "owner")
		owner.Delay, owner.Priority = "0", "0"
		owner.DedupID, owner.DedupFlags = "wall", "k"
		Expect(f.Add(f.ctx, owner)).To(Equal(AddResult{"owner", Added}))
		_, err := f.take(nowMs, Worker{LockMs: 30000})
		Expect(err).NotTo(HaveOccurred())
		owner.ID = "other"
		Expect(f.Add(f.ctx, owner)).To(Equal(AddResult{"owner", Deduplicated}))
	})

	ginkgo.It("the outcome of each job of a flow", func() {
		f := newFixture(client)
		queueKey := strings.TrimSuffix(f.base, ":")
		child := func(id string) Branch {
			add := brick(Standard, id)
			add.ParentKey, add.Parent, add.Defer = f.base+"wall", `{"id":"wall","queueKey":"`+queueKey+`"}`, true
			return Branch{f.Store, add}
		}
		owned, deduplicated := brick(Standard, "owner"), child("other")
		owned.DedupID, deduplicated.Add.DedupID = "d", "d"
		Expect(f.AddMany(f.ctx, []Add{brick(Standard, "there"), owned})).To(HaveLen(2))
		added, refusals, err := AddFlow(f.ctx, f.client,
			[]Branch{{f.Store, brick(Parent, "wall")}, child("new"), child("there"), deduplicated},
			[]Waiting{{f.Store, queueKey, "wall"}}, nowMs)
		Expect(err).NotTo(HaveOccurred())
		Expect(refusals).To(HaveEach(BeNil()))
		Expect(added).To(Equal([]AddResult{{"wall", Added}, {"new", Added}, {"there", AlreadyExists}, {"owner", Deduplicated}}))
	})
})

var _ = ginkgo.Describe("A removal reports", func() {
	ginkgo.It("that it removed the job", func() {
		f := newFixture(client)
		Expect(f.Add(f.ctx, brick(Standard, "a"))).To(Equal(AddResult{"a", Added}))
		Expect(f.Remove(f.ctx, "a", true)).To(Equal(backend.Removed))
		Expect(f.Remove(f.ctx, "a", true)).To(Equal(backend.NotFound))
	})

	ginkgo.It("that it removed an id from a state, even without a hash", func() {
		f := newFixture(client)
		f.set("RPUSH", "wait", "a")
		Expect(f.Remove(f.ctx, "a", true)).To(Equal(backend.Removed))
		Expect(f.state()).To(BeEmpty())
	})

	ginkgo.It("that there is no such job, and writes nothing", func() {
		f := newFixture(client)
		Expect(f.Remove(f.ctx, "a", true)).To(Equal(backend.NotFound))
		Expect(f.state()).To(BeEmpty())
	})

	ginkgo.It("that a worker holds the job", func() {
		f := newFixture(client)
		f.running("a", "t")
		before := f.state()
		Expect(f.Remove(f.ctx, "a", true)).To(Equal(backend.Locked))
		Expect(f.state()).To(Equal(before))
	})

	ginkgo.It("that a worker holds a child, unless the children stay", func() {
		f := newFixture(client)
		f.set("HSET", "wall", "name", "wall")
		f.set("SADD", "wall:dependencies", f.base+"a")
		f.running("a", "t")
		Expect(f.Remove(f.ctx, "wall", true)).To(Equal(backend.Locked))
		Expect(f.Remove(f.ctx, "wall", false)).To(Equal(backend.Removed))
	})
})
