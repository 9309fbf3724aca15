package bullmq_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A route that no worker serves", func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, nil)
	})
	add := func(options bullmq.JobOptions) *bullmq.Job {
		GinkgoHelper()
		job, err := queue.Add(ctx, "a", nil, &options)
		Expect(err).NotTo(HaveOccurred())
		return job
	}
	gpuOr := func(fallback *bullmq.Target, after time.Duration) *bullmq.Target {
		return &bullmq.Target{Capabilities: []string{"gpu"}, Fallback: fallback, After: after}
	}
	stateIn := func(route, id string) func() (bullmq.State, error) {
		return func() (bullmq.State, error) { return newQueue(route, nil).JobState(ctx, id) }
	}
	moves := func(n int) { GinkgoHelper(); Expect(queue.MoveUnserved(ctx)).To(Equal(n)) }

	It("is listed with its jobs and without workers", func() {
		Expect(queue.Routes(ctx)).To(BeEmpty())
		add(bullmq.JobOptions{Target: gpu(), Timestamp: time.Now().Add(-time.Minute)})
		add(bullmq.JobOptions{Target: gpu(), Delay: time.Hour})
		add(bullmq.JobOptions{Target: &bullmq.Target{Region: "eu", Stack: "go", Mode: bullmq.MatchAny}})
		routes, err := queue.Routes(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(routes).To(HaveLen(2))
		Expect(routes[0].Name).To(Equal(name + "@gpu"))
		Expect(routes[0].Target).To(Equal(*gpu()))
		Expect(routes[0].Ready).To(Equal(1))
		Expect(routes[0].Counts).To(HaveKeyWithValue(bullmq.StateDelayed, 1))
		Expect(routes[0].Age).To(BeNumerically("~", time.Minute, 20*time.Second))
		Expect(routes[0].IsServed()).To(BeFalse())
		Expect(routes[1].Target).To(Equal(bullmq.Target{Region: "eu", Stack: "go", Mode: bullmq.MatchAny}))

		runWorker(name+"@gpu", doNothing, nil)
		Eventually(func(g Gomega) {
			routes, err := queue.Routes(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(routes[0].IsServed()).To(BeTrue())
			g.Expect(routes[1].IsServed()).To(BeFalse())
		}).Should(Succeed())
	})

	It("is listed with its error if its jobs can't be read", func() {
		add(bullmq.JobOptions{Target: gpu()})
		add(bullmq.JobOptions{Target: &bullmq.Target{Region: "eu"}})
		Expect(redisDo("SET", keyOf(name+"@gpu", "wait"), "not a list").Error()).To(Succeed())
		routes, err := queue.Routes(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(routes).To(HaveLen(2))
		Expect(routes[0].Err).To(MatchError(ContainSubstring("WRONGTYPE")))
		Expect(routes[1].Err).NotTo(HaveOccurred())
		Expect(routes[1].Ready).To(Equal(1))
	})

	It("keeps jobs without a fallback, and those whose time has not come", func() {
		add(bullmq.JobOptions{Target: gpu()})
		add(bullmq.JobOptions{Target: gpuOr(&bullmq.Target{Region: "eu"}, time.Hour)})
		add(bullmq.JobOptions{Target: gpuOr(&bullmq.Target{Region: "eu"}, 0), Delay: time.Hour})
		moves(0)
		Expect(keysOf(name + "@region=eu")).To(BeEmpty())
	})

	It("passes jobs to the fallback of their target, from any state in which they are ready", func() {
		past, eu := time.Now().Add(-time.Minute), &bullmq.Target{Region: "eu"}
		add(bullmq.JobOptions{JobID: "waiting", Target: gpuOr(eu, 30*time.Second), Timestamp: past})
		add(bullmq.JobOptions{JobID: "urgent", Target: gpuOr(eu, 0), Priority: 5})
		add(bullmq.JobOptions{JobID: "due", Target: gpuOr(eu, 30*time.Second), Timestamp: past, Delay: time.Second})
		add(bullmq.JobOptions{JobID: "late", Target: gpuOr(eu, 30*time.Second), Timestamp: past, Delay: 50 * time.Second})
		moves(3)
		for id, state := range map[string]bullmq.State{"waiting": bullmq.StateWaiting, "urgent": bullmq.StatePrioritized, "due": bullmq.StateWaiting} {
			Expect(stateIn(name+"@region=eu", id)()).To(Equal(state))
			job, err := newQueue(name+"@region=eu", nil).Job(ctx, id)
			Expect(err).NotTo(HaveOccurred())
			Expect(job.Options.Target.Route(name)).To(Equal(name + "@region=eu"))
			Expect(job.Options.Target.Fallback).To(BeNil())
		}
		moves(0)
	})

	It("passes jobs on along a chain of fallbacks, the last of which is any worker", func() {
		last := &bullmq.Target{}
		job := add(bullmq.JobOptions{JobID: "a", Target: gpuOr(&bullmq.Target{Region: "eu", Fallback: last}, 0)})
		moves(1)
		moves(1)
		Expect(stateIn(name, job.ID)()).To(Equal(bullmq.StateWaiting))
		var runs tally
		runWorker(name, runs.handle, nil)
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateCompleted))
		runs.once(1)
	})

	// addOther adds a job to the queue gpu with the options of another client.
	addOther := func(id, opts string) {
		GinkgoHelper()
		add(bullmq.JobOptions{JobID: id, Target: gpu(), Deduplication: &bullmq.Deduplication{ID: id}})
		Expect(redisDo("HSET", keyOf(name+"@gpu", id), "opts", opts).Error()).To(Succeed())
	}

	It("keeps jobs whose fallback is the route itself, and passes them to the fallback of that one", func() {
		addOther("a", `{"attempts":0,"target":{"capabilities":["gpu"],"fallback":{"capabilities":["GPU"],"mode":"any"}}}`)
		addOther("b", `{"attempts":0,"target":{"capabilities":["gpu"],"fallback":{"capabilities":["GPU"],"fallback":{"region":"eu"},"after":3600000}}}`)
		addOther("c", `{"attempts":0,"target":{"region":"us","fallback":{"capabilities":["gpu"],"fallback":{"region":"eu"}}}}`)
		before := hashAt(keyOf(name+"@gpu", "a"))
		moves(1)
		Expect(stateIn(name+"@gpu", "a")()).To(Equal(bullmq.StateWaiting))
		Expect(hashAt(keyOf(name+"@gpu", "a"))).To(Equal(before))
		Expect(stateIn(name+"@gpu", "b")()).To(Equal(bullmq.StateWaiting))
		Expect(stateIn(name+"@region=eu", "c")()).To(Equal(bullmq.StateWaiting))
		moves(0)
	})

	It("is refused as its own fallback", func() {
		for _, fallback := range []*bullmq.Target{{Capabilities: []string{"GPU"}}, {Capabilities: []string{"gpu"}, Mode: bullmq.MatchAny, Fallback: &bullmq.Target{}}} {
			_, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{Target: gpuOr(fallback, 0)})
			Expect(err).To(MatchError(ContainSubstring("Target.Fallback: it has the same requirements")))
		}
	})

	It("passes on jobs of all other routes and to all other fallbacks if one of them is broken, and returns the errors", func() {
		eu, us := &bullmq.Target{Region: "eu"}, &bullmq.Target{Region: "us"}
		for i, fallback := range []*bullmq.Target{eu, us, eu, us} {
			add(bullmq.JobOptions{JobID: fmt.Sprint("gpu", i), Target: gpuOr(fallback, 0)})
		}
		for _, capability := range []string{"a", "z"} {
			add(bullmq.JobOptions{JobID: capability, Target: &bullmq.Target{Capabilities: []string{capability}, Fallback: us}})
		}
		Expect(redisDo("RENAME", keyOf(name+"@a", "wait"), keyOf(name+"@a", "kept")).Error()).To(Succeed())
		Expect(redisDo("SET", keyOf(name+"@a", "wait"), "no list").Error()).To(Succeed())
		Expect(redisDo("SET", keyOf(name+"@region=eu", "meta"), "no hash").Error()).To(Succeed())
		moved, err := queue.MoveUnserved(ctx)
		Expect(moved).To(Equal(3))
		Expect(err).To(MatchError(And(ContainSubstring(name+"@a"), ContainSubstring(name+"@region=eu"))))
		for _, id := range []string{"gpu1", "gpu3", "z"} {
			Expect(stateIn(name+"@region=us", id)()).To(Equal(bullmq.StateWaiting))
		}
		Expect(stateIn(name+"@gpu", "gpu0")()).To(Equal(bullmq.StateWaiting))
	})

	It("keeps all jobs if the user may not rename keys", func() {
		add(bullmq.JobOptions{JobID: "a", Target: gpuOr(&bullmq.Target{}, 0)})
		before := hashAt(keyOf(name+"@gpu", "a"))
		restrictedQueue := newQueue(name, &bullmq.QueueOptions{Connection: restricted("~bull:* +@all -rename")})
		_, err := restrictedQueue.MoveUnserved(ctx)
		Expect(err).To(Satisfy(isDenied))
		Expect(stateIn(name+"@gpu", "a")()).To(Equal(bullmq.StateWaiting))
		Expect(hashAt(keyOf(name+"@gpu", "a"))).To(Equal(before))
	})

	It("moves no jobs while a worker serves it", func() {
		worker := runWorker(name+"@gpu", doNothing, nil)
		worker.Pause(ctx)
		Eventually(func() ([]bullmq.WorkerInfo, error) { return newQueue(name+"@gpu", nil).Workers(ctx) }).ShouldNot(BeEmpty())
		add(bullmq.JobOptions{Target: gpuOr(&bullmq.Target{}, 0)})
		moves(0)
		Expect(worker.Close()).To(Succeed())
		Eventually(func() (int, error) { return queue.MoveUnserved(ctx) }).Should(Equal(1))
	})

	It("moves no jobs of a new route while all slots of a routed worker that satisfies it are in use", func() {
		release := make(chan struct{})
		options := having("eu", "gpu")
		options.Worker.Concurrency = 1
		runRouted(name, func(context.Context, *bullmq.Job) (any, error) { <-release; return nil, nil }, options)
		DeferCleanup(func() { close(release) })
		first := add(bullmq.JobOptions{})
		Eventually(stateOf(queue, first.ID)).Should(Equal(bullmq.StateActive))
		Eventually(func() ([]bullmq.WorkerInfo, error) { return queue.Workers(ctx) }).Should(HaveLen(1))
		add(bullmq.JobOptions{Target: gpuOr(&bullmq.Target{}, 0)})
		moves(0)
		add(bullmq.JobOptions{Target: &bullmq.Target{Region: "us", Fallback: &bullmq.Target{}}})
		moves(1)
	})

	It("refuses jobs that require a worker", func() {
		required := gpu()
		required.RequireWorker = true
		_, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{Target: required})
		Expect(err).To(MatchError(bullmq.ErrNoWorker))
		Expect(err).To(MatchError(ContainSubstring(name + "@gpu")))
		Expect(keysOf(name + "@gpu")).To(BeEmpty())
		runWorker(name+"@gpu", doNothing, &bullmq.WorkerOptions{Registration: &bullmq.RegistrationOptions{Capabilities: []string{"gpu", "tpu"}}})
		Eventually(func() error {
			_, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{Target: required})
			return err
		}).Should(Succeed())
		_, err = queue.Add(ctx, "a", nil, &bullmq.JobOptions{Target: &bullmq.Target{Capabilities: []string{"tpu"}, RequireWorker: true}})
		Expect(err).To(MatchError(bullmq.ErrNoWorker), "it serves one route only")
	})
})
