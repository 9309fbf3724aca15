package bullmq_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A handler that panics or exits", func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, nil)
	})

	DescribeTable("leaves a stack trace in its job for each attempt, the newest last, after", func(end func(), reason string) {
		job, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{Attempts: 3})
		Expect(err).NotTo(HaveOccurred())
		var calls atomic.Int64
		told := make(chan []string, 3)
		var lines logLines
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) {
			calls.Add(1)
			end()
			return nil, nil
		}, &bullmq.WorkerOptions{
			Logger: bullmq.Zerolog(zerolog.New(&lines)), Events: bullmq.WorkerEvents{Failed: func(job *bullmq.Job, _ error) { told <- job.StackTrace }},
		})
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateFailed))
		for attempt := 1; attempt <= 3; attempt++ {
			Eventually(told).Should(Receive(And(HaveLen(attempt), HaveEach(ContainSubstring("worker_panic_test.go")))))
		}
		Expect(lines.all()).To(And(ContainSubstring(`"stack":"`), ContainSubstring("worker_panic_test.go")))
		Expect(calls.Load()).To(BeEquivalentTo(3))
		read, err := queue.Job(ctx, job.ID)
		Expect(err).NotTo(HaveOccurred())
		Expect(read.FailedReason).To(ContainSubstring(reason))
		Expect(read.StackTrace).To(HaveLen(3))
		for _, trace := range read.StackTrace {
			Expect(trace).To(And(HavePrefix(read.FailedReason), ContainSubstring("worker_panic_test.go")))
		}
	},
		Entry("a panic with a string", func() { panic("no such colour") }, "panic: no such colour"),
		Entry("a panic with an error", func() { panic(errors.New("boom")) }, "panic: boom"),
		Entry("a panic with nil", func() { panic(nil) }, "panic called with nil argument"),
		Entry("a runtime error", func() { _ = []string{}[len(os.Args)] }, "index out of range"),
		Entry("runtime.Goexit", runtime.Goexit, "runtime.Goexit"),
	)

	It("leaves an idle worker able to fetch the next job", func() {
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) {
			runtime.Goexit()
			return nil, nil
		}, &bullmq.WorkerOptions{DrainDelay: 10 * time.Second, SkipStalledCheck: true})
		for n := range 4 {
			waitUntilIdle(queue)
			_, err := queue.Add(ctx, "", nil, nil)
			Expect(err).NotTo(HaveOccurred())
			Eventually(countOf(queue, bullmq.StateFailed)).Should(Equal(n + 1))
		}
	})

	It("frees its slot each time", func() {
		const jobs = 60
		bulk := make([]bullmq.BulkJob, jobs)
		_, err := queue.AddBulk(ctx, bulk)
		Expect(err).NotTo(HaveOccurred())
		var n atomic.Int64
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) {
			if n.Add(1)%2 == 0 {
				runtime.Goexit()
			}
			panic("boom")
		}, &bullmq.WorkerOptions{Concurrency: 3})
		Eventually(countOf(queue, bullmq.StateFailed)).Should(Equal(jobs))

		// All three slots are still there.
		var together sync.WaitGroup
		together.Add(3)
		second := newQueueName()
		other := newQueue(second, nil)
		_, err = other.AddBulk(ctx, make([]bullmq.BulkJob, 6))
		Expect(err).NotTo(HaveOccurred())
		met := make(chan struct{})
		var calls atomic.Int64
		runWorker(second, func(context.Context, *bullmq.Job) (any, error) {
			if calls.Add(1) <= 3 {
				runtime.Goexit()
			}
			together.Done()
			<-met
			return nil, nil
		}, &bullmq.WorkerOptions{Concurrency: 3})
		go func() { together.Wait(); close(met) }()
		Eventually(met).Should(BeClosed())
	})
})
