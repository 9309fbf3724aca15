package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/interop/nodeprobe"
)

// Each spec makes the same calls in both libraries, on queues of the same name under different prefixes, and
// compares the spans or metrics.
var _ = Describe("The spans and metrics of both libraries", Ordered, ContinueOnFailure, func() {
	const ofGo = "gobull"
	var (
		inNode *nodeprobe.Probe // with bullmq-otel
		traced *goTelemetry
		name   string
		queue  *bullmq.Queue
	)
	BeforeAll(func() { inNode = startProbe("-telemetry") })
	BeforeEach(func() {
		traced, name = newGoTelemetry(), newQueueName()
		var err error
		queue, err = bullmq.NewQueue(context.Background(), name, &bullmq.QueueOptions{URL: server.URL(), Prefix: ofGo, Telemetry: traced})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(queue.Close)
		spansOf(inNode)
	})
	do := func(op string, args object) {
		GinkgoHelper()
		args["queue"] = name
		inNode.Do(op, args, nil)
	}
	absent := func(err error) error { // in Node this is no error
		if errors.Is(err, bullmq.ErrJobNotFound) {
			return nil
		}
		return fmt.Errorf("the job exists: %w", err)
	}
	ok := func(_ any, err error) { GinkgoHelper(); Expect(err).NotTo(HaveOccurred()) }
	byHand := func(options bullmq.FetcherOptions) *bullmq.Fetcher {
		GinkgoHelper()
		options.URL, options.Prefix, options.Telemetry = server.URL(), ofGo, traced
		fetcher, err := bullmq.NewFetcher(context.Background(), name, &options)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(fetcher.Close)
		return fetcher
	}
	worker := func(handler bullmq.Handler, options bullmq.WorkerOptions) *bullmq.Worker {
		GinkgoHelper()
		options.URL, options.Prefix, options.Telemetry = server.URL(), ofGo, traced
		worker, err := bullmq.NewWorker(context.Background(), name, handler, &options)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(worker.Close)
		return worker
	}
	// run runs a Go worker until count attempts have ended. The first one starts after the first stalled
	// check, which Node's worker makes before anything else.
	run := func(count int, handler bullmq.Handler, options bullmq.WorkerOptions) {
		GinkgoHelper()
		ctx, stop := context.WithCancel(soon())
		checks := func() []endedSpan { return all(traced.sofar(), "moveStalledJobsToWait "+name) }
		before := len(checks())
		checked := func(ctx context.Context, job *bullmq.Job) (any, error) {
			Eventually(checks).Should(HaveLen(before + 1))
			return handler(ctx, job)
		}
		options.Events.Completed = func(*bullmq.Job, any) {
			if count--; count == 0 {
				stop()
			}
		}
		options.Events.Failed = func(*bullmq.Job, error) { options.Events.Completed(nil, nil) }
		Expect(worker(checked, options).Run(ctx)).To(Succeed())
	}
	spansAreAlike := func() {
		GinkgoHelper()
		nodes, ours := likeness(spansOf(inNode)), likeness(traced.spans())
		Expect(nodes).NotTo(BeEmpty())
		Expect(names(ours)).To(ConsistOf(names(nodes)))
		Expect(ours).To(ConsistOf(nodes))
	}

	It("are the same when jobs are added", func() {
		do("add", object{"name": "paint", "data": object{}})
		do("add", object{"name": "paint", "data": object{}, "opts": object{"telemetry": object{"omitContext": true}}})
		do("addBulk", object{"jobs": []object{{"name": "a", "data": object{}}, {"name": "b", "data": object{}}}})
		do("upsertScheduler", object{"id": "tick", "repeat": object{"every": 3600000}, "template": object{"name": "strike"}})

		ok(queue.Add(soon(), "paint", nil, nil))
		ok(queue.Add(soon(), "paint", nil, &bullmq.JobOptions{Telemetry: &bullmq.JobTelemetry{OmitContext: true}}))
		ok(queue.AddBulk(soon(), []bullmq.BulkJob{{Name: "a"}, {Name: "b"}}))
		ok(queue.UpsertScheduler(soon(), "tick", bullmq.Repeat{Every: time.Hour}, &bullmq.JobTemplate{Name: "strike"}))
		spansAreAlike()
	})

	It("are the same when a job is rejected", func() {
		refusal := object{"queue": name, "name": "paint", "data": object{}, "opts": object{"jobId": "12"}}
		Expect(inNode.Refused("add", refusal)).NotTo(BeEmpty())
		_, err := queue.Add(soon(), "paint", nil, &bullmq.JobOptions{JobID: "12"})
		Expect(err).To(HaveOccurred())
		spansAreAlike()
	})

	It("are the same when flows are added", func() {
		tree := object{"name": "root", "queueName": name, "data": object{}, "children": []object{
			{"name": "left", "queueName": name + "-l", "data": object{}, "children": []object{{"name": "below", "queueName": name, "data": object{}}}},
			{"name": "right", "queueName": name + "-r", "data": object{}},
		}}
		inNode.Do("addFlow", object{"flow": tree}, nil)
		inNode.Do("addFlowBulk", object{"flows": []object{tree, {"name": "single", "queueName": name, "data": object{}}}}, nil)

		flows, err := bullmq.NewFlowProducer(context.Background(), &bullmq.FlowProducerOptions{URL: server.URL(), Prefix: ofGo, Telemetry: traced})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(flows.Close)
		flow := bullmq.Flow{Name: "root", QueueName: name, Children: []bullmq.Flow{
			{Name: "left", QueueName: name + "-l", Children: []bullmq.Flow{{Name: "below", QueueName: name}}},
			{Name: "right", QueueName: name + "-r"},
		}}
		ok(flows.Add(soon(), flow))
		ok(flows.AddBulk(soon(), []bullmq.Flow{flow, {Name: "single", QueueName: name}}))
		spansAreAlike()
	})

	It("are the same when a queue is administered", func() {
		do("add", object{"name": "paint", "data": object{}})
		ok(queue.Add(soon(), "paint", nil, nil))
		for _, step := range []struct {
			op   string
			args object
			here func() error
		}{
			{"pause", object{}, func() error { return queue.Pause(soon()) }},
			{"resume", object{}, func() error { return queue.Resume(soon()) }},
			{"rateLimit", object{"ms": 50}, func() error { return queue.RateLimit(soon(), 50*time.Millisecond) }},
			{"removeDeduplicationKey", object{"dedupId": "x"}, func() error { _, err := queue.RemoveDeduplicationKey(soon(), "x"); return err }},
			{"remove", object{"id": "7"}, func() error { return absent(queue.Remove(soon(), "7", nil)) }},
			{"remove", object{"id": "7", "removeChildren": false}, func() error { return absent(queue.Remove(soon(), "7", &bullmq.RemoveOptions{KeepChildren: true})) }},
			{"progress", object{"id": "1", "progress": object{"done": 0.5}}, func() error { return queue.UpdateJobProgress(soon(), "1", object{"done": 0.5}) }},
			{"drain", object{"delayed": false}, func() error { return queue.Drain(soon(), nil) }},
			{"drain", object{"delayed": true}, func() error { return queue.Drain(soon(), &bullmq.DrainOptions{Delayed: true}) }},
			{"clean", object{"grace": 0, "limit": 0, "type": "failed"}, func() error {
				_, err := queue.Clean(soon(), &bullmq.CleanOptions{State: bullmq.StateFailed})
				return err
			}},
			{"clean", object{"grace": 1500, "limit": 7, "type": "wait"}, func() error {
				_, err := queue.Clean(soon(), &bullmq.CleanOptions{State: "wait", Grace: 1500 * time.Millisecond, Limit: 7})
				return err
			}},
			{"retryJobs", object{}, func() error { return queue.RetryJobs(soon(), nil) }},
			{"retryJobs", object{"state": "completed", "count": 10, "timestamp": 1700000000000},
				func() error {
					return queue.RetryJobs(soon(), &bullmq.RetryJobsOptions{State: bullmq.StateCompleted, Count: 10, Until: time.UnixMilli(1700000000000)})
				}},
			{"promoteJobs", object{}, func() error { return queue.PromoteJobs(soon(), nil) }},
			{"promoteJobs", object{"count": 5}, func() error { return queue.PromoteJobs(soon(), &bullmq.PromoteJobsOptions{Count: 5}) }},
			{"trimEvents", object{"max": 5}, func() error { _, err := queue.TrimEvents(soon(), 5); return err }},
			{"obliterate", object{}, func() error { return queue.Obliterate(soon(), nil) }},
		} {
			do(step.op, step.args)
			Expect(step.here()).To(Succeed(), step.op)
			spansAreAlike()
		}
	})

	It("are the same when a worker runs jobs", func() {
		three := object{"attempts": 3}
		later := object{"attempts": 2, "backoff": object{"type": "fixed", "delay": 5}}
		handler := object{"byName": object{
			"again": object{"failUntilAttempt": 2, "return": object{"done": true}},
			"later": object{"throw": "boom"},
		}}
		do("add", object{"name": "again", "data": object{}, "opts": three})
		do("run", object{"count": 2, "handler": handler, "worker": object{"name": "w1"}})
		do("add", object{"name": "later", "data": object{}, "opts": later})
		do("run", object{"count": 2, "handler": handler})

		here := func(_ context.Context, job *bullmq.Job) (any, error) {
			if job.Name == "later" || job.AttemptsMade == 0 {
				return nil, errors.New("boom")
			}
			return object{"done": true}, nil
		}
		ok(queue.Add(soon(), "again", nil, &bullmq.JobOptions{Attempts: 3}))
		run(2, here, bullmq.WorkerOptions{Name: "w1"})
		ok(queue.Add(soon(), "later", nil, &bullmq.JobOptions{Attempts: 2, Backoff: bullmq.FixedBackoff(5 * time.Millisecond)}))
		run(2, here, bullmq.WorkerOptions{})
		spansAreAlike()

		var nodes, ours []measured
		inNode.Do("measured", nil, &nodes)
		for _, m := range traced.measured() {
			if m.Attributes["bullmq.queue.name"] == name {
				ours = append(ours, m)
			}
		}
		Expect(ours).To(HaveLen(8))
		for _, m := range ours {
			Expect(nodes).To(ContainElement(m))
		}
	})

	It("are the same when a worker starts the next job of a scheduler", func() {
		do("upsertScheduler", object{"id": "tick", "repeat": object{"every": 3600000}, "template": object{"name": "strike"}})
		do("run", object{"count": 1, "handler": object{}})
		ok(queue.UpsertScheduler(soon(), "tick", bullmq.Repeat{Every: time.Hour}, &bullmq.JobTemplate{Name: "strike"}))
		run(1, func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, bullmq.WorkerOptions{})
		node, ours := spansOf(inNode), traced.spans()
		for _, spans := range [][]endedSpan{node, ours} {
			// The handlers' return values differ: undefined in Node, and nil, which is null, in Go.
			process := the(spans, "process "+name)
			for _, event := range process.Events {
				delete(event.Attributes, "bullmq.job.result")
			}
		}
		Expect(likeness(ours)).To(ConsistOf(likeness(node)))
	})

	It("are the same when jobs are fetched by hand", func() {
		five := object{"name": "paint", "data": object{}, "opts": object{"attempts": 5}}
		do("add", five)
		do("fetch", object{"token": "t1"})
		do("fail", object{"id": "1", "token": "t1", "message": "boom"})
		do("fetch", object{"token": "t2"})
		do("complete", object{"id": "1", "token": "t2", "returnvalue": object{}})
		do("fetch", object{"token": "t3"}) // no job is left, and the program closes that worker

		ok(queue.Add(soon(), "paint", nil, &bullmq.JobOptions{Attempts: 5}))
		fetcher := byHand(bullmq.FetcherOptions{})
		job, err := fetcher.TryFetch(soon())
		Expect(err).NotTo(HaveOccurred())
		Expect(fetcher.Fail(soon(), job, errors.New("boom"))).To(Succeed())
		job, err = fetcher.TryFetch(soon())
		Expect(err).NotTo(HaveOccurred())
		Expect(fetcher.Complete(soon(), job, object{})).To(Succeed())
		_, err = fetcher.TryFetch(soon())
		Expect(err).To(MatchError(bullmq.ErrNoJob))
		Expect(fetcher.Close()).To(Succeed())
		spansAreAlike()
	})

	It("are the same when locks are renewed and a job has stalled", func() {
		do("add", object{"name": "paint", "data": object{}})
		do("run", object{"count": 1, "handler": object{"sleep": 6250, "return": "ok"}, "worker": object{"lockDuration": 10000}})
		do("add", object{"name": "paint", "data": object{}})
		do("fetch", object{"token": "t1", "worker": object{"lockDuration": 50000}})
		for range 2 {
			Expect(ask("DEL", "bull:"+name+":2:lock", "bull:"+name+":stalled-check").Error()).NotTo(HaveOccurred())
			do("stalled", object{})
		}

		ok(queue.Add(soon(), "paint", nil, nil))
		run(1, func(context.Context, *bullmq.Job) (any, error) {
			time.Sleep(6250 * time.Millisecond) // after the first renewal and before the second
			return "ok", nil
		}, bullmq.WorkerOptions{LockDuration: 10 * time.Second})
		ok(queue.Add(soon(), "paint", nil, nil))
		fetcher := byHand(bullmq.FetcherOptions{LockDuration: 50 * time.Second})
		ok(fetcher.TryFetch(soon()))
		for range 2 {
			Expect(ask("DEL", ofGo+":"+name+":2:lock", ofGo+":"+name+":stalled-check").Error()).NotTo(HaveOccurred())
			ok(fetcher.CheckStalled(soon()))
		}
		spansAreAlike()
	})

	It("are the same for a queue's counts", func() {
		do("add", object{"name": "paint", "data": object{}})
		do("recordCounts", object{})
		ok(queue.Add(soon(), "paint", nil, nil))
		counts, err := queue.RecordCounts(soon())
		Expect(err).NotTo(HaveOccurred())
		Expect(counts).To(HaveKeyWithValue(bullmq.StateWaiting, 1))
		var nodes, ofThisQueue []measured
		inNode.Do("measured", nil, &nodes)
		for _, m := range nodes {
			if m.Attributes["bullmq.queue.name"] == name {
				ofThisQueue = append(ofThisQueue, m)
			}
		}
		Expect(traced.measured()).To(ConsistOf(ofThisQueue))
		Expect(ofThisQueue).To(HaveLen(len(counts)))
	})

	It("are the same when a handler returns its job to the queue", func() {
		for name, node := range map[string]object{
			"delayed": {"delay": 5}, "snoozed": {"delay": 5}, "wait": {"wait": true}, "limit": {"rateLimit": 20},
		} {
			node["return"] = "ok"
			do("add", object{"name": name, "data": object{}})
			do("run", object{"count": 1, "handler": node, "worker": object{"limiter": object{"max": 100, "duration": 60}}})
			ok(queue.Add(soon(), name, nil, nil))
			run(1, func(ctx context.Context, job *bullmq.Job) (any, error) {
				if job.AttemptsStarted == 2 {
					return "ok", nil
				}
				switch name {
				case "delayed":
					Expect(job.MoveToDelayed(ctx, time.Now().Add(5*time.Millisecond))).To(Succeed())
					return nil, bullmq.ErrMovedToDelayed
				case "wait":
					Expect(job.MoveToWait(ctx)).To(Succeed())
					return nil, bullmq.ErrMovedToWait
				case "limit":
					return nil, bullmq.RateLimit(20 * time.Millisecond)
				}
				return nil, bullmq.Snooze(5 * time.Millisecond)
			}, bullmq.WorkerOptions{Limiter: &bullmq.Limiter{Max: 100, Duration: 60 * time.Millisecond}})
			spansAreAlike()
		}
		var nodes []measured
		inNode.Do("measured", nil, &nodes)
		Expect(traced.measured()).To(HaveLen(16)) // a counter and a duration for each way to return or finish a job
		for _, m := range traced.measured() {
			Expect(nodes).To(ContainElement(m))
		}
	})

	It("are the same when a worker is paused and resumed", func() {
		do("pauseAndResume", object{})
		w := worker(func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, bullmq.WorkerOptions{SkipStalledCheck: true})
		ended := make(chan error, 1)
		go func() { ended <- w.Run(soon()) }()
		Eventually(w.IsRunning).Should(BeTrue())
		Expect(w.Pause(soon())).To(Succeed())
		w.Resume()
		Expect(w.PauseNow(soon())).To(Succeed())
		w.Resume()
		Expect(w.Close()).To(Succeed())
		Expect(<-ended).To(Succeed())
		spansAreAlike()
	})
})
