package bullmq

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

var _ = Describe("A worker's view of its queue", func() {
	var v *queueView
	BeforeEach(func() {
		k, err := newKeys("", "paint")
		Expect(err).NotTo(HaveOccurred())
		w := &queueWorker{core: &core{keys: k, now: time.Now}, o: WorkerOptions{Concurrency: 2, MaximumRateLimitDelay: time.Second}}
		v = &queueView{w: w}
	})
	due := func() time.Time {
		until, known := v.untilDue()
		if !known {
			return time.Time{}
		}
		return time.Now().Add(until)
	}

	It("makes it idle after a fetch that found no job", func() {
		v.applyFetch(backend.Fetched{}, v.currentEpoch())
		Expect(v.idle()).To(BeTrue())
		v.applyWake(backend.Wake{Woken: true})
		Expect(v.idle()).To(BeFalse())
	})

	// The two replies arrive on two connections in two goroutines, so they can overtake each other.
	It("does not make it idle after a reply that is older than the last wake-up", func() {
		v.applyFetch(backend.Fetched{}, v.currentEpoch())
		since := v.currentEpoch() // a slot sends its result, then a job is added
		v.applyWake(backend.Wake{Woken: true})
		v.applyFetch(backend.Fetched{}, since)
		Expect(v.idle()).To(BeFalse())
	})

	It("keeps a due time that is newer than the reply processed after it", func() {
		v.applyFetch(backend.Fetched{}, v.currentEpoch())
		since := v.currentEpoch()
		at := time.Now().Add(time.Minute)
		v.applyWake(backend.Wake{Woken: true, NextDue: at})
		v.applyFetch(backend.Fetched{}, since)
		Expect(due()).To(BeTemporally("~", at, time.Second))
	})

	It("keeps the earlier of two due times", func() {
		at := time.Now().Add(time.Minute)
		v.applyFetch(backend.Fetched{NextDue: at}, v.currentEpoch())
		v.applyWake(backend.Wake{Woken: true, NextDue: at.Add(time.Minute)})
		Expect(due()).To(BeTemporally("~", at, time.Second))
		v.applyWake(backend.Wake{Woken: true, NextDue: at.Add(-30 * time.Second)})
		Expect(due()).To(BeTemporally("~", at.Add(-30*time.Second), time.Second))
		Expect(v.idle()).To(BeTrue(), "nothing is ready")
	})

	It("ends a rate limit after its duration or MaximumRateLimitDelay", func() {
		v.applyFetch(backend.Fetched{LimitedFor: time.Minute}, v.currentEpoch())
		Expect(v.rateLimitLeft()).To(And(BeNumerically(">", 0), BeNumerically("<=", time.Second)))
		v.applyFetch(backend.Fetched{LimitedFor: 20 * time.Millisecond}, v.currentEpoch())
		Eventually(v.rateLimitLeft).Should(BeNumerically("<=", 0))
		Expect(v.idle()).To(BeFalse())
	})
})
