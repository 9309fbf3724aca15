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
	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

var _ = Describe("A worker that loses replies", Label("slow"), func() {
	var (
		name  string
		queue *bullmq.Queue
		proxy *faultproxy.Proxy
		via   *bullmq.Connection
		ctx   context.Context
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, nil)
		proxy, via = proxiedRedis()
		// The server must have the scripts already. Otherwise the lost reply would be a NOSCRIPT error.
		known := newQueue(newQueueName(), nil)
		byHand := newFetcher(known.Name(), nil)
		for _, backoff := range []*bullmq.Backoff{nil, bullmq.FixedBackoff(time.Hour)} {
			for attempts := range 3 {
				_, err := known.Add(ctx, "a", nil, &bullmq.JobOptions{Attempts: attempts, Backoff: backoff})
				Expect(err).NotTo(HaveOccurred())
				job, err := byHand.TryFetch(ctx)
				Expect(err).NotTo(HaveOccurred())
				if attempts == 0 {
					err = byHand.Complete(ctx, job, nil)
				} else {
					err = byHand.Fail(ctx, job, errors.New("boom"))
				}
				Expect(err).NotTo(HaveOccurred())
			}
		}
	})
	add := func(job string, options *bullmq.JobOptions) *bullmq.Job {
		GinkgoHelper()
		added, err := queue.Add(ctx, job, nil, options)
		Expect(err).NotTo(HaveOccurred())
		return added
	}
	// outage makes Redis unreachable for a while after the reply is lost.
	outage := func(lost <-chan struct{}) {
		GinkgoHelper()
		Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
		Eventually(lost).Should(BeClosed())
		proxy.CutAll()
		time.Sleep(500 * time.Millisecond)
		Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
	}

	DescribeTable("runs a fetched job soon after an outage", func(arrange func(run func()) (lost <-chan struct{}, id string)) {
		var runs atomic.Int64
		lost, id := arrange(func() {
			runWorker(name, func(context.Context, *bullmq.Job) (any, error) { runs.Add(1); return nil, nil },
				// A registration contains the name too.
				&bullmq.WorkerOptions{Connection: via, Name: "the-one-that-takes", Registration: &bullmq.RegistrationOptions{Skip: true}})
		})
		outage(lost)
		Eventually(stateOf(queue, id), "10s").Should(Equal(bullmq.StateCompleted), "its lock lasts for 30 s")
		Expect(runs.Load()).To(BeEquivalentTo(1))
		Expect(hashAt(keyOf(name, id))).To(And(HaveKeyWithValue("ats", "1"), Not(HaveKey("stc"))))
	},
		Entry("when the fetch was a separate call", func(run func()) (<-chan struct{}, string) {
			job := add("a", nil)
			lost := proxy.LoseReply("the-one-that-takes")
			run()
			return lost, job.ID
		}),
		Entry("when the fetch followed a blocking wait", func(run func()) (<-chan struct{}, string) {
			run()
			waitUntilIdle(queue)
			lost := proxy.LoseReply("the-one-that-takes")
			// After a wake-up without a job it waits again. The reply of that second wait is the one to lose.
			Expect(redisDo("ZADD", keyOf(name, "marker"), "0", "0").Error()).To(Succeed())
			waitUntilIdle(queue)
			Consistently(lost).ShouldNot(BeClosed())
			return lost, add("a", nil).ID
		}),
	)

	It("leaves a job to other workers when its connection ends while it waits", func() {
		runWorker(name, doNothing, &bullmq.WorkerOptions{Connection: via, Name: "cut-off", DrainDelay: 10 * time.Second})
		waitUntilIdle(queue)
		Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
		proxy.CutAll()
		Eventually(func() ([]bullmq.ConnectedClient, error) { return queue.ConnectedWorkers(ctx) }).Should(BeEmpty())
		job := add("a", nil)
		Expect(job.State(ctx)).To(Equal(bullmq.StateWaiting))
		runWorker(name, doNothing, nil)
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateCompleted))
	})

	// losing runs a job and loses the reply of the first command that contains match.
	type healthLog struct {
		mu        sync.Mutex
		completed int
		failed    int
		faults    []error
		lost      int
	}
	losing := func(o bullmq.WorkerOptions, match string, then func(lost <-chan struct{}), handler bullmq.Handler) *healthLog {
		GinkgoHelper()
		t := &healthLog{}
		count := func(n *int) { t.mu.Lock(); defer t.mu.Unlock(); *n++ }
		o.Connection = via
		o.Events = bullmq.WorkerEvents{
			Completed: func(*bullmq.Job, any) { count(&t.completed) },
			Failed:    func(*bullmq.Job, error) { count(&t.failed) },
			LocksLost: func([]string) { count(&t.lost) },
			Error:     func(err error) { t.mu.Lock(); defer t.mu.Unlock(); t.faults = append(t.faults, err) },
		}
		started, finish := make(chan struct{}), make(chan struct{})
		var once sync.Once
		runWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
			if job.Name == "before" {
				return nil, nil
			}
			once.Do(func() { close(started); <-finish })
			return handler(ctx, job)
		}, &o)
		Eventually(started).Should(BeClosed())
		lost := proxy.LoseReply(match)
		close(finish)
		then(lost)
		return t
	}
	wait := func(lost <-chan struct{}) { GinkgoHelper(); Eventually(lost).Should(BeClosed()) }
	quiet := func(t *healthLog) {
		GinkgoHelper()
		t.mu.Lock()
		defer t.mu.Unlock()
		Expect(t.lost).To(BeZero())
		for _, fault := range t.faults {
			var refused *bullmq.Error
			Expect(errors.As(fault, &refused)).To(BeFalse(), fault.Error())
		}
	}
	fails := func(context.Context, *bullmq.Job) (any, error) { return nil, errors.New("boom") }

	It("completes a job once and reports it once when an outage follows", func() {
		add("before", nil) // opens the connection that is cut later
		job := add("a", nil)
		t := losing(bullmq.WorkerOptions{}, "the end", outage, func(context.Context, *bullmq.Job) (any, error) { return "the end", nil })
		Eventually(func() int { t.mu.Lock(); defer t.mu.Unlock(); return t.completed }).Should(Equal(2))
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateCompleted))
		Expect(hashAt(keyOf(name, job.ID))).To(And(HaveKeyWithValue("atm", "1"), HaveKeyWithValue("ats", "1")))
		quiet(t)
	})

	It("completes a job once and runs the next job of the lost reply", func() {
		job, next := add("a", nil), add("b", nil)
		t := losing(bullmq.WorkerOptions{}, "the end", wait, func(context.Context, *bullmq.Job) (any, error) { return "the end", nil })
		Eventually(stateOf(queue, next.ID)).Should(Equal(bullmq.StateCompleted), "it must not wait for the stalled check")
		for _, id := range []string{job.ID, next.ID} {
			Expect(hashAt(keyOf(name, id))).To(And(HaveKeyWithValue("atm", "1"), HaveKeyWithValue("ats", "1"), Not(HaveKey("stc"))))
		}
		quiet(t)
	})

	It("learns the outcome of a hanging call before the lock expires", func() {
		job := add("a", nil)
		var runs atomic.Int64
		completed := make(chan time.Time, 2)
		hung := proxy.HangReply("the end")
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) { runs.Add(1); return "the end", nil }, &bullmq.WorkerOptions{
			Connection: via, LockDuration: 4 * time.Second, StalledInterval: 300 * time.Millisecond,
			Events: bullmq.WorkerEvents{Completed: func(*bullmq.Job, any) { completed <- time.Now() }},
		})
		Eventually(hung).Should(BeClosed())
		since := time.Now()
		var told time.Time
		Eventually(completed, "10s").Should(Receive(&told))
		Expect(told.Sub(since)).To(BeNumerically("<", 4*time.Second))
		Consistently(runs.Load, "500ms").Should(BeEquivalentTo(1))
		Expect(hashAt(keyOf(name, job.ID))).To(And(HaveKeyWithValue("atm", "1"), Not(HaveKey("stc"))))
	})

	It("completes a job with KeepNone once", func() {
		add("a", &bullmq.JobOptions{KeepCompleted: bullmq.KeepNone()})
		t := losing(bullmq.WorkerOptions{}, "the end", wait, func(context.Context, *bullmq.Job) (any, error) { return "the end", nil })
		Eventually(func() int { t.mu.Lock(); defer t.mu.Unlock(); return t.completed }).Should(Equal(1))
		quiet(t)
	})

	It("fails a job once", func() {
		job := add("a", nil)
		t := losing(bullmq.WorkerOptions{}, "boom", wait, fails)
		Eventually(func() int { t.mu.Lock(); defer t.mu.Unlock(); return t.failed }).Should(Equal(1))
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateFailed))
		Expect(hashAt(keyOf(name, job.ID))).To(HaveKeyWithValue("atm", "1"))
		quiet(t)
	})

	It("retries a job once even if another worker fetches it first", func() {
		job := add("a", &bullmq.JobOptions{Attempts: 2})
		other := newFetcher(name, nil)
		var taken *bullmq.Job
		t := losing(bullmq.WorkerOptions{}, "boom", func(lost <-chan struct{}) {
			Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
			wait(lost)
			var err error
			taken, err = other.Fetch(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(taken.ID).To(Equal(job.ID))
			Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
		}, fails)
		Eventually(func() int { t.mu.Lock(); defer t.mu.Unlock(); return t.failed }).Should(Equal(1))
		Expect(taken.AttemptsMade).To(Equal(1))
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateActive))
		Expect(stringAt(keyOf(name, job.ID+":lock"))).To(Equal("token"))
		quiet(t)
	})

	It("delays a job for its backoff once", func() {
		job := add("a", &bullmq.JobOptions{Attempts: 2, Backoff: bullmq.FixedBackoff(time.Minute)})
		t := losing(bullmq.WorkerOptions{}, "boom", wait, fails)
		Eventually(func() int { t.mu.Lock(); defer t.mu.Unlock(); return t.failed }).Should(Equal(1))
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateDelayed))
		Expect(hashAt(keyOf(name, job.ID))).To(HaveKeyWithValue("atm", "1"))
		quiet(t)
	})

	It("returns a rate-limited job once", func() {
		job := add("a", nil)
		t := losing(bullmq.WorkerOptions{Limiter: &bullmq.Limiter{Max: 5, Duration: time.Second}}, "set bull:"+name+":limiter", wait,
			func(_ context.Context, job *bullmq.Job) (any, error) {
				if job.AttemptsStarted == 1 {
					return nil, bullmq.RateLimit(100 * time.Millisecond)
				}
				return nil, nil
			})
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateCompleted))
		Expect(hashAt(keyOf(name, job.ID))).To(And(HaveKeyWithValue("atm", "1"), HaveKeyWithValue("ats", "2")))
		quiet(t)
	})

	It("does not report a result as written if another run, after a stall, has ended the job", func() {
		job := add("a", nil)
		started, finish := make(chan struct{}), make(chan struct{})
		faults := make(chan error, 100)
		var completed atomic.Int64
		_, stop, ended := startWorker(name, func(context.Context, *bullmq.Job) (any, error) {
			close(started)
			<-finish
			return "late", nil
		}, &bullmq.WorkerOptions{Connection: via, SkipStalledCheck: true, SkipLockRenewal: true, Events: bullmq.WorkerEvents{
			Error:     func(err error) { faults <- err },
			Completed: func(*bullmq.Job, any) { completed.Add(1) },
		}})
		Eventually(started).Should(BeClosed())
		Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
		proxy.CutAll()
		close(finish)
		Eventually(faults).Should(Receive())
		Expect(redisDo("DEL", keyOf(name, job.ID+":lock")).Error()).To(Succeed())
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) { return "in time", nil }, &bullmq.WorkerOptions{StalledInterval: 50 * time.Millisecond})
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateCompleted))
		Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
		stop()
		Eventually(ended, "10s").Should(Receive(BeNil()))
		Expect(completed.Load()).To(BeZero())
		Expect(hashAt(keyOf(name, job.ID))).To(HaveKeyWithValue("returnvalue", `"in time"`))
	})

	It("reports that a result could not be written if the lock was lost before", func() {
		job := add("a", nil)
		var once atomic.Bool
		finish, started := make(chan struct{}), make(chan struct{})
		faults := make(chan string, 20)
		var completed atomic.Int64
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) {
			if once.Swap(true) {
				return nil, nil
			}
			close(started)
			<-finish
			return "the end", nil
		}, &bullmq.WorkerOptions{Connection: via, SkipStalledCheck: true, Events: bullmq.WorkerEvents{
			Error:     func(err error) { faults <- err.Error() },
			Completed: func(*bullmq.Job, any) { completed.Add(1) },
		}})
		Eventually(started).Should(BeClosed())
		lost := proxy.LoseCommand("the end")
		Expect(redisDo("SET", keyOf(name, job.ID+":lock"), "another").Error()).To(Succeed())
		close(finish)
		Eventually(lost).Should(BeClosed())
		Eventually(faults).Should(Receive())
		next := add("next", nil)
		Eventually(stateOf(queue, next.ID)).Should(Equal(bullmq.StateCompleted), "the slot is free again")
		Eventually(completed.Load).Should(BeEquivalentTo(1))
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateActive))
		Expect(stringAt(keyOf(name, job.ID+":lock"))).To(Equal("another"))
	})

	It("gives up a result, reports it and leaves the job to others if an outage outlasts the lock", func() {
		job := add("a", nil)
		started, finish := make(chan struct{}), make(chan struct{})
		faults := make(chan error, 100)
		_, stop, ended := startWorker(name, func(context.Context, *bullmq.Job) (any, error) {
			close(started)
			<-finish
			return "too late", nil
		}, &bullmq.WorkerOptions{Connection: via, LockDuration: 2 * time.Second, LockRenewTime: 200 * time.Millisecond, SkipStalledCheck: true,
			Events: bullmq.WorkerEvents{Error: func(err error) { faults <- err }}})
		Eventually(started).Should(BeClosed())
		Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
		proxy.CutAll()
		close(finish)
		Eventually(faults).Should(Receive())
		stop()
		Eventually(ended, "10s").Should(Receive(BeNil()), "the slot is free once the lock is over")
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) { return "in time", nil }, &bullmq.WorkerOptions{StalledInterval: 50 * time.Millisecond})
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateCompleted))
		Expect(hashAt(keyOf(name, job.ID))).To(And(HaveKeyWithValue("returnvalue", `"in time"`), HaveKeyWithValue("stc", "1")))
	})

	It("still returns a manually fetched job", func() {
		fetcher := newFetcher(name, &bullmq.FetcherOptions{Connection: via, Token: func() string { return "by-hand" }})
		added := add("a", nil)
		lost := proxy.LoseReply("by-hand")
		job, err := fetcher.TryFetch(ctx)
		Expect(err).NotTo(HaveOccurred())
		Eventually(lost).Should(BeClosed())
		Expect(job.ID).To(Equal(added.ID))
	})

	DescribeTable("loses no job and runs none twice", func(faults faultproxy.Faults, meanwhile func(round int)) {
		const rounds, each = 10, 10
		var runs tally
		Expect(proxy.Set(faults)).To(Succeed())
		runWorker(name, runs.handle, &bullmq.WorkerOptions{Connection: via, Concurrency: 5})
		for round := range rounds {
			_, err := queue.AddBulk(ctx, make([]bullmq.BulkJob, each))
			Expect(err).NotTo(HaveOccurred())
			meanwhile(round)
		}
		Eventually(countOf(queue, bullmq.StateCompleted), "15s").Should(Equal(rounds * each))
		runs.once(rounds * each)
	},
		Entry("on a slow connection", faultproxy.Faults{Delay: 10 * time.Millisecond}, func(int) {}),
		Entry("on a connection that delivers replies in small pieces", faultproxy.Faults{Trickle: 50}, func(int) {}),
		Entry("on a connection that is cut repeatedly", faultproxy.Faults{}, func(int) { proxy.CutAll(); time.Sleep(10 * time.Millisecond) }),
		Entry("while the server forgets its scripts", faultproxy.Faults{}, func(int) { Expect(redisDo("SCRIPT", "FLUSH").Error()).To(Succeed()) }),
	)

	It("continues after its wait ends with an error and after all connections are killed", func() {
		started := make(chan string, 2)
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) { started <- job.Name; return nil, nil }, nil)
		waitUntilIdle(queue)
		workers, err := queue.ConnectedWorkers(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(redisDo("CLIENT", "UNBLOCK", workers[0].Fields["id"], "ERROR").Error()).To(Succeed())
		add("one", nil)
		Eventually(started, "4s").Should(Receive(Equal("one")), "an idle worker waits for 5 s")

		Expect(redisDo("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Error()).To(Succeed())
		Eventually(func() error { _, err := queue.Add(ctx, "two", nil, nil); return err }).Should(Succeed())
		Eventually(started).Should(Receive(Equal("two")))
	})

	It("logs little while Redis is unreachable and continues soon after", func() {
		var lines logLines
		started := make(chan string, 1)
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) { started <- job.Name; return nil, nil },
			&bullmq.WorkerOptions{Connection: via, Logger: bullmq.Zerolog(zerolog.New(&lines))})
		waitUntilIdle(queue)
		Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
		proxy.CutAll()
		begun := time.Now()
		errorLines := func() int { return lines.with(`"level":"error"`) }
		Eventually(errorLines).Should(BeNumerically(">", 0))
		time.Sleep(1200 * time.Millisecond)
		Expect(float64(errorLines())).To(BeNumerically("<=", 3+time.Since(begun).Seconds()))
		Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
		add("back", nil)
		Eventually(started).Should(Receive(Equal("back")))
	})
})

