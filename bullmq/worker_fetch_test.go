package bullmq

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/scripts"
)

var _ = Describe("A worker's view of its queue", func() {
	const minute = int64(60_000)
	var r *runner
	BeforeEach(func() {
		k, err := newKeys("", "paint")
		Expect(err).NotTo(HaveOccurred())
		w := &Worker{core: &core{keys: k, now: time.Now}, o: WorkerOptions{Concurrency: 2, MaximumRateLimitDelay: time.Second}}
		r = &runner{w: w, soft: context.Background()}
	})
	due := func() int64 {
		until, known := r.untilDue()
		if !known {
			return 0
		}
		return time.Now().Add(until).UnixMilli()
	}

	It("makes it idle after a fetch that found no job", func() {
		r.applyTake(scripts.Taken{}, "t", r.currentEpoch())
		Expect(r.idle()).To(BeTrue())
		r.applyWake(backend.Wake{Woken: true})
		Expect(r.idle()).To(BeFalse())
	})

	// The two replies arrive on two connections in two goroutines, so they can overtake each other.
	It("does not make it idle after a reply that is older than the last wake-up", func() {
		r.applyTake(scripts.Taken{}, "t", r.currentEpoch())
		since := r.currentEpoch() // a slot sends its result, then a job is added
		r.applyWake(backend.Wake{Woken: true})
		r.applyTake(scripts.Taken{}, "t", since)
		Expect(r.idle()).To(BeFalse())
	})

	It("keeps a due time that is newer than the reply processed after it", func() {
		r.applyTake(scripts.Taken{}, "t", r.currentEpoch())
		since := r.currentEpoch()
		at := time.Now().UnixMilli() + minute
		r.applyWake(backend.Wake{Woken: true, NextDue: time.UnixMilli(at)})
		r.applyTake(scripts.Taken{}, "t", since)
		Expect(due()).To(BeNumerically("~", at, 1000))
	})

	It("keeps the earlier of two due times", func() {
		at := time.Now().UnixMilli() + minute
		r.applyTake(scripts.Taken{NextDueMs: at}, "t", r.currentEpoch())
		r.applyWake(backend.Wake{Woken: true, NextDue: time.UnixMilli(at + minute)})
		Expect(due()).To(BeNumerically("~", at, 1000))
		r.applyWake(backend.Wake{Woken: true, NextDue: time.UnixMilli(at - minute/2)})
		Expect(due()).To(BeNumerically("~", at-minute/2, 1000))
		Expect(r.idle()).To(BeTrue(), "nothing is ready")
	})

	It("ends a rate limit after its duration or MaximumRateLimitDelay", func() {
		r.applyTake(scripts.Taken{LimitedMs: minute}, "t", r.currentEpoch())
		Expect(r.limited()).To(And(BeNumerically(">", 0), BeNumerically("<=", time.Second)))
		r.applyTake(scripts.Taken{LimitedMs: 20}, "t", r.currentEpoch())
		Eventually(r.limited).Should(BeNumerically("<=", 0))
		Expect(r.idle()).To(BeFalse())
	})
})
