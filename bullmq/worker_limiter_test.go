package bullmq_test

import (
	"context"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A rate-limited worker", func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context

		mu     sync.Mutex
		starts []time.Time
		order  []string
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, nil)
		starts, order = nil, nil
	})
	note := func(_ context.Context, job *bullmq.Job) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		// A busy machine may call the handler long after the job was fetched.
		starts, order = append(starts, job.ProcessedOn), append(order, job.ID)
		return nil, nil
	}
	noted := func() []string { mu.Lock(); defer mu.Unlock(); return slices.Clone(order) }
	add := func(n int, options *bullmq.JobOptions) {
		GinkgoHelper()
		for range n {
			_, err := queue.Add(ctx, "a", nil, options)
			Expect(err).NotTo(HaveOccurred())
		}
	}
	twoIn := func(window time.Duration) *bullmq.WorkerOptions {
		return &bullmq.WorkerOptions{Limiter: &bullmq.Limiter{Max: 2, Duration: window}, Concurrency: 5}
	}
	// inWindows checks that five jobs start as two, two and one.
	inWindows := func(window time.Duration) {
		GinkgoHelper()
		Eventually(noted).Should(HaveLen(5))
		mu.Lock()
		defer mu.Unlock()
		slices.SortFunc(starts, time.Time.Compare)
		for i := range starts[:3] {
			Expect(starts[i+2].Sub(starts[i])).To(BeNumerically(">=", window*8/10), "%v", starts)
		}
		Expect(starts[4].Sub(starts[0])).To(BeNumerically("<", 4*time.Second), "an idle worker waits for 5 s")
	}

	It("starts no more jobs in a window than allowed and continues in each new window", func() {
		add(5, nil)
		runWorker(name, note, twoIn(300*time.Millisecond))
		inWindows(300 * time.Millisecond)
	})

	It("shares its window with other workers of the queue", func() {
		add(5, nil)
		for range 3 {
			runWorker(name, note, twoIn(300*time.Millisecond))
		}
		inWindows(300 * time.Millisecond)
	})

	It("obeys the queue's limit without a limiter of its own", func() {
		Expect(queue.SetGlobalRateLimit(ctx, bullmq.Limiter{Max: 2, Duration: 300 * time.Millisecond})).To(Succeed())
		add(5, nil)
		runWorker(name, note, &bullmq.WorkerOptions{Concurrency: 5})
		inWindows(300 * time.Millisecond)
	})

	It("starts jobs that were added while the limit held when the window ends", func() {
		add(2, nil)
		runWorker(name, note, twoIn(300*time.Millisecond))
		Eventually(noted).Should(HaveLen(2))
		add(3, nil)
		inWindows(300 * time.Millisecond)
	})

	It("makes almost no calls to Redis while the limit holds", func() {
		add(10, nil)
		runWorker(name, note, twoIn(10*time.Second))
		Eventually(countOf(queue, bullmq.StateCompleted)).Should(Equal(2))
		Expect(redisDo("CONFIG", "RESETSTAT").Error()).To(Succeed())
		time.Sleep(500 * time.Millisecond)
		Expect(commandCalls()["evalsha"]).To(BeNumerically("<=", 3), "the look that finds the limit reached among them")
	})

	DescribeTable("keeps the order and uses no attempt when a handler returns RateLimit, for jobs with", func(options *bullmq.JobOptions, want ...string) {
		add(4, options)
		var asked time.Time
		o := &bullmq.WorkerOptions{Limiter: &bullmq.Limiter{Max: 100, Duration: time.Second}}
		runWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
			if asked.IsZero() {
				asked = time.Now()
				return nil, bullmq.RateLimit(150 * time.Millisecond)
			}
			return note(ctx, job)
		}, o)
		Eventually(noted).Should(Equal(want))
		Expect(starts[0].Sub(asked)).To(BeNumerically(">=", 140*time.Millisecond))
		Eventually(stateOf(queue, want[3])).Should(Equal(bullmq.StateCompleted))
		for _, id := range want {
			Expect(hashAt(keyOf(name, id))).To(HaveKeyWithValue("atm", "1"))
		}
	},
		Entry("no options", nil, "1", "2", "3", "4"),
		Entry("a priority", &bullmq.JobOptions{Priority: 10}, "1", "2", "3", "4"),
		Entry("LIFO", &bullmq.JobOptions{LIFO: true}, "4", "3", "2", "1"),
	)

	It("stops with all workers of the queue when a handler calls Queue.RateLimit", func() {
		add(3, nil)
		var once sync.Once
		handler := func(ctx context.Context, job *bullmq.Job) (any, error) {
			var limited bool
			once.Do(func() { limited = true })
			if limited {
				if err := queue.RateLimit(ctx, 300*time.Millisecond); err != nil {
					return nil, err
				}
				return nil, bullmq.ErrRateLimited
			}
			return note(ctx, job)
		}
		begun := time.Now()
		o := bullmq.WorkerOptions{Limiter: &bullmq.Limiter{Max: 100, Duration: time.Second}}
		runWorker(name, handler, &o)
		runWorker(name, handler, &o)
		Eventually(noted).Should(HaveLen(3))
		mu.Lock()
		defer mu.Unlock()
		Expect(starts[2].Sub(begun)).To(BeNumerically(">=", 290*time.Millisecond))
	})

	It("runs a job again soon if its handler returns ErrRateLimited without a limit", func() {
		add(1, nil)
		runs := 0
		runWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
			if runs++; runs < 3 {
				return nil, bullmq.ErrRateLimited
			}
			return note(ctx, job)
		}, nil)
		Eventually(noted).Should(Equal([]string{"1"}))
		Eventually(stateOf(queue, "1")).Should(Equal(bullmq.StateCompleted))
		Expect(hashAt(keyOf(name, "1"))).To(And(HaveKeyWithValue("atm", "1"), HaveKeyWithValue("ats", "3")))
	})

	It("checks after MaximumRateLimitDelay whether the limit still holds", func() {
		Expect(queue.RateLimit(ctx, time.Minute)).To(Succeed())
		add(1, nil)
		o := twoIn(time.Second)
		o.MaximumRateLimitDelay = 100 * time.Millisecond
		runWorker(name, note, o)
		Consistently(noted, "250ms").Should(BeEmpty())
		Expect(queue.RemoveRateLimitKey(ctx)).To(BeTrue())
		Eventually(noted).Should(HaveLen(1))
	})

	It("promotes delayed jobs while the limit holds", func() {
		Expect(queue.RateLimit(ctx, time.Minute)).To(Succeed())
		add(1, &bullmq.JobOptions{Delay: 50 * time.Millisecond})
		o := twoIn(time.Second)
		o.MaximumRateLimitDelay = 100 * time.Millisecond
		runWorker(name, note, o)
		Eventually(stateOf(queue, "1")).Should(Equal(bullmq.StateWaiting))
	})
})