var _ = Describe("A worker whose Redis hangs or restarts", Label("slow"), func() {
	It("continues when Redis is back and runs each job once", func() {
		name, ctx := newQueueName(), specContext()
		server := startRedis(redisserver.Options{})
		own := bullmq.URL(server.URL())
		queue := newQueue(name, &bullmq.QueueOptions{Connection: own})
		var runs tally
		runWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
			time.Sleep(time.Millisecond)
			return runs.handle(ctx, job)
		}, &bullmq.WorkerOptions{Connection: own, Concurrency: 3})
		_, err := queue.AddBulk(ctx, make([]bullmq.BulkJob, 300))
		Expect(err).NotTo(HaveOccurred())
		for range 3 {
			Expect(server.Freeze()).To(Succeed())
			time.Sleep(200 * time.Millisecond)
			Expect(server.Thaw()).To(Succeed())
			time.Sleep(20 * time.Millisecond)
		}
		Eventually(countOf(queue, bullmq.StateCompleted), "15s").Should(Equal(300))
		runs.once(300)
	})

	It("does not crash Redis by ending its wait while writes are paused, as in a failover", func() {
		name, ctx := newQueueName(), specContext()
		server := startRedis(redisserver.Options{})
		own := bullmq.URL(server.URL())
		queue := newQueue(name, &bullmq.QueueOptions{Connection: own})
		worker, stop, ended := startWorker(name, doNothing, &bullmq.WorkerOptions{Connection: own, DrainDelay: 100 * time.Millisecond})
		Eventually(func() ([]bullmq.ConnectedClient, error) { return queue.ConnectedWorkers(ctx) }).Should(HaveLen(1))
		admin := clientOf(server)
		Expect(admin.Do(ctx, admin.B().Arbitrary("CLIENT", "PAUSE", "1500", "WRITE").Build()).Error()).To(Succeed())
		time.Sleep(400 * time.Millisecond) // its wait is over, and the fetch sent behind it is blocked
		Expect(worker.SetConcurrency(5)).To(Succeed())
		stop()
		Eventually(ended).Should(Receive(BeNil()))
		time.Sleep(1500 * time.Millisecond)
		Expect(admin.Do(ctx, admin.B().Ping().Build()).Error()).To(Succeed(), "%s", server.Log())
	})

	It("writes a result when Redis is back while the lock is held", func() {
		name, ctx := newQueueName(), specContext()
		server := startRedis(redisserver.Options{AppendOnly: true})
		own := bullmq.URL(server.URL())
		queue := newQueue(name, &bullmq.QueueOptions{Connection: own})
		job, err := queue.Add(ctx, "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		started, finish := make(chan struct{}), make(chan struct{})
		var runs tally
		runWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
			close(started)
			<-finish
			return runs.handle(ctx, job)
		}, &bullmq.WorkerOptions{Connection: own})
		Eventually(started).Should(BeClosed())
		server.Stop()
		close(finish)
		time.Sleep(300 * time.Millisecond)
		Expect(server.Start()).To(Succeed())
		Eventually(stateOf(queue, job.ID), "8s").Should(Equal(bullmq.StateCompleted))
		runs.once(1)
	})

	It("continues when Redis is back empty and reports the result that could not be written", func() {
		name, ctx := newQueueName(), specContext()
		server := startRedis(redisserver.Options{})
		own := bullmq.URL(server.URL())
		queue := newQueue(name, &bullmq.QueueOptions{Connection: own})
		_, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{JobID: "forgotten"})
		Expect(err).NotTo(HaveOccurred())
		started, finish := make(chan string, 5), make(chan struct{})
		faults, completed := make(chan error, 100), make(chan string, 5)
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) { started <- job.ID; <-finish; return nil, nil },
			&bullmq.WorkerOptions{Connection: own, DrainDelay: 500 * time.Millisecond, Events: bullmq.WorkerEvents{
				Error: func(err error) { faults <- err }, Completed: func(job *bullmq.Job, _ any) { completed <- job.ID },
			}})
		Eventually(started).Should(Receive(Equal("forgotten")))
		Expect(server.Restart()).To(Succeed())
		Eventually(func() error { return queue.JobRef("forgotten").UpdateProgress(ctx, 1) }).Should(MatchError(bullmq.ErrJobNotFound))
		close(finish)
		Eventually(faults).Should(Receive())
		// Each cut connection returns one error. The add can be repeated since it sets the job's id.
		Eventually(func() error { _, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{JobID: "new"}); return err }).Should(Succeed())
		Eventually(started).Should(Receive(Equal("new")))
		Eventually(completed).Should(Receive(Equal("new")))
	})
})

