package bullmq_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("Worker events", func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, nil)
	})
	add := func(job string) *bullmq.Job {
		GinkgoHelper()
		added, err := queue.Add(ctx, job, nil, nil)
		Expect(err).NotTo(HaveOccurred())
		return added
	}
	quiet := func() *bullmq.WorkerOptions { return &bullmq.WorkerOptions{SkipStalledCheck: true} }
	// all reads a channel to its end.
	all := func(out <-chan bullmq.WorkerEvent) (events []bullmq.WorkerEvent) {
		GinkgoHelper()
		for {
			var event bullmq.WorkerEvent
			var open bool
			Eventually(func() bool {
				select {
				case event, open = <-out:
					return true
				default:
					return false
				}
			}).Should(BeTrue())
			if !open {
				return events
			}
			events = append(events, event)
		}
	}
	types := func(events []bullmq.WorkerEvent) (types []bullmq.EventType) {
		for _, event := range events {
			types = append(types, event.Type)
		}
		return types
	}

	It("are delivered in order over a channel, each with the job as it was then, until the last", func() {
		boom := errors.New("boom")
		worker := newWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
			if err := job.UpdateProgress(ctx, 50); err != nil || job.Name == "bad" {
				return nil, boom
			}
			return "fine", nil
		}, quiet())
		out := worker.Events(ctx, 100)
		add("good")
		add("bad")
		run, stop := context.WithCancel(ctx)
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(run) }()
		waitUntilIdle(queue)
		Expect(worker.Pause(ctx)).To(Succeed())
		worker.Resume()
		waitUntilIdle(queue)
		stop()
		Eventually(ended).Should(Receive(BeNil()))

		events := all(out)
		Expect(types(events)).To(Equal([]bullmq.EventType{
			bullmq.EventActive, bullmq.EventProgress, bullmq.EventCompleted, bullmq.EventActive, bullmq.EventProgress, bullmq.EventFailed,
			bullmq.EventDrained, bullmq.EventPaused, bullmq.EventResumed, bullmq.EventClosing, bullmq.EventClosed,
		}))
		for i, event := range events[:6] {
			Expect(event.Job.Name).To(Equal([]string{"good", "bad"}[i/3]))
		}
		Expect(events).To(HaveEach(HaveField("Missed", 0)))
		Expect(events[0].Job.Progress).To(BeEmpty())
		Expect(events[1]).To(And(HaveField("Value", 50), HaveField("Job.Progress", BeEquivalentTo("50")), HaveField("Job.ReturnValue", BeEmpty())))
		Expect(events[2]).To(And(HaveField("Value", "fine"), HaveField("Job.ReturnValue", BeEquivalentTo(`"fine"`))))
		Expect(events[5]).To(And(HaveField("Err", boom), HaveField("Job.FailedReason", "boom"), HaveField("Job.FinishedOn", Not(BeZero()))))
		Expect(all(worker.Events(ctx, 5))).To(BeEmpty(), "nothing comes after the end")
	})

	It("do not block the worker if nobody reads them, and report how many were missed", func() {
		worker := newWorker(name, doNothing, quiet())
		slow, fast := worker.Events(ctx, 3), worker.Events(ctx, 1000)
		const jobs = 50
		_, err := queue.AddBulk(ctx, make([]bullmq.BulkJob, jobs))
		Expect(err).NotTo(HaveOccurred())
		go func() { _ = worker.Run(ctx) }()
		Eventually(func() (map[bullmq.State]int, error) { return queue.Counts(ctx, bullmq.StateCompleted) }).
			Should(HaveKeyWithValue(bullmq.StateCompleted, BeEquivalentTo(jobs)))
		Expect(<-slow).To(And(HaveField("Type", bullmq.EventActive), HaveField("Missed", 0)))
		add("late") // there is room again
		Expect(worker.Close()).To(Succeed())

		told, missed := 1, 0
		events := all(slow)
		for _, event := range events {
			told++
			missed += event.Missed
		}
		Expect(events[len(events)-1].Type).To(Equal(bullmq.EventClosed))
		Expect(missed).To(BeNumerically(">", jobs))
		Expect(told + missed).To(Equal(len(all(fast))))
	})

	It("end for a reader when its context ends, while the worker and other readers continue", func() {
		worker := runWorker(name, doNothing, quiet())
		reading, leave := context.WithCancel(ctx)
		out, other := worker.Events(reading, 10), worker.Events(ctx, 10)
		leave()
		Eventually(out).Should(BeClosed())
		job := add("a")
		Eventually(other).Should(Receive(And(HaveField("Type", bullmq.EventActive), HaveField("Job.ID", job.ID))))
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateCompleted))
	})

	It("report locks by job id and failed calls as errors", func() {
		started, free := make(chan struct{}), make(chan struct{})
		worker := newWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			if job.Name == "held" {
				close(started)
				<-free
			}
			return nil, nil
		}, &bullmq.WorkerOptions{Concurrency: 2, LockDuration: 5 * time.Second, LockRenewTime: 50 * time.Millisecond, StalledInterval: 20 * time.Millisecond})
		stalled := add("stalled")
		dead := newFetcher(name, &bullmq.FetcherOptions{LockDuration: time.Millisecond})
		_, err := dead.TryFetch(ctx)
		Expect(err).NotTo(HaveOccurred())
		held := add("held")
		out := worker.Events(ctx, 1000)
		next := func(event bullmq.EventType) bullmq.WorkerEvent {
			GinkgoHelper()
			var found bullmq.WorkerEvent
			Eventually(func() bool {
				select {
				case found = <-out:
				default:
				}
				return found.Type == event
			}, "10s", "1ms").Should(BeTrue(), "%s", event)
			return found
		}
		go func() { _ = worker.Run(ctx) }()
		Eventually(started).Should(BeClosed())
		Expect(next(bullmq.EventLocksRenewed).JobIDs).To(Equal([]string{held.ID}))
		Eventually(stateOf(queue, stalled.ID)).Should(Equal(bullmq.StateCompleted))
		Expect(eventsOf(name)).To(ContainElement("stalled jobId=" + stalled.ID))
		Expect(redisDo("SET", keyOf(name, held.ID+":lock"), "another", "PX", "60000").Error()).To(Succeed())
		Expect(next(bullmq.EventLocksLost).JobIDs).To(Equal([]string{held.ID}))
		close(free)
		Expect(next(bullmq.EventError).Err).To(MatchError(bullmq.ErrLockMismatch))
		Expect(worker.Close()).To(Succeed())
	})

	It("call their functions as they happen, including Closing and Closed of a worker that never ran", func() {
		var mu sync.Mutex
		var calls []string
		note := func(call string) func() {
			return func() { mu.Lock(); defer mu.Unlock(); calls = append(calls, call) }
		}
		o := quiet()
		o.Events = bullmq.WorkerEvents{
			Paused: note("paused"), Resumed: note("resumed"), Closing: note("closing"), Closed: note("closed"),
			Progress: func(job *bullmq.Job, progress any) { note("progress " + progress.(string) + " of " + job.ID)() },
		}
		worker := newWorker(name, doNothing, o)
		Expect(worker.Pause(ctx)).To(Succeed())
		Expect(worker.PauseNow(ctx)).To(Succeed())
		worker.Resume()
		worker.Resume()
		job := add("a")
		Expect(worker.JobRef(job.ID).UpdateProgress(ctx, "half")).To(Succeed())
		Expect(queue.JobRef(job.ID).UpdateProgress(ctx, "not the worker's")).To(Succeed())
		Expect(worker.Close()).To(Succeed())
		mu.Lock()
		defer mu.Unlock()
		Expect(slices.Clone(calls)).To(Equal([]string{"paused", "resumed", "progress half of " + job.ID, "closing", "closed"}))
	})

	DescribeTable("do not disturb jobs, locks, Pause or Close if all their functions fail", func(fail func(function string), logged OmegaMatcher) {
		var lines logLines
		var mu sync.Mutex
		called := map[string]int{}
		fails := func(function string) {
			mu.Lock()
			called[function]++
			mu.Unlock()
			fail(function)
		}
		calls := func(function string) func() int {
			return func() int { mu.Lock(); defer mu.Unlock(); return called[function] }
		}
		add("stalls")
		dead := newFetcher(name, &bullmq.FetcherOptions{LockDuration: time.Millisecond})
		_, err := dead.TryFetch(ctx)
		Expect(err).NotTo(HaveOccurred())
		free, held := make(chan struct{}), make(chan *bullmq.Job, 1)
		worker, stop, ended := startWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
			switch job.Name {
			case "fails":
				return nil, errors.New("boom")
			case "loses":
				Expect(redisDo("DEL", keyOf(name, job.ID+":lock")).Error()).To(Succeed())
				<-ctx.Done()
			case "held":
				held <- job
				<-free
			}
			return nil, nil
		}, &bullmq.WorkerOptions{
			Concurrency: 2, LockDuration: 5 * time.Second, LockRenewTime: 50 * time.Millisecond, StalledInterval: 50 * time.Millisecond, MaxStalledCount: 100,
			Logger: bullmq.Zerolog(zerolog.New(&lines)),
			Events: bullmq.WorkerEvents{
				Active: func(*bullmq.Job) { fails("Active") }, Completed: func(*bullmq.Job, any) { fails("Completed") },
				Failed: func(*bullmq.Job, error) { fails("Failed") }, Progress: func(*bullmq.Job, any) { fails("Progress") },
				Stalled: func(string) { fails("Stalled") }, Drained: func() { fails("Drained") },
				Paused: func() { fails("Paused") }, Resumed: func() { fails("Resumed") },
				LocksRenewed: func([]string) { fails("LocksRenewed") }, LocksLost: func([]string) { fails("LocksLost") },
				Error: func(error) { fails("Error") }, Closing: func() { fails("Closing") }, Closed: func() { fails("Closed") },
			},
		})
		Eventually(countOf(queue, bullmq.StateCompleted)).Should(Equal(1), "the job that has stalled")
		add("held")
		var running *bullmq.Job
		Eventually(held).Should(Receive(&running))
		Expect(running.UpdateProgress(ctx, 50)).To(Succeed())
		failing := add("fails")
		Eventually(stateOf(queue, failing.ID)).Should(Equal(bullmq.StateFailed))
		losing := add("loses")
		Eventually(calls("Error")).ShouldNot(BeZero())
		// Otherwise it would stall and run again and again. It cannot be removed while it is locked.
		Eventually(func() error { return queue.Remove(ctx, losing.ID, nil) }).Should(Succeed())
		Expect(worker.PauseNow(ctx)).To(Succeed())
		worker.Resume()
		Eventually(calls("LocksRenewed")).Should(BeNumerically(">=", calls("LocksRenewed")()+20))
		Eventually(func() (int64, error) { return redisDo("PTTL", keyOf(name, running.ID+":lock")).AsInt64() }).Should(BeNumerically(">", 4000))
		close(free)
		Eventually(countOf(queue, bullmq.StateCompleted)).Should(Equal(2))
		stop()
		Eventually(ended).Should(Receive(BeNil()))
		for _, function := range []string{"Active", "Completed", "Failed", "Progress", "Stalled", "Drained", "Paused", "Resumed", "LocksRenewed", "LocksLost", "Error", "Closing", "Closed"} {
			Expect(calls(function)()).NotTo(BeZero(), function)
		}
		Expect(lines.all()).To(logged)
	},
		Entry("with a panic", func(function string) { panic("in " + function) },
			And(ContainSubstring("a function given to the worker panicked"), ContainSubstring("in Drained"), ContainSubstring("worker_events_test.go"))),
		Entry("with runtime.Goexit, as in t.FailNow", func(string) { runtime.Goexit() }, Not(ContainSubstring("panicked"))),
	)

	It("do not block the shutdown if Closing and Closed wait for it", Label("slow"), func() {
		var worker *bullmq.Worker
		var stop context.CancelFunc
		var ended <-chan error
		made := make(chan struct{})
		closed := make(chan struct{}, 2)
		wait := func() { <-made; _ = worker.Close(); closed <- struct{}{} }
		o := quiet()
		o.Events = bullmq.WorkerEvents{Closing: wait, Closed: wait}
		worker, stop, ended = startWorker(name, doNothing, o)
		close(made)
		stop()
		Eventually(ended).Should(Receive(BeNil()))
		Eventually(closed).Should(Receive())
		Eventually(closed).Should(Receive())
	})

	It("contain the complete job even if its handler left a goroutine that reports progress", func() {
		const jobs = 300
		var reporters sync.WaitGroup
		DeferCleanup(reporters.Wait)
		worker := newWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			reporters.Go(func() {
				for n := range 8 {
					_ = job.UpdateProgress(ctx, n)
				}
			})
			return "done", nil
		}, quiet())
		events := worker.Events(ctx, 100*jobs)
		for range jobs {
			add("paint")
		}
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(running) }()
		Eventually(countOf(queue, bullmq.StateCompleted), "30s").Should(Equal(jobs))
		reporters.Wait()
		stop()
		Eventually(ended).Should(Receive(BeNil()))
		completed := 0
		for _, event := range all(events) {
			if event.Type == bullmq.EventCompleted {
				completed++
				Expect(event.Job.ReturnValue).To(MatchJSON(`"done"`))
			}
		}
		Expect(completed).To(Equal(jobs))
	})

	It("report whether a failed job is retried", func() {
		worker := newWorker(name, func(context.Context, *bullmq.Job) (any, error) { return nil, errors.New("boom") }, quiet())
		out := worker.Events(ctx, 100)
		_, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{Attempts: 2})
		Expect(err).NotTo(HaveOccurred())
		go func() { _ = worker.Run(ctx) }()
		failures := make([]bullmq.WorkerEvent, 0, 2)
		for event := range out {
			if event.Type == bullmq.EventFailed {
				if failures = append(failures, event); len(failures) == 2 {
					break
				}
			}
		}
		Expect(failures[0].Job.FinishedOn).To(BeZero())
		Expect(failures[1].Job.FinishedOn).NotTo(BeZero())
		Expect(worker.Close()).To(Succeed())
	})
})
