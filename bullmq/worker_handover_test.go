package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A job that its handler hands over", func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, nil)
	})
	add := func(job string, o *bullmq.JobOptions) *bullmq.Job {
		GinkgoHelper()
		added, err := queue.Add(ctx, job, nil, o)
		Expect(err).NotTo(HaveOccurred())
		return added
	}
	// handing returns a handler that hands over the jobs named paint, and sends them to a channel.
	handing := func() (bullmq.Handler, <-chan *bullmq.Job) {
		tokens := make(chan *bullmq.Job, 10)
		return func(_ context.Context, job *bullmq.Job) (any, error) {
			if job.Name != "paint" {
				return nil, nil
			}
			tokens <- job
			return nil, fmt.Errorf("sent: %w", bullmq.ErrHandedOver)
		}, tokens
	}
	// reference is the job as another program knows it.
	reference := func(job *bullmq.Job) *bullmq.Job { return queue.JobRef(job.ID).WithToken(job.Token()) }
	// handed waits until the job has run, and its worker has run another one after it.
	handed := func(from <-chan *bullmq.Job) *bullmq.Job {
		GinkgoHelper()
		var job *bullmq.Job
		Eventually(from, "20s").Should(Receive(&job))
		Eventually(stateOf(queue, add("next", nil).ID), "20s").Should(Equal(bullmq.StateCompleted))
		return job
	}

	DescribeTable("stays active until another program finishes it, while other jobs run:", func(start func(handler bullmq.Handler)) {
		handler, from := handing()
		start(handler)
		added := add("paint", &bullmq.JobOptions{Attempts: 2})
		job := handed(from)
		Expect(job.ID).To(Equal(added.ID))
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateActive))
		Expect(hashAt(job.Key())).To(And(HaveKeyWithValue("ats", "1"), Not(HaveKey("atm")), Not(HaveKey("failedReason"))))
		other := newFetcher(name, nil)
		Expect(reference(job).ExtendLock(ctx, time.Minute)).To(BeTrue())
		Expect(other.Complete(ctx, reference(job), "red")).To(Succeed())
		Expect(queue.WaitForJob(ctx, job.ID)).To(MatchJSON(`"red"`))
		Expect(hashAt(job.Key())).To(HaveKeyWithValue("atm", "1"))
		Expect(other.Complete(ctx, reference(job), "blue")).To(Or(MatchError(bullmq.ErrLockNotFound), MatchError(bullmq.ErrNotInState)))
	},
		Entry("a Worker", func(handler bullmq.Handler) { runWorker(name, handler, &bullmq.WorkerOptions{Concurrency: 1}) }),
		Entry("a MultiWorker", func(handler bullmq.Handler) {
			runMultiWorker(handler, bullmq.MultiWorkerOptions{Queues: served(name, newQueueName())})
		}),
		Entry("a Mux with middleware", func(handler bullmq.Handler) {
			mux := bullmq.NewMux()
			mux.Use(func(next bullmq.Handler) bullmq.Handler {
				return func(ctx context.Context, job *bullmq.Job) (any, error) {
					value, err := next(ctx, job)
					if err != nil {
						err = fmt.Errorf("in a middleware: %w", err)
					}
					return value, err
				}
			})
			mux.HandleFunc("paint", handler)
			mux.HandleFunc("next", handler)
			runWorker(name, mux.ServeJob, nil)
		}),
	)

	It("stays active on the shard of a sharded queue", func() {
		sharded := newSharded(name, 2, bullmq.ShardedQueueOptions{})
		handler, from := handing()
		runSharded(sharded, handler, &bullmq.WorkerOptions{Concurrency: 2})
		_, err := sharded.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		var job *bullmq.Job
		Eventually(from, "20s").Should(Receive(&job))
		other := newFetcher(job.QueueName(), nil)
		Expect(other.JobRef(job.ID).WithToken(job.Token()).ExtendLock(ctx, time.Minute)).To(BeTrue())
		Expect(other.Complete(ctx, other.JobRef(job.ID).WithToken(job.Token()), nil)).To(Succeed())
	})

	It("emits no event of its end, calls no Classify, and its lock is renewed no more", func() {
		handler, from := handing()
		var mu sync.Mutex
		var ended, renewed []string
		note := func(to *[]string, ids ...string) {
			mu.Lock()
			defer mu.Unlock()
			*to = append(*to, ids...)
		}
		seen := func(of *[]string) func() []string {
			return func() []string { mu.Lock(); defer mu.Unlock(); return append([]string(nil), *of...) }
		}
		long, release := add("long", nil), make(chan struct{})
		runWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
			if job.Name == "long" {
				<-release
			}
			return handler(ctx, job)
		}, &bullmq.WorkerOptions{
			Concurrency: 2, LockDuration: 20 * time.Second, LockRenewTime: 40 * time.Millisecond,
			Classify: func(error, *bullmq.Job) bullmq.Verdict { note(&ended, "classified"); return bullmq.Permanent() },
			Events: bullmq.WorkerEvents{
				Completed: func(job *bullmq.Job, _ any) { note(&ended, job.ID) }, Failed: func(job *bullmq.Job, _ error) { note(&ended, job.ID) },
				Error: func(err error) { note(&ended, err.Error()) }, LocksRenewed: func(ids []string) { note(&renewed, ids...) },
			},
		})
		add("paint", nil)
		job := handed(from)
		mu.Lock()
		renewed = nil
		mu.Unlock()
		times := func() int { return len(seen(&renewed)()) }
		Eventually(times, "20s").Should(BeNumerically(">=", 4))
		Expect(seen(&renewed)()).To(HaveEach(long.ID))
		close(release)
		Eventually(stateOf(queue, long.ID), "20s").Should(Equal(bullmq.StateCompleted))
		Eventually(seen(&ended), "20s").Should(ContainElement(long.ID))
		Expect(seen(&ended)()).To(And(HaveLen(2), Not(ContainElement(job.ID))))
	})

	It("runs again as a stalled job if its lock expires, and its earlier token is void", func() {
		handler, from := handing()
		runWorker(name, handler, &bullmq.WorkerOptions{LockDuration: 3 * time.Second, StalledInterval: 100 * time.Millisecond})
		added := add("paint", nil)
		var first, second *bullmq.Job
		Eventually(from, "20s").Should(Receive(&first))
		Expect(redisDo("DEL", added.Key()+":lock").Error()).To(Succeed())
		Eventually(from, "20s").Should(Receive(&second))
		Expect(second.StalledCounter).To(Equal(1))
		Expect(reference(first).ExtendLock(ctx, time.Minute)).To(BeFalse())
		other := newFetcher(name, nil)
		Expect(other.Complete(ctx, reference(first), nil)).To(MatchError(bullmq.ErrLockMismatch))
		Expect(other.Fail(ctx, reference(second), errors.New("no paint"))).To(Succeed())
		Expect(stateOf(queue, added.ID)()).To(Equal(bullmq.StateFailed))
	})

	It("is not waited for when the worker stops, and stays active if it was handed over meanwhile", func() {
		started := make(chan struct{})
		_, stop, ended := startWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
			if job.Name == "late" {
				close(started)
				<-ctx.Done()
			}
			return nil, bullmq.ErrHandedOver
		}, &bullmq.WorkerOptions{Concurrency: 2, ShutdownTimeout: 2 * time.Second})
		early := add("paint", nil)
		late := add("late", nil)
		Eventually(started, "20s").Should(BeClosed())
		stop()
		Eventually(ended, "20s").Should(Receive(BeNil()))
		for _, job := range []*bullmq.Job{early, late} {
			Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateActive))
			Expect(redisDo("EXISTS", job.Key()+":lock").AsInt64()).To(BeEquivalentTo(1))
		}
	})

	It("is reported as cancelled to the program that extends its lock", func() {
		handler, from := handing()
		runWorker(name, handler, nil)
		add("paint", nil)
		job := handed(from)
		Expect(queue.Cancel(ctx, job.ID, "sold")).To(Equal(bullmq.CancelRunning))
		_, err := reference(job).ExtendLock(ctx, time.Minute)
		Expect(err).To(MatchError(bullmq.ErrCancelled))
		Expect(newFetcher(name, nil).Fail(ctx, reference(job), err)).To(Succeed())
		Expect(hashAt(job.Key())).To(HaveKeyWithValue("failedReason", "cancelled: sold"))
	})

	It("stays active if it was cancelled while the handler ran", func() {
		running := make(chan *bullmq.Job, 1)
		runWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
			running <- job
			<-ctx.Done()
			return nil, bullmq.ErrHandedOver
		}, &bullmq.WorkerOptions{LockDuration: 20 * time.Second, LockRenewTime: 100 * time.Millisecond})
		add("paint", nil)
		var job *bullmq.Job
		Eventually(running, "20s").Should(Receive(&job))
		Expect(queue.Cancel(ctx, job.ID, "sold")).To(Equal(bullmq.CancelRunning))
		Eventually(func() error { _, err := reference(job).ExtendLock(ctx, time.Minute); return err }, "20s").Should(MatchError(bullmq.ErrCancelled))
		Consistently(stateOf(queue, job.ID), "300ms").Should(Equal(bullmq.StateActive))
	})

	It("is counted by telemetry", func() {
		seen := &counters{}
		handler, from := handing()
		runWorker(name, handler, &bullmq.WorkerOptions{Telemetry: seen})
		add("paint", nil)
		handed(from)
		Eventually(seen.all, "20s").Should(Equal(map[string]float64{"bullmq.jobs.handed_over active": 1, "bullmq.jobs.completed completed": 1}))
	})

	It("may also be one of a Fetcher, which then no longer renews its lock", func() {
		fetcher := newFetcher(name, &bullmq.FetcherOptions{RenewLocks: true, LockDuration: 20 * time.Second, LockRenewTime: 40 * time.Millisecond})
		add("paint", nil)
		job := takeJob(fetcher)
		Expect(fetcher.Fail(ctx, job, bullmq.ErrHandedOver)).To(Succeed())
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateActive))
		Expect(job.AttemptsMade).To(BeZero())
		Expect(reference(job).ExtendLock(ctx, time.Minute)).To(BeTrue())
		longer := func() (int64, error) { return redisDo("PTTL", job.Key()+":lock").AsInt64() }
		Consistently(longer, "200ms").Should(BeNumerically(">", 50_000))
		_, err := fetcher.FailAndFetch(ctx, job, bullmq.ErrHandedOver)
		Expect(err).To(MatchError(bullmq.ErrNoJob))
	})

	It("is logged at the level of debugging", func() {
		lines := gbytes.NewBuffer()
		handler, from := handing()
		runWorker(name, handler, &bullmq.WorkerOptions{Logger: bullmq.Slog(slog.New(slog.NewTextHandler(lines, &slog.HandlerOptions{Level: slog.LevelDebug})))})
		add("paint", nil)
		job := handed(from)
		Eventually(func() string { return string(lines.Contents()) }, "20s").Should(ContainSubstring(
			`level=DEBUG msg="the handler has handed a job over; its lock is not renewed any more" queue=` + name + " job=" + job.ID))
		Expect(string(lines.Contents())).NotTo(ContainSubstring("level=ERROR"))
	})
})
