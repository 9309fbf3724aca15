package bullmq_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/types"
	"github.com/redis/rueidis"
	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
)

var _ = Describe("Worker shutdown", Label("slow"), func() {
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
	stalled := func() {
		GinkgoHelper()
		add(nil)
		dead := newFetcher(name, &bullmq.FetcherOptions{LockDuration: time.Millisecond})
		_, err := dead.TryFetch(ctx)
		Expect(err).NotTo(HaveOccurred())
	}

	// Each entry makes the worker call the function under test, which calls inside.
	DescribeTable("ends in time even if Close is called inside", func(arrange func(inside func()) (bullmq.Handler, *bullmq.WorkerOptions)) {
		inside, closed := make(chan struct{}), make(chan struct{})
		var worker *bullmq.Worker
		made := make(chan struct{})
		var once atomic.Bool
		handler, options := arrange(func() {
			if once.Swap(true) {
				return
			}
			<-made
			close(inside)
			_ = worker.Close()
			close(closed)
		})
		options.ShutdownTimeout = 150 * time.Millisecond
		var ended <-chan error
		worker, _, ended = startWorker(name, handler, options)
		close(made)
		Eventually(inside).Should(BeClosed())
		Eventually(ended).Should(Receive())
		Eventually(closed).Should(BeClosed())
	},
		Entry("the handler", func(inside func()) (bullmq.Handler, *bullmq.WorkerOptions) {
			add(nil)
			return func(context.Context, *bullmq.Job) (any, error) { inside(); return nil, nil }, &bullmq.WorkerOptions{}
		}),
		Entry("Active", func(inside func()) (bullmq.Handler, *bullmq.WorkerOptions) {
			add(nil)
			return doNothing, &bullmq.WorkerOptions{Events: bullmq.WorkerEvents{Active: func(*bullmq.Job) { inside() }}}
		}),
		Entry("Completed", func(inside func()) (bullmq.Handler, *bullmq.WorkerOptions) {
			add(nil)
			return doNothing, &bullmq.WorkerOptions{Events: bullmq.WorkerEvents{Completed: func(*bullmq.Job, any) { inside() }}}
		}),
		Entry("Failed", func(inside func()) (bullmq.Handler, *bullmq.WorkerOptions) {
			add(nil)
			return func(context.Context, *bullmq.Job) (any, error) { return nil, errors.New("boom") },
				&bullmq.WorkerOptions{Events: bullmq.WorkerEvents{Failed: func(*bullmq.Job, error) { inside() }}}
		}),
		Entry("Drained", func(inside func()) (bullmq.Handler, *bullmq.WorkerOptions) {
			return doNothing, &bullmq.WorkerOptions{Events: bullmq.WorkerEvents{Drained: inside}}
		}),
		Entry("Stalled", func(inside func()) (bullmq.Handler, *bullmq.WorkerOptions) {
			stalled()
			return doNothing, &bullmq.WorkerOptions{StalledInterval: 20 * time.Millisecond,
				Events: bullmq.WorkerEvents{Stalled: func(string) { inside() }}}
		}),
		Entry("LocksLost", func(inside func()) (bullmq.Handler, *bullmq.WorkerOptions) {
			job := add(nil)
			return func(ctx context.Context, _ *bullmq.Job) (any, error) {
					Expect(redisDo("DEL", keyOf(name, job.ID+":lock")).Error()).To(Succeed())
					<-ctx.Done()
					return nil, nil
				}, &bullmq.WorkerOptions{LockDuration: 100 * time.Millisecond, SkipStalledCheck: true,
					Events: bullmq.WorkerEvents{LocksLost: func([]string) { inside() }}}
		}),
		Entry("Error", func(inside func()) (bullmq.Handler, *bullmq.WorkerOptions) {
			job := add(nil)
			return func(context.Context, *bullmq.Job) (any, error) {
				Expect(redisDo("DEL", keyOf(name, job.ID+":lock")).Error()).To(Succeed())
				return nil, nil
			}, &bullmq.WorkerOptions{SkipStalledCheck: true, Events: bullmq.WorkerEvents{Error: func(error) { inside() }}}
		}),
		Entry("Classify", func(inside func()) (bullmq.Handler, *bullmq.WorkerOptions) {
			add(&bullmq.JobOptions{Attempts: 2})
			return func(context.Context, *bullmq.Job) (any, error) { return nil, errors.New("boom") },
				&bullmq.WorkerOptions{Classify: func(error, *bullmq.Job) bullmq.Verdict { inside(); return bullmq.Permanent() }}
		}),
	)

	It("fetches no new job and keeps the lock of the running job until it is done", func() {
		const lasts = 3 * time.Second
		add(nil)
		add(nil)
		var runs tally
		started, closed := make(chan struct{}, 2), make(chan error, 1)
		worker, _, ended := startWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
			_, _ = runs.handle(ctx, job)
			started <- struct{}{}
			time.Sleep(lasts + time.Second)
			return nil, ctx.Err()
		}, &bullmq.WorkerOptions{LockDuration: lasts, LockRenewTime: lasts / 10, Logger: bullmq.Zerolog(zerolog.New(GinkgoWriter))})
		Eventually(started).Should(Receive())
		go func() { closed <- worker.Close() }()
		others := newFetcher(name, &bullmq.FetcherOptions{StalledInterval: 20 * time.Millisecond})
		Eventually(func() ([]string, error) {
			if stalled, err := others.CheckStalled(ctx); err != nil || len(stalled) > 0 {
				return stalled, StopTrying("a check for stalled jobs").Wrap(err)
			}
			if len(closed) == 0 {
				return nil, errors.New("the worker isn't closed")
			}
			return nil, nil
		}, "20s", "20ms").Should(BeEmpty())
		Expect(queue.Counts(ctx, bullmq.StateCompleted, bullmq.StateWaiting, bullmq.StateActive)).
			To(Equal(map[bullmq.State]int{bullmq.StateCompleted: 1, bullmq.StateWaiting: 1, bullmq.StateActive: 0}), "once Close has returned")
		Eventually(closed).Should(Receive(BeNil()))
		Eventually(ended).Should(Receive(BeNil()))
		runs.once(1)
		Expect(eventsOf(name)).NotTo(ContainElement(HavePrefix("stalled")))
	})

	It("leaves the due time of a delayed job to other workers", func() {
		worker, _, ended := startWorker(name, func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, nil)
		waitUntilIdle(queue)
		job := add(&bullmq.JobOptions{Delay: time.Hour})
		waitUntilIdle(queue) // the worker has popped the marker
		Expect(worker.Close()).To(Succeed())
		Eventually(ended).Should(Receive(BeNil()))
		Expect(redisDo("ZRANGE", keyOf(name, "marker"), "0", "-1", "WITHSCORES").AsZScores()).
			To(ConsistOf(rueidis.ZScore{Member: "1", Score: float64(job.Timestamp.Add(time.Hour).UnixMilli())}))
	})

	It("stops waiting for a handler that ignores its context and reports its job, which another worker runs", func() {
		job := add(nil)
		started, free, handlerGone := make(chan struct{}), make(chan struct{}), make(chan struct{})
		_, stop, ended := startWorker(name, func(context.Context, *bullmq.Job) (any, error) {
			defer close(handlerGone)
			close(started)
			<-free
			return "too late", nil
		}, &bullmq.WorkerOptions{LockDuration: 3 * time.Second, LockRenewTime: 300 * time.Millisecond, ShutdownTimeout: 300 * time.Millisecond,
			StalledInterval: 50 * time.Millisecond})
		Eventually(started).Should(BeClosed())
		stop()
		var left error
		Eventually(ended).Should(Receive(&left))
		var unfinished *bullmq.UnfinishedError
		Expect(errors.As(left, &unfinished)).To(BeTrue())
		Expect(unfinished.JobIDs).To(Equal([]string{job.ID}))

		runWorker(name, func(context.Context, *bullmq.Job) (any, error) { return "in time", nil },
			&bullmq.WorkerOptions{StalledInterval: 50 * time.Millisecond})
		Expect(job.Wait(ctx, queue)).To(MatchJSON(`"in time"`))
		close(free)
		Eventually(handlerGone).Should(BeClosed())
		Consistently(func() string { return hashAt(job.Key())["returnvalue"] }, 100*time.Millisecond).Should(Equal(`"in time"`))
	})

	Describe("with Shutdown", func() {
		It("waits for the running jobs, however short ShutdownTimeout is", func() {
			job := add(nil)
			started := make(chan struct{})
			worker, _, ended := startWorker(name, func(ctx context.Context, _ *bullmq.Job) (any, error) {
				close(started)
				time.Sleep(300 * time.Millisecond)
				return "done", ctx.Err()
			}, &bullmq.WorkerOptions{ShutdownTimeout: 50 * time.Millisecond})
			Eventually(started).Should(BeClosed())
			Expect(worker.Shutdown(context.Background())).To(Succeed())
			Eventually(ended).Should(Receive(BeNil()))
			Expect(hashAt(job.Key())).To(HaveKeyWithValue("returnvalue", `"done"`))
		})

		DescribeTable("ends in time and reports the unfinished jobs when its context", func(bound func() (context.Context, context.CancelFunc), within time.Duration) {
			steadily(func(g Gomega) {
				setUp()
				heeds, ignores := add(nil), add(nil)
				started, free := make(chan struct{}, 2), make(chan struct{})
				worker, _, ended := startWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
					started <- struct{}{}
					if job.ID == ignores.ID {
						<-free
						return nil, nil
					}
					<-ctx.Done()
					return nil, context.Cause(ctx)
				}, &bullmq.WorkerOptions{Concurrency: 2})
				DeferCleanup(func() { close(free) })
				Eventually(started).Should(Receive())
				Eventually(started).Should(Receive())
				begun := time.Now()
				ctx, cancel := bound()
				defer cancel()
				left := worker.Shutdown(ctx)
				g.Expect(time.Since(begun)).To(BeNumerically("<", within))
				var unfinished *bullmq.UnfinishedError
				g.Expect(errors.As(left, &unfinished)).To(BeTrue())
				g.Expect(unfinished.JobIDs).To(Equal([]string{ignores.ID}))
				g.Eventually(ended).Should(Receive(Equal(left)))
				g.Expect(hashAt(heeds.Key())).NotTo(HaveKey("atm"), "a job given back has used no attempt")
				g.Expect(queue.JobState(specContext(), heeds.ID)).To(Equal(bullmq.StateWaiting))
			})
		},
			Entry("has a deadline", func() (context.Context, context.CancelFunc) {
				return context.WithTimeout(context.Background(), 500*time.Millisecond)
			}, time.Second),
			Entry("is cancelled", func() (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(context.Background())
				time.AfterFunc(100*time.Millisecond, cancel)
				return ctx, cancel
			}, 2*time.Second),
		)

		It("closes a worker that was never run", func() {
			worker := newWorker(name, doNothing, nil)
			Expect(worker.Shutdown(ctx)).To(Succeed())
			Expect(worker.Run(ctx)).To(MatchError(ContainSubstring("closed")))
		})
	})

	It("discards what handlers return afterwards and leaves their jobs to the stalled check", func() {
		ids := []string{add(nil).ID, add(nil).ID}
		started, free, told := make(chan struct{}, 2), make(chan struct{}), make(chan string, 10)
		var handlers sync.WaitGroup
		_, stop, ended := startWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			handlers.Add(1)
			defer handlers.Done()
			started <- struct{}{}
			<-free
			if job.ID == ids[0] {
				return "too late", nil
			}
			return nil, errors.New("too late")
		}, &bullmq.WorkerOptions{Concurrency: 2, ShutdownTimeout: 200 * time.Millisecond, SkipStalledCheck: true, Events: bullmq.WorkerEvents{
			Completed: func(job *bullmq.Job, _ any) { told <- "completed " + job.ID },
			Failed:    func(job *bullmq.Job, _ error) { told <- "failed " + job.ID },
			Error:     func(err error) { told <- err.Error() },
		}})
		Eventually(started).Should(Receive())
		Eventually(started).Should(Receive())
		stop()
		var left error
		Eventually(ended).Should(Receive(&left))
		var unfinished *bullmq.UnfinishedError
		Expect(errors.As(left, &unfinished)).To(BeTrue())
		Expect(unfinished.JobIDs).To(ConsistOf(ids))
		Expect(unfinished.Unwritten).To(BeEmpty())

		// Their locks are still held, so Redis itself would accept a late result.
		before := snapshot(name)
		Expect(before).To(And(HaveKey(keyOf(name, ids[0]+":lock")), HaveKey(keyOf(name, ids[1]+":lock"))))
		close(free)
		handlers.Wait()
		Consistently(func() map[string]any { return snapshot(name) }, 100*time.Millisecond).Should(Equal(before))
		Expect(told).To(BeEmpty())

		for _, id := range ids { // as if they had expired
			Expect(redisDo("DEL", keyOf(name, id+":lock")).Error()).To(Succeed())
		}
		var runs tally
		runWorker(name, runs.handle, &bullmq.WorkerOptions{Concurrency: 2, StalledInterval: 50 * time.Millisecond})
		Eventually(countOf(queue, bullmq.StateCompleted)).Should(Equal(2))
		runs.once(2)
	})

	It("does not report a job as unfinished if only an event function still runs", func() {
		job := add(nil)
		told, free := make(chan struct{}), make(chan struct{})
		DeferCleanup(func() { close(free) })
		_, stop, ended := startWorker(name, doNothing, &bullmq.WorkerOptions{
			ShutdownTimeout: 200 * time.Millisecond,
			Events:          bullmq.WorkerEvents{Completed: func(*bullmq.Job, any) { close(told); <-free }},
		})
		Eventually(told).Should(BeClosed())
		stop()
		Eventually(ended).Should(Receive(BeNil()))
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateCompleted))
	})

	Describe("while Redis does not reply", func() {
		var (
			proxy *faultproxy.Proxy
			via   *bullmq.Connection
		)
		setUpBehindProxy := func() {
			GinkgoHelper()
			setUp()
			proxy, via = proxiedRedis()
		}
		silence := func() {
			GinkgoHelper()
			Expect(proxy.Set(faultproxy.Faults{BlackHole: true})).To(Succeed())
		}
		within := func(g Gomega, ended <-chan error, most time.Duration) error {
			begun := time.Now()
			var err error
			g.Eventually(ended, "15s").Should(Receive(&err))
			g.Expect(time.Since(begun)).To(BeNumerically("<", most))
			return err
		}

		It("distinguishes running jobs from jobs whose result could not be written", func() {
			steadily(func(g Gomega) {
				setUpBehindProxy()
				returns, runs := add(nil), add(nil)
				started, finish, never := make(chan struct{}, 2), make(chan struct{}), make(chan struct{})
				DeferCleanup(func() { close(never) })
				log := gbytes.NewBuffer()
				_, stop, ended := startWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
					started <- struct{}{}
					if job.ID == runs.ID {
						<-never
					}
					<-finish
					return nil, nil
				}, &bullmq.WorkerOptions{Connection: via, Concurrency: 2, ShutdownTimeout: 300 * time.Millisecond, Logger: bullmq.Zerolog(zerolog.New(log))})
				Eventually(started).Should(Receive())
				Eventually(started).Should(Receive())
				silence()
				close(finish)
				stop()
				err := within(g, ended, 3*time.Second)
				var unfinished *bullmq.UnfinishedError
				g.Expect(errors.As(err, &unfinished)).To(BeTrue())
				g.Expect(*unfinished).To(Equal(bullmq.UnfinishedError{QueueName: name, JobIDs: []string{runs.ID}, Unwritten: []string{returns.ID}}))
				g.Expect(err).To(MatchError(And(ContainSubstring("1 still running: ["+runs.ID+"]"), ContainSubstring("1 finished but not written to Redis: ["+returns.ID+"]"))))
				g.Expect(string(log.Contents())).To(ContainSubstring(`"running":["` + runs.ID + `"],"unwritten":["` + returns.ID + `"]`))
			})
		})

		It("does not wait for a fetch and starts no job afterwards", func() {
			steadily(func(g Gomega) {
				setUpBehindProxy()
				var ran atomic.Bool
				handler := func(context.Context, *bullmq.Job) (any, error) { ran.Store(true); return nil, nil }
				_, stop, ended := startWorker(name, handler, &bullmq.WorkerOptions{Connection: via, ShutdownTimeout: 300 * time.Millisecond, DrainDelay: time.Second})
				Eventually(func() ([]bullmq.ConnectedClient, error) { return queue.ConnectedWorkers(ctx) }).Should(HaveLen(1))
				silence()
				add(nil) // its marker is being sent, and then the fetch
				stop()
				g.Expect(within(g, ended, 800*time.Millisecond)).To(Succeed())
				g.Expect(ran.Load()).To(BeFalse())
			})
		})

		It("does not wait for renewals, stalled checks or new connections", func() {
			steadily(func(g Gomega) {
				setUpBehindProxy()
				job := add(nil)
				started := make(chan struct{})
				_, stop, ended := startWorker(name, func(ctx context.Context, _ *bullmq.Job) (any, error) {
					close(started)
					<-ctx.Done()
					return nil, ctx.Err()
				}, &bullmq.WorkerOptions{Connection: via, Concurrency: 2, LockDuration: 20 * time.Second, LockRenewTime: 100 * time.Millisecond,
					StalledInterval: 50 * time.Millisecond, DrainDelay: 50 * time.Millisecond, ShutdownTimeout: 500 * time.Millisecond})
				Eventually(started).Should(BeClosed())
				silence()
				proxy.CutAll()
				Eventually(proxy.Connections).Should(BeNumerically(">", 0)) // it reconnects
				stop()
				var unfinished *bullmq.UnfinishedError
				g.Expect(errors.As(within(g, ended, time.Second), &unfinished)).To(BeTrue())
				g.Expect(unfinished.Unwritten).To(Equal([]string{job.ID}))
			})
		})
	})

	Describe("with handlers that stop when their context ends", func() {
		// onShutdown runs a job whose handler returns err when its context ends, and checks what becomes of the job.
		onShutdown := func(options *bullmq.JobOptions, err func(ctx context.Context, job *bullmq.Job) error, where bullmq.State, stored types.GomegaMatcher) {
			GinkgoHelper()
			steadily(func(g Gomega) {
				setUp()
				job := add(options)
				started := make(chan struct{})
				var faults atomic.Int64
				// A tenth of ShutdownTimeout is left to write the outcome.
				_, stop, ended := startWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
					close(started)
					<-ctx.Done()
					return nil, err(ctx, job)
				}, &bullmq.WorkerOptions{ShutdownTimeout: 2 * time.Second, Events: bullmq.WorkerEvents{Error: func(error) { faults.Add(1) }}})
				Eventually(started).Should(BeClosed())
				stop()
				var left error
				Eventually(ended).Should(Receive(&left))
				g.Expect(left).NotTo(HaveOccurred())
				g.Expect(stateOf(queue, job.ID)()).To(Equal(where))
				g.Expect(hashAt(job.Key())).To(stored)
				g.Expect(faults.Load()).To(BeZero())
			})
		}

		It("leaves a job where its handler moved it", func() {
			onShutdown(nil, func(_ context.Context, job *bullmq.Job) error {
				if err := job.MoveToDelayed(context.Background(), time.Now().Add(time.Minute)); err != nil {
					return err
				}
				return bullmq.ErrMovedToDelayed
			}, bullmq.StateDelayed, Not(HaveKey("atm")))
		})

		It("fails a job with an unrecoverable error", func() {
			onShutdown(&bullmq.JobOptions{Attempts: 5}, func(context.Context, *bullmq.Job) error {
				return bullmq.Unrecoverable(errors.New("no such colour"))
			}, bullmq.StateFailed, HaveKeyWithValue("atm", "1"))
		})

		It("completes a job whose handler returns no error", func() {
			onShutdown(nil, func(context.Context, *bullmq.Job) error { return nil }, bullmq.StateCompleted, HaveKeyWithValue("atm", "1"))
		})

		DescribeTable("returns a job without using an attempt", func(options bullmq.JobOptions, where bullmq.State) {
			onShutdown(&options, func(ctx context.Context, _ *bullmq.Job) error { return context.Cause(ctx) }, where, Not(HaveKey("atm")))
		},
			Entry("if it has no priority", bullmq.JobOptions{Attempts: 2}, bullmq.StateWaiting), Entry("if it has a priority", bullmq.JobOptions{Priority: 7}, bullmq.StatePrioritized),
		)
	})

	It("leaves the caller's client open", func() {
		client := ownClient(nil)
		_, stop, ended := startWorker(name, doNothing, &bullmq.WorkerOptions{Connection: bullmq.Client(client)})
		Eventually(func() ([]bullmq.ConnectedClient, error) { return queue.ConnectedWorkers(ctx) }).Should(HaveLen(1))
		stop()
		Eventually(ended).Should(Receive(BeNil()))
		Expect(client.Do(ctx, client.B().Ping().Build()).Error()).To(Succeed())
		Eventually(func() ([]bullmq.ConnectedClient, error) { return queue.ConnectedWorkers(ctx) }).Should(BeEmpty(), "the connection it blocked on goes with it")
	})
})
