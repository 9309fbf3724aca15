package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
)

var _ = Describe("Worker concurrency", func() {
	var (
		name    string
		queue   *bullmq.Queue
		ctx     context.Context
		running atomic.Int64
		finish  chan struct{} // each receive ends a job
		handler bullmq.Handler
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, nil)
		running.Store(0)
		finish = make(chan struct{})
		handler = func(context.Context, *bullmq.Job) (any, error) {
			running.Add(1)
			defer running.Add(-1)
			<-finish
			return nil, nil
		}
	})
	add := func(n int) {
		GinkgoHelper()
		_, err := queue.AddBulk(ctx, make([]bullmq.BulkJob, n))
		Expect(err).NotTo(HaveOccurred())
	}
	end := func(n int) {
		for range n {
			Eventually(finish).Should(BeSent(struct{}{}))
		}
	}
	run := func(concurrency int) *bullmq.Worker {
		GinkgoHelper()
		worker := runWorker(name, handler, &bullmq.WorkerOptions{Concurrency: concurrency, DrainDelay: 10 * time.Second, SkipStalledCheck: true})
		DeferCleanup(func() { close(finish) }) // before the worker ends
		return worker
	}
	completed := func() int {
		counts, err := queue.Counts(ctx, bullmq.StateCompleted)
		Expect(err).NotTo(HaveOccurred())
		return counts[bullmq.StateCompleted]
	}

	It("that is raised under load starts more jobs immediately", func() {
		add(10)
		worker := run(1)
		Eventually(running.Load).Should(BeEquivalentTo(1))
		Consistently(running.Load, "50ms").Should(BeEquivalentTo(1))
		Expect(worker.SetConcurrency(6)).To(Succeed())
		Eventually(running.Load).Should(BeEquivalentTo(6))
		Consistently(running.Load, "50ms").Should(BeEquivalentTo(6))
		Expect(worker.Concurrency()).To(Equal(6))
	})

	// The fetching goroutine runs the job of the last slot itself, so another one must fetch meanwhile.
	It("that is raised while an idle worker's only job runs starts more jobs immediately", func() {
		worker := run(1)
		waitUntilIdle(queue)
		add(3)
		Eventually(running.Load).Should(BeEquivalentTo(1))
		Consistently(running.Load, "50ms").Should(BeEquivalentTo(1))
		Expect(worker.SetConcurrency(3)).To(Succeed())
		Eventually(running.Load).Should(BeEquivalentTo(3))
	})

	It("is kept when slots are filled one by one and become free out of order", func() {
		hold := make(chan struct{})
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			running.Add(1)
			defer running.Add(-1)
			if job.Name == "held" {
				<-hold
			} else {
				<-finish
			}
			return nil, nil
		}, &bullmq.WorkerOptions{Concurrency: 3, DrainDelay: 10 * time.Second, SkipStalledCheck: true})
		DeferCleanup(func() { close(finish); close(hold) }) // before the worker ends
		for n, job := range []string{"short", "short", "held"} {
			waitUntilIdle(queue)
			_, err := queue.Add(ctx, job, nil, nil)
			Expect(err).NotTo(HaveOccurred())
			Eventually(running.Load).Should(BeEquivalentTo(n + 1))
		}
		for range 5 {
			end(1)
			Eventually(running.Load).Should(BeEquivalentTo(2))
			add(1)
			Eventually(running.Load).Should(BeEquivalentTo(3))
		}
	})

	It("that is lowered under load is reached as jobs end and not exceeded again", func() {
		add(12)
		worker := run(5)
		Eventually(running.Load).Should(BeEquivalentTo(5))
		Expect(worker.SetConcurrency(2)).To(Succeed())
		Consistently(running.Load, "50ms").Should(BeEquivalentTo(5), "none is interrupted")
		end(3)
		Eventually(running.Load).Should(BeEquivalentTo(2))
		for i := range 4 {
			end(1)
			Eventually(completed).Should(BeEquivalentTo(4 + i))
			Eventually(running.Load).Should(BeEquivalentTo(2))
		}
		Expect(worker.SetConcurrency(3)).To(Succeed())
		Eventually(running.Load).Should(BeEquivalentTo(3))
	})

	It("that is lowered to the number of running jobs leaves the next job to other workers", func() {
		add(2)
		worker := run(3)
		Eventually(running.Load).Should(BeEquivalentTo(2))
		waitUntilIdle(queue)
		Expect(worker.SetConcurrency(2)).To(Succeed())
		Eventually(func() []string {
			var blocked []string
			workers, err := queue.ConnectedWorkers(ctx)
			Expect(err).NotTo(HaveOccurred())
			for _, worker := range workers {
				blocked = append(blocked, worker.Fields["flags"])
			}
			return blocked
		}).ShouldNot(ContainElement(ContainSubstring("b")))
		add(1)
		Consistently(running.Load, "100ms").Should(BeEquivalentTo(2))
		Expect(zsetAt(keyOf(name, "marker"))).To(Equal([]string{"0"}))
		Expect(worker.SetConcurrency(3)).To(Succeed())
		Eventually(running.Load).Should(BeEquivalentTo(3))
	})

	It("that is raised during a pause applies when the worker is resumed", func() {
		add(3)
		worker := run(1)
		Eventually(running.Load).Should(BeEquivalentTo(1))
		Expect(worker.PauseNow(ctx)).To(Succeed())
		Expect(worker.SetConcurrency(3)).To(Succeed())
		Consistently(running.Load, "50ms").Should(BeEquivalentTo(1))
		worker.Resume()
		Eventually(running.Load).Should(BeEquivalentTo(3))
	})

	It("can be set before Run and defaults to 1", func() {
		worker := newWorker(name, handler, nil)
		Expect(worker.Concurrency()).To(Equal(1))
		Expect(worker.SetConcurrency(2)).To(Succeed())
		add(3)
		go func() { _ = worker.Run(ctx) }()
		Eventually(running.Load).Should(BeEquivalentTo(2))
		close(finish)
		Eventually(completed).Should(BeEquivalentTo(3))
	})

	DescribeTable("cannot be set to", func(concurrency int) {
		worker := newWorker(name, handler, &bullmq.WorkerOptions{Concurrency: 4})
		Expect(worker.SetConcurrency(concurrency)).To(MatchError(ContainSubstring("less than 1")))
		Expect(worker.Concurrency()).To(Equal(4))
	}, Entry("0", 0), Entry("-1", -1))
})

