package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

func state(queue *bullmq.Queue, id string) func() bullmq.State {
	return func() bullmq.State {
		s, err := queue.JobState(context.Background(), id)
		if err != nil {
			return bullmq.State(err.Error())
		}
		return s
	}
}

var _ = Describe("A worker that runs", func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, nil)
	})
	add := func(job string, options *bullmq.JobOptions) *bullmq.Job {
		GinkgoHelper()
		added, err := queue.Add(ctx, job, nil, options)
		Expect(err).NotTo(HaveOccurred())
		return added
	}

	It("never runs more jobs at once than its concurrency, and takes what waits at once", func() {
		for range 20 {
			add("a", nil)
		}
		var now, most atomic.Int64
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) {
			n := now.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(10 * time.Millisecond)
			now.Add(-1)
			return nil, nil
		}, &bullmq.WorkerOptions{Concurrency: 5})
		Eventually(func() (int64, error) { c, err := queue.Counts(ctx, bullmq.Completed); return c[bullmq.Completed], err }).Should(BeEquivalentTo(20))
		Expect(most.Load()).To(BeEquivalentTo(5))
	})

	It("runs first what was added to go first, then by turn, then by priority", func() {
		add("a", nil)
		add("b", nil)
		add("c", &bullmq.JobOptions{LIFO: true})
		add("p", &bullmq.JobOptions{Priority: 1})
		var mu sync.Mutex
		var order []string
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, job.Name)
			return nil, nil
		}, nil)
		Eventually(func() []string { mu.Lock(); defer mu.Unlock(); return slices.Clone(order) }).Should(Equal([]string{"c", "a", "b", "p"}))
	})

	It("starts delayed jobs within 5 ms of their time, nearly always", func() {
		late := make(chan time.Duration, 30)
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			late <- time.Since(job.Timestamp.Add(job.Opts.Delay))
			return nil, nil
		}, nil)
		for i := range 30 {
			add("later", &bullmq.JobOptions{Delay: time.Duration(230+i*140/30) * time.Millisecond})
		}
		soon := 0
		for range 30 {
			var d time.Duration
			Eventually(late).Should(Receive(&d))
			Expect(d).To(BeNumerically(">=", 0), "a delayed job must not start early")
			if d < 50*time.Millisecond { // Redis's own tick would make half of them later than that
				soon++
			}
		}
		Expect(soon).To(BeNumerically(">=", 25))
	})

	It("wakes for a job added behind a far-off delayed one", func() {
		started := make(chan string, 2)
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) { started <- job.Name; return nil, nil }, nil)
		add("far", &bullmq.JobOptions{Delay: time.Minute})
		time.Sleep(100 * time.Millisecond) // let it come to rest
		add("near", nil)
		Eventually(started, 200*time.Millisecond).Should(Receive(Equal("near")))
	})

	It("rests while nothing is to be done", func() {
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, &bullmq.WorkerOptions{Concurrency: 10})
		add("far", &bullmq.JobOptions{Delay: time.Minute})
		time.Sleep(200 * time.Millisecond)
		before := commandsProcessed()
		time.Sleep(time.Second)
		Expect(commandsProcessed()-before).To(BeNumerically("<", 10), "an idle worker must not poll")
	})

	It("goes on when its blocked call is ended by an error, and when all connections are killed", func() {
		started := make(chan string, 2)
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) { started <- job.Name; return nil, nil }, nil)
		time.Sleep(100 * time.Millisecond)
		workers, err := queue.Workers(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(workers).To(HaveLen(1))
		Expect(do("CLIENT", "UNBLOCK", workers[0].Fields["id"], "ERROR").Error()).To(Succeed())
		add("one", nil)
		Eventually(started, 2*time.Second).Should(Receive(Equal("one")))

		Expect(do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Error()).To(Succeed())
		Eventually(func() error { _, err := queue.Add(ctx, "two", nil, nil); return err }).Should(Succeed())
		Eventually(started, 2*time.Second).Should(Receive(Equal("two")))
	})

	It("fails a job whose data is not JSON, and one whose hash is gone, and goes on", func() {
		bad, ghost, good := add("bad", nil), add("ghost", nil), add("good", nil)
		Expect(do("HSET", key(name, bad.ID), "data", "{nonsense").Error()).To(Succeed())
		Expect(do("DEL", key(name, ghost.ID)).Error()).To(Succeed())
		var ran atomic.Int64
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) { ran.Add(1); return nil, nil }, nil)
		Eventually(state(queue, good.ID)).Should(Equal(bullmq.Completed))
		Expect(ran.Load()).To(BeEquivalentTo(1))
		for id, says := range map[string]string{bad.ID: "not JSON", ghost.ID: "is gone"} {
			Expect(state(queue, id)()).To(Equal(bullmq.Failed))
			job, err := queue.Job(ctx, id)
			Expect(err).NotTo(HaveOccurred())
			Expect(job.FailedReason).To(ContainSubstring(says))
		}
		Expect(list(key(name, "active"))).To(BeEmpty())
	})

	It("survives options and parents that nobody can read", func() {
		job := add("odd", nil)
		Expect(do("HSET", key(name, job.ID), "opts", `[true,{"x":`, "parent", `{"id":5}`, "parentKey", "bull:none:1", "stacktrace", "no list", "progress", "{").Error()).To(Succeed())
		other := add("even", &bullmq.JobOptions{Attempts: 2})
		Expect(do("HSET", key(name, other.ID), "opts", `{"attempts":2,"backoff":true,"removeOnComplete":[],"de":7,"parent":[]}`).Error()).To(Succeed())
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, nil)
		Eventually(state(queue, job.ID)).Should(Equal(bullmq.Completed))
		Eventually(state(queue, other.ID)).Should(Equal(bullmq.Completed))
	})

	DescribeTable("fails a job once, and lives on, when its handler", func(handler func() (any, error), says string) {
		job := add("breaks", nil)
		var calls atomic.Int64
		var failures atomic.Int64
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			if job.Name == "breaks" {
				calls.Add(1)
				return handler()
			}
			return "fine", nil
		}, &bullmq.WorkerOptions{Events: bullmq.WorkerEvents{Failed: func(*bullmq.Job, error) { failures.Add(1) }}})
		Eventually(state(queue, job.ID)).Should(Equal(bullmq.Failed))
		after := add("after", nil)
		Eventually(state(queue, after.ID)).Should(Equal(bullmq.Completed))
		read, err := queue.Job(ctx, job.ID)
		Expect(err).NotTo(HaveOccurred())
		Expect(read.FailedReason).To(ContainSubstring(says))
		Expect(read.StackTrace).To(HaveLen(1))
		Expect(read.AttemptsMade).To(Equal(1))
		Expect(calls.Load()).To(BeEquivalentTo(1))
		Expect(failures.Load()).To(BeEquivalentTo(1))
	},
		Entry("panics", func() (any, error) { panic("no such colour") }, "panic: no such colour"),
		Entry("panics with an error", func() (any, error) { panic(errors.New("boom")) }, "panic: boom"),
		Entry("ends its goroutine", func() (any, error) { runtime.Goexit(); return nil, nil }, "runtime.Goexit"),
		Entry("returns what JSON can't hold", func() (any, error) { return make(chan int), nil }, "can't be written as JSON"),
	)

	It("lives on when a function given to it panics", func() {
		job := add("a", &bullmq.JobOptions{Attempts: 3, Backoff: bullmq.Custom("mine")})
		other := add("b", nil)
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			if job.Name == "a" {
				return nil, errors.New("boom")
			}
			return nil, nil
		}, &bullmq.WorkerOptions{
			BackoffStrategy: func(int, string, error, *bullmq.Job) time.Duration { panic("in the strategy") },
			Events: bullmq.WorkerEvents{
				Active: func(*bullmq.Job) { panic("in Active") }, Completed: func(*bullmq.Job, any) { panic("in Completed") },
				Failed: func(*bullmq.Job, error) { panic("in Failed") }, Drained: func() { panic("in Drained") },
			},
		})
		Eventually(state(queue, other.ID)).Should(Equal(bullmq.Completed))
		Eventually(state(queue, job.ID)).Should(Equal(bullmq.Failed))
	})

	Describe("with errors that say more", func() {
		attempts := func(handlerErr func(job *bullmq.Job) error, options *bullmq.WorkerOptions, jobOptions *bullmq.JobOptions) (*bullmq.Job, *atomic.Int64) {
			GinkgoHelper()
			job := add("a", jobOptions)
			var calls atomic.Int64
			runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
				calls.Add(1)
				return nil, handlerErr(job)
			}, options)
			return job, &calls
		}

		It("tries again until no attempt is left", func() {
			job, calls := attempts(func(*bullmq.Job) error { return errors.New("boom") }, nil, &bullmq.JobOptions{Attempts: 3})
			Eventually(state(queue, job.ID)).Should(Equal(bullmq.Failed))
			Expect(calls.Load()).To(BeEquivalentTo(3))
		})

		It("gives up at once on what is unrecoverable, however it is wrapped", func() {
			job, calls := attempts(func(*bullmq.Job) error {
				return fmt.Errorf("while painting: %w", bullmq.Unrecoverable(errors.New("no such colour")))
			}, nil, &bullmq.JobOptions{Attempts: 3})
			Eventually(state(queue, job.ID)).Should(Equal(bullmq.Failed))
			Expect(calls.Load()).To(BeEquivalentTo(1))
			read, err := queue.Job(ctx, job.ID)
			Expect(err).NotTo(HaveOccurred())
			Expect(read.FailedReason).To(Equal("while painting: no such colour"))
		})

		It("adds attempts that an old client has counted to its own", func() {
			job := add("a", &bullmq.JobOptions{Attempts: 4})
			Expect(do("HSET", key(name, job.ID), "attemptsMade", "2").Error()).To(Succeed())
			var calls atomic.Int64
			runWorker(name, func(context.Context, *bullmq.Job) (any, error) { calls.Add(1); return nil, errors.New("boom") }, nil)
			Eventually(state(queue, job.ID)).Should(Equal(bullmq.Failed))
			Expect(calls.Load()).To(BeEquivalentTo(2))
		})

		It("asks Classify what an error is worth", func() {
			job, calls := attempts(func(*bullmq.Job) error { return context.DeadlineExceeded }, &bullmq.WorkerOptions{
				Classify: func(err error, job *bullmq.Job) bullmq.Verdict {
					if job.AttemptsMade == 0 {
						return bullmq.RetryAfter(20 * time.Millisecond)
					}
					return bullmq.Permanent()
				},
			}, &bullmq.JobOptions{Attempts: 5})
			Eventually(state(queue, job.ID)).Should(Equal(bullmq.Failed))
			Expect(calls.Load()).To(BeEquivalentTo(2))
		})

		It("sends a job back, without an attempt used, when asked for a rate limit", func() {
			started := make(chan time.Time, 3)
			job := add("a", nil)
			runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
				started <- time.Now()
				if job.AttemptsStarted < 2 {
					return nil, bullmq.RateLimit(300 * time.Millisecond)
				}
				return nil, nil
			}, &bullmq.WorkerOptions{Limiter: &bullmq.Limiter{Max: 10, Duration: time.Second}})
			Eventually(state(queue, job.ID)).Should(Equal(bullmq.Completed))
			first, second := <-started, <-started
			Expect(second.Sub(first)).To(BeNumerically(">=", 290*time.Millisecond))
			read, err := queue.Job(ctx, job.ID)
			Expect(err).NotTo(HaveOccurred())
			Expect(read.AttemptsMade).To(Equal(1))
			Expect(read.AttemptsStarted).To(Equal(2))
		})

		It("leaves a job alone that its handler has moved to delayed itself", func() {
			var faults atomic.Int64
			job := add("a", nil)
			runWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
				if job.AttemptsStarted < 3 {
					if err := job.MoveToDelayed(ctx, time.Now().Add(20*time.Millisecond), job.Token()); err != nil {
						return nil, err
					}
					return nil, bullmq.ErrMovedToDelayed
				}
				return "done", nil
			}, &bullmq.WorkerOptions{Events: bullmq.WorkerEvents{Error: func(error) { faults.Add(1) }}})
			Eventually(state(queue, job.ID)).Should(Equal(bullmq.Completed))
			read, err := queue.Job(ctx, job.ID)
			Expect(err).NotTo(HaveOccurred())
			Expect(read.AttemptsMade).To(Equal(1))
			Expect(read.AttemptsStarted).To(Equal(3))
			Expect(faults.Load()).To(BeZero())
		})

		It("reports a job that its handler has moved without saying so, and leaves it where it is", func() {
			faults := make(chan error, 5)
			job := add("a", nil)
			runWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
				return nil, job.MoveToDelayed(ctx, time.Now().Add(time.Minute), job.Token())
			}, &bullmq.WorkerOptions{Events: bullmq.WorkerEvents{Error: func(err error) { faults <- err }}})
			var fault error
			Eventually(faults).Should(Receive(&fault))
			Expect(errors.Is(fault, bullmq.ErrLockNotFound)).To(BeTrue(), fault.Error())
			Expect(state(queue, job.ID)()).To(Equal(bullmq.Delayed))
			Expect(hash(key(name, job.ID))).NotTo(HaveKey("atm"))
		})
	})

	It("keeps to its limiter", func() {
		for range 5 {
			add("a", nil)
		}
		var mu sync.Mutex
		var starts []time.Time
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			starts = append(starts, time.Now())
			return nil, nil
		}, &bullmq.WorkerOptions{Limiter: &bullmq.Limiter{Max: 2, Duration: 400 * time.Millisecond}})
		Eventually(func() int { mu.Lock(); defer mu.Unlock(); return len(starts) }).Should(Equal(5))
		Expect(starts[2].Sub(starts[0])).To(BeNumerically(">=", 350*time.Millisecond))
		Expect(starts[4].Sub(starts[2])).To(BeNumerically(">=", 350*time.Millisecond))
		Expect(starts[4].Sub(starts[0])).To(BeNumerically("<", 2*time.Second))
	})

	It("runs each job once, with several workers, quick checks for stalled jobs and jobs that remove themselves", func() {
		const jobs = 3000
		bulk := make([]bullmq.BulkJob, jobs)
		for i := range bulk {
			bulk[i] = bullmq.BulkJob{Name: "a", Options: &bullmq.JobOptions{RemoveOnComplete: bullmq.RemoveAll()}}
		}
		var mu sync.Mutex
		runs := map[string]int{}
		for range 4 {
			runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
				mu.Lock()
				defer mu.Unlock()
				runs[job.ID]++
				return nil, nil
			}, &bullmq.WorkerOptions{Concurrency: 5, StalledInterval: 50 * time.Millisecond})
		}
		_, err := queue.AddBulk(ctx, bulk)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() int { mu.Lock(); defer mu.Unlock(); return len(runs) }, 15*time.Second).Should(Equal(jobs))
		Consistently(func() int {
			mu.Lock()
			defer mu.Unlock()
			sum := 0
			for _, n := range runs {
				sum += n
			}
			return sum
		}, 300*time.Millisecond).Should(Equal(jobs))
	})
})

func commandsProcessed() int64 {
	GinkgoHelper()
	info, err := do("INFO", "stats").ToString()
	Expect(err).NotTo(HaveOccurred())
	var n int64
	for line := range strings.Lines(info) {
		if _, err := fmt.Sscanf(line, "total_commands_processed:%d", &n); err == nil {
			return n
		}
	}
	Fail("INFO has no total_commands_processed")
	return 0
}
