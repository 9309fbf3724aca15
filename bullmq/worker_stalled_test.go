package bullmq_test

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("The stalled check", Label("slow"), func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, nil)
	})
	die := func() *bullmq.Job {
		GinkgoHelper()
		dead := newFetcher(name, &bullmq.FetcherOptions{LockDuration: time.Millisecond})
		job, err := dead.TryFetch(ctx)
		Expect(err).NotTo(HaveOccurred())
		return job
	}
	abandon := func(options *bullmq.JobOptions) *bullmq.Job {
		GinkgoHelper()
		job, err := queue.Add(ctx, "a", nil, options)
		Expect(err).NotTo(HaveOccurred())
		Expect(die().ID).To(Equal(job.ID))
		return job
	}

	It("returns a stalled job to wait, so that another worker runs it", func() {
		job := abandon(nil)
		told := make(chan string, 5)
		runWorker(name, doNothing, &bullmq.WorkerOptions{StalledInterval: 50 * time.Millisecond,
			Events: bullmq.WorkerEvents{Stalled: func(id string) { told <- id }}})
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateCompleted))
		Eventually(told).Should(Receive(Equal(job.ID)))
		Expect(eventsOf(name)).To(ContainElements("waiting jobId=1 prev=active", "stalled jobId=1"))
		Expect(hashAt(keyOf(name, job.ID))).To(And(HaveKeyWithValue("stc", "1"), HaveKeyWithValue("atm", "1")))
	})

	It("fails a job the first time if MaxStalledCount is -1, whatever attempts are left", func() {
		job := abandon(&bullmq.JobOptions{Attempts: 5})
		var ran atomic.Bool
		failure := make(chan error, 1)
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) { ran.Store(true); return nil, nil },
			&bullmq.WorkerOptions{StalledInterval: 50 * time.Millisecond, MaxStalledCount: -1,
				Events: bullmq.WorkerEvents{Failed: func(_ *bullmq.Job, err error) { failure <- err }}})
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateFailed))
		Expect(ran.Load()).To(BeFalse())
		Eventually(failure).Should(Receive(And(MatchError("job stalled more than allowable limit"), MatchError(bullmq.ErrUnrecoverable))))
	})

	It("makes a job that stalled too often fail without being run", func() {
		job := abandon(nil)
		checker := newFetcher(name, &bullmq.FetcherOptions{StalledInterval: 20 * time.Millisecond})
		stalls := func() {
			GinkgoHelper()
			Eventually(func() ([]string, error) { return checker.CheckStalled(ctx) }, "10s", "30ms").Should(Equal([]string{job.ID}))
			Expect(job.State(ctx)).To(Equal(bullmq.StateWaiting))
		}
		stalls()
		Expect(hashAt(job.Key())).To(And(HaveKeyWithValue("stc", "1"), Not(HaveKey("defa"))))
		die()
		stalls()
		Expect(hashAt(job.Key())).To(And(HaveKeyWithValue("stc", "2"), HaveKeyWithValue("defa", "job stalled more than allowable limit")))

		var ran atomic.Bool
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) { ran.Store(true); return nil, nil }, nil)
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateFailed))
		Expect(ran.Load()).To(BeFalse(), "the handler must not be called")
		Expect(hashAt(job.Key())).To(And(HaveKeyWithValue("failedReason", "job stalled more than allowable limit"), Not(HaveKey("defa"))))
	})

	It("is not made with SkipStalledCheck", func() {
		job := abandon(nil)
		runWorker(name, doNothing, &bullmq.WorkerOptions{StalledInterval: 20 * time.Millisecond, SkipStalledCheck: true})
		Consistently(stateOf(queue, job.ID), "200ms").Should(Equal(bullmq.StateActive))
	})

	It("is made once in each interval", func() {
		const interval = 500 * time.Millisecond
		runWorker(name, doNothing, &bullmq.WorkerOptions{StalledInterval: interval})
		var last string
		var checks []int64 // ms
		Eventually(func() int {
			if at := stringAt(keyOf(name, "stalled-check")); at != "" && at != last {
				ms, err := strconv.ParseInt(at, 10, 64)
				Expect(err).NotTo(HaveOccurred())
				last, checks = at, append(checks, ms)
			}
			return len(checks)
		}, "20s", "2ms").Should(Equal(7))
		gaps := make([]int64, len(checks)-1)
		for i := range gaps {
			gaps[i] = checks[i+1] - checks[i]
		}
		slices.Sort(gaps)
		Expect(gaps[len(gaps)/2]).To(BeNumerically("<", 3*interval.Milliseconds()/2), "most of them: a busy machine is late now and then")
	})

	It("is made even by a worker that stops immediately", func() {
		over, end := context.WithCancel(ctx)
		end()
		for range 20 {
			steadily(func(g Gomega) { // the worker waits for the check for a second
				brief := newQueueName()
				g.Expect(newWorker(brief, doNothing, nil).Run(over)).To(Succeed())
				g.Expect(stringAt(keyOf(brief, "stalled-check"))).NotTo(BeEmpty())
			})
		}
	})

	It("is made once in each interval across all workers", func() {
		for range 5 {
			runWorker(name, doNothing, &bullmq.WorkerOptions{StalledInterval: time.Minute})
		}
		Eventually(func() string { return stringAt(keyOf(name, "stalled-check")) }).ShouldNot(BeEmpty())
		first := stringAt(keyOf(name, "stalled-check"))
		Consistently(func() string { return stringAt(keyOf(name, "stalled-check")) }, "200ms").Should(Equal(first))
		Expect(redisDo("PTTL", keyOf(name, "stalled-check")).AsInt64()).To(BeNumerically(">", 50000))
	})

	It("leaves a job alone while its worker renews the lock, however often it is made", func() {
		_, err := queue.Add(ctx, "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		const lasts = 3 * time.Second
		options := &bullmq.WorkerOptions{LockDuration: lasts, LockRenewTime: lasts / 10, StalledInterval: 10 * time.Millisecond}
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) {
			time.Sleep(lasts + time.Second)
			return nil, nil
		}, options)
		runWorker(name, doNothing, options)
		Eventually(stateOf(queue, "1"), "15s").Should(Equal(bullmq.StateCompleted))
		Expect(eventsOf(name)).NotTo(ContainElement(HavePrefix("stalled")))
	})

	DescribeTable("finds no stalled jobs under load, and each job runs once, if ended jobs", func(keep bullmq.Retention, kept int) {
		const jobs = 1000
		var runs tally
		handler := func(ctx context.Context, job *bullmq.Job) (any, error) {
			time.Sleep(2 * time.Millisecond) // so that every check finds running jobs
			return runs.handle(ctx, job)
		}
		for range 4 {
			runWorker(name, handler, &bullmq.WorkerOptions{Concurrency: 2, StalledInterval: 20 * time.Millisecond, KeepCompleted: keep})
		}
		_, err := queue.AddBulk(ctx, make([]bullmq.BulkJob, jobs))
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() (int, error) { return queue.Count(ctx) }, "40s").Should(BeZero())
		Eventually(countOf(queue, bullmq.StateActive)).Should(BeZero())
		time.Sleep(200 * time.Millisecond) // for a few more checks
		runs.once(jobs)
		Expect(eventsOf(name)).NotTo(ContainElement(HavePrefix("stalled")))
		Expect(queue.Counts(ctx, bullmq.StateCompleted, bullmq.StateFailed, bullmq.StateWaiting, bullmq.StateActive)).To(Equal(map[bullmq.State]int{
			bullmq.StateCompleted: kept, bullmq.StateFailed: 0, bullmq.StateWaiting: 0, bullmq.StateActive: 0,
		}))
	},
		Entry("are removed", bullmq.KeepNone(), 0),
		Entry("are kept", bullmq.KeepAll(), 1000),
	)
})
