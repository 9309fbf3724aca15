package bullmq

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

var _ = Describe("A worker's view of its queue", func() {
	var r *runner
	BeforeEach(func() {
		k, err := newKeys("", "paint")
		Expect(err).NotTo(HaveOccurred())
		w := &queueWorker{host: &host{options: &WorkerOptions{}}, core: &core{keys: k, now: time.Now}, o: WorkerOptions{Concurrency: 2, MaximumRateLimitDelay: time.Second}}
		r = &runner{w: w, soft: context.Background()}
	})
	due := func() time.Time {
		until, known := r.untilDue()
		if !known {
			return time.Time{}
		}
		return time.Now().Add(until)
	}

	It("makes it idle after a fetch that found no job", func() {
		r.applyFetch(backend.Fetched{}, "t", r.currentEpoch())
		Expect(r.idle()).To(BeTrue())
		r.applyWake(backend.Wake{Woken: true})
		Expect(r.idle()).To(BeFalse())
	})

	// The two replies arrive on two connections in two goroutines, so they can overtake each other.
	It("does not make it idle after a reply that is older than the last wake-up", func() {
		r.applyFetch(backend.Fetched{}, "t", r.currentEpoch())
		since := r.currentEpoch() // a slot sends its result, then a job is added
		r.applyWake(backend.Wake{Woken: true})
		r.applyFetch(backend.Fetched{}, "t", since)
		Expect(r.idle()).To(BeFalse())
	})

	It("keeps a due time that is newer than the reply processed after it", func() {
		r.applyFetch(backend.Fetched{}, "t", r.currentEpoch())
		since := r.currentEpoch()
		at := time.Now().Add(time.Minute)
		r.applyWake(backend.Wake{Woken: true, NextDue: at})
		r.applyFetch(backend.Fetched{}, "t", since)
		Expect(due()).To(BeTemporally("~", at, time.Second))
	})

	It("keeps the earlier of two due times", func() {
		at := time.Now().Add(time.Minute)
		r.applyFetch(backend.Fetched{NextDue: at}, "t", r.currentEpoch())
		r.applyWake(backend.Wake{Woken: true, NextDue: at.Add(time.Minute)})
		Expect(due()).To(BeTemporally("~", at, time.Second))
		r.applyWake(backend.Wake{Woken: true, NextDue: at.Add(-30 * time.Second)})
		Expect(due()).To(BeTemporally("~", at.Add(-30*time.Second), time.Second))
		Expect(r.idle()).To(BeTrue(), "nothing is ready")
	})

	It("ends a rate limit after its duration or MaximumRateLimitDelay", func() {
		r.applyFetch(backend.Fetched{LimitedFor: time.Minute}, "t", r.currentEpoch())
		Expect(r.rateLimitLeft()).To(And(BeNumerically(">", 0), BeNumerically("<=", time.Second)))
		r.applyFetch(backend.Fetched{LimitedFor: 20 * time.Millisecond}, "t", r.currentEpoch())
		Eventually(r.rateLimitLeft).Should(BeNumerically("<=", 0))
		Expect(r.idle()).To(BeFalse())
	})
})
