package bullmq_test

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("Job cancellation", func() {
	var (
		name    string
		queue   *bullmq.Queue
		ctx     context.Context
		started chan string
		causes  chan error
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, nil)
		started, causes = make(chan string, 10), make(chan error, 10)
	})
	add := func(options *bullmq.JobOptions) *bullmq.Job {
		GinkgoHelper()
		job, err := queue.Add(ctx, "a", nil, options)
		Expect(err).NotTo(HaveOccurred())
		return job
	}
	// returning is a handler that runs until its context ends.
	returning := func(end func(cause error) (any, error)) bullmq.Handler {
		return func(ctx context.Context, job *bullmq.Job) (any, error) {
			started <- job.ID
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return end(context.Cause(ctx))
		}
	}
	theCause := func(cause error) (any, error) { return nil, cause }

	It("cancels the handler's context with a cause that contains the reason", func() {
		worker := runWorker(name, returning(theCause), nil)
		job := add(nil)
		Eventually(started).Should(Receive())
		Expect(worker.CancelJob("another", "no")).To(BeFalse())
		Expect(causes).NotTo(Receive())
		Expect(worker.CancelJob(job.ID, "the order is void")).To(BeTrue())
		var cause error
		Eventually(causes).Should(Receive(&cause))
		Expect(errors.Is(cause, bullmq.ErrCancelled)).To(BeTrue())
		var cancelled *bullmq.CancelledError
		Expect(errors.As(cause, &cancelled)).To(BeTrue())
		Expect(cancelled.Reason).To(Equal("the order is void"))
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateFailed))
		Expect(hashAt(keyOf(name, job.ID))).To(And(
			HaveKeyWithValue("failedReason", "bullmq: the job is cancelled: the order is void"), HaveKeyWithValue("atm", "1")))
		Expect(worker.CancelJob(job.ID, "")).To(BeFalse(), "it has ended")
	})

	It("lets the job be retried while it has attempts left", func() {
		var lines logLines
		worker := runWorker(name, returning(theCause), &bullmq.WorkerOptions{Logger: bullmq.Zerolog(zerolog.New(&lines))})
		job := add(&bullmq.JobOptions{Attempts: 2})
		for range 2 {
			Eventually(started).Should(Receive())
			Expect(worker.CancelJob(job.ID, "")).To(BeTrue())
		}
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateFailed))
		Eventually(lines.all).Should(And(ContainSubstring("an attempt of a job failed"), ContainSubstring("a job was cancelled")))
		Expect(hashAt(keyOf(name, job.ID))).To(And(HaveKeyWithValue("atm", "2"), HaveKeyWithValue("failedReason", "bullmq: the job is cancelled")))
	})

	DescribeTable("leaves the outcome to the handler:", func(end func(error) (any, error), want bullmq.State, attempts string) {
		worker := runWorker(name, returning(end), nil)
		job := add(&bullmq.JobOptions{Attempts: 3})
		Eventually(started).Should(Receive())
		Expect(worker.CancelJob(job.ID, "why not")).To(BeTrue())
		Eventually(stateOf(queue, job.ID)).Should(Equal(want))
		if attempts == "" {
			Expect(hashAt(keyOf(name, job.ID))).NotTo(HaveKey("atm"))
		} else {
			Expect(hashAt(keyOf(name, job.ID))).To(HaveKeyWithValue("atm", attempts))
		}
	},
		Entry("completed", func(error) (any, error) { return "half of it", nil }, bullmq.StateCompleted, "1"),
		Entry("failed permanently", func(cause error) (any, error) { return nil, bullmq.Unrecoverable(cause) }, bullmq.StateFailed, "1"),
		Entry("delayed by Snooze", func(error) (any, error) { return nil, bullmq.Snooze(time.Minute) }, bullmq.StateDelayed, ""),
	)

	It("of all jobs during shutdown returns snoozed jobs to wait and ends the shutdown early", func() {
		worker, stop, ended := startWorker(name, returning(func(error) (any, error) { return nil, bullmq.Snooze(0) }),
			&bullmq.WorkerOptions{Concurrency: 3, ShutdownTimeout: 20 * time.Second})
		for range 5 {
			add(nil)
		}
		for range 3 {
			Eventually(started).Should(Receive())
		}
		stop()
		begun := time.Now()
		Expect(worker.CancelAllJobs("deploy")).To(Equal(3))
		Eventually(ended, "15s").Should(Receive(BeNil()))
		Expect(time.Since(begun)).To(BeNumerically("<", 10*time.Second), "ShutdownTimeout is 20 s")
		Expect(listAt(keyOf(name, "wait"))).To(HaveLen(5))
		for range 3 {
			Eventually(causes).Should(Receive(Equal(&bullmq.CancelledError{Reason: "deploy"})))
		}
		Expect(worker.CancelAllJobs("again")).To(BeZero())
	})

	It("of all jobs does not affect jobs fetched later", func() {
		worker := runWorker(name, returning(theCause), nil)
		add(nil)
		Eventually(started).Should(Receive())
		Expect(worker.CancelAllJobs("first")).To(Equal(1))
		Eventually(causes).Should(Receive())
		second := add(nil)
		Eventually(started).Should(Receive(Equal(second.ID)))
		Consistently(causes, "50ms").ShouldNot(Receive())
		Expect(worker.CancelJob(second.ID, "")).To(BeTrue())
	})

	It("reports no cancelled job if the worker is not running", func() {
		worker := newWorker(name, doNothing, nil)
		Expect(worker.CancelJob("1", "")).To(BeFalse())
		Expect(worker.CancelAllJobs("")).To(BeZero())
	})

	It("reports false once the result of the job is being written", func() {
		var worker *bullmq.Worker
		made, told := make(chan struct{}), make(chan bool, 1)
		worker = runWorker(name, doNothing, &bullmq.WorkerOptions{Events: bullmq.WorkerEvents{
			Completed: func(job *bullmq.Job, _ any) { <-made; told <- worker.CancelJob(job.ID, "too late") },
		}})
		close(made)
		add(nil)
		Eventually(told).Should(Receive(BeFalse()))
	})

	It("of a job whose handler has not been called yet takes effect when it is called", func() {
		proxy, via := proxiedRedis()
		_, err := queue.UpsertScheduler(ctx, "tick", bullmq.Repeat{Every: time.Hour}, nil)
		Expect(err).NotTo(HaveOccurred())
		worker := newWorker(name, returning(theCause), &bullmq.WorkerOptions{Connection: via, SkipStalledCheck: true})
		// The scheduler adds its next job before this one runs. That call gets no reply for a while.
		advancing := proxy.LoseCommand("repeat:tick")
		go func() { _ = worker.Run(ctx) }()
		Eventually(advancing).Should(BeClosed())
		Eventually(func() int { return worker.CancelAllJobs("early") }).Should(Equal(1))
		Eventually(causes).Should(Receive(MatchError(bullmq.ErrCancelled)))
		Eventually(func() []string { return zsetAt(keyOf(name, "failed")) }).Should(HaveLen(1))
	})
})
