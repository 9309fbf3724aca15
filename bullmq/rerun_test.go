package bullmq_test

import (
	"cmp"
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A job that its handler sends back for ever, with no attempt used", func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
		seen  *starts
	)
	BeforeEach(func() {
		name, ctx, seen = newQueueName(), specContext(), &starts{}
		queue = newQueue(name, nil)
	})
	add := func() string {
		GinkgoHelper()
		job, err := queue.Add(ctx, "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		return job.ID
	}
	returning := func(err error) bullmq.Handler {
		return func(_ context.Context, job *bullmq.Job) (any, error) {
			seen.note(job)
			return nil, err
		}
	}
	always := func(err error) func(context.Context, *bullmq.Job) error {
		return func(context.Context, *bullmq.Job) error { return err }
	}

	DescribeTable("is not run in a busy loop", func(workers, concurrency int) {
		limiter := &bullmq.Limiter{Max: 1000, Duration: 10 * time.Millisecond}
		loops := map[string]struct {
			limit *bullmq.Limiter
			back  func(ctx context.Context, job *bullmq.Job) error
		}{
			"ErrRateLimited while no limit holds":                 {nil, always(bullmq.ErrRateLimited)},
			"ErrRateLimited while no limit holds, with a limiter": {limiter, always(bullmq.ErrRateLimited)},
			"a RateLimit for no time":                             {nil, always(bullmq.RateLimit(0))},
			"a RateLimit for no time, with a limiter":             {limiter, always(bullmq.RateLimit(-time.Second))},
			"ErrSnoozed":           {nil, always(bullmq.ErrSnoozed)},
			"a Snooze for no time": {nil, always(bullmq.Snooze(time.Microsecond))},
			"MoveToWait": {nil, func(ctx context.Context, job *bullmq.Job) error {
				return cmp.Or(job.MoveToWait(ctx, job.Token()), bullmq.ErrMovedToWait)
			}},
			"MoveToDelayed until a time that is over": {nil, func(ctx context.Context, job *bullmq.Job) error {
				return cmp.Or(job.MoveToDelayed(ctx, time.Now().Add(-time.Second), job.Token()), bullmq.ErrMovedToDelayed)
			}},
		}
		runs, names := map[string]*starts{}, map[string]string{}
		for what, loop := range loops {
			seen := &starts{}
			runs[what], names[what] = seen, newQueueName()
			_, err := newQueue(names[what], nil).Add(ctx, "a", nil, nil)
			Expect(err).NotTo(HaveOccurred())
			for range workers {
				runWorker(names[what], func(ctx context.Context, job *bullmq.Job) (any, error) {
					seen.note(job)
					return nil, loop.back(ctx, job)
				}, &bullmq.WorkerOptions{Concurrency: concurrency, Limiter: loop.limit})
			}
		}
		for what := range loops {
			Eventually(runs[what].all).Should(BeNumerically(">=", 8), what)
		}
		time.Sleep(time.Second)
		for what := range loops {
			Expect(runs[what].all()).To(BeNumerically("<=", 15), what)
			Expect(hash(key(names[what], "1"))).NotTo(HaveKey("atm"), what)
		}
	},
		Entry("by a worker of concurrency 1", 1, 1),
		Entry("by a worker of concurrency 20", 1, 20),
		Entry("by two workers", 2, 4),
	)

	DescribeTable("is run once, and left to the stalled check, where it was not moved", func(word error) {
		add()
		runWorker(name, returning(word), &bullmq.WorkerOptions{Concurrency: 20})
		Eventually(seen.all).Should(Equal(1))
		Consistently(seen.all, "300ms").Should(Equal(1))
	},
		Entry("to wait", bullmq.ErrMovedToWait),
		Entry("to delayed", bullmq.ErrMovedToDelayed),
		Entry("to waiting-children", bullmq.ErrMovedToWaitingChildren),
	)

	It("waits also where its handler moves it by a handle", func() {
		add()
		var worker *bullmq.Worker
		worker = newWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
			seen.note(job)
			if err := worker.Handle(job.ID).MoveToWait(ctx, job.Token()); err != nil {
				return nil, err
			}
			return nil, bullmq.ErrMovedToWait
		}, nil)
		running, stop := context.WithCancel(specContext())
		done := make(chan error, 1)
		go func() { done <- worker.Run(running) }()
		DeferCleanup(func() {
			stop()
			Expect(<-done).To(Succeed())
		})
		Eventually(seen.all).Should(BeNumerically(">=", 8))
		time.Sleep(time.Second)
		Expect(seen.all()).To(BeNumerically("<=", 15))
	})

	It("leaves the other slots of its worker free", func() {
		id := add()
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			seen.note(job)
			if job.ID == id {
				return nil, bullmq.ErrSnoozed
			}
			return nil, nil
		}, &bullmq.WorkerOptions{Concurrency: 2})
		Eventually(func() int { return len(seen.of(id)) }).Should(BeNumerically(">=", 9), "the pauses are long by now")
		for range 20 {
			begun, other := time.Now(), add()
			Eventually(state(queue, other)).Should(Equal(bullmq.Completed))
			Expect(time.Since(begun)).To(BeNumerically("<", 200*time.Millisecond))
		}
	})

	It("goes back at once when the worker stops", func() {
		id := add()
		worker := runWorker(name, returning(bullmq.ErrSnoozed), &bullmq.WorkerOptions{LockDuration: time.Second})
		Eventually(seen.all, "10s").Should(BeNumerically(">=", 11), "the pauses are a second by now")
		begun := time.Now()
		Expect(worker.Close()).To(Succeed())
		Expect(time.Since(begun)).To(BeNumerically("<", 500*time.Millisecond))
		Expect(state(queue, id)()).To(Equal(bullmq.Waiting))
	})

	It("keeps its lock meanwhile, be it shorter than the pause", func() {
		id := add()
		runWorker(name, returning(bullmq.ErrSnoozed), &bullmq.WorkerOptions{LockDuration: 300 * time.Millisecond, StalledInterval: 50 * time.Millisecond})
		Eventually(seen.all, "10s").Should(BeNumerically(">=", 13))
		Expect(events(name)).NotTo(ContainElement(HavePrefix("stalled")))
		Expect(hash(key(name, id))).NotTo(HaveKey("stc"))
	})

	It("has its lock given back in time where locks are not renewed", func() {
		add()
		runWorker(name, returning(bullmq.ErrSnoozed), &bullmq.WorkerOptions{LockDuration: 400 * time.Millisecond, SkipLockRenewal: true, StalledInterval: 50 * time.Millisecond})
		Eventually(seen.all, "10s").Should(BeNumerically(">=", 14))
		Expect(events(name)).NotTo(ContainElement(HavePrefix("stalled")))
	})
})
