package bullmq

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/scripts"
)

var _ = Describe("What a worker knows of its queue", func() {
	const minute = int64(60_000)
	var r *runner
	BeforeEach(func() {
		k, err := newKeys("", "paint")
		Expect(err).NotTo(HaveOccurred())
		w := &Worker{core: &core{keys: k, now: time.Now}, o: WorkerOptions{Concurrency: 2, MaximumRateLimitDelay: time.Second}}
		r = newRunner(w)
		r.soft = context.Background()
	})
	due := func() int64 {
		until, known := r.untilDue()
		if !known {
			return 0
		}
		return time.Now().Add(until).UnixMilli()
	}

	It("lets it rest when a look has found nothing", func() {
		r.applyTake(scripts.Taken{}, "t", r.currentEpoch())
		Expect(r.idle()).To(BeTrue())
		r.applyWake(popped{member: "0"})
		Expect(r.idle()).To(BeFalse())
	})

	// The two answers come over two connections, to two goroutines: they may overtake each other.
	It("doesn't let it rest on an answer that is older than the wake-up that came before it", func() {
		r.applyTake(scripts.Taken{}, "t", r.currentEpoch())
		since := r.currentEpoch() // a slot sends the end of its job; then a job is added
		r.applyWake(popped{member: "0"})
		r.applyTake(scripts.Taken{}, "t", since)
		Expect(r.idle()).To(BeFalse())
	})

	It("keeps the time of a delayed job that is newer than the answer which comes after it", func() {
		r.applyTake(scripts.Taken{}, "t", r.currentEpoch())
		since := r.currentEpoch()
		at := time.Now().UnixMilli() + minute
		r.applyWake(popped{member: "1", score: float64(at)})
		r.applyTake(scripts.Taken{}, "t", since)
		Expect(due()).To(BeNumerically("~", at, 1000))
	})

	It("keeps the earlier of two delayed jobs' times", func() {
		at := time.Now().UnixMilli() + minute
		r.applyTake(scripts.Taken{NextDueMs: at}, "t", r.currentEpoch())
		r.applyWake(popped{member: "1", score: float64(at + minute)})
		Expect(due()).To(BeNumerically("~", at, 1000))
		r.applyWake(popped{member: "1", score: float64(at - minute/2)})
		Expect(due()).To(BeNumerically("~", at-minute/2, 1000))
		Expect(r.idle()).To(BeTrue(), "nothing is ready")
	})

	It("has it look again when the rate limit is over, or after MaximumRateLimitDelay", func() {
		r.applyTake(scripts.Taken{LimitedMs: minute}, "t", r.currentEpoch())
		Expect(r.limited()).To(And(BeNumerically(">", 0), BeNumerically("<=", time.Second)))
		r.applyTake(scripts.Taken{LimitedMs: 20}, "t", r.currentEpoch())
		Eventually(r.limited).Should(BeNumerically("<=", 0))
		Expect(r.idle()).To(BeFalse())
	})

	Describe("about the server's clock", func() {
		// answered is a call that took so long, and was carried out after a part of that, while ours was ahead by so much.
		answered := func(took, after, ahead time.Duration) {
			begun := time.Now().Add(-took)
			r.setClock(begun.Add(after-ahead).UnixMicro(), begun)
		}
		BeforeEach(func() { r.w.core.isReal = true })

		It("counts from before the call, so that no job seems to be due before it is", func() {
			answered(100*time.Millisecond, 20*time.Millisecond, time.Minute)
			Expect(r.clock.known).To(BeTrue())
			Expect(r.clock.ahead).To(BeNumerically("~", time.Minute-20*time.Millisecond, time.Millisecond))
			Expect(r.clock.unsure).To(BeNumerically(">=", 100*time.Millisecond))
		})

		It("trusts the call that took the least time, for as long as what others tell can be true too", func() {
			answered(100*time.Millisecond, 80*time.Millisecond, 0)
			answered(2*time.Millisecond, time.Millisecond, 0)
			best := r.clock
			Expect(best.ahead).To(BeNumerically("~", -time.Millisecond, time.Millisecond))
			answered(time.Second, 900*time.Millisecond, 0)
			Expect(r.clock).To(Equal(best))
			answered(time.Second, 900*time.Millisecond, time.Hour) // one of the clocks was set
			Expect(r.clock.ahead).To(BeNumerically("~", time.Hour-900*time.Millisecond, time.Millisecond))
			answered(time.Second, 100*time.Millisecond, -time.Hour)
			Expect(r.clock.ahead).To(BeNumerically("~", -time.Hour-100*time.Millisecond, time.Millisecond))
		})

		It("says nothing where the server doesn't tell, or the queue's clock isn't that of this machine", func() {
			r.setClock(0, time.Now())
			Expect(r.takeBehind("t", time.Second)).To(BeNil())
			r.w.core.isReal = false
			answered(2*time.Millisecond, time.Millisecond, 0)
			Expect(r.takeBehind("t", time.Second)).To(BeNil())
		})
	})
})
