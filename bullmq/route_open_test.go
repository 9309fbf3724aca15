package bullmq_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
)

// gpu is a target with a route of its own.
func gpu() *bullmq.Target { return &bullmq.Target{Capabilities: []string{"gpu"}} }

var _ = Describe("An add of a job with a target", func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, nil)
	})
	registered := func() []string { GinkgoHelper(); return zsetAt("bull:" + name + "@x:queues") }

	It("adds it to the route, which is registered, and leaves the queue alone", func() {
		job, err := queue.Add(ctx, "resize", map[string]int{"n": 1}, &bullmq.JobOptions{Target: gpu(), Priority: 3})
		Expect(err).NotTo(HaveOccurred())
		Expect(job.QueueName()).To(Equal(name + "@gpu"))
		Expect(job.AddOutcome()).To(Equal(bullmq.Added))
		Expect(registered()).To(ConsistOf(name + "@gpu"))
		Expect(queue.Counts(ctx)).To(HaveEach(0))
		route := newQueue(name+"@gpu", nil)
		read, err := route.Job(ctx, job.ID)
		Expect(err).NotTo(HaveOccurred())
		Expect(read.Options.Target.Capabilities).To(Equal([]string{"gpu"}))
		Expect(job.State(ctx)).To(Equal(bullmq.StatePrioritized))
		Expect(hashAt(keyOf(route.Name(), "meta"))).To(HaveKey("version"))

		var runs tally
		runWorker(route.Name(), runs.handle, nil)
		Eventually(stateOf(route, job.ID)).Should(Equal(bullmq.StateCompleted))
		runs.once(1)
	})

	It("adds it to the queue itself if the target is empty", func() {
		job, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{Target: &bullmq.Target{}})
		Expect(err).NotTo(HaveOccurred())
		Expect(job.QueueName()).To(Equal(name))
		Expect(registered()).To(BeEmpty())
	})

	It("registers a route once for many adds", func() {
		for range 5 {
			_, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{Target: gpu()})
			Expect(err).NotTo(HaveOccurred())
		}
		first := scoresAt("bull:" + name + "@x:queues")
		_, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{Target: gpu()})
		Expect(err).NotTo(HaveOccurred())
		Expect(scoresAt("bull:" + name + "@x:queues")).To(Equal(first))
	})

	It("takes the target of the queue's defaults, which a job may clear", func() {
		defaulting := newQueue(name, &bullmq.QueueOptions{DefaultJobOptions: &bullmq.JobOptions{Target: gpu()}})
		job, err := defaulting.Add(ctx, "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(job.QueueName()).To(Equal(name + "@gpu"))
		job, err = defaulting.Add(ctx, "a", nil, &bullmq.JobOptions{Reset: []string{"target"}})
		Expect(err).NotTo(HaveOccurred())
		Expect(job.QueueName()).To(Equal(name))
	})

	It("fails if the target has no route, or the queue has too many", func() {
		_, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{Target: &bullmq.Target{Region: "two words"}})
		Expect(err).To(MatchError(ContainSubstring("region")))
		for i := range 1000 {
			Expect(redisDo("ZADD", "bull:"+name+"@x:queues", "1", fmt.Sprint(name, "@c", i)).Error()).To(Succeed())
		}
		_, err = queue.Add(ctx, "a", nil, &bullmq.JobOptions{Target: gpu()})
		Expect(err).To(MatchError(bullmq.ErrTooManyRoutes))
		_, err = queue.Add(ctx, "a", nil, &bullmq.JobOptions{Target: &bullmq.Target{Capabilities: []string{"c7"}}})
		Expect(err).NotTo(HaveOccurred())
		Expect(keysOf(name + "@gpu")).To(BeEmpty())
	})

	It("adds the jobs of a bulk to their routes, in order, and returns them as they were given", func() {
		var bulk []bullmq.BulkJob
		for i := range 9 {
			options := &bullmq.JobOptions{Attempts: 1 + i}
			switch i % 3 {
			case 1:
				options.Target = gpu()
			case 2:
				options.Target = &bullmq.Target{Region: "eu"}
			}
			bulk = append(bulk, bullmq.BulkJob{Name: fmt.Sprint("job-", i), Options: options})
		}
		jobs, err := queue.AddBulk(ctx, bulk)
		Expect(err).NotTo(HaveOccurred())
		for i, job := range jobs {
			Expect(job.Name).To(Equal(fmt.Sprint("job-", i)))
			Expect(job.QueueName()).To(Equal(name + []string{"", "@gpu", "@region=eu"}[i%3]))
			Expect(job.ID).To(Equal(fmt.Sprint(1 + i/3)))
		}
		_, err = queue.AddBulk(ctx, []bullmq.BulkJob{{Name: "a"}, {Name: "b", Options: &bullmq.JobOptions{Target: &bullmq.Target{Stack: "?"}}}})
		Expect(err).To(MatchError(ContainSubstring("none of 2 jobs")))
		Expect(queue.Counts(ctx)).To(HaveKeyWithValue(bullmq.StateWaiting, 3))
	})

	It("waits for an unreachable Redis as long as AddWait allows", func() {
		proxy, through := proxiedRedis()
		waiting := newQueue(name, &bullmq.QueueOptions{Connection: through, AddWait: 20 * time.Second})
		Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
		proxy.CutAll()
		added := make(chan error, 1)
		go func() {
			defer GinkgoRecover()
			_, err := waiting.Add(ctx, "a", nil, &bullmq.JobOptions{Target: gpu()})
			added <- err
		}()
		Consistently(added, "500ms").ShouldNot(Receive())
		Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
		Eventually(added, "20s").Should(Receive(BeNil()))
	})
})

