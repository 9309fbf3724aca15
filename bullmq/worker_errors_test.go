package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// paintError panics when it is nil, as many errors with fields do.
type paintError struct{ colour string }

func (e *paintError) Error() string { return "no such colour: " + e.colour }

// isPanic panics when it is compared.
type isPanic struct{}

func (isPanic) Error() string { return "don't compare me" }
func (isPanic) Is(error) bool { panic("compared") }

// jsonPanic panics when it is encoded as JSON.
type jsonPanic struct{}

func (jsonPanic) MarshalJSON() ([]byte, error) { panic("in MarshalJSON") }

var _ = Describe("A worker whose handler has returned", func() {
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
	ending := func(job *bullmq.Job, in bullmq.State) map[string]string {
		GinkgoHelper()
		Eventually(stateOf(queue, job.ID)).Should(Equal(in))
		return hashAt(keyOf(name, job.ID))
	}

	DescribeTable("fails the job after a panic in a method of", func(value any, err error, reason string) {
		job := add(nil)
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			if job.ID == "1" {
				return value, err
			}
			return "fine", nil
		}, nil)
		read := ending(job, bullmq.StateFailed)
		Expect(read["failedReason"]).To(ContainSubstring(reason))
		Expect(read["stacktrace"]).To(ContainSubstring("worker_errors_test.go"))
		ending(add(nil), bullmq.StateCompleted)
	},
		Entry("an error that is a nil pointer", nil, (*paintError)(nil), "nil pointer"),
		Entry("an error that cannot be compared", nil, isPanic{}, "panic: compared"),
		Entry("a value with MarshalJSON", jsonPanic{}, nil, "panic: in MarshalJSON"),
	)

	It("fails the job and names the remedy if its backoff type is unknown", func() {
		job := add(&bullmq.JobOptions{Attempts: 3, Backoff: bullmq.CustomBackoff("tide")})
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) { return nil, errors.New("boom") }, nil)
		read := ending(job, bullmq.StateFailed)
		Expect(read["failedReason"]).To(And(HavePrefix("boom"), ContainSubstring(`"tide"`), ContainSubstring("BackoffStrategy")))
		Expect(read).To(HaveKeyWithValue("atm", "1"))
	})

	It("delays the job by the time that BackoffStrategy returns", func() {
		job := add(&bullmq.JobOptions{Attempts: 2, Backoff: bullmq.CustomBackoff("tide")})
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) { return nil, errors.New("ebb") }, &bullmq.WorkerOptions{
			BackoffStrategy: func(attemptsMade int, kind string, err error, _ *bullmq.Job) time.Duration {
				if attemptsMade != 1 || kind != "tide" || err.Error() != "ebb" {
					return 0
				}
				return time.Hour
			},
		})
		Expect(ending(job, bullmq.StateDelayed)).To(HaveKeyWithValue("delay", "3600000"))
	})

	DescribeTable("fails the job and records why if a function panics:", func(options bullmq.WorkerOptions, job bullmq.JobOptions) {
		job.Attempts = 3
		added := add(&job)
		var faults atomic.Int64
		options.Events.Error = func(error) { faults.Add(1) }
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) { return nil, errors.New("boom") }, &options)
		read := ending(added, bullmq.StateFailed)
		Expect(read["failedReason"]).To(And(HavePrefix("boom"), ContainSubstring("panicked")))
		Expect(read).To(HaveKeyWithValue("atm", "1"))
		ending(add(nil), bullmq.StateFailed)
	},
		Entry("Classify", bullmq.WorkerOptions{Classify: func(error, *bullmq.Job) bullmq.Verdict { panic("no idea") }}, bullmq.JobOptions{}),
		Entry("BackoffStrategy", bullmq.WorkerOptions{BackoffStrategy: func(int, string, error, *bullmq.Job) time.Duration { panic("no idea") }},
			bullmq.JobOptions{Backoff: bullmq.CustomBackoff("tide")}),
	)

	It("follows the verdict of Classify", func() {
		job := add(&bullmq.JobOptions{Attempts: 5})
		var calls atomic.Int64
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) { calls.Add(1); return nil, context.DeadlineExceeded }, &bullmq.WorkerOptions{
			Classify: func(err error, job *bullmq.Job) bullmq.Verdict {
				if job.AttemptsMade == 0 {
					return bullmq.RetryAfter(20 * time.Millisecond)
				}
				return bullmq.Permanent()
			},
		})
		ending(job, bullmq.StateFailed)
		Expect(calls.Load()).To(BeEquivalentTo(2))
	})

	It("writes the result even if event functions panic", func() {
		job, other := add(nil), add(nil)
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			if job.ID == "1" {
				return nil, errors.New("boom")
			}
			return nil, nil
		}, &bullmq.WorkerOptions{Events: bullmq.WorkerEvents{
			Active: func(*bullmq.Job) { panic("in Active") }, Completed: func(*bullmq.Job, any) { panic("in Completed") },
			Failed: func(*bullmq.Job, error) { panic("in Failed") }, Drained: func() { panic("in Drained") },
		}})
		ending(job, bullmq.StateFailed)
		ending(other, bullmq.StateCompleted)
	})

	It("uses no attempt for ErrMovedToDelayed, however often it is returned", func() {
		job := add(nil)
		var faults atomic.Int64
		runWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
			if job.AttemptsStarted < 3 {
				if err := job.MoveToDelayed(ctx, time.Now().Add(20*time.Millisecond)); err != nil {
					return nil, err
				}
				return nil, bullmq.ErrMovedToDelayed
			}
			return "done", nil
		}, &bullmq.WorkerOptions{Events: bullmq.WorkerEvents{Error: func(error) { faults.Add(1) }}})
		Expect(ending(job, bullmq.StateCompleted)).To(And(HaveKeyWithValue("atm", "1"), HaveKeyWithValue("ats", "3")))
		Expect(faults.Load()).To(BeZero())
	})

	It("reports an error if the handler moved the job without returning ErrMovedToDelayed", func() {
		faults := make(chan error, 5)
		job := add(nil)
		runWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
			return nil, job.MoveToDelayed(ctx, time.Now().Add(time.Minute))
		}, &bullmq.WorkerOptions{Events: bullmq.WorkerEvents{Error: func(err error) { faults <- err }}})
		Eventually(faults).Should(Receive(MatchError(bullmq.ErrLockNotFound)))
		Expect(ending(job, bullmq.StateDelayed)).NotTo(HaveKey("atm"))
	})

	It("uses no attempt for ErrMovedToWait", func() {
		job := add(nil)
		runWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
			if job.AttemptsStarted == 1 {
				if err := job.MoveToWait(ctx); err != nil {
					return nil, err
				}
				return nil, fmt.Errorf("later: %w", bullmq.ErrMovedToWait)
			}
			return nil, nil
		}, nil)
		Expect(ending(job, bullmq.StateCompleted)).To(And(HaveKeyWithValue("atm", "1"), HaveKeyWithValue("ats", "2")))
	})

	It("runs the job again after its children for ErrMovedToWaitingChildren", func() {
		children := newQueue(newQueueName(), nil)
		runWorker(children.Name(), func(context.Context, *bullmq.Job) (any, error) { return "red", nil }, nil)
		parent := add(nil)
		var faults atomic.Int64
		runWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
			if job.AttemptsStarted == 1 {
				if _, err := children.Add(ctx, "mix", nil, &bullmq.JobOptions{Parent: &bullmq.ParentRef{ID: job.ID, QueueKey: "bull:" + name}}); err != nil {
					return nil, err
				}
			}
			parked, err := job.MoveToWaitingChildren(ctx)
			if err != nil {
				return nil, err
			}
			if parked {
				return nil, bullmq.ErrMovedToWaitingChildren
			}
			return "painted", nil
		}, &bullmq.WorkerOptions{Events: bullmq.WorkerEvents{Error: func(error) { faults.Add(1) }}})
		read := ending(parent, bullmq.StateCompleted)
		Expect(read).To(HaveKeyWithValue("atm", "1"))
		Expect(faults.Load()).To(BeZero())
	})

	It("reports an error and leaves the job failed if another client failed it meanwhile", func() {
		job := add(&bullmq.JobOptions{Attempts: 1})
		started, finish := make(chan *bullmq.Job, 1), make(chan struct{})
		faults := make(chan error, 1)
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			started <- job
			<-finish
			return "done", nil
		}, &bullmq.WorkerOptions{Events: bullmq.WorkerEvents{Error: func(err error) { faults <- err }}})
		var running *bullmq.Job
		Eventually(started).Should(Receive(&running))
		Expect(newFetcher(name, nil).Fail(ctx, running.WithToken("0"), errors.New("stopped by hand"))).To(Succeed())
		close(finish)
		var fault error
		Eventually(faults).Should(Receive(&fault))
		var refused *bullmq.Error
		Expect(errors.As(fault, &refused)).To(BeTrue())
		Expect(refused.JobID).To(Equal(job.ID))
		Expect(fault).To(MatchError(bullmq.ErrNotInState))
		Expect(ending(job, bullmq.StateFailed)).To(HaveKeyWithValue("failedReason", "stopped by hand"))
		Expect(listAt(keyOf(name, "active"))).To(BeEmpty())
		Expect(setAt(keyOf(name, "stalled"))).To(BeEmpty())
	})
})

var _ = Describe("A job that cannot be run", func() {
	It("fails without stopping the worker if its data is not JSON or its hash is missing", func() {
		name, ctx := newQueueName(), specContext()
		queue := newQueue(name, nil)
		jobs, err := queue.AddBulk(ctx, make([]bullmq.BulkJob, 3))
		Expect(err).NotTo(HaveOccurred())
		bad, ghost, good := jobs[0], jobs[1], jobs[2]
		Expect(redisDo("HSET", bad.Key(), "data", "{nonsense").Error()).To(Succeed())
		Expect(redisDo("DEL", ghost.Key()).Error()).To(Succeed())
		var runs tally
		runWorker(name, runs.handle, nil)
		Eventually(stateOf(queue, good.ID)).Should(Equal(bullmq.StateCompleted))
		runs.once(1)
		for id, says := range map[string]string{bad.ID: "not JSON", ghost.ID: "is missing or incomplete"} {
			Expect(stateOf(queue, id)()).To(Equal(bullmq.StateFailed))
			Expect(hashAt(keyOf(name, id))).To(HaveKeyWithValue("failedReason", ContainSubstring(says)))
		}
		Expect(listAt(keyOf(name, "active"))).To(BeEmpty())
	})
})
