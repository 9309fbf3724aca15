package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("Queue.Cancel", func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
		calls chan string
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, nil)
		calls = make(chan string, 100)
	})
	add := func(options *bullmq.JobOptions) *bullmq.Job {
		GinkgoHelper()
		job, err := queue.Add(ctx, "a", nil, options)
		Expect(err).NotTo(HaveOccurred())
		return job
	}
	record := func(_ context.Context, job *bullmq.Job) (any, error) {
		calls <- job.ID
		return nil, nil
	}
	// untilCancelled is a handler that runs until its context ends.
	untilCancelled := func(end func(cause error) (any, error)) bullmq.Handler {
		return func(ctx context.Context, job *bullmq.Job) (any, error) {
			calls <- job.ID
			<-ctx.Done()
			return end(context.Cause(ctx))
		}
	}
	theCause := func(cause error) (any, error) { return nil, cause }
	failedBecause := func(id, reason string) {
		GinkgoHelper()
		Eventually(stateOf(queue, id)).Should(Equal(bullmq.StateFailed))
		Expect(hashAt(keyOf(name, id))).To(And(HaveKeyWithValue("failedReason", reason), Not(HaveKey("defa"))))
	}

	DescribeTable("fails a job that is not running, without calling its handler and before other jobs:", func(prepare func() string) {
		for _, dialect := range []bullmq.Dialect{bullmq.V6, bullmq.V5} {
			name = newQueueName()
			queue = newQueue(name, &bullmq.QueueOptions{Dialect: dialect})
			for range 3 {
				add(nil)
			}
			id := prepare()
			Expect(queue.Cancel(ctx, id, "no longer wanted")).To(Equal(bullmq.CancelQueued))
			runWorker(name, record, &bullmq.WorkerOptions{Dialect: dialect, Events: bullmq.WorkerEvents{
				Failed: func(job *bullmq.Job, _ error) { calls <- "failed " + job.ID },
			}})
			Eventually(calls).Should(Receive(Equal("failed "+id)), "it is the first to be fetched")
			failedBecause(id, "cancelled: no longer wanted")
			Expect(hashAt(keyOf(name, id))).To(HaveKeyWithValue("atm", "1"))
			for range 3 {
				Eventually(calls).Should(Receive(And(Not(Equal(id)), Not(HavePrefix("failed")))))
			}
		}
	},
		Entry("waiting", func() string { return add(&bullmq.JobOptions{Attempts: 5}).ID }),
		Entry("delayed", func() string { return add(&bullmq.JobOptions{Delay: time.Hour, Attempts: 5}).ID }),
		Entry("prioritized", func() string { return add(&bullmq.JobOptions{Priority: 7, Attempts: 5}).ID }),
		Entry("waiting for children", func() string {
			producer, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: connection()})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(producer.Close)
			flow, err := producer.Add(ctx, bullmq.Flow{Name: "parent", QueueName: name, Children: []bullmq.Flow{{Name: "child", QueueName: name + "-other"}}})
			Expect(err).NotTo(HaveOccurred())
			return flow.Job.ID
		}),
	)

	It("keeps a job of a paused queue in its queue until the queue is resumed", func() {
		for _, dialect := range []bullmq.Dialect{bullmq.V6, bullmq.V5} {
			name = newQueueName()
			queue = newQueue(name, &bullmq.QueueOptions{Dialect: dialect})
			add(nil)
			job := add(nil)
			Expect(queue.Pause(ctx)).To(Succeed())
			Expect(queue.Cancel(ctx, job.ID, "")).To(Equal(bullmq.CancelQueued))
			Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateWaiting))
			Expect(queue.Jobs(ctx, bullmq.AllEntries(), bullmq.StateWaiting)).To(HaveLen(2))
			runWorker(name, record, &bullmq.WorkerOptions{Dialect: dialect})
			Expect(queue.Resume(ctx)).To(Succeed())
			failedBecause(job.ID, "cancelled")
		}
	})

	It("cancels the handler of a job that runs in another process, and fails the job without a retry", func() {
		runWorker(name, untilCancelled(func(cause error) (any, error) { return nil, fmt.Errorf("stopped at page 3: %w", cause) }), nil)
		job := add(&bullmq.JobOptions{Attempts: 5, Backoff: bullmq.FixedBackoff(time.Hour)})
		Eventually(calls).Should(Receive())
		Expect(queue.Cancel(ctx, job.ID, "the order is void")).To(Equal(bullmq.CancelRunning))
		failedBecause(job.ID, "cancelled: the order is void")
		read, err := queue.Job(ctx, job.ID)
		Expect(err).NotTo(HaveOccurred())
		Expect(read.AttemptsMade).To(Equal(1))
		Expect(read.StackTrace).To(ConsistOf(ContainSubstring("stopped at page 3: bullmq: the job is cancelled: the order is void")))
	})

	It("cancels the handler with a *CancelledError, which has the reason", func() {
		causes := make(chan error, 1)
		runWorker(name, untilCancelled(func(cause error) (any, error) { causes <- cause; return nil, cause }), nil)
		job := add(nil)
		Eventually(calls).Should(Receive())
		Expect(queue.Cancel(ctx, job.ID, "cancelled: twice")).To(Equal(bullmq.CancelRunning))
		var cause error
		Eventually(causes).Should(Receive(&cause))
		Expect(cause).To(Equal(&bullmq.CancelledError{Reason: "cancelled: twice"}))
	})

	It("lets the worker log that the job was cancelled, whether it ran or not", func() {
		var lines logLines
		logger := bullmq.Zerolog(zerolog.New(&lines))
		waiting := add(&bullmq.JobOptions{Attempts: 5})
		Expect(queue.Cancel(ctx, waiting.ID, "no longer wanted")).To(Equal(bullmq.CancelQueued))
		runWorker(name, untilCancelled(theCause), &bullmq.WorkerOptions{Logger: logger})
		failedBecause(waiting.ID, "cancelled: no longer wanted")
		running := add(&bullmq.JobOptions{Attempts: 5})
		Eventually(calls).Should(Receive(Equal(running.ID)))
		Expect(queue.Cancel(ctx, running.ID, "the order is void")).To(Equal(bullmq.CancelRunning))
		failedBecause(running.ID, "cancelled: the order is void")
		line := func(id, reason string) entry {
			return entry{"info", "a job was cancelled", map[string]any{
				"queue": name, "job": id, "name": "a", "attempt": 1.0, "retry": false, "error": reason,
			}}
		}
		Eventually(func() []entry { return entriesOf(lines.all()) }).Should(ContainElements(
			line(waiting.ID, "cancelled: no longer wanted"), line(running.ID, "cancelled: the order is void")))
	})

	DescribeTable("fails a running job whatever error its handler returns:", func(err error) {
		runWorker(name, untilCancelled(func(error) (any, error) { return nil, err }), nil)
		job := add(&bullmq.JobOptions{Attempts: 5})
		Eventually(calls).Should(Receive())
		Expect(queue.Cancel(ctx, job.ID, "why not")).To(Equal(bullmq.CancelRunning))
		failedBecause(job.ID, "cancelled: why not")
		Consistently(calls, "50ms").ShouldNot(Receive())
	},
		Entry("a retry", errors.New("broken")),
		Entry("Snooze", bullmq.Snooze(time.Hour)),
		Entry("RateLimit", bullmq.RateLimit(time.Hour)),
		Entry("Unrecoverable", bullmq.Unrecoverable(errors.New("broken"))),
	)

	It("is shown by Job.Cancelled once the job has failed, also by the job of the worker's event", func() {
		ended := make(chan *bullmq.Job, 3)
		waiting, running, broken := add(nil), "", ""
		Expect(queue.Cancel(ctx, waiting.ID, "no longer wanted")).To(Equal(bullmq.CancelQueued))
		cancelled := func(id string) (string, bool) {
			GinkgoHelper()
			job, err := queue.Job(ctx, id)
			Expect(err).NotTo(HaveOccurred())
			return job.Cancelled()
		}
		reason, yes := cancelled(waiting.ID)
		Expect(yes).To(BeFalse(), "it has not failed yet: "+reason)
		runWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
			if job.ID == broken {
				return nil, errors.New("cancelled: by the handler itself")
			}
			calls <- job.ID
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}, &bullmq.WorkerOptions{Events: bullmq.WorkerEvents{Failed: func(job *bullmq.Job, _ error) { ended <- job }}})
		for _, want := range []string{"no longer wanted", ""} {
			if want == "" {
				running = add(nil).ID
				Eventually(calls).Should(Receive(Equal(running)))
				Expect(queue.Cancel(ctx, running, "")).To(Equal(bullmq.CancelRunning))
			}
			var job *bullmq.Job
			Eventually(ended).Should(Receive(&job))
			for _, seen := range []func() (string, bool){job.Cancelled, func() (string, bool) { return cancelled(job.ID) }} {
				reason, yes := seen()
				Expect(yes).To(BeTrue(), want)
				Expect(reason).To(Equal(want))
			}
		}
		broken = "broken"
		add(&bullmq.JobOptions{JobID: broken})
		Eventually(stateOf(queue, broken)).Should(Equal(bullmq.StateFailed))
		_, yes = cancelled(broken)
		Expect(yes).To(BeFalse(), "the handler's own error")
	})

	DescribeTable("is not shown by Job.Cancelled for a job", func(shown bool, fields ...string) {
		Expect(redisDo(append([]string{"HSET", keyOf(name, "7"), "name", "a", "data", "{}"}, fields...)...).Error()).To(Succeed())
		job, err := queue.Job(ctx, "7")
		Expect(err).NotTo(HaveOccurred())
		_, cancelled := job.Cancelled()
		Expect(cancelled).To(Equal(shown))
	},
		Entry("unless it has failed with the reason", true, "cancelled", "1", "failedReason", "cancelled: why", "finishedOn", "1"),
		Entry("that failed with an error of the handler, after an earlier cancellation", false, "cancelled", "1", "failedReason", "boom", "finishedOn", "1"),
		Entry("whose own error begins like the reason", false, "failedReason", "cancelled: why", "finishedOn", "1"),
		Entry("that waits for its next attempt", false, "cancelled", "1", "failedReason", "cancelled: why"),
		Entry("that has completed", false, "cancelled", "1", "failedReason", "cancelled: why", "finishedOn", "1", "returnvalue", "null"),
	)

	It("is not shown for a job without a record", func() {
		_, cancelled := queue.JobRef("7").Cancelled()
		Expect(cancelled).To(BeFalse())
		_, cancelled = (*bullmq.Job)(nil).Cancelled()
		Expect(cancelled).To(BeFalse())
	})

	It("lets a running job complete whose handler returns a value, and leaves nothing for its next run", func() {
		runWorker(name, untilCancelled(func(error) (any, error) { return "half of it", nil }), nil)
		job := add(nil)
		Eventually(calls).Should(Receive())
		Expect(queue.Cancel(ctx, job.ID, "too late")).To(Equal(bullmq.CancelRunning))
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateCompleted))
		Expect(hashAt(keyOf(name, job.ID))).NotTo(HaveKey("defa"))
		Expect(queue.JobRef(job.ID).Retry(ctx, bullmq.StateCompleted, nil)).To(Succeed())
		Eventually(calls).Should(Receive(Equal(job.ID)))
		Expect(queue.Cancel(ctx, job.ID, "again")).To(Equal(bullmq.CancelRunning))
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateCompleted))
	})

	It("leaves nothing that cancels a job again after Job.Retry", Label("slow"), func() {
		release := make(chan struct{})
		runs := 0
		runWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
			runs++
			calls <- job.ID
			if runs == 1 {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}
			select {
			case <-release:
				return "done", nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}, &bullmq.WorkerOptions{LockDuration: 5 * time.Second, LockRenewTime: 100 * time.Millisecond})
		job := add(nil)
		Eventually(calls).Should(Receive())
		Expect(queue.Cancel(ctx, job.ID, "once")).To(Equal(bullmq.CancelRunning))
		failedBecause(job.ID, "cancelled: once")
		Expect(queue.JobRef(job.ID).Retry(ctx, bullmq.StateFailed, nil)).To(Succeed())
		Eventually(calls).Should(Receive())
		Consistently(stateOf(queue, job.ID), "1500ms").Should(Equal(bullmq.StateActive), "several renewals and polls")
		close(release)
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateCompleted))
	})

	It("reaches a worker that can't read the stream when the worker renews its locks", func() {
		runWorker(name, untilCancelled(theCause), &bullmq.WorkerOptions{
			Connection: restricted("~bull:" + name + ":* +@all"), LockDuration: 5 * time.Second, LockRenewTime: 500 * time.Millisecond,
		})
		job := add(nil)
		Eventually(calls).Should(Receive())
		Expect(queue.Cancel(ctx, job.ID, "slowly")).To(Equal(bullmq.CancelRunning))
		failedBecause(job.ID, "cancelled: slowly")
	})

	It("works without permission for the stream, which only makes it slower", func() {
		narrow := newQueue(name, &bullmq.QueueOptions{Connection: restricted("~bull:" + name + ":* +@all")})
		runWorker(name, untilCancelled(theCause), &bullmq.WorkerOptions{LockDuration: 5 * time.Second, LockRenewTime: 500 * time.Millisecond})
		job := add(nil)
		Eventually(calls).Should(Receive())
		Expect(narrow.Cancel(ctx, job.ID, "slowly")).To(Equal(bullmq.CancelRunning))
		Expect(redisDo("EXISTS", "bull:"+name+"@x:events").AsInt64()).To(BeZero())
		failedBecause(job.ID, "cancelled: slowly")
	})

	It("fails a job whose worker is gone once the stalled check has found it", func() {
		fetcher := newFetcher(name, &bullmq.FetcherOptions{StalledInterval: time.Millisecond, LockDuration: 10 * time.Millisecond})
		job := add(nil)
		Expect(takeJob(fetcher).ID).To(Equal(job.ID))
		Expect(queue.Cancel(ctx, job.ID, "abandoned")).To(Equal(bullmq.CancelRunning))
		Eventually(func() ([]string, error) { return fetcher.CheckStalled(ctx) }).Should(Equal([]string{job.ID}))
		runWorker(name, record, nil)
		failedBecause(job.ID, "cancelled: abandoned")
		Expect(calls).NotTo(Receive())
	})

	It("fails a job that a handler puts off after it was cancelled when it is fetched next", func() {
		runWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
			calls <- job.ID
			<-ctx.Done()
			if err := job.MoveToDelayed(ctx, time.Now().Add(50*time.Millisecond)); err != nil {
				return nil, err
			}
			return nil, bullmq.ErrMovedToDelayed
		}, nil)
		job := add(nil)
		Eventually(calls).Should(Receive())
		Expect(queue.Cancel(ctx, job.ID, "put off")).To(Equal(bullmq.CancelRunning))
		failedBecause(job.ID, "cancelled: put off")
		Expect(calls).NotTo(Receive())
	})

	It("does nothing to a job that has finished, and returns ErrJobNotFound for one that does not exist", func() {
		worker := runWorker(name, record, nil)
		done := add(nil)
		Eventually(stateOf(queue, done.ID)).Should(Equal(bullmq.StateCompleted))
		Expect(worker.Close()).To(Succeed()) // the wait of an idle worker removes the marker
		before := snapshot(name)
		Expect(queue.Cancel(ctx, done.ID, "late")).To(Equal(bullmq.CancelFinished))
		for _, id := range []string{"unknown", "", "meta", "events"} {
			_, err := queue.Cancel(ctx, id, "")
			Expect(err).To(MatchError(bullmq.ErrJobNotFound), id)
		}
		Expect(snapshot(name)).To(Equal(before))
	})

	It("emits the event waiting for a job that was not waiting, and none for one that was", func() {
		delayed, waiting := add(&bullmq.JobOptions{Delay: time.Hour}), add(nil)
		before := len(eventsOf(name))
		for _, job := range []*bullmq.Job{delayed, waiting} {
			Expect(queue.Cancel(ctx, job.ID, "")).To(Equal(bullmq.CancelQueued))
		}
		events := streamAt(keyOf(name, "events"))
		Expect(events).To(HaveLen(before + 1))
		Expect(events[before]).To(Equal([]string{"event", "waiting", "jobId", delayed.ID, "prev", "delayed"}))
	})

	It("writes a stream of bounded length that expires, which Obliterate deletes", func() {
		stream := "bull:" + name + "@x:events"
		job := add(nil)
		takeJob(newFetcher(name, nil))
		for range 1500 {
			Expect(queue.Cancel(ctx, job.ID, "no")).To(Equal(bullmq.CancelRunning))
		}
		Expect(redisDo("XLEN", stream).AsInt64()).To(BeNumerically("<=", 1100))
		Expect(redisDo("PTTL", stream).AsInt64()).To(BeNumerically("~", 24*time.Hour.Milliseconds(), time.Minute.Milliseconds()))
		Expect(streamAt(stream)[0]).To(Equal([]string{"event", "cancel", "jobId", job.ID, "reason", "no", "prev", "active"}))
		Expect(queue.Obliterate(ctx, &bullmq.ObliterateOptions{Force: true})).To(Succeed())
		Expect(redisDo("EXISTS", stream).AsInt64()).To(BeZero())
	})

	It("carries out what another client has asked for by an event on <queue>@x alone, once", func() {
		requests := newQueue(name+"@x", &bullmq.QueueOptions{SkipMetaUpdate: true})
		ask := func(id string) {
			GinkgoHelper()
			_, err := requests.Publish(ctx, "cancel", nil, "jobId", id, "reason", "asked for")
			Expect(err).NotTo(HaveOccurred())
		}
		for range 2 {
			runWorker(name, untilCancelled(theCause), &bullmq.WorkerOptions{Concurrency: 2})
		}
		running := add(nil)
		Eventually(calls).Should(Receive())
		delayed := add(&bullmq.JobOptions{Delay: time.Hour})
		ask(running.ID)
		ask(delayed.ID)
		ask("unknown")
		failedBecause(running.ID, "cancelled: asked for")
		failedBecause(delayed.ID, "cancelled: asked for")
		Expect(calls).NotTo(Receive())
	})

	It("costs an idle worker one command in five seconds, and a worker of short jobs no more", Label("slow"), func() {
		runWorker(name, doNothing, nil)
		waitUntilIdle(queue)
		Expect(redisDo("CONFIG", "RESETSTAT").Error()).To(Succeed())
		begun := time.Now()
		for range 500 {
			add(nil)
			time.Sleep(5 * time.Millisecond)
		}
		// While a job takes long the worker asks twice a second. A busy machine may hold one up.
		Expect(float64(commandCalls()["xread"])).To(BeNumerically("<=", 2+time.Since(begun).Seconds()/5))
	})
})
