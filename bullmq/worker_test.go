package bullmq_test

import (
	"context"
	"encoding/base64"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A worker", func() {
	var (
		name string
		ctx  context.Context
	)
	BeforeEach(func() { name, ctx = newQueueName(), specContext() })

	DescribeTable("that shares one client with a queue does not delay adds while it waits,", func(change func(*rueidis.ClientOption)) {
		shared := bullmq.Client(ownClient(change))
		queue := newQueue(name, &bullmq.QueueOptions{Connection: shared})
		started := make(chan string, 1)
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) { started <- job.ID; return nil, nil },
			&bullmq.WorkerOptions{Connection: shared, Name: "painter"})
		waitUntilIdle(queue)

		for range 30 {
			Eventually(func() ([]string, error) { return redisDo("ZRANGE", keyOf(name, "marker"), "0", "-1").AsStrSlice() }).Should(BeEmpty())
			begun := time.Now()
			job, err := queue.Add(ctx, "a", nil, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(time.Since(begun)).To(BeNumerically("<", 4*time.Second), "the worker blocks for 5 s")
			Eventually(started).Should(Receive(Equal(job.ID)))
		}
	},
		Entry("with default options", nil),
		Entry("with one connection for all", func(o *rueidis.ClientOption) { o.PipelineMultiplex = -1; o.BlockingPoolSize = 1 }),
		Entry("with all commands pipelined", func(o *rueidis.ClientOption) { o.AlwaysPipelining = true }),
		Entry("over RESP2", func(o *rueidis.ClientOption) { o.AlwaysRESP2, o.DisableCache = true, true }),
	)

	It("is found by BullMQ's name in the list of connections, and stores its name in its jobs", func() {
		queue := newQueue(name, nil)
		runWorker(name, doNothing, &bullmq.WorkerOptions{Name: "painter"})
		bare := "bull:" + base64.StdEncoding.EncodeToString([]byte(name))
		Eventually(func() []string {
			workers, err := queue.ConnectedWorkers(ctx)
			Expect(err).NotTo(HaveOccurred())
			var names []string
			for _, worker := range workers {
				names = append(names, worker.Fields["name"])
			}
			slices.Sort(names)
			return names
		}).Should(Equal([]string{bare + ":w:painter"}))
		job, err := queue.Add(ctx, "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateCompleted))
		Expect(hashAt(keyOf(name, job.ID))).To(HaveKeyWithValue("pb", "painter"))
	})

	It("never runs more jobs at once than its concurrency, and fetches waiting jobs at once", func() {
		queue := newQueue(name, nil)
		_, err := queue.AddBulk(ctx, make([]bullmq.BulkJob, 20))
		Expect(err).NotTo(HaveOccurred())
		var now, most atomic.Int64
		full := make(chan struct{})
		fill := sync.OnceFunc(func() { close(full) })
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) {
			n := now.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			if n == 5 {
				fill()
			}
			<-full
			time.Sleep(10 * time.Millisecond)
			now.Add(-1)
			return nil, nil
		}, &bullmq.WorkerOptions{Concurrency: 5})
		DeferCleanup(fill)
		Eventually(countOf(queue, bullmq.StateCompleted)).Should(Equal(20))
		Expect(most.Load()).To(BeEquivalentTo(5))
	})

	It("survives options and parents that cannot be parsed", func() {
		queue := newQueue(name, nil)
		jobs, err := queue.AddBulk(ctx, make([]bullmq.BulkJob, 2))
		Expect(err).NotTo(HaveOccurred())
		Expect(redisDo("HSET", jobs[0].Key(), "opts", `[true,{"x":`, "parent", `{"id":5}`, "parentKey", "bull:none:1", "stacktrace", "no list", "progress", "{").Error()).To(Succeed())
		Expect(redisDo("HSET", jobs[1].Key(), "opts", `{"attempts":2,"backoff":true,"removeOnComplete":[],"de":7,"parent":[]}`).Error()).To(Succeed())
		runWorker(name, doNothing, nil)
		for _, job := range jobs {
			Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateCompleted))
		}
	})

	It("adds the attempts that an old client has counted to its own", func() {
		queue := newQueue(name, nil)
		job, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{Attempts: 4})
		Expect(err).NotTo(HaveOccurred())
		Expect(redisDo("HSET", job.Key(), "attemptsMade", "2").Error()).To(Succeed())
		var calls atomic.Int64
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) { calls.Add(1); return nil, errors.New("boom") }, nil)
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateFailed))
		Expect(calls.Load()).To(BeEquivalentTo(2))
	})

	It("runs jobs of clients that write numbers with fractions", func() {
		queue := newQueue(name, nil)
		job, err := queue.Add(ctx, "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(redisDo("HSET", keyOf(name, job.ID), "timestamp", "1700000000000.5", "delay", "1000.7", "opts", `{"attempts":2,"delay":1000.7,"timestamp":1700000000000.5}`).Error()).To(Succeed())
		runs := make(chan *bullmq.Job, 1)
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) { runs <- job; return nil, nil }, nil)
		var read *bullmq.Job
		Eventually(runs).Should(Receive(&read))
		Expect(read.Timestamp.UnixMilli()).To(BeEquivalentTo(1700000000000))
		Expect(read.Delay).To(Equal(1000700 * time.Microsecond))
	})

	It("keeps the options of newer clients when it retries a job", func() {
		queue := newQueue(name, nil)
		job, err := queue.Add(ctx, "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		const opts = `{"foo":{"bar":[1,2]},"kl":5,"attempts":2,"removeOnFail":{"age":3600,"whatever":true}}`
		Expect(redisDo("HSET", keyOf(name, job.ID), "opts", opts).Error()).To(Succeed())
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) { return nil, context.Canceled }, nil)
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateFailed))
		Expect(hashAt(keyOf(name, job.ID))).To(And(HaveKeyWithValue("opts", opts), HaveKeyWithValue("atm", "2")))
	})

	It("starts a job at most MaxStartedAttempts times, whatever ended each attempt", func() {
		queue := newQueue(name, nil)
		job, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{Attempts: 10})
		Expect(err).NotTo(HaveOccurred())
		var mu sync.Mutex
		var starts []int
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			mu.Lock()
			starts = append(starts, job.AttemptsStarted)
			mu.Unlock()
			if job.AttemptsStarted == 1 {
				if err := job.MoveToDelayed(ctx, time.Now().Add(time.Millisecond)); err != nil {
					return nil, err
				}
				return nil, bullmq.ErrMovedToDelayed
			}
			return nil, context.Canceled
		}, &bullmq.WorkerOptions{MaxStartedAttempts: 3})
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateFailed))
		mu.Lock()
		defer mu.Unlock()
		Expect(starts).To(Equal([]int{1, 2, 3}))
	})

	It("fails a job that others have started too often, without calling its handler", func() {
		queue := newQueue(name, nil)
		job, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{Attempts: 10})
		Expect(err).NotTo(HaveOccurred())
		Expect(redisDo("HSET", keyOf(name, job.ID), "ats", "3").Error()).To(Succeed())
		called := make(chan struct{}, 1)
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) { called <- struct{}{}; return nil, nil }, &bullmq.WorkerOptions{MaxStartedAttempts: 3})
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateFailed))
		Expect(called).NotTo(Receive())
		Expect(hashAt(keyOf(name, job.ID))).To(HaveKeyWithValue("failedReason", "job started more than allowable limit"))
	})

	DescribeTable("is refused with invalid options:", func(options bullmq.WorkerOptions, names string) {
		options.Connection = connection()
		_, err := bullmq.NewWorker(ctx, name, doNothing, &options)
		Expect(err).To(MatchError(ContainSubstring(names)))
	},
		Entry("a negative MaxStalledCount", bullmq.WorkerOptions{MaxStalledCount: -2}, "MaxStalledCount"),
		Entry("a negative Concurrency", bullmq.WorkerOptions{Concurrency: -1}, "Concurrency"),
		Entry("a lock that is renewed after it expires", bullmq.WorkerOptions{LockDuration: time.Second, LockRenewTime: time.Second}, "LockRenewTime"),
		Entry("a limiter without values", bullmq.WorkerOptions{Limiter: &bullmq.Limiter{}}, "Limiter"),
	)

	It("cannot be created without a handler", func() {
		_, err := bullmq.NewWorker(ctx, name, nil, &bullmq.WorkerOptions{Connection: connection()})
		Expect(err).To(MatchError(And(ContainSubstring(name), ContainSubstring("the handler is nil"), ContainSubstring("NewFetcher"))))
	})

	It("runs only once, and not after Close", func() {
		idle := make(chan struct{})
		worker, stop, ended := startWorker(name, doNothing, &bullmq.WorkerOptions{Events: bullmq.WorkerEvents{Drained: func() { close(idle) }}})
		Eventually(idle).Should(BeClosed())
		Expect(worker.Run(ctx)).To(MatchError(ContainSubstring("once")))
		stop()
		Eventually(ended).Should(Receive(BeNil()))
		Expect(worker.Run(ctx)).To(MatchError(ContainSubstring("once")))

		closed := newWorker(name, doNothing, nil)
		Expect(closed.Close()).To(Succeed())
		Expect(closed.Run(ctx)).NotTo(Succeed())
		Expect(closed.Close()).To(Succeed())
	})

	It("does not run with a context that has already ended", func() {
		queue := newQueue(name, nil)
		job, err := queue.Add(ctx, "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		over, stop := context.WithCancel(ctx)
		stop()
		Expect(newWorker(name, doNothing, nil).Run(over)).To(Succeed())
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateWaiting))
	})

	It("uses no more memory or goroutines for more jobs", func() {
		queue := newQueue(name, nil)
		var left sync.WaitGroup
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) { left.Done(); return "done", nil },
			&bullmq.WorkerOptions{Concurrency: 10, KeepCompleted: bullmq.KeepNone()})
		use := func(jobs int) (heap uint64, goroutines int) {
			GinkgoHelper()
			left.Add(jobs)
			_, err := queue.AddBulk(ctx, make([]bullmq.BulkJob, jobs))
			Expect(err).NotTo(HaveOccurred())
			left.Wait()
			Eventually(countOf(queue, bullmq.StateActive)).Should(BeZero())
			waitUntilIdle(queue)
			runtime.GC()
			var memory runtime.MemStats
			runtime.ReadMemStats(&memory)
			return memory.HeapAlloc, runtime.NumGoroutine()
		}
		heap, goroutines := use(500)
		for range 3 {
			later, more := use(1000)
			Expect(later).To(BeNumerically("<", heap+2<<20))
			// Each further connection of the client has two goroutines.
			Expect(more).To(BeNumerically("<=", goroutines+12))
		}
	})

	It("calls its event functions in order, each once for a job", func() {
		queue := newQueue(name, nil)
		var mu sync.Mutex
		var calls []string
		note := func(what string) { mu.Lock(); defer mu.Unlock(); calls = append(calls, what) }
		_, err := queue.AddBulk(ctx, []bullmq.BulkJob{
			{Name: "good"}, {Name: "bad", Options: &bullmq.JobOptions{Attempts: 2}},
		})
		Expect(err).NotTo(HaveOccurred())
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			note("run " + job.Name)
			if job.Name == "bad" {
				return nil, context.Canceled
			}
			return "fine", nil
		}, &bullmq.WorkerOptions{Events: bullmq.WorkerEvents{
			Active: func(job *bullmq.Job) { note("active " + job.Name) },
			Completed: func(job *bullmq.Job, value any) {
				note("completed " + job.Name + " " + value.(string) + " " + string(job.ReturnValue))
			},
			Failed:  func(job *bullmq.Job, err error) { note("failed " + job.Name + " " + err.Error()) },
			Drained: func() { note("drained") },
		}})
		Eventually(func() []string { mu.Lock(); defer mu.Unlock(); return slices.Clone(calls) }).Should(Equal([]string{
			"active good", "run good", `completed good fine "fine"`,
			"active bad", "run bad", "failed bad context canceled",
			"active bad", "run bad", "failed bad context canceled", "drained",
		}))
	})
})