var _ = DescribeTable("A worker continues at once when all data is flushed", Label("slow"), func(before func(queue *bullmq.Queue)) {
	name, ctx := newQueueName(), specContext()
	server := startRedis(redisserver.Options{})
	own := bullmq.URL(server.URL())
	queue := newQueue(name, &bullmq.QueueOptions{Connection: own})
	reader := newEvents(name, bullmq.QueueEventsOptions{Connection: own})
	finish := make(chan struct{})
	runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
		if job.Name == "runs" {
			<-finish
		}
		return nil, nil
	}, &bullmq.WorkerOptions{Connection: own, Concurrency: 2})
	waitUntilIdle(queue)
	before(queue)
	admin := clientOf(server)
	Expect(admin.Do(ctx, admin.B().Flushall().Build()).Error()).To(Succeed())
	close(finish)
	begun := time.Now()
	job, err := queue.Add(ctx, "new", nil, nil)
	Expect(err).NotTo(HaveOccurred())
	for event, err := range reader.All(ctx) {
		Expect(err).NotTo(HaveOccurred())
		if event.Type == bullmq.EventCompleted && event.JobID == job.ID {
			break
		}
	}
	Expect(time.Since(begun)).To(BeNumerically("<", 4*time.Second), "an idle worker waits for 5 s")
},
	Entry("while it is idle", func(*bullmq.Queue) {}),
	Entry("while it runs a job", func(queue *bullmq.Queue) {
		_, err := queue.Add(specContext(), "runs", nil, &bullmq.JobOptions{JobID: "runs"})
		Expect(err).NotTo(HaveOccurred())
		Eventually(stateOf(queue, "runs")).Should(Equal(bullmq.StateActive))
	}),
	Entry("while a delayed job is pending", func(queue *bullmq.Queue) {
		_, err := queue.Add(specContext(), "late", nil, &bullmq.JobOptions{Delay: time.Hour})
		Expect(err).NotTo(HaveOccurred())
	}),
)

