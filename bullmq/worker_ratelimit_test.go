package bullmq_test

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// starts records when each job was started.
type starts struct {
	mu    sync.Mutex
	byJob map[string][]time.Time
}

func (s *starts) note(job *bullmq.Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byJob == nil {
		s.byJob = map[string][]time.Time{}
	}
	s.byJob[job.ID] = append(s.byJob[job.ID], time.Now())
}

func (s *starts) of(id string) []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Time{}, s.byJob[id]...)
}

func (s *starts) all() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, times := range s.byJob {
		n += len(times)
	}
	return n
}

var _ = Describe("A rate limit requested by a handler", Label("slow"), func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
		seen  *starts
	)
	BeforeEach(func() {
		name, ctx, seen = newQueueName(), specContext(), &starts{}
		queue = newQueue(name, nil)
	})
	add := func(n int, options *bullmq.JobOptions) (ids []string) {
		GinkgoHelper()
		for range n {
			job, err := queue.Add(ctx, "a", nil, options)
			Expect(err).NotTo(HaveOccurred())
			ids = append(ids, job.ID)
		}
		return ids
	}
	const wait, long = 400 * time.Millisecond, 3 * time.Second
	atOnce := func(context.Context) error { return bullmq.RateLimit(wait) }
	byQueue := func(ctx context.Context) error {
		if err := queue.RateLimit(ctx, wait); err != nil {
			return err
		}
		return bullmq.ErrRateLimited
	}

	DescribeTable("delays the job if there is no limiter,", func(workers, concurrency int, ask func(context.Context) error) {
		id := add(1, &bullmq.JobOptions{Priority: 3})[0]
		for range workers {
			runWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
				seen.note(job)
				if job.AttemptsStarted < 4 {
					return nil, ask(ctx)
				}
				return nil, nil
			}, &bullmq.WorkerOptions{Concurrency: concurrency})
		}
		Eventually(stateOf(queue, id)).Should(Equal(bullmq.StateCompleted))
		times := seen.of(id)
		Expect(times).To(HaveLen(4))
		for i := range times[1:] {
			Expect(times[i+1].Sub(times[i])).To(BeNumerically(">=", wait-20*time.Millisecond))
		}
		Expect(hashAt(keyOf(name, id))).To(And(HaveKeyWithValue("atm", "1"), HaveKeyWithValue("ats", "4"), Not(HaveKey("failedReason"))))
	},
		Entry("with RateLimit at concurrency 1", 1, 1, atOnce),
		Entry("with RateLimit at concurrency 20", 1, 20, atOnce),
		Entry("with RateLimit and several workers", 3, 4, atOnce),
		Entry("with Queue.RateLimit and ErrRateLimited at concurrency 20", 1, 20, byQueue),
		Entry("with Queue.RateLimit, ErrRateLimited and several workers", 3, 4, byQueue),
	)

	It("keeps a worker without a limiter from starting other jobs", func() {
		add(200, nil)
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			seen.note(job)
			if job.ID == "1" && job.AttemptsStarted == 1 {
				return nil, bullmq.RateLimit(long)
			}
			time.Sleep(time.Millisecond)
			return nil, nil
		}, &bullmq.WorkerOptions{Concurrency: 4})
		Eventually(stateOf(queue, "1")).Should(Equal(bullmq.StateDelayed))
		before := seen.all()
		Expect(before).To(BeNumerically("<", 150))
		time.Sleep(500 * time.Millisecond)
		Expect(seen.all()-before).To(BeNumerically("<=", 8), "those that were being taken")
		Eventually(countOf(queue, bullmq.StateCompleted), "15s").Should(Equal(200))
	})

	DescribeTable("ten times at once holds back all jobs and uses no attempt,", func(limiter *bullmq.Limiter) {
		add(10, nil)
		add(10, &bullmq.JobOptions{Delay: wait / 2})
		var running sync.WaitGroup
		running.Add(10)
		var mu sync.Mutex
		var first time.Time
		asked := map[string]time.Time{}
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			seen.note(job)
			if job.Options.Delay > 0 || job.AttemptsStarted > 1 {
				return nil, nil
			}
			running.Done()
			running.Wait()
			mu.Lock()
			defer mu.Unlock()
			asked[job.ID] = time.Now()
			if first.IsZero() {
				first = asked[job.ID]
			}
			return nil, bullmq.RateLimit(wait)
		}, &bullmq.WorkerOptions{Concurrency: 10, Limiter: limiter})
		Eventually(countOf(queue, bullmq.StateCompleted)).Should(Equal(20))
		Expect(seen.all()).To(Equal(30))
		for id, times := range seen.byJob {
			job, err := queue.Job(ctx, id)
			Expect(err).NotTo(HaveOccurred())
			Expect(job.AttemptsMade).To(Equal(1), "attempts made of job %s", id)
			Expect(job.AttemptsStarted).To(Equal(len(times)), "attempts started of job %s", id)
			Expect(job.FailedReason).To(BeEmpty())
			since, itself := asked[id]
			if !itself {
				since = first
			}
			Expect(times[len(times)-1].Sub(since)).To(BeNumerically(">=", wait-30*time.Millisecond), "job %s", id)
		}
		Expect(eventsOf(name)).NotTo(ContainElement(HavePrefix("failed")))
	},
		Entry("with a limiter", &bullmq.Limiter{Max: 100, Duration: 100 * time.Millisecond}),
		Entry("without a limiter", nil),
	)

	It("is logged once, with the remedy, by a worker without a limiter", func() {
		log := &logLines{}
		ids := add(3, nil)
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			if job.AttemptsStarted < 3 {
				return nil, bullmq.RateLimit(20 * time.Millisecond)
			}
			return nil, nil
		}, &bullmq.WorkerOptions{Concurrency: 3, Logger: bullmq.Zerolog(zerolog.New(log))})
		for _, id := range ids {
			Eventually(stateOf(queue, id)).Should(Equal(bullmq.StateCompleted))
		}
		Expect(log.with(`"level":"warn"`)).To(Equal(1))
		Expect(log.with("give the workers a Limiter, or call Queue.SetGlobalRateLimit")).To(Equal(1))
	})

	It("returns the job to the front of its list and logs nothing if only the queue has a limit", func() {
		Expect(queue.SetGlobalRateLimit(ctx, bullmq.Limiter{Max: 100, Duration: time.Second})).To(Succeed())
		log := &logLines{}
		ids := add(2, nil)
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			seen.note(job)
			if job.AttemptsStarted == 1 && job.ID == ids[0] {
				return nil, bullmq.RateLimit(long)
			}
			return nil, nil
		}, &bullmq.WorkerOptions{Logger: bullmq.Zerolog(zerolog.New(log))})
		Eventually(stateOf(queue, ids[0])).Should(Equal(bullmq.StateWaiting))
		Eventually(stateOf(queue, ids[1]), "10s").Should(Equal(bullmq.StateCompleted))
		Expect(seen.of(ids[1])[0]).To(BeTemporally(">", seen.of(ids[0])[1]))
		Expect(eventsOf(name)).NotTo(ContainElement(HavePrefix("delayed")))
		Expect(log.with("warn")).To(BeZero())
	})

	It("delays a manually fetched job if there is no limiter", func() {
		id := add(1, nil)[0]
		fetcher := newFetcher(name, nil)
		endJob(fetcher, takeJob(fetcher), nil, bullmq.RateLimit(time.Hour))
		Expect(stateOf(queue, id)()).To(Equal(bullmq.StateDelayed))
		Expect(hashAt(keyOf(name, id))).To(And(HaveKeyWithValue("delay", "3600000"), Not(HaveKey("atm"))))
	})

	It("stops workers with a limiter even if another worker requested it", func() {
		ids := add(2, nil)
		asking := newFetcher(name, nil)
		endJob(asking, takeJob(asking), nil, bullmq.RateLimit(time.Hour))
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			seen.note(job)
			return nil, nil
		}, &bullmq.WorkerOptions{Limiter: &bullmq.Limiter{Max: 100, Duration: time.Second}})
		Consistently(seen.all, "200ms").Should(BeZero())
		Expect(stateOf(queue, ids[1])()).To(Equal(bullmq.StateWaiting))
	})

	It("delays the job once even if the reply is lost", func() {
		proxy, via := proxiedRedis()
		id := add(1, nil)[0]
		lost := proxy.LoseReply(" 3600000 ")
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			seen.note(job)
			return nil, bullmq.RateLimit(time.Hour)
		}, &bullmq.WorkerOptions{Connection: via})
		Eventually(lost).Should(BeClosed())
		Eventually(stateOf(queue, id)).Should(Equal(bullmq.StateDelayed))
		Consistently(seen.all, "200ms").Should(Equal(1))
	})
})

