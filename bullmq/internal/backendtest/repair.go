package backendtest

import (
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

func (s *suite) repair() {
	ginkgo.Describe("A Repairer", func() {
		var repairer backend.Repairer
		ginkgo.BeforeEach(func() {
			var ok bool
			if repairer, ok = s.Store.(backend.Repairer); !ok {
				ginkgo.Skip("this backend is no Repairer: its records and states cannot become inconsistent")
			}
		})
		// strand adds jobs, and takes them out of their states.
		strand := func(jobs ...*backend.Add) (ids []string) {
			ginkgo.GinkgoHelper()
			for _, id := range s.add(jobs...) {
				s.Unlist(id)
				ids = append(ids, id)
			}
			return ids
		}
		stranded := func(putBack bool, ids ...string) (found []string) {
			ginkgo.GinkgoHelper()
			jobs, err := repairer.StrandedJobs(s.ctx, ids, putBack)
			Expect(err).NotTo(HaveOccurred())
			for _, job := range jobs {
				Expect(job.Timestamp).To(BeTemporally("==", now))
				found = append(found, job.ID)
			}
			return found
		}

		ginkgo.It("scans the keys of the queue in pages", func() {
			s.add(named("a"), named("b"), delayed("d", time.Hour))
			seen := map[string]bool{}
			for cursor := uint64(0); ; {
				keys, next, err := repairer.ScanKeys(s.ctx, cursor, 2)
				Expect(err).NotTo(HaveOccurred())
				for _, key := range keys {
					seen[key] = true
				}
				if cursor = next; cursor == 0 {
					break
				}
			}
			for key := range seen {
				Expect(key).To(HavePrefix(s.Prefix + ":" + s.Name + ":"))
			}
			for _, id := range []string{"a", "b", "d"} {
				Expect(seen).To(HaveKey(HaveSuffix(":" + id)))
			}
		})

		ginkgo.It("finds jobs that are in no state, and removes them on request", func() {
			s.run("running")
			s.run("done")
			s.complete("done", "1")
			s.add(named("a"), delayed("d", time.Hour), prioritized("p", 1))
			all := append([]string{"running", "done", "a", "d", "p"}, strand(named("orphan"))...)
			for range 2 {
				Expect(repairer.RemoveOrphanedJobs(s.ctx, all, false)).To(Equal([]string{"orphan"}))
			}
			Expect(s.Store.Job(s.ctx, "orphan")).NotTo(BeNil())
			Expect(repairer.RemoveOrphanedJobs(s.ctx, all, true)).To(Equal([]string{"orphan"}))
			Expect(s.Store.Job(s.ctx, "orphan")).To(BeNil())
			Expect(s.Store.Counts(s.ctx, backend.Active, backend.Completed, backend.Waiting, backend.Delayed, backend.Prioritized)).To(Equal([]int{1, 1, 1, 1, 1}))
		})

		ginkgo.It("finds no job that was removed after its keys were scanned", func() {
			s.add(named("gone"))
			Expect(s.Store.Remove(s.ctx, "gone", false)).To(Equal(backend.Removed))
			for _, remove := range []bool{false, true} {
				Expect(repairer.RemoveOrphanedJobs(s.ctx, []string{"gone", "never"}, remove)).To(BeEmpty())
			}
		})

		ginkgo.It("finds unfinished jobs that are in no state, and leaves them", func() {
			ids := strand(named("a"), prioritized("p", 1))
			s.add(named("waits"))
			Expect(stranded(false, append(ids, "waits", "unknown")...)).To(Equal(ids))
			Expect(stranded(false, ids...)).To(Equal(ids))
			Expect(s.order()).To(Equal([]string{"waits"}))
		})

		ginkgo.It("puts them back on request, each in front of the previous one", func() {
			ids := strand(named("a"), named("b"), prioritized("p", 1))
			s.add(named("waits"))
			Expect(stranded(true, ids...)).To(Equal(ids))
			Expect(stranded(true, ids...)).To(BeEmpty())
			Expect(s.order()).To(Equal([]string{"b", "a", "waits", "p"}))
		})

		ginkgo.It("does not take a job for stranded that has finished, or that a worker holds", func() {
			s.run("done")
			s.complete("done", "1")
			s.Unlist("done")
			s.run("held")
			s.Unlist("held")
			Expect(stranded(true, "done", "held")).To(BeEmpty())
			Expect(s.fetch()).To(BeEmpty())
		})

		ginkgo.It("has nothing to join in a queue that one version uses, paused or not", func() {
			s.add(named("a"), named("b"))
			Expect(repairer.JoinPaused(s.ctx)).To(Succeed())
			Expect(s.Store.Pause(s.ctx)).To(Succeed())
			s.add(named("c"))
			Expect(repairer.JoinPaused(s.ctx)).To(Succeed())
			Expect(s.fetch()).To(BeEmpty())
			Expect(s.Store.Resume(s.ctx)).To(Succeed())
			Expect(repairer.JoinPaused(s.ctx)).To(Succeed())
			Expect(s.order()).To(Equal([]string{"a", "b", "c"}))
		})

		ginkgo.It("reports that there is no key of old priorities", func() {
			s.add(prioritized("p", 1))
			Expect(repairer.RemovePriorityKey(s.ctx)).To(BeFalse())
			Expect(strings.Join(s.order(), " ")).To(Equal("p"))
		})
	})
}
