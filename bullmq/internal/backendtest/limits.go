package backendtest

import (
	"fmt"
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

func (s *suite) nameLimits() {
	ginkgo.Describe("A job that starts under the limits of its name", func() {
		var limits backend.NameLimits
		ginkgo.BeforeEach(func() {
			var ok bool
			if limits, ok = s.Store.(backend.NameLimits); !ok {
				ginkgo.Skip("the backend limits no jobs by their name")
			}
			for n := range 4 {
				id := fmt.Sprint("job-", n)
				s.add(named(id))
				taken, err := s.Store.MoveToActive(s.ctx, now, backend.Worker{LockDuration: time.Second * time.Duration(n*1000+1)}, "token-"+id)
				Expect(err).NotTo(HaveOccurred())
				Expect(idOf(taken[0])).To(Equal(id))
			}
		})
		start := func(n int, name string, concurrency int, starts backend.RateLimit) (granted bool, wait time.Duration) {
			ginkgo.GinkgoHelper()
			id := fmt.Sprint("job-", n)
			granted, wait, err := limits.StartNamed(s.ctx, backend.NamedStart{
				JobID: id, Token: "token-" + id, Name: name, Concurrency: concurrency, Starts: starts,
			})
			Expect(err).NotTo(HaveOccurred())
			return granted, wait
		}
		started := func(n int) int {
			ginkgo.GinkgoHelper()
			return s.record(fmt.Sprint("job-", n)).AttemptsStarted
		}

		ginkgo.It("may start while fewer than the limit run, and its start does not count otherwise", func() {
			for n := 1; n <= 2; n++ {
				granted, wait := start(n, "resize", 2, backend.RateLimit{})
				Expect(granted).To(BeTrue())
				Expect(wait).To(BeZero())
				Expect(started(n)).To(Equal(1))
			}
			granted, wait := start(3, "resize", 2, backend.RateLimit{})
			Expect(granted).To(BeFalse())
			Expect(wait).To(BeZero())
			Expect(started(3)).To(BeZero())
			granted, _ = start(3, "crop", 2, backend.RateLimit{})
			Expect(granted).To(BeTrue(), "another name")
		})

		ginkgo.It("counts as running until it ends, or its lock expires", func() {
			for n := range 2 {
				granted, _ := start(n, "resize", 2, backend.RateLimit{})
				Expect(granted).To(BeTrue())
			}
			granted, _ := start(2, "resize", 2, backend.RateLimit{})
			Expect(granted).To(BeFalse())
			s.Elapse(1100 * time.Millisecond) // the lock of the first one
			granted, _ = start(2, "resize", 2, backend.RateLimit{})
			Expect(granted).To(BeTrue())
			granted, _ = start(3, "resize", 2, backend.RateLimit{})
			Expect(granted).To(BeFalse())
			_, err := s.Store.MoveToDelayed(s.ctx, backend.Delay{JobID: "job-1", Token: "token-job-1", Now: now, Delay: time.Hour})
			Expect(err).NotTo(HaveOccurred())
			granted, _ = start(3, "resize", 2, backend.RateLimit{})
			Expect(granted).To(BeTrue())
		})

		ginkgo.It("may start while fewer than the limit have started in the window", func() {
			rate := backend.RateLimit{Max: 2, Duration: time.Second}
			for n := 1; n <= 2; n++ {
				granted, _ := start(n, "resize", 0, rate)
				Expect(granted).To(BeTrue())
			}
			granted, wait := start(3, "resize", 0, rate)
			Expect(granted).To(BeFalse())
			Expect(wait).To(And(BeNumerically(">", 0), BeNumerically("<=", time.Second)))
			Expect(started(3)).To(BeZero())
			s.Elapse(wait + 10*time.Millisecond)
			granted, _ = start(3, "resize", 0, rate)
			Expect(granted).To(BeTrue())
		})

		ginkgo.It("counts as started only if not too many run", func() {
			rate := backend.RateLimit{Max: 2, Duration: time.Hour}
			granted, _ := start(1, "resize", 1, rate)
			Expect(granted).To(BeTrue())
			for range 3 {
				granted, wait := start(2, "resize", 1, rate)
				Expect(granted).To(BeFalse())
				Expect(wait).To(BeZero())
			}
			granted, _ = start(3, "resize", 2, rate)
			Expect(granted).To(BeTrue())
			granted, wait := start(2, "resize", 3, rate)
			Expect(granted).To(BeFalse())
			Expect(wait).To(BeNumerically(">", 0))
		})
	})
}
