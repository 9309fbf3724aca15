package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
)

var _ = Describe("Worker locks", Label("slow"), func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
	)
	setUp := func() {
		GinkgoHelper()
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, nil)
	}
	BeforeEach(setUp)
	addMany := func(n int) {
		GinkgoHelper()
		_, err := queue.AddBulk(ctx, make([]bullmq.BulkJob, n))
		Expect(err).NotTo(HaveOccurred())
	}

	It("are renewed in one call for all jobs", func() {
		const jobs, rounds = 20, 5
		addMany(jobs)
		var running sync.WaitGroup
		running.Add(jobs)
		finish := make(chan struct{})
		renewals := make(chan []string, 10_000)
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) { running.Done(); <-finish; return nil, nil },
			&bullmq.WorkerOptions{Concurrency: jobs, LockRenewTime: 40 * time.Millisecond, SkipStalledCheck: true,
				Events: bullmq.WorkerEvents{LocksRenewed: func(ids []string) { renewals <- ids }}})
		running.Wait()
		Expect(redisDo("CONFIG", "RESETSTAT").Error()).To(Succeed())
		for range rounds {
			Eventually(renewals).Should(Receive(HaveLen(jobs)))
		}
		calls := commandCalls()
		scripts, renewed := calls["evalsha"]+calls["eval"], rounds+len(renewals)
		// The margin is for renewals whose event has not been delivered yet.
		Expect(scripts).To(BeNumerically("<", renewed+jobs), fmt.Sprint(calls))
		for i := range jobs {
			Expect(redisDo("EXISTS", keyOf(name, fmt.Sprint(i+1, ":lock"))).AsInt64()).To(BeEquivalentTo(1))
		}
		close(finish)
		Eventually(countOf(queue, bullmq.StateCompleted)).Should(Equal(jobs))
	})

	It("are not renewed with SkipLockRenewal, and the job can still complete", func() {
		addMany(1)
		finish := make(chan struct{})
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) { <-finish; return nil, nil },
			&bullmq.WorkerOptions{LockDuration: 5 * time.Second, LockRenewTime: 50 * time.Millisecond, SkipLockRenewal: true})
		Eventually(func() (int64, error) { return redisDo("PTTL", keyOf(name, "1:lock")).AsInt64() }).Should(And(BeNumerically(">", 0), BeNumerically("<", 3500)))
		close(finish)
		Eventually(stateOf(queue, "1")).Should(Equal(bullmq.StateCompleted))
	})

	It("have distinct tokens that start with the worker's id", func() {
		addMany(6)
		var mu sync.Mutex
		tokens := map[string]int{}
		var running sync.WaitGroup
		running.Add(3)
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			mu.Lock()
			tokens[job.Token()]++
			first := len(tokens) <= 3 && tokens[job.Token()] == 1
			mu.Unlock()
			if first {
				running.Done()
				running.Wait()
			}
			return nil, nil
		}, &bullmq.WorkerOptions{Concurrency: 3})
		Eventually(countOf(queue, bullmq.StateCompleted)).Should(Equal(6))
		mu.Lock()
		defer mu.Unlock()
		Expect(len(tokens)).To(BeNumerically(">=", 3))
		for token := range tokens {
			Expect(token).To(MatchRegexp(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:\d+$`))
		}
	})

	// Renewals happen all the time here, during and after the call that releases the lock.
	DescribeTable("are released without being lost when a handler moves its job", func(move func(ctx context.Context, job *bullmq.Job) error, moved error) {
		const jobs = 30
		addMany(jobs)
		var told atomic.Value
		told.Store("")
		var seen sync.Map
		left := make(chan struct{}, jobs)
		runWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
			if _, again := seen.LoadOrStore(job.ID, true); again {
				return nil, nil
			}
			if err := move(ctx, job); err != nil {
				told.Store(fmt.Sprintf("moving job %s: %v", job.ID, err))
			}
			time.Sleep(30 * time.Millisecond)
			if err := context.Cause(ctx); err != nil {
				told.Store(fmt.Sprintf("after the move of job %s: %v", job.ID, err))
			}
			left <- struct{}{}
			return nil, moved
		}, &bullmq.WorkerOptions{Concurrency: 10, LockDuration: 5 * time.Second, LockRenewTime: 2 * time.Millisecond, Events: bullmq.WorkerEvents{
			LocksLost: func(ids []string) { told.Store(fmt.Sprint("locks lost: ", ids)) },
			Error:     func(err error) { told.Store(err.Error()) },
		}})
		Eventually(left).Should(HaveLen(jobs))
		Eventually(countOf(queue, bullmq.StateActive)).Should(BeZero())
		Expect(told.Load()).To(BeEmpty())
	},
		Entry("to delayed", func(ctx context.Context, job *bullmq.Job) error {
			return job.MoveToDelayed(ctx, time.Now().Add(time.Hour))
		}, bullmq.ErrMovedToDelayed),
		Entry("to wait", func(ctx context.Context, job *bullmq.Job) error { return job.MoveToWait(ctx) }, bullmq.ErrMovedToWait),
		Entry("to waiting-children", func(ctx context.Context, job *bullmq.Job) error {
			if _, err := queue.Add(ctx, "child", nil, &bullmq.JobOptions{Parent: job.AsParent(), Delay: time.Hour}); err != nil {
				return err
			}
			_, err := job.MoveToWaitingChildren(ctx)
			return err
		}, bullmq.ErrMovedToWaitingChildren),
	)

	DescribeTable("that are lost cancel the handler and prevent its result from being written", func(lose func(lock string), code error, left string) {
		addMany(1)
		started, causes, faults := make(chan struct{}), make(chan error, 1), make(chan error, 5)
		lost := make(chan []string, 1)
		runWorker(name, func(ctx context.Context, _ *bullmq.Job) (any, error) {
			close(started)
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return "too late", nil
		}, &bullmq.WorkerOptions{LockDuration: 3 * time.Second, LockRenewTime: 100 * time.Millisecond, SkipStalledCheck: true, Events: bullmq.WorkerEvents{
			Error: func(err error) { faults <- err }, LocksLost: func(ids []string) { lost <- ids },
		}})
		Eventually(started).Should(BeClosed())
		lose(keyOf(name, "1:lock"))
		Eventually(causes).Should(Receive(MatchError(bullmq.ErrLockLost)))
		Eventually(lost).Should(Receive(Equal([]string{"1"})))
		Eventually(faults).Should(Receive(MatchError(code)))
		Expect(stateOf(queue, "1")()).To(Equal(bullmq.StateActive))
		Expect(stringAt(keyOf(name, "1:lock"))).To(Equal(left))
		Expect(eventsOf(name)).NotTo(ContainElement(Or(HavePrefix("completed"), HavePrefix("failed"))))
	},
		Entry("when another client deletes them", func(lock string) { Expect(redisDo("DEL", lock).Error()).To(Succeed()) }, bullmq.ErrLockNotFound, ""),
		Entry("when another client replaces their token", func(lock string) { Expect(redisDo("SET", lock, "another", "PX", "60000").Error()).To(Succeed()) }, bullmq.ErrLockMismatch, "another"),
	)

	// There is no renewal in between, so Redis rejects the call that ends the job.
	DescribeTable("are required to end a job, which otherwise stays active until the stalled check, with",
		func(value any, reason error, options bullmq.JobOptions) {
			job, err := queue.Add(ctx, "a", nil, &options)
			Expect(err).NotTo(HaveOccurred())
			faults, told := make(chan error, 5), make(chan string, 5)
			var before map[string]string
			runWorker(name, func(context.Context, *bullmq.Job) (any, error) {
				Expect(redisDo("DEL", keyOf(name, job.ID+":lock")).Error()).To(Succeed())
				before = hashAt(job.Key())
				return value, reason
			}, &bullmq.WorkerOptions{SkipStalledCheck: true, Events: bullmq.WorkerEvents{
				Error:     func(err error) { faults <- err },
				Completed: func(*bullmq.Job, any) { told <- "completed" },
				Failed:    func(*bullmq.Job, error) { told <- "failed" },
			}})
			Eventually(faults).Should(Receive(MatchError(bullmq.ErrLockNotFound)))
			Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateActive))
			Expect(hashAt(job.Key())).To(Equal(before))
			Expect(eventsOf(name)).To(HaveExactElements(HavePrefix("added"), HavePrefix("waiting"), HavePrefix("active")))
			Consistently(told, "50ms").ShouldNot(Receive())

			other := newFetcher(name, &bullmq.FetcherOptions{StalledInterval: 10 * time.Millisecond, MaxStalledCount: 5})
			Eventually(func() ([]string, error) { return other.CheckStalled(ctx) }, "5s", "20ms").Should(Equal([]string{job.ID}))
			Expect(eventsOf(name)).To(ContainElement("stalled jobId=" + job.ID))
		},
		Entry("a value", "done", nil, bullmq.JobOptions{}),
		Entry("a value and KeepNone", "done", nil, bullmq.JobOptions{KeepCompleted: bullmq.KeepNone()}),
		Entry("an error", nil, errors.New("boom"), bullmq.JobOptions{}),
		Entry("an error and attempts left", nil, errors.New("boom"), bullmq.JobOptions{Attempts: 3}),
		Entry("an error, attempts left and a backoff", nil, errors.New("boom"), bullmq.JobOptions{Attempts: 3, Backoff: bullmq.FixedBackoff(time.Minute)}),
		Entry("an unrecoverable error", nil, bullmq.Unrecoverable(errors.New("boom")), bullmq.JobOptions{Attempts: 3}),
		Entry("a snooze", nil, bullmq.Snooze(time.Minute), bullmq.JobOptions{}),
		Entry("a rate limit", nil, bullmq.RateLimit(time.Millisecond), bullmq.JobOptions{}),
	)

	It("of other jobs are kept when one lock is lost", func() {
		addMany(5)
		var running sync.WaitGroup
		running.Add(5)
		causes := make(chan string, 5)
		finish := make(chan struct{})
		runWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
			running.Done()
			select {
			case <-ctx.Done():
				causes <- job.ID + " " + context.Cause(ctx).Error()
			case <-finish:
			}
			return nil, nil
		}, &bullmq.WorkerOptions{Concurrency: 5, LockRenewTime: 100 * time.Millisecond, SkipStalledCheck: true})
		running.Wait()
		Expect(redisDo("DEL", keyOf(name, "3:lock")).Error()).To(Succeed())
		Eventually(causes).Should(Receive(Equal("3 " + bullmq.ErrLockLost.Error())))
		Consistently(causes, "300ms").ShouldNot(Receive())
		close(finish)
		Eventually(countOf(queue, bullmq.StateCompleted)).Should(Equal(4))
	})

	DescribeTable("expire on time and cancel their handlers during a Redis outage", func(faults faultproxy.Faults) {
		proxy, via := proxiedRedis()
		addMany(1)
		cause := make(chan error, 1)
		lost := make(chan []string, 1)
		started := make(chan struct{})
		runWorker(name, func(ctx context.Context, _ *bullmq.Job) (any, error) {
			close(started)
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return nil, nil
		}, &bullmq.WorkerOptions{Connection: via, LockDuration: 500 * time.Millisecond, SkipStalledCheck: true, ShutdownTimeout: time.Second,
			Events: bullmq.WorkerEvents{LocksLost: func(ids []string) { lost <- ids }}})
		Eventually(started).Should(BeClosed())
		Expect(proxy.Set(faults)).To(Succeed())
		if faults.Refuse {
			proxy.CutAll()
		}
		begun := time.Now()
		Eventually(cause).Should(Receive(MatchError(bullmq.ErrLockLost)))
		Expect(time.Since(begun)).To(BeNumerically("<", 4*time.Second))
		Eventually(lost).Should(Receive(Equal([]string{"1"})))
		Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
	},
		Entry("with no traffic", faultproxy.Faults{BlackHole: true}),
		Entry("with refused connections", faultproxy.Faults{Refuse: true}),
		Entry("with no replies", faultproxy.Faults{SwallowReplies: true}),
	)

	It("survive an outage that ends just before they expire", func() {
		steadily(func(g Gomega) {
			setUp()
			proxy, via := proxiedRedis()
			addMany(1)
			var lost atomic.Int64
			started, finish := make(chan struct{}), make(chan struct{})
			end := sync.OnceFunc(func() { close(finish) })
			ended := make(chan error, 1)
			runWorker(name, func(ctx context.Context, _ *bullmq.Job) (any, error) {
				close(started)
				<-finish
				ended <- ctx.Err()
				return nil, nil
			}, &bullmq.WorkerOptions{Connection: via, LockDuration: 3 * time.Second, SkipStalledCheck: true,
				Events: bullmq.WorkerEvents{LocksLost: func([]string) { lost.Add(1) }}})
			DeferCleanup(end)
			Eventually(started).Should(BeClosed())
			// With regular renewals every 0.75 s alone, one would fall into the outage and the lock would expire.
			timeLeft := func() (int64, error) { return redisDo("PTTL", keyOf(name, "1:lock")).AsInt64() }
			g.Eventually(timeLeft, "4s").Should(BeNumerically("<", 2500))
			left, err := timeLeft()
			Expect(err).NotTo(HaveOccurred())
			Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
			proxy.CutAll()
			time.Sleep(time.Duration(left)*time.Millisecond - 700*time.Millisecond)
			Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
			g.Eventually(timeLeft).Should(BeNumerically(">", 2000))
			end()
			g.Eventually(ended).Should(Receive(BeNil()))
			g.Eventually(stateOf(queue, "1")).Should(Equal(bullmq.StateCompleted))
			g.Expect(lost.Load()).To(BeZero())
		})
	})
})

var _ = Describe("Locks of jobs that end close to a renewal", Label("slow"), func() {
	It("are not reported as lost", func() {
		name, ctx := newQueueName(), specContext()
		queue := newQueue(name, nil)
		_, err := queue.AddBulk(ctx, make([]bullmq.BulkJob, 600))
		Expect(err).NotTo(HaveOccurred())
		var renewed, lost atomic.Int64
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			time.Sleep(time.Duration(15+len(job.ID)*7) * time.Millisecond)
			return nil, nil
		}, &bullmq.WorkerOptions{Concurrency: 30, LockDuration: 20 * time.Second, LockRenewTime: 15 * time.Millisecond, Events: bullmq.WorkerEvents{
			LocksRenewed: func(ids []string) { renewed.Add(int64(len(ids))) },
			LocksLost:    func(ids []string) { lost.Add(int64(len(ids))) },
		}})
		Eventually(countOf(queue, bullmq.StateCompleted), "40s").Should(Equal(600))
		Expect(renewed.Load()).To(BeNumerically(">", 100))
		Expect(lost.Load()).To(BeZero())
	})

	It("are not reported as lost if Redis rejects a renewal that was sent before the end", func() {
		name, ctx := newQueueName(), specContext()
		queue := newQueue(name, nil)
		_, err := queue.AddBulk(ctx, make([]bullmq.BulkJob, 2))
		Expect(err).NotTo(HaveOccurred())
		lost, renewed := make(chan []string, 10), make(chan []string, 100)
		finish, stay := make(chan struct{}), make(chan struct{})
		// The first renewal holds the locks of both jobs, and reaches Redis once the first job has ended.
		late := sync.OnceFunc(func() {
			close(finish)
			for end := time.Now().Add(5 * time.Second); stateOf(queue, "1")() != bullmq.StateCompleted && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
		})
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			if job.ID == "1" {
				<-finish
			} else {
				<-stay
			}
			return nil, nil
		}, &bullmq.WorkerOptions{
			Concurrency: 2, LockRenewTime: 400 * time.Millisecond, Telemetry: lateRenewals{&gauge{}, late},
			Events: bullmq.WorkerEvents{LocksLost: func(ids []string) { lost <- ids }, LocksRenewed: func(ids []string) { renewed <- ids }},
		})
		Eventually(renewed).Should(Receive(Equal([]string{"2"})))
		close(stay)
		Eventually(stateOf(queue, "2")).Should(Equal(bullmq.StateCompleted))
		Expect(lost).To(BeEmpty())
	})

	It("are not renewed while the result is being written", func() {
		proxy, via := proxiedRedis()
		name, ctx := newQueueName(), specContext()
		queue := newQueue(name, nil)
		_, err := queue.AddBulk(ctx, make([]bullmq.BulkJob, 10))
		Expect(err).NotTo(HaveOccurred())
		lost := make(chan []string, 10)
		finish := make(chan struct{})
		var running sync.WaitGroup
		running.Add(10)
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) {
			running.Done()
			<-finish
			return nil, nil
		}, &bullmq.WorkerOptions{Connection: via, Concurrency: 10, LockRenewTime: 4 * time.Millisecond, Events: bullmq.WorkerEvents{
			LocksLost: func(ids []string) { lost <- ids },
		}})
		running.Wait()
		Expect(proxy.Set(faultproxy.Faults{Delay: 100 * time.Millisecond})).To(Succeed())
		close(finish)
		Eventually(countOf(queue, bullmq.StateCompleted)).Should(Equal(10))
		Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
		Consistently(lost, 100*time.Millisecond).ShouldNot(Receive())
	})
})

// lateRenewals is a Telemetry that calls late after the locks to renew are chosen and before they are renewed.
type lateRenewals struct {
	*gauge
	late func()
}

func (t lateRenewals) StartSpan(ctx context.Context, name string, kind bullmq.SpanKind) (context.Context, bullmq.Span) {
	if strings.HasPrefix(name, "extendLocks") {
		t.late()
	}
	return t.gauge.StartSpan(ctx, name, kind)
}
