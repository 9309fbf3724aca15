package backendtest

import (
	"fmt"
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

func (s *suite) producer() {
	ginkgo.Describe("AddBatch", func() {
		ginkgo.It("numbers jobs without an id in their order", func() {
			Expect(s.add(plain("a"), plain("b"), plain("c"))).To(Equal([]string{"1", "2", "3"}))
			Expect(s.add(plain("d"))).To(Equal([]string{"4"}))
		})

		ginkgo.It("stores a job as it was given, its data byte for byte", func() {
			job := prioritized("p", 3)
			job.Opts = `{"attempts":2,"priority":3}`
			s.add(job)
			record := s.record("p")
			Expect(string(record.Data)).To(Equal(data))
			Expect(record).To(Equal(&backend.JobRecord{
				ID: "p", Name: "p", Data: []byte(data), Opts: job.Opts, Timestamp: now, Priority: 3,
			}))
		})

		ginkgo.It("lets jobs start in the order in which they were added", func() {
			s.add(named("a"), named("b"))
			s.add(named("c"))
			Expect(s.order()).To(Equal([]string{"a", "b", "c"}))
		})

		ginkgo.It("lets a job with LIFO start before those that wait", func() {
			next := named("next")
			next.LIFO = true
			s.add(named("a"), named("b"), next)
			Expect(s.order()).To(Equal([]string{"next", "a", "b"}))
		})

		ginkgo.It("lets jobs with a priority start after those without one, the lowest number first, equal ones in order", func() {
			s.add(prioritized("5-first", 5), prioritized("1", 1), prioritized("5-second", 5), named("none"))
			Expect(s.order()).To(Equal([]string{"none", "1", "5-first", "5-second"}))
		})

		ginkgo.It("keeps a delayed job until its delay since its timestamp is over", func() {
			s.add(delayed("later", time.Second))
			s.expectState("later", backend.Delayed)
			Expect(s.fetchAt(now.Add(999 * time.Millisecond))).To(BeEmpty())
			Expect(s.fetchAt(now.Add(time.Second))).To(Equal("later"))
		})

		ginkgo.It("reports that a job with the same id exists, and leaves that one as it is", func() {
			s.add(named("a"))
			again := named("a")
			again.Data = `"other"`
			Expect(s.Store.AddBatch(s.ctx, []*backend.Add{again})).To(Equal([]backend.AddResult{{JobID: "a", Outcome: backend.AlreadyExists}}))
			Expect(string(s.record("a").Data)).To(Equal(data))
		})

		ginkgo.It("adds or refuses each job by itself", func() {
			results := s.Store.AddBatch(s.ctx, []*backend.Add{named("a"), s.childOf("nobody", "orphan"), named("a"), plain("b")})
			Expect(results[1].Err).To(MatchError(backend.ParentNotFound))
			Expect(results[1].JobID).To(BeEmpty())
			Expect(results[2].Outcome).To(Equal(backend.AlreadyExists))
			Expect([]error{results[0].Err, results[2].Err, results[3].Err}).To(HaveEach(BeNil()))
			s.expectState("orphan", backend.Unknown)
			s.expectState(results[3].JobID, backend.Waiting)
		})

		ginkgo.It("keeps the order of more jobs than a call or a round trip may hold", func() {
			var jobs []*backend.Add
			for n := range 2100 {
				jobs = append(jobs, plain(fmt.Sprint("job ", n)))
			}
			ids := s.add(jobs...)
			Expect(ids).To(HaveLen(2100))
			Expect(s.fetch()).To(Equal(ids[0]))
			Expect(s.record(ids[2099]).Name).To(Equal("job 2099"))
			Expect(s.Store.JobIDs(s.ctx, backend.Page{To: 1}, backend.Waiting)).To(Equal([]string{ids[2099], ids[2098]}))
			for _, page := range []backend.Page{allJobs, {To: 2098, Ascending: true}, {From: 0, To: 998, Ascending: true}} {
				records, err := s.Store.Jobs(s.ctx, page, backend.Waiting)
				Expect(err).NotTo(HaveOccurred())
				Expect(records).To(HaveLen(map[int]int{-1: 2099, 2098: 2099, 998: 999}[page.To]))
				for i, record := range records {
					Expect(record.ID).To(Equal(ids[i+1]))
				}
			}
		})
	})

	ginkgo.Describe("A deduplication id", func() {
		dedup := func(id string, d backend.Deduplication) *backend.Add {
			job := named(id)
			d.ID = "d"
			job.Deduplication = d
			return job
		}
		tryAdd := func(job *backend.Add) backend.AddResult { return s.Store.AddBatch(s.ctx, []*backend.Add{job})[0] }

		ginkgo.It("keeps other jobs from being added until its owner has ended", func() {
			s.add(dedup("owner", backend.Deduplication{}))
			Expect(tryAdd(dedup("other", backend.Deduplication{}))).To(Equal(backend.AddResult{JobID: "owner", Outcome: backend.Deduplicated}))
			s.expectState("other", backend.Unknown)
			Expect(s.fetch()).To(Equal("owner"))
			s.complete("owner", "1")
			Expect(s.add(dedup("other", backend.Deduplication{}))).To(Equal([]string{"other"}))
		})

		ginkgo.It("lets a job take the place of a delayed owner with Replace", func() {
			owner := dedup("owner", backend.Deduplication{Replace: true})
			owner.State, owner.Delay = backend.Delayed, time.Hour
			s.add(owner)
			Expect(tryAdd(dedup("other", backend.Deduplication{Replace: true}))).To(Equal(backend.AddResult{JobID: "other"}))
			s.expectState("owner", backend.Unknown)
		})

		ginkgo.It("is known with its owner, and can be freed by its owner or by anyone", func() {
			s.add(dedup("owner", backend.Deduplication{}))
			Expect(s.Store.DeduplicationOwner(s.ctx, "d")).To(Equal("owner"))
			Expect(s.Store.RemoveDeduplicationKey(s.ctx, "d", "other")).To(BeFalse())
			Expect(s.Store.RemoveDeduplicationKey(s.ctx, "d", "owner")).To(BeTrue())
			Expect(s.Store.DeduplicationOwner(s.ctx, "d")).To(BeEmpty())
			Expect(s.Store.FreeDeduplication(s.ctx, "d")).To(BeFalse())
			s.add(dedup("next", backend.Deduplication{}))
			Expect(s.Store.FreeDeduplication(s.ctx, "d")).To(BeTrue())
		})
	})
}

func (s *suite) flows() {
	ginkgo.Describe("AddFlow", func() {
		ginkgo.It("lets a parent wait until its children have completed", func() {
			results := s.addFlow(named("parent"), s.childOf("parent", "a"), s.childOf("parent", "b"))
			Expect(results).To(Equal([]backend.AddResult{{JobID: "parent"}, {JobID: "a"}, {JobID: "b"}}))
			s.expectState("parent", backend.WaitingChildren)
			Expect(s.fetch()).To(Equal("a"))
			s.complete("a", "1")
			s.expectState("parent", backend.WaitingChildren)
			Expect(s.fetch()).To(Equal("b"))
			s.complete("b", "2")
			Expect(s.fetch()).To(Equal("parent"))
			Expect(s.record("a").Parent).To(Equal(s.ref("parent")))
		})

		ginkgo.It("releases a parent whose children had all completed before", func() {
			s.run("a")
			s.complete("a", "1")
			results := s.addFlow(named("parent"), s.childOf("parent", "a"))
			Expect(results[1]).To(Equal(backend.AddResult{JobID: "a", Outcome: backend.AlreadyExists}))
			s.expectState("parent", backend.Waiting)
		})

		ginkgo.It("refuses a job that is the child of another parent", func() {
			s.addFlow(named("parent"), s.childOf("parent", "a"))
			results := s.addFlow(named("other"), s.childOf("other", "a"))
			Expect(results[0]).To(Equal(backend.AddResult{JobID: "other"}))
			Expect(results[1].Err).To(MatchError(backend.ParentNotReplaceable))
		})

		ginkgo.It("reaches the queues that CheckReach allows", func() {
			Expect(s.Store.CheckReach(s.Prefix, s.Name)).To(Succeed())
		})
	})
}
