package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// runRouted runs a worker of routes until the spec ends or stop is called.
func runRouted(name string, handler bullmq.Handler, options *bullmq.RoutedWorkerOptions) *bullmq.MultiWorker {
	GinkgoHelper()
	o := *options
	if o.Worker.Connection == nil && o.Worker.URL == "" {
		o.Worker.Connection = connection()
	}
	worker, err := bullmq.NewRoutedWorker(context.Background(), name, handler, &o)
	Expect(err).NotTo(HaveOccurred())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(context.Background()) }()
	DeferCleanup(func() {
		Expect(worker.Close()).To(Succeed())
		Eventually(ended).Should(Receive(Or(BeNil(), MatchError(ContainSubstring("has been run or closed")))))
	})
	return worker
}

// having returns the options of a worker that has something.
func having(region string, capabilities ...string) *bullmq.RoutedWorkerOptions {
	return &bullmq.RoutedWorkerOptions{Worker: bullmq.WorkerOptions{
		Registration: &bullmq.RegistrationOptions{Region: region, Capabilities: capabilities},
	}}
}

var _ = Describe("A routed worker", func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
		runs  tally
	)
	BeforeEach(func() {
		name, ctx, runs = newQueueName(), specContext(), tally{}
		queue = newQueue(name, nil)
	})
	add := func(id string, target *bullmq.Target) *bullmq.Job {
		GinkgoHelper()
		job, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{JobID: id, Target: target})
		Expect(err).NotTo(HaveOccurred())
		return job
	}
	stateOf := func(job *bullmq.Job) func() (bullmq.State, error) {
		return func() (bullmq.State, error) { return job.State(ctx) }
	}

	It("runs the jobs of the routes that it satisfies and of the queue, whether added before or while it runs", func() {
		before := []*bullmq.Job{add("a", nil), add("b", gpu()), add("c", &bullmq.Target{Region: "eu"})}
		other := add("x", &bullmq.Target{Capabilities: []string{"gpu"}, Region: "us"})
		runRouted(name, runs.handle, having("eu", "gpu", "avx"))
		for _, job := range before {
			Eventually(stateOf(job)).Should(Equal(bullmq.StateCompleted))
		}
		after := []*bullmq.Job{
			add("d", &bullmq.Target{Capabilities: []string{"avx", "gpu"}}),
			add("e", &bullmq.Target{Capabilities: []string{"tpu"}, Region: "eu", Mode: bullmq.MatchAny}),
		}
		for _, job := range after {
			Eventually(stateOf(job)).Should(Equal(bullmq.StateCompleted))
		}
		Expect(other.State(ctx)).To(Equal(bullmq.StateWaiting))
		runs.once(5)
	})

	It("forwards jobs with a target from the queue, and runs those that it satisfies", func() {
		flows, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: connection()})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(flows.Close)
		for id, target := range map[string]*bullmq.Target{"mine": gpu(), "other": {Region: "us"}} {
			_, err := flows.Add(ctx, bullmq.Flow{Name: "a", QueueName: name, Options: &bullmq.JobOptions{JobID: id, Target: target}})
			Expect(err).NotTo(HaveOccurred())
		}
		runRouted(name, runs.handle, having("eu", "gpu"))
		Eventually(func() (bullmq.State, error) { return newQueue(name+"@gpu", nil).JobState(ctx, "mine") }).Should(Equal(bullmq.StateCompleted))
		Eventually(func() (bullmq.State, error) { return newQueue(name+"@region=us", nil).JobState(ctx, "other") }).Should(Equal(bullmq.StateWaiting))
		runs.once(1)
	})

	It("runs jobs for its server before all others", func() {
		var mu sync.Mutex
		var order []string
		for i := range 20 {
			add(fmt.Sprint("plain-", i), nil)
			add(fmt.Sprint("gpu-", i), gpu())
		}
		for i := range 5 {
			add(fmt.Sprint("server-", i), &bullmq.Target{Server: "W1"})
		}
		options := having("", "gpu")
		options.Server, options.Worker.Concurrency = "w1", 1
		runRouted(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, job.ID)
			return nil, nil
		}, options)
		started := func() []string { mu.Lock(); defer mu.Unlock(); return slices.Clone(order) }
		Eventually(started, "20s").Should(HaveLen(45))
		last := slices.IndexFunc(started(), func(id string) bool { return id == "server-4" })
		Expect(last).To(BeNumerically("<", 10), fmt.Sprint(started()))
	})

	It("leaves the queue to others if it serves routes only", func() {
		options := having("", "gpu")
		options.RoutesOnly = true
		plain, routed := add("plain", nil), add("routed", gpu())
		runRouted(name, runs.handle, options)
		Eventually(stateOf(routed)).Should(Equal(bullmq.StateCompleted))
		Expect(plain.State(ctx)).To(Equal(bullmq.StateWaiting))
	})

	It("lets jobs be added that require a worker, even to a route that is new", func() {
		required := &bullmq.Target{Capabilities: []string{"gpu"}, Region: "eu", RequireWorker: true}
		options := having("eu", "gpu")
		options.RoutesOnly = true
		runRouted(name, runs.handle, options)
		Eventually(func() error {
			_, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{Target: required})
			return err
		}, "10s").Should(Succeed())
		_, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{Target: &bullmq.Target{Region: "us", RequireWorker: true}})
		Expect(err).To(MatchError(bullmq.ErrNoWorker))
	})

	It("passes jobs of routes that no worker serves to their fallback", func() {
		job := add("a", &bullmq.Target{Capabilities: []string{"tpu"}, Fallback: gpu()})
		runRouted(name, runs.handle, having("", "gpu"))
		Eventually(func() (bullmq.State, error) { return newQueue(name+"@gpu", nil).JobState(ctx, job.ID) }, "20s").Should(Equal(bullmq.StateCompleted))
	})

	It("moves the failed jobs of its routes and of the queue to the queue for dead letters", func() {
		jobs := []*bullmq.Job{add("a", nil), add("b", gpu())}
		options := having("", "gpu")
		options.Worker.DeadLetters = &bullmq.DeadLetterOptions{QueueName: name + ".dead", Interval: time.Hour}
		runRouted(name, func(context.Context, *bullmq.Job) (any, error) { return nil, errors.New("no") }, options)
		dead := newQueue(name+".dead", nil)
		for _, job := range jobs {
			Eventually(func() (*bullmq.DeadLetter, error) {
				letter, err := dead.DeadLetter(ctx, job.QueueName(), job.ID)
				return &letter, err
			}).Should(HaveField("Reason", "no"))
		}
	})

	It("serves the route of its server even if it serves more queues than its registration names", func() {
		options := having("eu")
		options.Server, options.Worker.Registration.Interval, options.Worker.Registration.Lease = "z", 50*time.Millisecond, 10*time.Second
		worker := runRouted(name, runs.handle, options)
		for i := range 105 {
			Expect(worker.AddQueue(bullmq.ServedQueue{Name: fmt.Sprint(name, "-", i)})).To(Succeed())
		}
		Eventually(func() ([]bullmq.WorkerInfo, error) { return queue.Workers(ctx) }).Should(ContainElement(HaveField("QueueCount", 107)))
		routes, err := queue.Routes(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(routes).To(HaveLen(1))
		Expect(routes[0].Target.Server).To(Equal("z"))
		Expect(routes[0].IsServed()).To(BeTrue())
		_, err = queue.Add(ctx, "a", nil, &bullmq.JobOptions{Target: &bullmq.Target{Server: "z", RequireWorker: true}})
		Expect(err).NotTo(HaveOccurred())
	})

	It("obeys the global concurrency of a route", func() {
		route := newQueue(name+"@resize", nil)
		Expect(route.SetGlobalConcurrency(ctx, 2)).To(Succeed())
		var mu sync.Mutex
		running, most := 0, 0
		for i := range 30 {
			add(fmt.Sprint("job-", i), &bullmq.Target{Capabilities: []string{"resize"}})
		}
		options := having("", "resize")
		options.Worker.Concurrency = 10
		for range 2 {
			runRouted(name, func(context.Context, *bullmq.Job) (any, error) {
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				time.Sleep(2 * time.Millisecond)
				mu.Lock()
				defer mu.Unlock()
				running--
				return nil, nil
			}, options)
		}
		Eventually(countOf(route, bullmq.StateCompleted), "20s").Should(Equal(30))
		Expect(most).To(BeNumerically("<=", 2))
	})

	DescribeTable("is refused", func(options *bullmq.RoutedWorkerOptions, hint string) {
		_, err := bullmq.NewRoutedWorker(ctx, name, doNothing, options)
		Expect(err).To(MatchError(ContainSubstring(hint)))
	},
		Entry("if it has nothing", having(""), "no Server"), Entry("with a capability that no target can have", having("", "a b"), "capability"),
		Entry("if it is not registered", &bullmq.RoutedWorkerOptions{Server: "a", Worker: bullmq.WorkerOptions{Registration: &bullmq.RegistrationOptions{Skip: true}}}, "Skip"),
	)
})
