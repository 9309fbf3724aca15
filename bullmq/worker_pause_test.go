package bullmq_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
)

var _ = Describe("Pausing a worker", func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context

		started chan string
		finish  chan struct{} // lets the handler's jobs end
		handler bullmq.Handler
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, nil)
		begun, end := make(chan string, 1000), make(chan struct{}) // local, since a handler may outlive its spec
		started, finish = begun, end
		handler = func(_ context.Context, job *bullmq.Job) (any, error) {
			begun <- job.ID
			if job.Name == "long" {
				<-end
			}
			return nil, nil
		}
	})
	add := func(job string, options *bullmq.JobOptions) *bullmq.Job {
		GinkgoHelper()
		added, err := queue.Add(ctx, job, nil, options)
		Expect(err).NotTo(HaveOccurred())
		return added
	}
	// A worker that is not woken would poll only after ten seconds.
	patient := func() *bullmq.WorkerOptions {
		return &bullmq.WorkerOptions{DrainDelay: 10 * time.Second, SkipStalledCheck: true}
	}
	long := func() *bullmq.Job {
		GinkgoHelper()
		job := add("long", nil)
		Eventually(started).Should(Receive(Equal(job.ID)))
		return job
	}

	It("that is idle leaves a new job and its marker to other workers until it is resumed", func() {
		worker := runWorker(name, handler, patient())
		waitUntilIdle(queue)
		Expect(worker.PauseNow(ctx)).To(Succeed())
		Expect(worker.IsPaused()).To(BeTrue())
		workers, err := queue.ConnectedWorkers(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(workers).To(HaveEach(HaveField("Fields", HaveKeyWithValue("flags", Not(ContainSubstring("b"))))), "it must wait no more")
		job := add("a", nil)
		Consistently(started, "150ms").ShouldNot(Receive())
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateWaiting))
		Expect(zsetAt(keyOf(name, "marker"))).To(Equal([]string{"0"}))
		worker.Resume()
		Expect(worker.IsPaused()).To(BeFalse())
		Eventually(started).Should(Receive(Equal(job.ID)))
	})

	DescribeTable("and resuming it during a long job lets it run a new job", func(concurrency int) {
		o := patient()
		o.Concurrency = concurrency
		worker := runWorker(name, handler, o)
		running := long()
		Expect(worker.PauseNow(ctx)).To(Succeed())
		Expect(stateOf(queue, running.ID)()).To(Equal(bullmq.StateActive))
		worker.Resume()
		job := add("a", nil)
		if concurrency == 1 {
			Consistently(started, "50ms").ShouldNot(Receive())
			close(finish)
		} else {
			defer close(finish)
		}
		Eventually(started).Should(Receive(Equal(job.ID)))
	},
		Entry("after the long job with concurrency 1", 1),
		Entry("alongside the long job with concurrency 3", 3),
	)

	It("waits for the running job, which does not fetch another as it ends", func() {
		worker := runWorker(name, handler, patient())
		running, next := long(), add("next", nil)
		paused := make(chan error, 1)
		go func() { paused <- worker.Pause(ctx) }()
		Consistently(paused, "100ms").ShouldNot(Receive())
		close(finish)
		Eventually(paused).Should(Receive(BeNil()))
		Expect(stateOf(queue, running.ID)()).To(Equal(bullmq.StateCompleted))
		Expect(stateOf(queue, next.ID)()).To(Equal(bullmq.StateWaiting))
		Expect(worker.IsRunning()).To(BeTrue())
		worker.Resume()
		Eventually(started).Should(Receive(Equal(next.ID)))
	})

	It("remains in effect when the context of Pause ends", func() {
		worker := runWorker(name, handler, patient())
		running, next := long(), add("next", nil)
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		Expect(worker.Pause(short)).To(MatchError(context.DeadlineExceeded))
		close(finish)
		Eventually(stateOf(queue, running.ID)).Should(Equal(bullmq.StateCompleted))
		Expect(worker.Pause(ctx)).To(Succeed(), "a second pause waits too")
		Expect(stateOf(queue, next.ID)()).To(Equal(bullmq.StateWaiting))
	})

	It("returns ErrResumed if it is resumed before its jobs end", func() {
		worker := runWorker(name, handler, patient())
		long()
		defer close(finish)
		paused := make(chan error, 1)
		go func() { paused <- worker.Pause(ctx) }()
		Eventually(worker.IsPaused).Should(BeTrue())
		worker.Resume()
		Eventually(paused).Should(Receive(MatchError(bullmq.ErrResumed)))
	})

	It("before Run keeps it from fetching jobs until it is resumed", func() {
		worker := newWorker(name, handler, patient())
		worker.Resume() // has no effect
		Expect(worker.Pause(ctx)).To(Succeed())
		Expect([]bool{worker.IsPaused(), worker.IsRunning()}).To(Equal([]bool{true, false}))
		job := add("a", nil)
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(ctx) }()
		Eventually(worker.IsRunning).Should(BeTrue())
		Consistently(started, "100ms").ShouldNot(Receive())
		worker.Resume()
		Eventually(started).Should(Receive(Equal(job.ID)))
		Expect(worker.Close()).To(Succeed())
		Eventually(ended).Should(Receive(BeNil()))
		Expect(worker.IsRunning()).To(BeFalse())
	})

	DescribeTable("does not delay its end", func(end func(worker *bullmq.Worker, stop context.CancelFunc)) {
		worker, stop, ended := startWorker(name, handler, patient())
		waitUntilIdle(queue)
		Expect(worker.Pause(ctx)).To(Succeed())
		begun := time.Now()
		end(worker, stop)
		Eventually(ended).Should(Receive(BeNil()))
		Expect(time.Since(begun)).To(BeNumerically("<", 4*time.Second), "an idle worker waits for 10 s")
		Expect(worker.PauseNow(ctx)).To(Succeed(), "of one that has ended too")
	},
		Entry("when it is closed", func(worker *bullmq.Worker, _ context.CancelFunc) { Expect(worker.Close()).To(Succeed()) }),
		Entry("when its context ends", func(_ *bullmq.Worker, stop context.CancelFunc) { stop() }),
	)

	It("returns ErrClosed if it stops with an unfinished job", func() {
		o := patient()
		o.ShutdownTimeout = 100 * time.Millisecond
		worker, stop, ended := startWorker(name, handler, o)
		long()
		defer close(finish)
		paused := make(chan error, 1)
		go func() { paused <- worker.Pause(ctx) }()
		Eventually(worker.IsPaused).Should(BeTrue())
		stop()
		Eventually(ended).Should(Receive(HaveOccurred()))
		Eventually(paused).Should(Receive(MatchError(bullmq.ErrClosed)))
	})

	It("keeps its locks renewed and suspends its stalled checks", Label("slow"), func() {
		var renewals atomic.Int64
		worker := runWorker(name, handler, &bullmq.WorkerOptions{
			LockDuration: 3 * time.Second, LockRenewTime: 600 * time.Millisecond, StalledInterval: 20 * time.Millisecond,
			Events: bullmq.WorkerEvents{LocksRenewed: func([]string) { renewals.Add(1) }},
		})
		running := long()
		Expect(worker.PauseNow(ctx)).To(Succeed())
		stalled := add("a", nil)
		dead := newFetcher(name, &bullmq.FetcherOptions{LockDuration: time.Millisecond})
		_, err := dead.TryFetch(ctx)
		Expect(err).NotTo(HaveOccurred())
		Eventually(renewals.Load).Should(BeNumerically(">=", 10)) // for longer than a lock lasts
		Expect(listAt(keyOf(name, "active"))).To(ConsistOf(running.ID, stalled.ID))
		close(finish)
		worker.Resume()
		Eventually(stateOf(queue, stalled.ID)).Should(Equal(bullmq.StateCompleted))
		Eventually(stateOf(queue, running.ID)).Should(Equal(bullmq.StateCompleted))
		Expect(eventsOf(name)).NotTo(ContainElement("stalled jobId=" + running.ID))
	})

	It("passes the due time of a delayed job on to other workers", Label("slow"), func() {
		first := runWorker(name, func(context.Context, *bullmq.Job) (any, error) { return nil, fmt.Errorf("not mine") }, patient())
		waitUntilIdle(queue)
		runWorker(name, handler, patient())
		Eventually(func() ([]bullmq.ConnectedClient, error) { return queue.ConnectedWorkers(ctx) }).Should(HaveLen(2))
		waitUntilIdle(queue)
		job := add("a", &bullmq.JobOptions{Delay: 2 * time.Second})
		waitUntilIdle(queue) // the worker that waited longer has popped the marker
		Expect(first.PauseNow(ctx)).To(Succeed())
		Eventually(started, "6s").Should(Receive(Equal(job.ID)))
	})

	It("passes on a wake-up that arrives at the same moment", func() {
		proxy, via := proxiedRedis()
		o := patient()
		o.Connection, o.Now = via, time.Now // with a custom clock it sends no fetch behind its wait
		worker := runWorker(name, func(context.Context, *bullmq.Job) (any, error) { return nil, fmt.Errorf("not mine") }, o)
		waitUntilIdle(queue)
		runWorker(name, handler, patient())
		Eventually(func() ([]bullmq.ConnectedClient, error) { return queue.ConnectedWorkers(ctx) }).Should(HaveLen(2))
		waitUntilIdle(queue)
		Expect(proxy.Set(faultproxy.Faults{BlackHole: true})).To(Succeed())
		job := add("a", nil) // the worker that waited longer pops the marker
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		Expect(worker.PauseNow(short)).To(MatchError(context.DeadlineExceeded))
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateWaiting))
		Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
		Eventually(started).Should(Receive(Equal(job.ID)))
	})

	It("waits for a fetch whose reply was lost, and the fetched job still runs", func() {
		proxy, via := proxiedRedis()
		o := patient()
		o.Connection, o.Name = via, "the-one-that-takes"
		o.Registration = &bullmq.RegistrationOptions{Skip: true} // it contains the name too
		worker := newWorker(name, handler, o)
		other := newQueueName() // the server must have the script already
		runOther := runWorker(other, doNothing, &bullmq.WorkerOptions{Connection: via})
		waitUntilIdle(newQueue(other, nil))
		Expect(runOther.Close()).To(Succeed())
		job := add("long", nil)
		lost := proxy.LoseReply("the-one-that-takes")
		Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed()) // keeps it from opening another connection
		go func() { _ = worker.Run(ctx) }()
		Eventually(lost).Should(BeClosed())
		proxy.CutAll()
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		Expect(worker.PauseNow(short)).To(MatchError(context.DeadlineExceeded))
		Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
		Expect(worker.PauseNow(ctx)).To(Succeed())
		Eventually(started).Should(Receive(Equal(job.ID)))
		close(finish)
		Expect(worker.Pause(ctx)).To(Succeed())
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateCompleted))
	})

	DescribeTable("is possible from inside", func(options func(o *bullmq.WorkerOptions, pause func())) {
		paused, ready := make(chan error, 1), make(chan struct{})
		var worker *bullmq.Worker
		var once sync.Once
		o := patient()
		options(o, func() { once.Do(func() { <-ready; paused <- worker.PauseNow(ctx) }) })
		active := o.Events.Active
		o.Events.Active = nil
		worker = runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			if active != nil {
				active(job)
			}
			return nil, nil
		}, o)
		close(ready)
		add("a", nil)
		add("b", nil)
		Eventually(paused).Should(Receive(BeNil()))
		Expect(worker.Pause(ctx)).To(Succeed())
		last := add("c", nil)
		Consistently(stateOf(queue, last.ID), "50ms").Should(Equal(bullmq.StateWaiting))
	},
		Entry("the handler", func(o *bullmq.WorkerOptions, pause func()) { o.Events.Active = func(*bullmq.Job) { pause() } }),
		Entry("Completed", func(o *bullmq.WorkerOptions, pause func()) { o.Events.Completed = func(*bullmq.Job, any) { pause() } }),
		Entry("Drained", func(o *bullmq.WorkerOptions, pause func()) { o.Events.Drained = pause }),
	)

	It("is possible from inside Drained when the first fetch finds no job", func() {
		paused, o := make(chan error, 1), patient()
		var worker *bullmq.Worker
		o.Events.Drained = func() { paused <- worker.PauseNow(ctx) }
		worker = newWorker(name, doNothing, o)
		go func() { _ = worker.Run(ctx) }()
		Eventually(paused).Should(Receive(BeNil()))
	})

	It("and resuming it repeatedly under load runs every job once, and none during a pause", func() {
		var mu sync.Mutex
		runs := map[string]int{}
		var running atomic.Int64
		worker := runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			running.Add(1)
			defer running.Add(-1)
			mu.Lock()
			defer mu.Unlock()
			runs[job.ID]++
			return nil, nil
		}, &bullmq.WorkerOptions{Concurrency: 4, DrainDelay: 10 * time.Second})
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			runs[job.ID]++
			return nil, nil
		}, &bullmq.WorkerOptions{DrainDelay: 10 * time.Second})
		const count = 300
		var adders sync.WaitGroup
		adders.Go(func() {
			defer GinkgoRecover()
			for i := range count {
				add("a", &bullmq.JobOptions{Delay: time.Duration(i%3) * 5 * time.Millisecond})
			}
		})
		for range 40 {
			if rand.IntN(2) == 0 {
				Expect(worker.PauseNow(ctx)).To(Succeed())
			} else {
				Expect(worker.Pause(ctx)).To(Succeed())
				Expect(running.Load()).To(BeZero())
			}
			Expect(worker.SetConcurrency(1 + rand.IntN(6))).To(Succeed())
			worker.Resume()
			time.Sleep(time.Duration(rand.IntN(4)) * time.Millisecond) // let it work a little
		}
		adders.Wait()
		Eventually(func() int { mu.Lock(); defer mu.Unlock(); return len(runs) }, "10s").Should(Equal(count))
		mu.Lock()
		defer mu.Unlock()
		Expect(runs).To(HaveEach(1))
	})
})