var _ = Describe("A worker that fetches a job with a target", func() {
	var (
		name         string
		queue, route *bullmq.Queue
		flows        *bullmq.FlowProducer
		ctx          context.Context
		runs         tally
	)
	BeforeEach(func() {
		name, ctx, runs = newQueueName(), specContext(), tally{}
		queue, route = newQueue(name, nil), newQueue(name+"@gpu", nil)
		var err error
		flows, err = bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: connection()})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(flows.Close)
	})
	// A flow stays in its queue, as the jobs of a client that knows no routes do.
	addHere := func(options *bullmq.JobOptions) *bullmq.Job {
		GinkgoHelper()
		job, err := flows.Add(ctx, bullmq.Flow{Name: "a", QueueName: name, Options: options})
		Expect(err).NotTo(HaveOccurred())
		return job.Job
	}
	neverRun := func(context.Context, *bullmq.Job) (any, error) {
		defer GinkgoRecover()
		Fail("the job ran")
		return nil, nil
	}

	It("forwards it to its route instead of running it, and uses no attempt", func() {
		job := addHere(&bullmq.JobOptions{JobID: "a", Target: gpu(), Attempts: 3})
		before := hashAt(keyOf(name, "a"))
		runWorker(name, neverRun, nil)
		Eventually(stateOf(route, job.ID)).Should(Equal(bullmq.StateWaiting))
		Expect(hashAt(keyOf(route.Name(), "a"))).To(Equal(before))
		Expect(keysOf(name)).NotTo(ContainElement(keyOf(name, "a")))
		Expect(zsetAt("bull:" + name + "@x:queues")).To(ConsistOf(route.Name()))
		runWorker(route.Name(), runs.handle, nil)
		Eventually(stateOf(route, job.ID)).Should(Equal(bullmq.StateCompleted))
		Expect(hashAt(keyOf(route.Name(), "a"))).To(And(HaveKeyWithValue("atm", "1"), HaveKeyWithValue("ats", "1")))
		runs.once(1)
	})

	It("runs it if the worker serves a route, whatever the target is", func() {
		_, err := route.Add(ctx, "a", nil, &bullmq.JobOptions{JobID: "a"})
		Expect(err).NotTo(HaveOccurred())
		Expect(redisDo("HSET", keyOf(route.Name(), "a"), "opts", `{"attempts":0,"target":{"region":"eu"}}`).Error()).To(Succeed())
		runWorker(route.Name(), runs.handle, nil)
		Eventually(stateOf(route, "a")).Should(Equal(bullmq.StateCompleted))
	})

	It("fails it if the target can't be read", func() {
		addHere(&bullmq.JobOptions{JobID: "a", Attempts: 5})
		Expect(redisDo("HSET", keyOf(name, "a"), "opts", `{"attempts":5,"target":{"capabilities":"gpu"}}`).Error()).To(Succeed())
		runWorker(name, neverRun, nil)
		Eventually(stateOf(queue, "a")).Should(Equal(bullmq.StateFailed))
		Expect(hashAt(keyOf(name, "a"))).To(HaveKeyWithValue("failedReason", ContainSubstring("capabilities")))
	})

	It("runs it if its target is another program's own option", func() {
		addHere(&bullmq.JobOptions{JobID: "a", Extra: map[string]json.RawMessage{"target": json.RawMessage(`{"url":"x"}`)}})
		runWorker(name, runs.handle, nil)
		Eventually(stateOf(queue, "a")).Should(Equal(bullmq.StateCompleted))
	})

	It("lets the parent in its queue wait for the forwarded child", func() {
		_, err := flows.Add(ctx, bullmq.Flow{
			Name: "parent", QueueName: name, Options: &bullmq.JobOptions{JobID: "parent"},
			Children: []bullmq.Flow{{Name: "child", QueueName: name, Options: &bullmq.JobOptions{JobID: "child", Target: gpu()}}},
		})
		Expect(err).NotTo(HaveOccurred())
		runWorker(name, runs.handle, nil)
		Eventually(stateOf(route, "child")).Should(Equal(bullmq.StateWaiting))
		Expect(queue.JobState(ctx, "parent")).To(Equal(bullmq.StateWaitingChildren))
		runWorker(route.Name(), func(context.Context, *bullmq.Job) (any, error) { return 7, nil }, nil)
		Eventually(stateOf(queue, "parent")).Should(Equal(bullmq.StateCompleted))
		runs.once(1)
	})

	It("continues the scheduler that has added it", func() {
		_, err := queue.UpsertScheduler(ctx, "tick", bullmq.Repeat{Every: 100 * time.Millisecond}, &bullmq.JobTemplate{Options: &bullmq.JobOptions{Target: gpu()}})
		Expect(err).NotTo(HaveOccurred())
		runWorker(name, neverRun, nil)
		runWorker(route.Name(), runs.handle, nil)
		Eventually(countOf(route, bullmq.StateCompleted)).Should(BeNumerically(">=", 3))
		Expect(queue.RemoveScheduler(ctx, "tick")).To(Succeed())
	})

	It("forwards many jobs once each, with several workers", func() {
		const jobs = 300
		var flow []bullmq.Flow
		for range jobs {
			flow = append(flow, bullmq.Flow{Name: "a", QueueName: name, Options: &bullmq.JobOptions{Target: gpu()}})
		}
		_, err := flows.AddBulk(ctx, flow)
		Expect(err).NotTo(HaveOccurred())
		for range 3 {
			runWorker(name, neverRun, &bullmq.WorkerOptions{Concurrency: 10})
		}
		runWorker(route.Name(), runs.handle, &bullmq.WorkerOptions{Concurrency: 10})
		Eventually(countOf(route, bullmq.StateCompleted), "30s").Should(Equal(jobs))
		runs.once(jobs)
	})

	It("leaves it as it is if the user may not rename keys", func() {
		job := addHere(&bullmq.JobOptions{JobID: "a", Target: gpu()})
		faults := make(chan error, 100)
		worker := newWorker(name, neverRun, &bullmq.WorkerOptions{
			Connection: restricted("~bull:* +@all -rename"), LockDuration: 3 * time.Second, SkipStalledCheck: true, ShutdownTimeout: time.Second,
			Events: bullmq.WorkerEvents{Error: func(err error) {
				select {
				case faults <- err:
				default:
				}
			}},
		})
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(context.Background()) }()
		Eventually(faults).Should(Receive(Satisfy(isDenied)))
		Expect(queue.JobState(ctx, job.ID)).To(Equal(bullmq.StateActive))
		Expect(worker.Close()).To(Succeed())
		Eventually(ended, "20s").Should(Receive())
		Expect(queue.JobState(ctx, job.ID)).To(Equal(bullmq.StateActive), "for the stalled check")
		Expect(keysOf(route.Name())).NotTo(ContainElement(keyOf(route.Name(), "a")))
	})

	It("delays it while its route can't be registered", func() {
		job := addHere(&bullmq.JobOptions{JobID: "a", Target: gpu()})
		Expect(redisDo("SET", "bull:"+name+"@x:queues", "not a sorted set").Error()).To(Succeed())
		runWorker(name, neverRun, nil)
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateDelayed))
		Expect(redisDo("DEL", "bull:"+name+"@x:queues").Error()).To(Succeed())
		Eventually(stateOf(route, job.ID)).Should(Equal(bullmq.StateWaiting))
	})
})