var _ = Describe("Worker concurrency", func() {
	It("is not exceeded when many delayed jobs become due together", func() {
		name, ctx := newQueueName(), specContext()
		queue := newQueue(name, nil)
		bulk := make([]bullmq.BulkJob, 60)
		for i := range bulk {
			bulk[i].Options = &bullmq.JobOptions{Delay: 200 * time.Millisecond}
		}
		_, err := queue.AddBulk(ctx, bulk)
		Expect(err).NotTo(HaveOccurred())
		var running, most atomic.Int64
		full := make(chan struct{})
		fill := sync.OnceFunc(func() { close(full) })
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) {
			n := running.Add(1)
			defer running.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			if n == 10 {
				fill()
			}
			<-full
			time.Sleep(20 * time.Millisecond)
			return nil, nil
		}, &bullmq.WorkerOptions{Concurrency: 10})
		DeferCleanup(fill)
		Eventually(countOf(queue, bullmq.StateCompleted)).Should(Equal(60))
		Expect(most.Load()).To(BeEquivalentTo(10))
	})

	It("is fully used on a connection with high latency", Label("slow"), func() {
		proxy := proxied(redis.Addr())
		name, ctx := newQueueName(), specContext()
		queue := newQueue(name, nil)
		_, err := queue.AddBulk(ctx, make([]bullmq.BulkJob, 300))
		Expect(err).NotTo(HaveOccurred())
		Expect(proxy.Set(faultproxy.Faults{Delay: 25 * time.Millisecond})).To(Succeed())
		begun := time.Now()
		runWorker(name, doNothing, &bullmq.WorkerOptions{Connection: bullmq.URL("redis://" + proxy.Addr()), Concurrency: 100})
		Eventually(countOf(queue, bullmq.StateCompleted), "20s").Should(Equal(300))
		Expect(time.Since(begun)).To(BeNumerically("<", 7*time.Second), "one after the other takes 15 s")
	})
})

var _ = Describe("Attempts of many jobs", func() {
	It("are each made once across several workers", func() {
		name, ctx := newQueueName(), specContext()
		queue := newQueue(name, nil)
		bulk := make([]bullmq.BulkJob, 50)
		for i := range bulk {
			bulk[i].Options = &bullmq.JobOptions{Attempts: 3, Backoff: bullmq.FixedBackoff(20 * time.Millisecond)}
		}
		_, err := queue.AddBulk(ctx, bulk)
		Expect(err).NotTo(HaveOccurred())
		var mu sync.Mutex
		attempts := map[string]int{}
		for range 8 {
			runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
				mu.Lock()
				defer mu.Unlock()
				attempts[fmt.Sprint(job.ID, ":", job.AttemptsMade)]++
				return nil, errors.New("boom")
			}, &bullmq.WorkerOptions{Concurrency: 3})
		}
		Eventually(countOf(queue, bullmq.StateFailed)).Should(Equal(50))
		mu.Lock()
		defer mu.Unlock()
		Expect(attempts).To(And(HaveLen(150), HaveEach(1)))
	})
})
