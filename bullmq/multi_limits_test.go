package bullmq_test

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A worker over many queues heeds", func() {
	var (
		ctx    context.Context
		names  []string
		queues []*bullmq.Queue
		ran    *startLog
	)
	BeforeEach(func() {
		ctx, names, ran = specContext(), newQueueNames(3), &startLog{}
		queues = openQueues(names...)
	})
	of := func(name string) func() int {
		return func() int { return ran.each(ran.count())[name] }
	}

	It("the pause of a queue, while the others go on", func() {
		Expect(queues[0].Pause(ctx)).To(Succeed())
		addMany(queues, 5)
		runMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Queues: served(names...), Worker: bullmq.WorkerOptions{DrainDelay: time.Minute}})
		Eventually(ran.count).Should(Equal(10))
		Consistently(of(names[0]), "100ms").Should(BeZero())
		Expect(queues[0].Resume(ctx)).To(Succeed())
		Eventually(of(names[0])).Should(Equal(5))
		Expect(queues[1].Pause(ctx)).To(Succeed())
		addMany(queues, 5)
		Eventually(ran.count).Should(Equal(25))
		Consistently(of(names[1]), "50ms").Should(Equal(5))
		Expect(queues[1].Resume(ctx)).To(Succeed())
		Eventually(ran.count).Should(Equal(30))
	})

	It("the pause of a queue of BullMQ 5", func() {
		old := newQueue(newQueueName(), &bullmq.QueueOptions{Dialect: bullmq.V5})
		Expect(old.Pause(ctx)).To(Succeed())
		addMany([]*bullmq.Queue{old, queues[0]}, 5)
		runMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Queues: served(old.Name(), names[0]), Worker: bullmq.WorkerOptions{DrainDelay: time.Minute}})
		Eventually(of(names[0])).Should(Equal(5))
		Consistently(of(old.Name()), "50ms").Should(BeZero())
		Expect(old.Resume(ctx)).To(Succeed())
		Eventually(of(old.Name())).Should(Equal(5))
	})

	It("the global concurrency of a queue, while the others go on", func() {
		Expect(queues[0].SetGlobalConcurrency(ctx, 1)).To(Succeed())
		addMany(queues, 30)
		var running, most atomic.Int64
		runMultiWorker(func(ctx context.Context, job *bullmq.Job) (any, error) {
			if job.QueueName() == names[0] {
				most.Store(max(most.Load(), running.Add(1)))
				time.Sleep(time.Millisecond)
				defer running.Add(-1)
			}
			return ran.handle(ctx, job)
		}, bullmq.MultiWorkerOptions{Queues: served(names...), Worker: bullmq.WorkerOptions{Concurrency: 8, DrainDelay: time.Minute}})
		Eventually(ran.count).Should(Equal(90))
		Expect(most.Load()).To(BeEquivalentTo(1))
	})

	It("jobs that were added at the global concurrency of a queue, whoever runs its jobs", func() {
		Expect(queues[0].SetGlobalConcurrency(ctx, 1)).To(Succeed())
		hold, holding := make(chan struct{}), make(chan struct{}, 100)
		runMultiWorker(func(ctx context.Context, job *bullmq.Job) (any, error) {
			if job.QueueName() == names[0] {
				holding <- struct{}{}
				<-hold
			}
			return ran.handle(ctx, job)
		}, bullmq.MultiWorkerOptions{Queues: served(names...), Worker: bullmq.WorkerOptions{Concurrency: 2, DrainDelay: time.Minute}})
		waitUntilIdle(queues[0])
		for round := range 20 {
			addMany(queues[:1], 1)
			Eventually(holding).Should(Receive())
			addMany(queues[:1], 1) // sets no marker
			addMany(queues[1:], 3) // the call that ends the job may fetch one of these
			hold <- struct{}{}
			Eventually(holding).Should(Receive())
			hold <- struct{}{}
			Eventually(ran.count).Should(Equal(8 * (round + 1)))
		}
	})

	It("the limiter of each queue, while the others go on", func() {
		addMany(queues, 6)
		all := served(names...)
		all[0].Limiter = &bullmq.Limiter{Max: 2, Duration: 300 * time.Millisecond}
		begun := time.Now()
		runMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Queues: all, Worker: bullmq.WorkerOptions{Concurrency: 4}})
		Eventually(ran.count).Should(Equal(18))
		Expect(time.Since(begun)).To(BeNumerically(">=", 600*time.Millisecond))
		Expect(slices.Index(ran.order()[14:], names[1])).To(Equal(-1))
	})

	It("the global rate limit of a queue, also while it has other workers", func() {
		Expect(queues[0].SetGlobalRateLimit(ctx, bullmq.Limiter{Max: 2, Duration: 200 * time.Millisecond})).To(Succeed())
		addMany(queues, 6)
		begun := time.Now()
		runMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Queues: served(names...), Worker: bullmq.WorkerOptions{Concurrency: 4}})
		runWorker(names[0], ran.handle, nil)
		Eventually(ran.count).Should(Equal(18))
		Expect(time.Since(begun)).To(BeNumerically(">=", 400*time.Millisecond))
		ran.once(18)
	})

	DescribeTable("a rate limit that a handler returns, for its queue only", func(limiter *bullmq.Limiter) {
		all := served(names...)
		all[0].Limiter = limiter
		addMany(queues, 3)
		var limited atomic.Bool
		var at atomic.Int64
		runMultiWorker(func(ctx context.Context, job *bullmq.Job) (any, error) {
			if job.QueueName() == names[0] && limited.CompareAndSwap(false, true) {
				at.Store(time.Now().UnixMilli())
				return nil, bullmq.RateLimit(300 * time.Millisecond)
			}
			return ran.handle(ctx, job)
		}, bullmq.MultiWorkerOptions{Queues: all})
		Eventually(ran.count).Should(Equal(9))
		Expect(time.Now().UnixMilli() - at.Load()).To(BeNumerically(">=", 290))
		Expect(ran.order()[6:]).To(Equal(slices.Repeat(names[:1], 3)))
	},
		Entry("with a limiter", &bullmq.Limiter{Max: 100, Duration: time.Second}),
		Entry("without a limiter", nil),
	)

	It("other workers of its queues, which are woken while its own slots are full", func() {
		hold, holding := make(chan struct{}), make(chan struct{}, 1)
		defer close(hold)
		runMultiWorker(func(context.Context, *bullmq.Job) (any, error) {
			holding <- struct{}{}
			<-hold
			return nil, nil
		}, bullmq.MultiWorkerOptions{Queues: served(names...), Worker: bullmq.WorkerOptions{DrainDelay: time.Minute}})
		addMany(queues[:1], 1)
		Eventually(holding).Should(Receive())
		runWorker(names[1], ran.handle, &bullmq.WorkerOptions{DrainDelay: time.Minute})
		waitUntilIdle(queues[1])
		for round := range 10 {
			addMany(queues[1:2], 1)
			Eventually(ran.count).Should(Equal(round + 1))
		}
	})

	It("delayed jobs of each queue, and returns their times to other workers when it pauses and stops", func() {
		worker := newMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Queues: served(names...), Worker: bullmq.WorkerOptions{DrainDelay: time.Minute}})
		run(worker)
		waitUntilIdle(queues[0])
		for _, queue := range queues {
			_, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{Delay: 100 * time.Millisecond})
			Expect(err).NotTo(HaveOccurred())
			_, err = queue.Add(ctx, "a", nil, &bullmq.JobOptions{Delay: time.Hour})
			Expect(err).NotTo(HaveOccurred())
		}
		Eventually(ran.count).Should(Equal(3))
		returned := func() {
			GinkgoHelper()
			for _, name := range names {
				Eventually(func() map[string]float64 { return scoresAt(keyOf(name, "marker")) }).Should(
					HaveKeyWithValue("1", BeNumerically("~", time.Now().Add(time.Hour).UnixMilli(), 60_000)))
			}
		}
		Expect(worker.Pause(ctx)).To(Succeed())
		returned()
		worker.Resume()
		waitUntilIdle(queues[0])
		for _, name := range names {
			Eventually(func() map[string]float64 { return scoresAt(keyOf(name, "marker")) }).Should(BeEmpty())
		}
		Expect(worker.Close()).To(Succeed())
		returned()
	})

	It("delayed jobs that many queues have when it starts, with few waits", func() {
		names := newQueueNames(200)
		for _, queue := range openQueues(names...) {
			_, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{Delay: 700 * time.Millisecond})
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(redisDo("CONFIG", "RESETSTAT").Error()).To(Succeed())
		runMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Queues: served(names...), Worker: bullmq.WorkerOptions{Concurrency: 50}})
		Eventually(ran.count).Should(Equal(200))
		Expect(commandCalls()["bzpopmin"]).To(BeNumerically("<", 100))
	})

	It("the due times of delayed jobs of 50 queues, so that none starts early or 200 ms late", func() {
		names := newQueueNames(50)
		queues := openQueues(names...)
		late := make(chan time.Duration, len(names))
		runMultiWorker(func(_ context.Context, job *bullmq.Job) (any, error) {
			late <- time.Since(job.Timestamp.Add(job.Options.Delay))
			return nil, nil
		}, bullmq.MultiWorkerOptions{Queues: served(names...), Worker: bullmq.WorkerOptions{DrainDelay: time.Minute}})
		waitUntilIdle(queues[0])
		steadily(func(g Gomega) {
			for i, queue := range queues {
				_, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{Delay: 300*time.Millisecond + time.Duration(i)*10*time.Millisecond})
				Expect(err).NotTo(HaveOccurred())
			}
			times := make([]time.Duration, len(queues))
			for i := range times {
				Eventually(late, "10s").Should(Receive(&times[i]))
			}
			g.Expect(slices.Min(times)).To(BeNumerically(">", -2*time.Millisecond))
			g.Expect(slices.Max(times)).To(BeNumerically("<", 200*time.Millisecond))
		})
	})
})