var _ = Describe("A job that its handler keeps postponing", Label("slow"), func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
		seen  *starts
	)
	setUp := func() {
		GinkgoHelper()
		name, ctx, seen = newQueueName(), specContext(), &starts{}
		queue = newQueue(name, nil)
	}
	BeforeEach(setUp)
	add := func() string {
		GinkgoHelper()
		job, err := queue.Add(ctx, "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		return job.ID
	}
	returning := func(err error) bullmq.Handler {
		seen := seen // of this run of the spec
		return func(_ context.Context, job *bullmq.Job) (any, error) {
			seen.note(job)
			return nil, err
		}
	}
	// slowed expects that a job has run about ten times in its first second and once a second since then.
	slowed := func(runs *starts, begun time.Time, what string) {
		GinkgoHelper()
		Expect(float64(runs.all())).To(BeNumerically("<=", 13+time.Since(begun).Seconds()), what)
	}
	always := func(err error) func(context.Context, *bullmq.Job) error {
		return func(context.Context, *bullmq.Job) error { return err }
	}

	withWorkers := func(workers, concurrency int) func(string, *bullmq.Limiter, func(context.Context, *bullmq.Job) error) {
		return func(name string, limit *bullmq.Limiter, handle func(context.Context, *bullmq.Job) error) {
			for range workers {
				runWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
					return nil, handle(ctx, job)
				}, &bullmq.WorkerOptions{Concurrency: concurrency, Limiter: limit})
			}
		}
	}
	// withFetcher runs jobs in a loop of Fetch and Fail.
	withFetcher := func(renew bool) func(string, *bullmq.Limiter, func(context.Context, *bullmq.Job) error) {
		return func(name string, limit *bullmq.Limiter, handle func(context.Context, *bullmq.Job) error) {
			fetcher := newFetcher(name, &bullmq.FetcherOptions{Limiter: limit, RenewLocks: renew})
			running, stop := context.WithCancel(context.Background())
			ended := make(chan struct{})
			go func() {
				defer GinkgoRecover()
				defer close(ended)
				for {
					job, err := fetcher.Fetch(running)
					if running.Err() != nil {
						return
					}
					Expect(err).NotTo(HaveOccurred())
					err = handle(running, job)
					if errors.Is(err, bullmq.ErrMovedToWait) || errors.Is(err, bullmq.ErrMovedToDelayed) {
						continue
					}
					if err := fetcher.Fail(running, job, err); running.Err() == nil {
						Expect(err).NotTo(HaveOccurred())
					}
				}
			}()
			DeferCleanup(func() { stop(); Eventually(ended).Should(BeClosed()) })
		}
	}

	DescribeTable("is not run in a busy loop", func(run func(name string, limit *bullmq.Limiter, handle func(context.Context, *bullmq.Job) error), except ...string) {
		limiter := &bullmq.Limiter{Max: 1000, Duration: 10 * time.Millisecond}
		loops := map[string]struct {
			limit *bullmq.Limiter
			back  func(ctx context.Context, job *bullmq.Job) error
		}{
			"ErrRateLimited while no limit holds":                 {nil, always(bullmq.ErrRateLimited)},
			"ErrRateLimited while no limit holds, with a limiter": {limiter, always(bullmq.ErrRateLimited)},
			"a RateLimit for no time":                             {nil, always(bullmq.RateLimit(0))},
			"a RateLimit for no time, with a limiter":             {limiter, always(bullmq.RateLimit(-time.Second))},
			"ErrSnoozed":           {nil, always(bullmq.ErrSnoozed)},
			"a Snooze for no time": {nil, always(bullmq.Snooze(time.Microsecond))},
			"MoveToWait": {nil, func(ctx context.Context, job *bullmq.Job) error {
				return cmp.Or(job.MoveToWait(ctx), bullmq.ErrMovedToWait)
			}},
			"MoveToDelayed until a time that is over": {nil, func(ctx context.Context, job *bullmq.Job) error {
				return cmp.Or(job.MoveToDelayed(ctx, time.Now().Add(-time.Second)), bullmq.ErrMovedToDelayed)
			}},
			"SnoozeUntil a time that is over":              {nil, always(bullmq.SnoozeUntil(time.Now().Add(-time.Second)))},
			"ErrWaitForChildren while no child is pending": {nil, always(bullmq.ErrWaitForChildren)},
		}
		for _, what := range except { // a Fetcher without RenewLocks does not know which jobs it holds
			delete(loops, what)
		}
		begun := time.Now()
		runs, names := map[string]*starts{}, map[string]string{}
		for what, loop := range loops {
			seen := &starts{}
			runs[what], names[what] = seen, newQueueName()
			_, err := newQueue(names[what], nil).Add(ctx, "a", nil, nil)
			Expect(err).NotTo(HaveOccurred())
			run(names[what], loop.limit, func(ctx context.Context, job *bullmq.Job) error {
				seen.note(job)
				return loop.back(ctx, job)
			})
		}
		for what := range loops {
			Eventually(runs[what].all, "15s").Should(BeNumerically(">=", 8), what)
		}
		time.Sleep(time.Second)
		for what := range loops {
			slowed(runs[what], begun, what)
			Expect(hashAt(keyOf(names[what], "1"))).NotTo(HaveKey("atm"), what)
		}
	},
		Entry("by a worker with concurrency 1", withWorkers(1, 1)),
		Entry("by a worker with concurrency 20", withWorkers(1, 20)),
		Entry("by two workers", withWorkers(2, 4)),
		Entry("by a Fetcher that renews locks", withFetcher(true)),
		Entry("by a Fetcher that renews no locks", withFetcher(false), "MoveToWait", "MoveToDelayed until a time that is over"),
	)

	DescribeTable("is run once and left to the stalled check if it was not moved", func(word error) {
		add()
		runWorker(name, returning(word), &bullmq.WorkerOptions{Concurrency: 20})
		Eventually(seen.all).Should(Equal(1))
		Consistently(seen.all, "300ms").Should(Equal(1))
	},
		Entry("to wait", bullmq.ErrMovedToWait),
		Entry("to delayed", bullmq.ErrMovedToDelayed),
		Entry("to waiting-children", bullmq.ErrMovedToWaitingChildren),
	)

	It("is also slowed down if its handler moves it through a JobRef", func() {
		add()
		begun := time.Now()
		var worker *bullmq.Worker
		worker = newWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
			seen.note(job)
			if err := worker.JobRef(job.ID).WithToken(job.Token()).MoveToWait(ctx); err != nil {
				return nil, err
			}
			return nil, bullmq.ErrMovedToWait
		}, nil)
		running, stop := context.WithCancel(specContext())
		done := make(chan error, 1)
		go func() { done <- worker.Run(running) }()
		DeferCleanup(func() {
			stop()
			Expect(<-done).To(Succeed())
		})
		Eventually(seen.all).Should(BeNumerically(">=", 8))
		time.Sleep(time.Second)
		slowed(seen, begun, "")
	})

	It("leaves the other slots of its worker free", func() {
		id := add()
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			seen.note(job)
			if job.ID == id {
				return nil, bullmq.ErrSnoozed
			}
			return nil, nil
		}, &bullmq.WorkerOptions{Concurrency: 2})
		Eventually(func() int { return len(seen.of(id)) }).Should(BeNumerically(">=", 9), "the pauses are long by now")
		begun := time.Now()
		for range 20 {
			Eventually(stateOf(queue, add())).Should(Equal(bullmq.StateCompleted))
		}
		Expect(time.Since(begun)).To(BeNumerically("<", 5*time.Second), "twenty pauses take longer")
	})

	It("is returned at once when the worker stops", func() {
		steadily(func(g Gomega) {
			setUp()
			id := add()
			worker := runWorker(name, returning(bullmq.ErrSnoozed), nil)
			Eventually(seen.all, "10s").Should(BeNumerically(">=", 11), "the pauses are a second by now")
			begun := time.Now()
			Expect(worker.Close()).To(Succeed())
			g.Expect(time.Since(begun)).To(BeNumerically("<", 900*time.Millisecond))
			Expect(stateOf(queue, id)()).To(Equal(bullmq.StateWaiting))
		})
	})

	It("keeps its lock during a pause longer than LockDuration", func() {
		steadily(func(g Gomega) {
			setUp()
			id := add()
			worker := runWorker(name, returning(bullmq.ErrSnoozed), &bullmq.WorkerOptions{LockDuration: 600 * time.Millisecond, StalledInterval: 50 * time.Millisecond})
			Eventually(seen.all, "10s").Should(BeNumerically(">=", 13))
			g.Expect(eventsOf(name)).NotTo(ContainElement(HavePrefix("stalled")))
			g.Expect(hashAt(keyOf(name, id))).NotTo(HaveKey("stc"))
			Expect(worker.Close()).To(Succeed())
		})
	})

	It("releases its lock before it expires with SkipLockRenewal", func() {
		steadily(func(g Gomega) {
			setUp()
			add()
			worker := runWorker(name, returning(bullmq.ErrSnoozed),
				&bullmq.WorkerOptions{LockDuration: 800 * time.Millisecond, SkipLockRenewal: true, StalledInterval: 50 * time.Millisecond})
			Eventually(seen.all, "10s").Should(BeNumerically(">=", 14))
			g.Expect(eventsOf(name)).NotTo(ContainElement(HavePrefix("stalled")))
			Expect(worker.Close()).To(Succeed())
		})
	})
})
