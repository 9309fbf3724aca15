package backendtest

import (
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

func (s *suite) registeredWorkers() {
	ginkgo.Describe("A registered worker", func() {
		var a, b string // queues
		ginkgo.BeforeEach(func() {
			if s.Workers == nil {
				ginkgo.Skip("the backend registers no workers")
			}
			queues := keysOf(s.members(2))
			a, b = queues[0], queues[1]
		})
		register := func(id, record string, lease time.Duration, queues ...string) backend.WorkerLease {
			ginkgo.GinkgoHelper()
			w := backend.WorkerLease{ID: id, Home: queues[0], Queues: queues, Lease: lease, Record: record}
			Expect(s.Workers.RegisterWorker(s.ctx, w)).To(Succeed())
			return w
		}
		// workers returns the records of the workers of some queues.
		workers := func(queues ...string) (records []string) {
			ginkgo.GinkgoHelper()
			found, err := s.Workers.RegisteredWorkers(s.ctx, queues)
			Expect(err).NotTo(HaveOccurred())
			for _, one := range found {
				records = append(records, one.Record)
			}
			return records
		}

		ginkgo.It("is listed with what it tells of itself, for each of its queues", func() {
			Expect(workers(a, b)).To(BeEmpty())
			register("1", "ä, {one}", time.Minute, a)
			register("2", "two", time.Minute, a, b)
			Expect(workers(a)).To(ConsistOf("ä, {one}", "two"))
			Expect(workers(b)).To(ConsistOf("two"))
			both, err := s.Workers.RegisteredWorkers(s.ctx, []string{b, a})
			Expect(err).NotTo(HaveOccurred())
			Expect(both).To(ConsistOf(
				And(HaveField("Record", "ä, {one}"), HaveField("Queues", Equal([]string{a}))),
				And(HaveField("Record", "two"), HaveField("Queues", Equal([]string{b, a})))))
			Expect(s.Workers.RegisteredWorkers(s.ctx, nil)).To(BeEmpty())
		})

		ginkgo.It("is no longer listed when its lease has ended", func() {
			register("1", "short", 500*time.Millisecond, a)
			register("2", "long", time.Hour, a)
			s.Elapse(600 * time.Millisecond)
			Expect(workers(a)).To(Equal([]string{"long"}))
			register("3", "new", time.Hour, a)
			Expect(workers(a)).To(ConsistOf("long", "new"))
		})

		ginkgo.It("renews its lease, and what it tells of itself", func() {
			register("1", "before", 20*time.Second, a)
			found, err := s.Workers.RegisteredWorkers(s.ctx, []string{a})
			Expect(err).NotTo(HaveOccurred())
			Expect(found).To(HaveLen(1))
			register("1", "after", time.Hour, a)
			renewed, err := s.Workers.RegisteredWorkers(s.ctx, []string{a})
			Expect(err).NotTo(HaveOccurred())
			Expect(renewed).To(HaveLen(1))
			Expect(renewed[0].Record).To(Equal("after"))
			Expect(renewed[0].Until.Sub(found[0].Until)).To(BeNumerically("~", time.Hour, time.Minute))
		})

		ginkgo.It("can leave some of its queues, or all", func() {
			w := register("1", "one", time.Minute, a, b)
			register("2", "two", time.Minute, a, b)
			w.Queues = []string{a}
			Expect(s.Workers.UnregisterWorker(s.ctx, w, false)).To(Succeed())
			Expect(workers(a)).To(Equal([]string{"two"}))
			Expect(workers(b)).To(ConsistOf("one", "two"))
			w.Queues = []string{b}
			Expect(s.Workers.UnregisterWorker(s.ctx, w, true)).To(Succeed())
			Expect(workers(a, b)).To(Equal([]string{"two"}))
			Expect(s.Workers.UnregisterWorker(s.ctx, w, true)).To(Succeed(), "a second time")
		})

		ginkgo.It("can serve a thousand queues", func() {
			var queues []string
			for _, q := range s.members(1000) {
				queues = append(queues, q.key)
			}
			w := register("1", "one", time.Minute, queues...)
			Expect(workers(queues...)).To(Equal([]string{"one"}))
			Expect(workers(queues[999])).To(Equal([]string{"one"}))
			Expect(s.Workers.UnregisterWorker(s.ctx, w, true)).To(Succeed())
			Expect(workers(queues...)).To(BeEmpty())
		})

		ginkgo.It("makes its queues be found by their prefix", func() {
			inner := s.Prefix + ":inner:orders:"
			register("1", "one", time.Minute, a, b)
			register("2", "two", time.Minute, inner)
			Expect(s.Workers.QueuesWithWorkers(s.ctx, s.Prefix)).To(And(ContainElements(a, b), Not(ContainElement(inner))))
			Expect(s.Workers.QueuesWithWorkers(s.ctx, s.Prefix+":inner")).To(Equal([]string{inner}))
			Expect(s.Workers.QueuesWithWorkers(s.ctx, "*")).To(BeEmpty())
		})
	})
}