var _ = Describe("A worker whose Redis is a replica for a while", Label("slow"), func() {
	It("does not poll or log excessively and writes its result afterwards", func() {
		name, ctx := newQueueName(), specContext()
		server := startRedis(redisserver.Options{})
		own := bullmq.URL(server.URL())
		admin := clientOf(server)
		queue := newQueue(name, &bullmq.QueueOptions{Connection: own})
		started, finish, completed := make(chan string, 10), make(chan struct{}), make(chan string, 10)
		var faults atomic.Int64
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			started <- job.Name
			<-finish
			return nil, nil
		}, &bullmq.WorkerOptions{Connection: own, Concurrency: 3, StalledInterval: 200 * time.Millisecond, Events: bullmq.WorkerEvents{
			Error: func(error) { faults.Add(1) }, Completed: func(job *bullmq.Job, _ any) { completed <- job.Name },
		}})
		_, err := queue.Add(ctx, "runs", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Eventually(started).Should(Receive(Equal("runs")))

		nobody, err := redisserver.FreePort() // a reachable master would replace the data
		Expect(err).NotTo(HaveOccurred())
		Expect(admin.Do(ctx, admin.B().Replicaof().Host("127.0.0.1").Port(int64(nobody)).Build()).Error()).To(Succeed())
		Expect(admin.Do(ctx, admin.B().ConfigResetstat().Build()).Error()).To(Succeed())
		close(finish)
		_, err = queue.Add(ctx, "refused", nil, nil)
		Expect(err).To(And(MatchError(ContainSubstring("READONLY")), Not(MatchError(bullmq.ErrMaybeAdded))))
		begun := time.Now()
		Eventually(faults.Load).Should(BeNumerically(">", 0))
		time.Sleep(1500 * time.Millisecond) // there is no event to wait for
		stats, err := admin.Do(ctx, admin.B().Info().Section("stats").Build()).ToString()
		Expect(err).NotTo(HaveOccurred())
		var commands int
		_, err = fmt.Sscanf(stats[strings.Index(stats, "total_commands_processed:"):], "total_commands_processed:%d", &commands)
		Expect(err).NotTo(HaveOccurred())
		length := time.Since(begun).Seconds()
		Expect(float64(commands)).To(BeNumerically("<", 100*length), "commands within %v s", length)
		Expect(float64(faults.Load())).To(BeNumerically("<", 20*length), "errors reported within %v s", length)
		Expect(completed).To(BeEmpty())

		Expect(admin.Do(ctx, admin.B().Replicaof().No().One().Build()).Error()).To(Succeed())
		Eventually(completed).Should(Receive(Equal("runs")))
		_, err = queue.Add(ctx, "next", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Eventually(completed).Should(Receive(Equal("next")))
		Expect(started).To(HaveLen(1), "each job is run once")
	})
})
