package bullmq_test

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A job that a worker holds", func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, nil)
	})
	add := func(options *bullmq.JobOptions) *bullmq.Job {
		GinkgoHelper()
		job, err := queue.Add(ctx, "a", nil, options)
		Expect(err).NotTo(HaveOccurred())
		return job
	}
	short := func() *bullmq.WorkerOptions {
		return &bullmq.WorkerOptions{LockDuration: 200 * time.Millisecond, StalledInterval: 100 * time.Millisecond, Concurrency: 10}
	}

	It("stays its own for as long as it takes, and others are held with it in one call", func() {
		for range 5 {
			add(nil)
		}
		Expect(do("CONFIG", "RESETSTAT").Error()).To(Succeed())
		var runs atomic.Int64
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) {
			runs.Add(1)
			time.Sleep(700 * time.Millisecond)
			return nil, nil
		}, short())
		Eventually(func() (int64, error) { c, err := queue.Counts(ctx, bullmq.Completed); return c[bullmq.Completed], err }).Should(BeEquivalentTo(5))
		Expect(runs.Load()).To(BeEquivalentTo(5))
		Expect(events(name)).NotTo(ContainElement(HavePrefix("stalled")))
	})

	lose := func(how func(lock string), code bullmq.Error) {
		GinkgoHelper()
		started, causes, faults := make(chan struct{}), make(chan error, 1), make(chan error, 5)
		lostIDs := make(chan []string, 1)
		o := short()
		o.SkipStalledCheck = true
		o.Events = bullmq.WorkerEvents{
			Error: func(err error) { faults <- err }, LocksLost: func(ids []string) { lostIDs <- ids },
		}
		job := add(nil)
		runWorker(name, func(ctx context.Context, _ *bullmq.Job) (any, error) {
			close(started)
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return "too late", nil
		}, o)
		Eventually(started).Should(BeClosed())
		how(key(name, job.ID+":lock"))
		Eventually(causes).Should(Receive(MatchError(bullmq.ErrLockLost)))
		Expect(lostIDs).To(Receive(Equal([]string{job.ID})))
		Eventually(faults).Should(Receive(MatchError(code.Code)))
		Expect(state(queue, job.ID)()).To(Equal(bullmq.Active))
		Expect(events(name)).NotTo(ContainElement(Or(HavePrefix("completed"), HavePrefix("failed"))))
	}

	It("is lost with its lock: the handler learns why, and what it returns is refused", func() {
		lose(func(lock string) { Expect(do("DEL", lock).Error()).To(Succeed()) }, bullmq.Error{Code: bullmq.ErrLockNotFound})
	})

	It("is lost to another's lock, which is left alone", func() {
		var stolen string
		lose(func(lock string) {
			stolen = lock
			Expect(do("SET", lock, "another", "PX", "60000").Error()).To(Succeed())
		}, bullmq.Error{Code: bullmq.ErrLockMismatch})
		Expect(text(stolen)).To(Equal("another"))
	})

	It("goes back to wait when its worker is gone, and fails when that happens too often", func() {
		job := add(nil)
		dead := newWorker(name, nil, &bullmq.WorkerOptions{LockDuration: 50 * time.Millisecond})
		taken, err := dead.GetNextJob(ctx, "dead:1", 0)
		Expect(err).NotTo(HaveOccurred())
		Expect(taken.ID).To(Equal(job.ID))

		checker := newWorker(name, nil, &bullmq.WorkerOptions{StalledInterval: 20 * time.Millisecond})
		stalls := func() bool {
			GinkgoHelper()
			moved := false
			Eventually(func() (bool, error) {
				ids, err := checker.CheckStalled(ctx)
				moved = moved || len(ids) > 0
				return moved, err
			}, "3s", "30ms").Should(BeTrue())
			return moved
		}
		Expect(stalls()).To(BeTrue())
		Expect(hash(key(name, job.ID))).To(HaveKeyWithValue("stc", "1"))
		_, err = dead.GetNextJob(ctx, "dead:2", 0)
		Expect(err).NotTo(HaveOccurred())
		Expect(stalls()).To(BeTrue())
		Expect(hash(key(name, job.ID))).To(HaveKeyWithValue("defa", "job stalled more than allowable limit"))

		var ran atomic.Bool
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) { ran.Store(true); return nil, nil }, nil)
		Eventually(state(queue, job.ID)).Should(Equal(bullmq.Failed))
		Expect(ran.Load()).To(BeFalse(), "the handler must not be called")
		Expect(hash(key(name, job.ID))).To(HaveKeyWithValue("failedReason", "job stalled more than allowable limit"))
		Expect(hash(key(name, job.ID))).NotTo(HaveKey("defa"))
	})

	It("refuses a finish by hand with a token that is not its own", func() {
		add(nil)
		w := newWorker(name, nil, nil)
		job, err := w.GetNextJob(ctx, "mine", 0)
		Expect(err).NotTo(HaveOccurred())
		_, err = w.Complete(ctx, job, "theirs", nil, false)
		Expect(err).To(MatchError(bullmq.ErrLockMismatch))
		_, err = w.Complete(ctx, job, "mine", "done", false)
		Expect(err).NotTo(HaveOccurred())
	})

	DescribeTable("is not taken by hand with a token that owns every lock", func(token string) {
		add(nil)
		w := newWorker(name, nil, nil)
		_, err := w.GetNextJob(ctx, token, 0)
		Expect(err).To(MatchError(ContainSubstring("token")))
		Expect(list(key(name, "active"))).To(BeEmpty())
	}, Entry("0", "0"), Entry("nothing", ""))

	It("is waited for by hand, and the wait ends when one is added, when its time is over, and with its context", func() {
		w := newWorker(name, nil, nil)
		job, err := w.GetNextJob(ctx, "t:1", 50*time.Millisecond)
		Expect(err).NotTo(HaveOccurred())
		Expect(job).To(BeNil())

		go func() {
			defer GinkgoRecover()
			time.Sleep(100 * time.Millisecond)
			add(nil)
		}()
		begun := time.Now()
		job, err = w.GetNextJob(ctx, "t:2", 10*time.Second)
		Expect(err).NotTo(HaveOccurred())
		Expect(job).NotTo(BeNil())
		Expect(time.Since(begun)).To(BeNumerically("<", 3*time.Second))
		_, err = w.Complete(ctx, job, "t:2", nil, false)
		Expect(err).NotTo(HaveOccurred())

		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		begun = time.Now()
		_, err = w.GetNextJob(short, "t:3", 10*time.Second)
		Expect(err).To(MatchError(context.DeadlineExceeded))
		Expect(time.Since(begun)).To(BeNumerically("<", 3*time.Second))
	})
})

