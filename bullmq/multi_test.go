package bullmq_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A worker over many queues", func() {
	var ctx context.Context
	BeforeEach(func() { ctx = specContext() })

	It("runs the jobs of all its queues, each with the handler of its queue", func() {
		names := newQueueNames(20)
		queues := openQueues(names...)
		var own, common startLog
		all := served(names...)
		all[3].Handler = own.handle
		addMany(queues[:10], 5)
		runMultiWorker(common.handle, bullmq.MultiWorkerOptions{Queues: all, Worker: bullmq.WorkerOptions{Concurrency: 7}})
		Eventually(func() int { return own.count() + common.count() }).Should(Equal(50))
		addMany(queues, 3)
		Eventually(func() int { return own.count() + common.count() }).Should(Equal(110))
		common.once(102)
		own.once(8)
		Expect(own.each(8)).To(Equal(map[string]int{names[3]: 8}))
		for _, queue := range queues {
			Eventually(countOf(queue, bullmq.StateActive)).Should(BeZero())
			Expect(redisDo("EXISTS", keyOf(queue.Name(), "marker")).AsInt64()).To(BeZero())
		}
	})

	It("completes, fails, retries, delays and reschedules jobs as a worker of one queue does", func() {
		names := newQueueNames(2)
		queues := openQueues(names...)
		runs := make(chan string, 20)
		runMultiWorker(func(_ context.Context, job *bullmq.Job) (any, error) {
			runs <- job.QueueName() + " " + job.Name
			switch {
			case job.Name == "fail":
				return nil, bullmq.Unrecoverable(errors.New("no"))
			case job.Name == "retry" && job.AttemptsMade == 0, job.Name == "later" && job.AttemptsMade == 0:
				return nil, errors.New("again")
			case job.Name == "snooze" && job.AttemptsStarted < 2:
				return nil, bullmq.Snooze(20 * time.Millisecond)
			}
			return job.QueueName(), nil
		}, bullmq.MultiWorkerOptions{Queues: served(names...)})
		ids := map[string]string{}
		for name, o := range map[string]*bullmq.JobOptions{
			"done": nil, "fail": {Attempts: 3}, "retry": {Attempts: 2}, "snooze": nil,
			"later": {Attempts: 2, Backoff: bullmq.FixedBackoff(30 * time.Millisecond)}, "delayed": {Delay: 50 * time.Millisecond},
		} {
			job, err := queues[1].Add(ctx, name, nil, o)
			Expect(err).NotTo(HaveOccurred())
			ids[name] = job.ID
		}
		for name, id := range ids {
			want := bullmq.StateCompleted
			if name == "fail" {
				want = bullmq.StateFailed
			}
			Eventually(stateOf(queues[1], id)).Should(Equal(want), name)
		}
		_, err := queues[0].UpsertScheduler(ctx, "every", bullmq.Repeat{Every: 100 * time.Millisecond}, nil)
		Expect(err).NotTo(HaveOccurred())
		Eventually(countOf(queues[0], bullmq.StateCompleted)).Should(BeNumerically(">=", 3))
		Expect(queues[0].RemoveScheduler(ctx, "every")).To(Succeed())
	})

	It("waits for all queues over one connection, under the name of the first one", func() {
		names := newQueueNames(1000)
		queues := openQueues(names[0], names[500], names[999])
		var ran startLog
		runMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Queues: served(names...), Worker: bullmq.WorkerOptions{Name: "all"}})
		Eventually(func() int { return len(blockedClients(queues[0])) }).Should(Equal(1))
		Expect(blockedClients(queues[0])[0].Name).To(Equal("all"))
		Expect(blockedClients(queues[1])).To(BeEmpty())
		before := strings.Count(clientList(), "cmd=bzpopmin")
		addMany(queues, 2)
		Eventually(ran.count).Should(Equal(6))
		Eventually(func() int { return len(blockedClients(queues[0])) }).Should(Equal(1))
		Expect(strings.Count(clientList(), "cmd=bzpopmin")).To(Equal(before))
	})

	Describe("that has less slots than jobs", func() {
		DescribeTable("gives each queue its turn", func(concurrency, burst int) {
			names := newQueueNames(50)
			addMany(openQueues(names...), 20)
			var ran startLog
			runMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Queues: served(names...), Burst: burst, Worker: bullmq.WorkerOptions{Concurrency: concurrency}})
			Eventually(ran.count, "20s").Should(Equal(1000))
			ran.once(1000)
			// Jobs that are fetched at the same time start in any order.
			for _, first := range []int{100, 200, 500, 800} {
				counts := slices.Collect(maps.Values(ran.each(first)))
				Expect(slices.Max(counts)-slices.Min(counts)).To(BeNumerically("<=", burst+concurrency), "of the first %d", first)
				Expect(counts).To(Or(HaveLen(50), WithTransform(func([]int) bool { return first < 50*burst+concurrency }, BeTrue())))
			}
		},
			Entry("one job after the other", 1, 1),
			Entry("in bursts", 1, 4),
			Entry("with several slots", 5, 4),
		)

		It("starts jobs in the ratio of the weights", func() {
			names := newQueueNames(3)
			addMany(openQueues(names...), 300)
			all := served(names...)
			all[1].Weight, all[2].Weight = 3, 6
			var ran startLog
			runMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Queues: all, Burst: 1, Worker: bullmq.WorkerOptions{Concurrency: 3}})
			Eventually(ran.count, "20s").Should(Equal(900))
			each := ran.each(400)
			Expect(each[names[0]]).To(BeNumerically("~", 40, 8))
			Expect(each[names[1]]).To(BeNumerically("~", 120, 8))
			Expect(each[names[2]]).To(BeNumerically("~", 240, 8))
		})

		It("starts the jobs of a queue before those of all queues behind it in strict order", func() {
			names := newQueueNames(3)
			queues := openQueues(names...)
			addMany(queues, 30)
			var ran startLog
			blocked := make(chan struct{})
			worker := newMultiWorker(func(ctx context.Context, job *bullmq.Job) (any, error) {
				if ran.count() == 65 {
					<-blocked
				}
				return ran.handle(ctx, job)
			}, bullmq.MultiWorkerOptions{Queues: served(names...), Strict: true})
			run(worker)
			Eventually(ran.count, "10s").Should(Equal(65))
			addMany(queues[:1], 5) // they overtake the last queue, which has begun
			time.Sleep(20 * time.Millisecond)
			close(blocked)
			Eventually(ran.count, "10s").Should(Equal(95))
			order := ran.order()
			Expect(order[:60]).To(Equal(append(slices.Repeat(names[:1], 30), slices.Repeat(names[1:2], 30)...)))
			Expect(slices.Index(order[61:], names[0])).To(BeNumerically("<", 20), "those that came later start soon")
		})

		It("lets another queue have a slot soon while one has many jobs", func() {
			names := newQueueNames(2)
			queues := openQueues(names...)
			addMany(queues[:1], 3000)
			var ran startLog
			runMultiWorker(func(ctx context.Context, job *bullmq.Job) (any, error) {
				time.Sleep(time.Millisecond)
				return ran.handle(ctx, job)
			}, bullmq.MultiWorkerOptions{Queues: served(names...), Worker: bullmq.WorkerOptions{Concurrency: 5, DrainDelay: time.Minute}})
			Eventually(ran.count).Should(BeNumerically(">", 100))
			at := ran.count()
			addMany(queues[1:], 1)
			Eventually(func() int { return slices.Index(ran.order(), names[1]) }).Should(BeNumerically(">=", 0))
			Expect(slices.Index(ran.order(), names[1])).To(BeNumerically("<", at+1500))
		})
	})

	It("runs no more jobs of a queue at the same time than its concurrency", func() {
		names := newQueueNames(3)
		queues := openQueues(names...)
		addMany(queues, 30)
		var mu sync.Mutex
		running, most := map[string]int{}, map[string]int{}
		var done atomic.Int64
		all := served(names...)
		all[1].Concurrency = 1
		worker := runMultiWorker(func(_ context.Context, job *bullmq.Job) (any, error) {
			mu.Lock()
			running[job.QueueName()]++
			most[job.QueueName()] = max(most[job.QueueName()], running[job.QueueName()])
			mu.Unlock()
			time.Sleep(5 * time.Millisecond)
			mu.Lock()
			running[job.QueueName()]--
			mu.Unlock()
			done.Add(1)
			return nil, nil
		}, bullmq.MultiWorkerOptions{Queues: all, QueueConcurrency: 3, Worker: bullmq.WorkerOptions{Concurrency: 20}})
		Eventually(done.Load).Should(BeEquivalentTo(90))
		mu.Lock()
		Expect(most).To(Equal(map[string]int{names[0]: 3, names[1]: 1, names[2]: 3}))
		clear(most)
		mu.Unlock()
		Expect(worker.AddQueue(bullmq.ServedQueue{Name: names[1], Concurrency: 6})).To(Succeed())
		addMany(queues[1:2], 30)
		Eventually(done.Load).Should(BeEquivalentTo(120))
		mu.Lock()
		defer mu.Unlock()
		Expect(most).To(HaveKeyWithValue(names[1], BeNumerically(">", 1)))
		Expect(most).To(HaveKeyWithValue(names[1], BeNumerically("<=", 6)))
	})

	It("pauses, resumes and changes its concurrency for all queues together", func() {
		names := newQueueNames(4)
		queues := openQueues(names...)
		var ran startLog
		worker := runMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Queues: served(names...)})
		addMany(queues, 1)
		Eventually(ran.count).Should(Equal(4))
		Expect(worker.Pause(ctx)).To(Succeed())
		addMany(queues, 1)
		Consistently(ran.count, "100ms").Should(Equal(4))
		Expect(worker.SetConcurrency(3)).To(Succeed())
		Expect(worker.SetConcurrency(0)).To(MatchError("bullmq: worker of many queues: a concurrency of 0 is less than 1; Pause stops a worker"))
		worker.Resume()
		Eventually(ran.count).Should(Equal(8))
		Expect(worker.PauseNow(ctx)).To(Succeed())
		Expect(worker.IsPaused()).To(BeTrue())
		addMany(queues, 1)
		Consistently(ran.count, "50ms").Should(Equal(8))
		worker.Resume()
		Eventually(ran.count).Should(Equal(12))
		ran.once(12)
	})

	It("puts back the wake-up that it has taken when it is paused, even if the wait was cut at that moment", func() {
		queue := openQueues(newQueueName())[0]
		worker := newMultiWorker(doNothing, bullmq.MultiWorkerOptions{Queues: served(queue.Name())})
		bullmq.CutWaits(worker, 0, func() { _ = worker.Pause(ctx) })
		run(worker)
		Eventually(func() []bullmq.ConnectedClient { return blockedClients(queue) }).ShouldNot(BeEmpty())
		addMany([]*bullmq.Queue{queue}, 1)
		Eventually(worker.IsPaused).Should(BeTrue())
		Eventually(scoresAt).WithArguments(keyOf(queue.Name(), "marker")).Should(Equal(map[string]float64{"0": 0}))
	})

	It("looks at its queues at intervals if its waits are cut again and again", func() {
		const queues = 32
		var cut atomic.Int64
		worker := newMultiWorker(doNothing, bullmq.MultiWorkerOptions{Queues: served(newQueueNames(queues)...), Worker: bullmq.WorkerOptions{
			DrainDelay: time.Minute, SkipStalledCheck: true, Registration: &bullmq.RegistrationOptions{Skip: true},
		}})
		bullmq.CutWaits(worker, time.Millisecond, func() { cut.Add(1) })
		run(worker)
		Eventually(cut.Load).Should(BeNumerically(">", 10))
		before, begun, cutBefore := commandCalls()["exists"], time.Now(), cut.Load()
		looks := func() int { return (commandCalls()["exists"] - before) / 4 } // two commands for 16 queues
		Eventually(looks, "20s").Should(BeNumerically(">=", 1))
		time.Sleep(200 * time.Millisecond)
		made, took := looks(), time.Since(begun)
		GinkgoWriter.Println(made, "looks after", cut.Load()-cutBefore, "waits in", took)
		Expect(made).To(BeNumerically("<=", 1+took/(5*time.Millisecond)))
	})

	It("reports events with the queue that they concern", func() {
		names := newQueueNames(2)
		queues := openQueues(names...)
		worker := newMultiWorker(func(ctx context.Context, job *bullmq.Job) (any, error) {
			return "x", job.UpdateProgress(ctx, 1)
		}, bullmq.MultiWorkerOptions{Queues: served(names...)})
		events := worker.Events(ctx, 100)
		run(worker)
		addMany(queues[1:], 1)
		next := func(of bullmq.EventType, queue string) {
			GinkgoHelper()
			var e bullmq.WorkerEvent
			Eventually(events).Should(Receive(&e))
			Expect(e.Type).To(Equal(of))
			Expect(e.QueueName).To(Equal(queue))
		}
		next(bullmq.EventActive, names[1])
		next(bullmq.EventProgress, names[1])
		next(bullmq.EventCompleted, names[1])
		next(bullmq.EventDrained, names[1])
		Expect(worker.Pause(ctx)).To(Succeed())
		next(bullmq.EventPaused, "")
		Expect(worker.Close()).To(Succeed())
		next(bullmq.EventClosing, "")
		next(bullmq.EventClosed, "")
	})

	It("emits EventDrained only for queues of which it has run a job", func() {
		names := newQueueNames(2)
		queues := openQueues(names...)
		worker := newMultiWorker(doNothing, bullmq.MultiWorkerOptions{Queues: served(names...)})
		events := worker.Events(ctx, 100)
		Expect(redisDo("ZADD", keyOf(names[0], "marker"), "0", "0").Error()).To(Succeed()) // of a job that another worker has fetched
		run(worker)
		Eventually(zsetAt).WithArguments(keyOf(names[0], "marker")).Should(BeEmpty())
		addMany(queues[1:], 1)
		for e := range events {
			if e.Type == bullmq.EventDrained {
				Expect(e.QueueName).To(Equal(names[1]))
				break
			}
		}
	})

	It("names the queue of an event of a worker of one queue too", func() {
		name := newQueueName()
		worker := newWorker(name, doNothing, nil)
		events := worker.Events(ctx, 100)
		Expect(worker.Close()).To(Succeed())
		Eventually(events).Should(Receive(HaveField("QueueName", name)))
	})

	It("returns the unfinished jobs of each queue from Run and Shutdown", func() {
		names := newQueueNames(2)
		addMany(openQueues(names...), 1)
		var running atomic.Int64
		ended := make(chan struct{})
		DeferCleanup(func() { close(ended) })
		worker := newMultiWorker(func(context.Context, *bullmq.Job) (any, error) {
			running.Add(1)
			<-ended
			return nil, nil
		}, bullmq.MultiWorkerOptions{Queues: served(names...), Worker: bullmq.WorkerOptions{Concurrency: 2}})
		result := make(chan error, 1)
		go func() { result <- worker.Run(context.Background()) }()
		Eventually(running.Load).Should(BeEquivalentTo(2))
		bound, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		err := worker.Shutdown(bound)
		for _, name := range names {
			Expect(err).To(MatchError(ContainSubstring(name)))
		}
		var left *bullmq.UnfinishedError
		Expect(errors.As(err, &left)).To(BeTrue())
		Eventually(result).Should(Receive(Equal(err)))
	})

	It("waits for running jobs when it is closed, and leaves waiting ones", func() {
		names := newQueueNames(3)
		queues := openQueues(names...)
		addMany(queues, 2)
		started := make(chan struct{}, 10)
		worker, closed := newMultiWorker(func(context.Context, *bullmq.Job) (any, error) {
			started <- struct{}{}
			time.Sleep(50 * time.Millisecond)
			return nil, nil
		}, bullmq.MultiWorkerOptions{Queues: served(names...), Worker: bullmq.WorkerOptions{Concurrency: 2}}), make(chan error, 1)
		run(worker)
		for range 2 {
			Eventually(started).Should(Receive())
		}
		go func() { closed <- worker.Close() }()
		Eventually(closed).Should(Receive(BeNil()))
		completed, waiting := 0, 0
		for _, queue := range queues {
			counts, err := queue.Counts(ctx, bullmq.StateCompleted, bullmq.StateWaiting, bullmq.StateActive)
			Expect(err).NotTo(HaveOccurred())
			Expect(counts[bullmq.StateActive]).To(BeZero())
			completed, waiting = completed+counts[bullmq.StateCompleted], waiting+counts[bullmq.StateWaiting]
		}
		Expect(completed + waiting).To(Equal(6))
		Expect(completed).To(BeNumerically(">=", 2))
	})

	It("cancels a job of one queue, or all jobs", func() {
		names := newQueueNames(2)
		addMany(openQueues(names...), 1)
		causes, running := make(chan string, 2), make(chan struct{}, 2)
		worker := runMultiWorker(func(ctx context.Context, job *bullmq.Job) (any, error) {
			running <- struct{}{}
			<-ctx.Done()
			causes <- job.QueueName() + ": " + context.Cause(ctx).Error()
			return nil, nil
		}, bullmq.MultiWorkerOptions{Queues: served(names...), Worker: bullmq.WorkerOptions{Concurrency: 2}})
		for range 2 {
			Eventually(running).Should(Receive())
		}
		Expect(worker.CancelJob(names[1], "2", "no such job")).To(BeFalse())
		Expect(worker.CancelJob(names[1], "1", "enough")).To(BeTrue())
		Eventually(causes).Should(Receive(Equal(names[1] + ": bullmq: the job is cancelled: enough")))
		Expect(worker.CancelAllJobs("all")).To(Equal(1))
		Eventually(causes).Should(Receive(Equal(names[0] + ": bullmq: the job is cancelled: all")))
	})

	DescribeTable("can't be made", func(handler bullmq.Handler, o bullmq.MultiWorkerOptions, message string) {
		o.Worker.Connection = connection()
		_, err := bullmq.NewMultiWorker(ctx, handler, &o)
		Expect(err).To(MatchError(ContainSubstring(message)))
	},
		Entry("without a queue", doNothing, bullmq.MultiWorkerOptions{}, "Queues is empty"),
		Entry("without a handler for the queues of a registry", nil, bullmq.MultiWorkerOptions{Registry: "r"}, "the queues of the Registry r need it"),
		Entry("with a registry whose name has a colon", doNothing, bullmq.MultiWorkerOptions{Registry: "a:b"}, "must not contain a colon"),
		Entry("with Accept and no registry", doNothing, bullmq.MultiWorkerOptions{Queues: served("a"), Accept: func(string) (bullmq.ServedQueue, bool) { return bullmq.ServedQueue{}, true }}, "the option Accept is set without a Registry"),
		Entry("with a queue twice", doNothing, bullmq.MultiWorkerOptions{Queues: served("a", "b", "a")}, "Queues has queue a twice"),
		Entry("without a handler", nil, bullmq.MultiWorkerOptions{Queues: served("a")}, "queue a: the handler is nil"),
		Entry("with a queue without a name", doNothing, bullmq.MultiWorkerOptions{Queues: served("a", "")}, "a queue needs a name"),
		Entry("with a negative weight", doNothing, bullmq.MultiWorkerOptions{Queues: []bullmq.ServedQueue{{Name: "a", Weight: -1}}}, "queue a: Weight -1 is less than 1"),
		Entry("with a negative concurrency of a queue", doNothing, bullmq.MultiWorkerOptions{Queues: []bullmq.ServedQueue{{Name: "a", Concurrency: -1}}}, "queue a: Concurrency -1 is negative"),
		Entry("with a limiter that limits nothing", doNothing, bullmq.MultiWorkerOptions{Queues: []bullmq.ServedQueue{{Name: "a", Limiter: &bullmq.Limiter{}}}}, "queue a: Limiter needs a Max"),
		Entry("with a negative concurrency of queues", doNothing, bullmq.MultiWorkerOptions{Queues: served("a"), QueueConcurrency: -1}, "QueueConcurrency -1 is negative"),
		Entry("with a negative burst", doNothing, bullmq.MultiWorkerOptions{Queues: served("a"), Burst: -1}, "the Burst -1 is less than 1"),
		Entry("with wrong options of its jobs", doNothing, bullmq.MultiWorkerOptions{Queues: served("a"), Worker: bullmq.WorkerOptions{Concurrency: -1}}, "Concurrency -1 is less than 1"),
		Entry("with dead letters without a queue", doNothing, bullmq.MultiWorkerOptions{Queues: served("a"), Worker: bullmq.WorkerOptions{DeadLetters: &bullmq.DeadLetterOptions{}}}, "DeadLetters: the queue for dead letters has no name"),
		Entry("with dead letters in a queue with a colon", doNothing, bullmq.MultiWorkerOptions{Queues: served("a"), Worker: bullmq.WorkerOptions{DeadLetters: &bullmq.DeadLetterOptions{QueueName: "a:b"}}}, "must not contain a colon"),
	)
})
