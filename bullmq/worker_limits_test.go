package bullmq_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
)

var _ = Describe("The limits of a job's name", Label("slow"), func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, nil)
	})
	add := func(jobs map[string]int) {
		GinkgoHelper()
		var all []bullmq.BulkJob
		for jobName, count := range jobs {
			for range count {
				all = append(all, bullmq.BulkJob{Name: jobName})
			}
		}
		_, err := queue.AddBulk(ctx, all)
		Expect(err).NotTo(HaveOccurred())
	}

	It("bound how many jobs with the name run at once in all workers, while others run, and use no starts", func() {
		var mu sync.Mutex
		running, most, failed := map[string]int{}, map[string]int{}, ""
		handle := func(_ context.Context, job *bullmq.Job) (any, error) {
			note := func(by int) {
				mu.Lock()
				defer mu.Unlock()
				running[job.Name] += by
				most[job.Name] = max(most[job.Name], running[job.Name])
				if job.AttemptsStarted != 1 {
					failed = fmt.Sprint("job ", job.ID, " was started ", job.AttemptsStarted, " times")
				}
			}
			note(1)
			defer note(-1)
			time.Sleep(20 * time.Millisecond)
			return nil, nil
		}
		add(map[string]int{"resize": 30, "mail": 60})
		for range 3 {
			runWorker(name, handle, &bullmq.WorkerOptions{
				Concurrency: 10, MaxStartedAttempts: 1, Limits: map[string]bullmq.NameLimit{"resize": {Concurrency: 2}},
			})
		}
		Eventually(countOf(queue, bullmq.StateCompleted), "40s").Should(Equal(90))
		mu.Lock()
		defer mu.Unlock()
		Expect(failed).To(BeEmpty())
		Expect(most["resize"]).To(Equal(2))
		Expect(most["mail"]).To(BeNumerically(">", 2))
	})

	It("bound how many jobs with the name start within a period, in all workers", func() {
		var mu sync.Mutex
		var starts []time.Time
		handle := func(_ context.Context, job *bullmq.Job) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			if job.Name == "resize" {
				starts = append(starts, time.Now())
			}
			return nil, nil
		}
		begun := time.Now()
		add(map[string]int{"resize": 9, "mail": 20})
		for range 2 {
			runWorker(name, handle, &bullmq.WorkerOptions{
				Concurrency: 5, Limits: map[string]bullmq.NameLimit{"resize": {Limiter: &bullmq.Limiter{Max: 3, Duration: time.Second}}},
			})
		}
		Eventually(countOf(queue, bullmq.StateCompleted), "40s").Should(Equal(29))
		Expect(time.Since(begun)).To(BeNumerically(">", 2*time.Second), "nine in windows of three")
		mu.Lock()
		defer mu.Unlock()
		Expect(starts).To(HaveLen(9))
	})

	It("no longer count a job whose worker has died once its lock has expired", func() {
		proxy, link := proxiedRedis()
		limits := map[string]bullmq.NameLimit{"resize": {Concurrency: 1}}
		began, release := make(chan string, 5), make(chan struct{})
		handle := func(_ context.Context, job *bullmq.Job) (any, error) {
			began <- job.ID
			<-release
			return nil, nil
		}
		DeferCleanup(func() { close(release) })
		doomed := newWorker(name, handle, &bullmq.WorkerOptions{
			Connection: link, Limits: limits, LockDuration: 3 * time.Second, StalledInterval: time.Hour, ShutdownTimeout: time.Millisecond,
		})
		ended := make(chan error, 1)
		go func() { ended <- doomed.Run(ctx) }()
		DeferCleanup(func() { _ = doomed.Close(); Eventually(ended).Should(Receive()) })
		add(map[string]int{"resize": 1})
		Eventually(began).Should(Receive())
		Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
		proxy.CutAll()
		add(map[string]int{"resize": 1})
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) { began <- job.ID; return nil, nil }, &bullmq.WorkerOptions{
			Limits: limits, StalledInterval: time.Hour,
		})
		var next string
		Eventually(began, "30s").Should(Receive(&next))
		Expect(next).To(Equal("2"))
		Eventually(stateOf(queue, "2")).Should(Equal(bullmq.StateCompleted))
		Expect(stateOf(queue, "1")()).To(Equal(bullmq.StateActive), "its lock has expired, and no check has found it")
	})

	It("delay jobs with the name and report it if the user may not use their keys, while others run", func() {
		log := &logLines{}
		runWorker(name, doNothing, &bullmq.WorkerOptions{
			Connection: restricted("~bull:" + name + ":* +@all"), Limits: map[string]bullmq.NameLimit{"resize": {Concurrency: 1}},
			Logger: textLogger(log),
		})
		add(map[string]int{"resize": 1, "mail": 3})
		Eventually(countOf(queue, bullmq.StateCompleted)).Should(Equal(3))
		Eventually(func() int { return log.with("the limit of a job's name could not be read") }).Should(BeNumerically(">", 0))
		Consistently(countOf(queue, bullmq.StateCompleted), "200ms").Should(Equal(3))
	})

	It("bound the jobs of each queue of a worker over many queues", func() {
		names := newQueueNames(2)
		queues := openQueues(names...)
		var mu sync.Mutex
		running, most := map[string]int{}, map[string]int{}
		for _, queue := range queues {
			for range 6 {
				_, err := queue.Add(ctx, "resize", nil, nil)
				Expect(err).NotTo(HaveOccurred())
			}
		}
		runMultiWorker(func(_ context.Context, job *bullmq.Job) (any, error) {
			note := func(by int) {
				mu.Lock()
				defer mu.Unlock()
				running[job.QueueName()] += by
				most[job.QueueName()] = max(most[job.QueueName()], running[job.QueueName()])
			}
			note(1)
			defer note(-1)
			time.Sleep(20 * time.Millisecond)
			return nil, nil
		}, bullmq.MultiWorkerOptions{
			Queues: served(names...), Worker: bullmq.WorkerOptions{Concurrency: 10, Limits: map[string]bullmq.NameLimit{"resize": {Concurrency: 2}}},
		})
		for _, queue := range queues {
			Eventually(countOf(queue, bullmq.StateCompleted), "30s").Should(Equal(6))
		}
		mu.Lock()
		defer mu.Unlock()
		Expect(most).To(HaveEach(BeNumerically("<=", 2)))
	})

	It("do not apply to workers without them", func() {
		add(map[string]int{"resize": 10})
		var mu sync.Mutex
		running, most := 0, 0
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(50 * time.Millisecond)
			mu.Lock()
			running--
			mu.Unlock()
			return nil, nil
		}, &bullmq.WorkerOptions{Concurrency: 10, Limits: map[string]bullmq.NameLimit{"crop": {Concurrency: 1}, "resize": {}}})
		Eventually(countOf(queue, bullmq.StateCompleted)).Should(Equal(10))
		Expect(most).To(BeNumerically(">", 1))
	})
})

var _ = DescribeTable("A worker is refused if a limit of a name", func(name string, limit bullmq.NameLimit, says string) {
	_, err := bullmq.NewWorker(specContext(), newQueueName(), doNothing, &bullmq.WorkerOptions{
		Connection: connection(), Limits: map[string]bullmq.NameLimit{name: limit},
	})
	Expect(err).To(MatchError(ContainSubstring(says)))
},
	Entry("has no name", "", bullmq.NameLimit{Concurrency: 1}, "empty name"),
	Entry("has a name that is not UTF-8", "\xff", bullmq.NameLimit{Concurrency: 1}, "UTF-8"),
	Entry("is negative", "resize", bullmq.NameLimit{Concurrency: -1}, `limit of name "resize": Concurrency -1`),
	Entry("has a Limiter without a Max", "resize", bullmq.NameLimit{Limiter: &bullmq.Limiter{Duration: time.Second}}, `limit of name "resize": Limiter needs`),
)