var _ = Describe("A worker that stops", func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, nil)
	})
	start := func(handler bullmq.Handler, options *bullmq.WorkerOptions) (stop context.CancelFunc, ended chan error) {
		w := newWorker(name, handler, options)
		run, cancel := context.WithCancel(ctx)
		ended = make(chan error, 1)
		go func() { ended <- w.Run(run) }()
		return cancel, ended
	}

	It("takes no new job, and holds the one that runs until it is done", func() {
		for range 2 {
			_, err := queue.Add(ctx, "a", nil, nil)
			Expect(err).NotTo(HaveOccurred())
		}
		started := make(chan struct{}, 2)
		stop, ended := start(func(ctx context.Context, _ *bullmq.Job) (any, error) {
			started <- struct{}{}
			time.Sleep(600 * time.Millisecond)
			return nil, ctx.Err()
		}, &bullmq.WorkerOptions{LockDuration: 200 * time.Millisecond, StalledInterval: 50 * time.Millisecond})
		Eventually(started).Should(Receive())
		stop()
		Eventually(ended).Should(Receive(BeNil()))
		counts, err := queue.Counts(ctx, bullmq.Completed, bullmq.Waiting, bullmq.Active)
		Expect(err).NotTo(HaveOccurred())
		Expect(counts).To(Equal(map[bullmq.State]int64{bullmq.Completed: 1, bullmq.Waiting: 1, bullmq.Active: 0}))
		Expect(events(name)).NotTo(ContainElement(HavePrefix("stalled")))
	})

	It("does not wait for ever on a handler that ignores its context: it says which job is left, and another worker takes it up", func() {
		job, err := queue.Add(ctx, "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		started, free := make(chan struct{}), make(chan struct{})
		handlerGone := make(chan struct{})
		stop, ended := start(func(context.Context, *bullmq.Job) (any, error) {
			defer close(handlerGone)
			close(started)
			<-free
			return "too late", nil
		}, &bullmq.WorkerOptions{LockDuration: 300 * time.Millisecond, ShutdownTimeout: 300 * time.Millisecond, StalledInterval: 50 * time.Millisecond})
		Eventually(started).Should(BeClosed())
		begun := time.Now()
		stop()
		var left error
		Eventually(ended).Should(Receive(&left))
		Expect(time.Since(begun)).To(BeNumerically("<", time.Second))
		var unfinished *bullmq.UnfinishedError
		Expect(errors.As(left, &unfinished)).To(BeTrue())
		Expect(unfinished.JobIDs).To(Equal([]string{job.ID}))

		runWorker(name, func(context.Context, *bullmq.Job) (any, error) { return "in time", nil },
			&bullmq.WorkerOptions{StalledInterval: 50 * time.Millisecond})
		result, err := job.Wait(ctx, queue)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(result)).To(Equal(`"in time"`))
		close(free)
		Eventually(handlerGone).Should(BeClosed())
		Consistently(func() string { return hash(key(name, job.ID))["returnvalue"] }, 100*time.Millisecond).Should(Equal(`"in time"`))
	})

	It("gives a job back, without an attempt used, when its handler ends on the shutdown", func() {
		job, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{Attempts: 2})
		Expect(err).NotTo(HaveOccurred())
		started := make(chan struct{})
		stop, ended := start(func(ctx context.Context, _ *bullmq.Job) (any, error) {
			close(started)
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}, &bullmq.WorkerOptions{ShutdownTimeout: 500 * time.Millisecond})
		Eventually(started).Should(BeClosed())
		stop()
		Eventually(ended).Should(Receive(BeNil()))
		Expect(state(queue, job.ID)()).To(Equal(bullmq.Waiting))
		Expect(hash(key(name, job.ID))).NotTo(HaveKey("atm"))
	})

	It("ends at once while idle, and can be closed from within", func() {
		stop, ended := start(func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, nil)
		time.Sleep(100 * time.Millisecond)
		begun := time.Now()
		stop()
		Eventually(ended).Should(Receive(BeNil()))
		Expect(time.Since(begun)).To(BeNumerically("<", 500*time.Millisecond))
	})

	It("can be run once", func() {
		w := newWorker(name, func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, nil)
		Expect(w.Close()).To(Succeed())
		Expect(w.Run(ctx)).NotTo(Succeed())
		Expect(w.Close()).To(Succeed())
	})

	DescribeTable("or is not made at all with options that can't be", func(options bullmq.WorkerOptions, names string) {
		options.Connection = connection()
		_, err := bullmq.NewWorker(name, nil, &options)
		Expect(err).To(MatchError(ContainSubstring(names)))
	},
		Entry("a negative MaxStalledCount", bullmq.WorkerOptions{MaxStalledCount: new(-1)}, "MaxStalledCount"),
		Entry("a negative Concurrency", bullmq.WorkerOptions{Concurrency: -1}, "Concurrency"),
		Entry("a lock renewed later than it lasts", bullmq.WorkerOptions{LockDuration: time.Second, LockRenewTime: time.Second}, "LockRenewTime"),
		Entry("a limiter of nothing", bullmq.WorkerOptions{Limiter: &bullmq.Limiter{}}, "Limiter"),
	)
})