var _ = Describe("The jobs of a route", func() {
	It("obey a global concurrency and a pause of their own", func() {
		name, ctx := newQueueName(), specContext()
		queue, route := newQueue(name, nil), newQueue(name+"@resize", nil)
		Expect(route.SetGlobalConcurrency(ctx, 2)).To(Succeed())
		Expect(route.Pause(ctx)).To(Succeed())
		for range 20 {
			_, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{Target: &bullmq.Target{Capabilities: []string{"resize"}}})
			Expect(err).NotTo(HaveOccurred())
		}
		other, err := queue.Add(ctx, "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		var running, most, ran atomic.Int64
		handler := func(context.Context, *bullmq.Job) (any, error) {
			most.Store(max(most.Load(), running.Add(1)))
			time.Sleep(5 * time.Millisecond)
			running.Add(-1)
			ran.Add(1)
			return nil, nil
		}
		for range 2 {
			runWorker(route.Name(), handler, &bullmq.WorkerOptions{Concurrency: 10})
		}
		runWorker(name, doNothing, nil)
		Eventually(stateOf(queue, other.ID)).Should(Equal(bullmq.StateCompleted))
		Expect(ran.Load()).To(BeZero())
		Expect(route.Resume(ctx)).To(Succeed())
		Eventually(ran.Load, "20s").Should(Equal(int64(20)))
		Expect(most.Load()).To(BeNumerically("<=", 2))
	})
})
