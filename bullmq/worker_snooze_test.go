package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A job postponed by its handler", func() {
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
	add := func(options *bullmq.JobOptions) *bullmq.Job {
		GinkgoHelper()
		job, err := queue.Add(ctx, "a", nil, options)
		Expect(err).NotTo(HaveOccurred())
		return job
	}

	It("runs again after its delay with all its attempts and does not count as failed", func() {
		var failures, faults atomic.Int64
		var starts []int64 // in milliseconds, the precision of the wire
		job := add(&bullmq.JobOptions{Attempts: 2})
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			starts = append(starts, time.Now().UnixMilli())
			switch job.AttemptsStarted {
			case 1, 2:
				return nil, fmt.Errorf("the shop is closed: %w", bullmq.Snooze(60*time.Millisecond))
			case 3:
				return nil, errors.New("boom")
			}
			return job.AttemptsMade, nil
		}, &bullmq.WorkerOptions{Events: bullmq.WorkerEvents{
			Failed: func(*bullmq.Job, error) { failures.Add(1) }, Error: func(error) { faults.Add(1) },
		}})
		Expect(job.Wait(ctx, queue)).To(MatchJSON("1"))
		Expect(starts).To(HaveLen(4))
		Expect(starts[1] - starts[0]).To(BeNumerically(">=", 60))
		Expect(starts[2] - starts[1]).To(BeNumerically(">=", 60))
		Expect(hashAt(keyOf(name, job.ID))).To(And(HaveKeyWithValue("atm", "2"), HaveKeyWithValue("ats", "4"), HaveKeyWithValue("failedReason", "boom")))
		Expect([]int64{failures.Load(), faults.Load()}).To(Equal([]int64{1, 0}))
	})

	It("is moved to delayed and its lock is released while other jobs run", func() {
		job := add(nil)
		next := add(nil)
		done := make(chan struct{})
		begun := time.Now()
		runWorker(name, func(_ context.Context, j *bullmq.Job) (any, error) {
			if j.ID == job.ID {
				return nil, bullmq.Snooze(time.Hour + 500*time.Microsecond)
			}
			close(done)
			return nil, nil
		}, nil)
		Eventually(done).Should(BeClosed())
		Eventually(stateOf(queue, next.ID)).Should(Equal(bullmq.StateCompleted))
		Expect(hashAt(keyOf(name, job.ID))).To(And(HaveKeyWithValue("delay", "3600000"), Not(HaveKey("atm")), Not(HaveKey("failedReason"))))
		due := time.UnixMilli(int64(scoresAt(keyOf(name, "delayed"))[job.ID]) / 4096)
		Expect(due).To(BeTemporally("~", begun.Add(time.Hour), 5*time.Second))
		Expect(keysOf(name)).NotTo(ContainElement(HaveSuffix(":lock")))
		Expect(eventsOf(name)).To(ContainElement("delayed jobId=" + job.ID + " delay=" + strconv.FormatInt(due.UnixMilli(), 10)))
	})

	It("until a time is due at that time", func() {
		job, at := add(nil), time.Now().Add(time.Hour)
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) {
			return nil, fmt.Errorf("the shop is closed: %w", bullmq.SnoozeUntil(at))
		}, nil)
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateDelayed))
		Expect(int64(scoresAt(keyOf(name, "delayed"))[job.ID]) / 4096).To(Equal(at.UnixMilli()))
		Expect(hashAt(keyOf(name, job.ID))).NotTo(HaveKey("atm"))
		Expect(bullmq.SnoozeUntil(time.UnixMilli(fixedNow).UTC())).To(MatchError("bullmq: snoozed until 2023-11-14T22:13:20Z"))
	})

	DescribeTable("without a delay goes to the front of its list", func(err error, priority int) {
		job, other := add(&bullmq.JobOptions{Priority: priority}), add(&bullmq.JobOptions{Priority: priority})
		order := make(chan string, 3)
		runWorker(name, func(_ context.Context, j *bullmq.Job) (any, error) {
			order <- j.ID
			if j.ID == job.ID && j.AttemptsStarted == 1 {
				return nil, err
			}
			return nil, nil
		}, nil)
		for _, id := range []string{job.ID, job.ID, other.ID} {
			Eventually(order).Should(Receive(Equal(id)))
		}
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateCompleted))
		Expect(hashAt(keyOf(name, job.ID))).To(And(HaveKeyWithValue("atm", "1"), HaveKeyWithValue("ats", "2")))
	},
		Entry("with ErrSnoozed", bullmq.ErrSnoozed, 0),
		Entry("with a delay of zero", bullmq.Snooze(0), 0),
		Entry("with a negative delay", bullmq.Snooze(-time.Second), 0),
		Entry("with a delay below one millisecond", bullmq.Snooze(time.Microsecond), 0),
		Entry("with a priority", bullmq.ErrSnoozed, 3),
		Entry("until a time that has passed", bullmq.SnoozeUntil(time.Now().Add(-time.Hour)), 0),
	)

	It("fails once it was started more often than MaxStartedAttempts", func() {
		job := add(nil)
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) { return nil, bullmq.ErrSnoozed }, &bullmq.WorkerOptions{MaxStartedAttempts: 3})
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateFailed))
		Expect(hashAt(keyOf(name, job.ID))).To(HaveKeyWithValue("ats", "4"))
	})

	It("is delayed even during shutdown", func() {
		steadily(func(g Gomega) { // a tenth of ShutdownTimeout is left to write the outcome
			setUp()
			job := add(nil)
			started := make(chan struct{})
			_, stop, ended := startWorker(name, func(ctx context.Context, _ *bullmq.Job) (any, error) {
				close(started)
				<-ctx.Done()
				return nil, bullmq.Snooze(time.Hour)
			}, &bullmq.WorkerOptions{ShutdownTimeout: time.Second})
			Eventually(started).Should(BeClosed())
			stop()
			g.Eventually(ended).Should(Receive(BeNil()))
			g.Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateDelayed))
		})
	})

	It("is delayed after a manual fetch, too", func() {
		job := add(nil)
		fetcher := newFetcher(name, nil)
		taken, err := fetcher.TryFetch(ctx)
		Expect(err).NotTo(HaveOccurred())
		err = fetcher.Fail(ctx, taken, bullmq.Snooze(time.Hour))
		Expect(err).NotTo(HaveOccurred())
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateDelayed))
		Expect(hashAt(keyOf(name, job.ID))).NotTo(HaveKey("atm"))
	})

	It("is delayed once even if the reply is lost", func() {
		proxy, via := proxiedRedis()
		job := add(nil)
		var runs atomic.Int64
		var faults atomic.Int64
		started, free := make(chan struct{}), make(chan struct{})
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) {
			if runs.Add(1) == 1 {
				close(started)
				<-free
			}
			return nil, bullmq.Snooze(time.Hour)
		}, &bullmq.WorkerOptions{Connection: via, SkipStalledCheck: true, Events: bullmq.WorkerEvents{Error: func(error) { faults.Add(1) }}})
		Eventually(started).Should(BeClosed())
		lost := proxy.LoseReply(" 3600000 ")
		close(free)
		Eventually(lost).Should(BeClosed())
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateDelayed))
		next := add(nil)
		Eventually(stateOf(queue, next.ID)).Should(Equal(bullmq.StateDelayed))
		Expect(runs.Load()).To(BeEquivalentTo(2))
		Expect(zsetAt(keyOf(name, "delayed"))).To(Equal([]string{job.ID, next.ID}))
		Expect(faults.Load()).To(BeEquivalentTo(1), "the lost answer, and no end that could not be written")
	})

	It("waits for the time given to Worker.RateLimit", func() {
		job := add(nil)
		starts := make(chan time.Time, 3)
		var worker *bullmq.Worker
		made := make(chan struct{})
		worker = runWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
			<-made
			starts <- time.Now()
			if job.AttemptsStarted == 1 {
				if err := worker.RateLimit(ctx, 300*time.Millisecond); err != nil {
					return nil, err
				}
				return nil, bullmq.ErrRateLimited
			}
			return nil, nil
		}, &bullmq.WorkerOptions{Limiter: &bullmq.Limiter{Max: 100, Duration: time.Second}})
		close(made)
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateCompleted))
		Expect((<-starts).Sub(<-starts)).To(BeNumerically("<=", -290*time.Millisecond))
		Expect(hashAt(keyOf(name, job.ID))).To(HaveKeyWithValue("atm", "1"))
	})
})
