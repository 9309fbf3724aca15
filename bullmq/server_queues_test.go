package bullmq_test

import (
	"context"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A server", func() {
	connect := func() *bullmq.Connection {
		GinkgoHelper()
		conn, err := bullmq.Connect(specContext(), redis.URL())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		return conn
	}
	newServer := func(o bullmq.ServerOptions) *bullmq.Server {
		server := bullmq.NewServer(connect(), &o)
		DeferCleanup(func() { Expect(server.Shutdown(context.Background())).To(Succeed()) })
		return server
	}
	// counted returns a middleware that counts adds by the queue.
	counted := func() (bullmq.AddMiddleware, func(queueName string) int) {
		var mu sync.Mutex
		counts := map[string]int{}
		middleware := func(next bullmq.AddFunc) bullmq.AddFunc {
			return func(ctx context.Context, jobs []*bullmq.NewJob) error {
				mu.Lock()
				for _, job := range jobs {
					counts[job.QueueName]++
				}
				mu.Unlock()
				return next(ctx, jobs)
			}
		}
		return middleware, func(queueName string) int {
			mu.Lock()
			defer mu.Unlock()
			return counts[queueName]
		}
	}

	It("opens queues with its prefix, clock and middleware, which options of a queue override", func() {
		middleware, adds := counted()
		own, ownAdds := counted()
		at := time.UnixMilli(1_900_000_000_000)
		server := newServer(bullmq.ServerOptions{
			Prefix: "shop", Now: func() time.Time { return at }, AddMiddleware: []bullmq.AddMiddleware{middleware},
			QueueOptions: &bullmq.QueueOptions{DefaultJobOptions: &bullmq.JobOptions{Attempts: 4}, MaxEvents: 77},
		})
		name := newQueueName()
		queue, err := server.Queue(specContext(), name, nil)
		Expect(err).NotTo(HaveOccurred())
		job, err := queue.Add(specContext(), "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(job.Key()).To(HavePrefix("shop:" + name + ":"))
		Expect(job.Timestamp.Equal(at)).To(BeTrue())
		Expect(job.Options.Attempts).To(Equal(4))
		Expect(adds(name)).To(Equal(1))
		Expect(hashAt("shop:" + name + ":meta")).To(HaveKeyWithValue("opts.maxLenEvents", "77"))

		queue, err = server.Queue(specContext(), name, &bullmq.QueueOptions{
			Prefix: "other", Middleware: []bullmq.AddMiddleware{own}, DefaultJobOptions: &bullmq.JobOptions{Attempts: 5},
		})
		Expect(err).NotTo(HaveOccurred())
		job, err = queue.Add(specContext(), "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(job.Key()).To(HavePrefix("other:" + name + ":"))
		Expect(job.Options.Attempts).To(Equal(5))
		Expect([]int{adds(name), ownAdds(name)}).To(Equal([]int{2, 1}))
	})

	It("opens flow producers with its prefix and middleware", func() {
		middleware, adds := counted()
		server := newServer(bullmq.ServerOptions{Prefix: "shop", AddMiddleware: []bullmq.AddMiddleware{middleware}})
		flows, err := server.FlowProducer(specContext(), nil)
		Expect(err).NotTo(HaveOccurred())
		name := newQueueName()
		flow, err := flows.Add(specContext(), bullmq.Flow{Name: "a", QueueName: name, Children: []bullmq.Flow{{Name: "b", QueueName: name}}})
		Expect(err).NotTo(HaveOccurred())
		Expect(flow.Job.Key()).To(HavePrefix("shop:" + name + ":"))
		Expect(adds(name)).To(Equal(2))
		invalid := newServer(bullmq.ServerOptions{QueueOptions: &bullmq.QueueOptions{AddWait: -1}})
		Expect(invalid.FlowProducer(specContext(), nil)).Error().To(MatchError(ContainSubstring("AddWait")), "which it passes on")
	})

	It("wraps the adds of handlers by its middleware, and leaves the meta hash of their queues alone", func() {
		middleware, adds := counted()
		server := newServer(bullmq.ServerOptions{AddMiddleware: []bullmq.AddMiddleware{middleware}})
		name, other := newQueueName(), newQueueName()
		server.Handle(name, func(ctx context.Context, _ *bullmq.Job) (any, error) {
			queue, err := bullmq.QueueFromContext(ctx, other)
			if err == nil {
				_, err = queue.Add(ctx, "next", nil, nil)
			}
			return nil, err
		}, nil)
		go func() { _ = server.Run(context.Background()) }()
		newQueue(other, &bullmq.QueueOptions{MaxEvents: 77})
		queue := newQueue(name, nil)
		job, err := queue.Add(specContext(), "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(queue.WaitForJob(specContext(), job.ID)).Error().NotTo(HaveOccurred())
		Expect(adds(other)).To(Equal(1))
		Expect(hashAt(keyOf(other, "meta"))).To(HaveKeyWithValue("opts.maxLenEvents", "77"))
	})

	It("without a queue to serve runs until its context ends, and then closes the queues that it has opened", func() {
		server := newServer(bullmq.ServerOptions{})
		queue, err := server.Queue(specContext(), newQueueName(), nil)
		Expect(err).NotTo(HaveOccurred())
		flows, err := server.FlowProducer(specContext(), nil)
		Expect(err).NotTo(HaveOccurred())
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- server.Run(ctx) }()
		Consistently(ended, "100ms").ShouldNot(Receive())
		job, err := queue.Add(specContext(), "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		waited := make(chan error, 1)
		go func() { _, err := queue.WaitForJob(context.Background(), job.ID); waited <- err }()
		stop()
		Eventually(ended, "5s").Should(Receive(BeNil()))
		Eventually(waited).Should(Receive(MatchError(bullmq.ErrClosed)))
		Expect(queue.Add(specContext(), "a", nil, nil)).Error().To(MatchError(bullmq.ErrClosed))
		Expect(flows.Add(specContext(), bullmq.Flow{Name: "a", QueueName: "q"})).Error().To(MatchError(bullmq.ErrClosed))
		Expect(server.Queue(specContext(), newQueueName(), nil)).Error().To(MatchError(bullmq.ErrClosed))
		Expect(server.FlowProducer(specContext(), nil)).Error().To(MatchError(bullmq.ErrClosed))
		Expect(queue.Close()).To(Succeed(), "again")
	})

	It("that is not run closes its queues in Shutdown", func() {
		server := newServer(bullmq.ServerOptions{})
		queue, err := server.Queue(specContext(), newQueueName(), nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(server.Shutdown(context.Background())).To(Succeed())
		Expect(queue.Ping(specContext())).To(MatchError(bullmq.ErrClosed))
	})

	It("refuses to open a queue on another connection", func() {
		server := newServer(bullmq.ServerOptions{})
		Expect(server.Queue(specContext(), "q", &bullmq.QueueOptions{URL: redis.URL()})).Error().
			To(MatchError(ContainSubstring("queues of a server use its connection")))
		Expect(server.FlowProducer(specContext(), &bullmq.FlowProducerOptions{Connection: connect()})).Error().
			To(MatchError(ContainSubstring("flow producers of a server use its connection")))
		Expect(server.Queue(specContext(), "a:b", nil)).Error().To(MatchError(ContainSubstring("colon")))
	})

	It("serves only the queues of QueueNames", func() {
		first, second := newQueueName(), newQueueName()
		server := newServer(bullmq.ServerOptions{QueueNames: []string{second}})
		server.Handle(first, doNothing, nil)
		server.Handle(second, doNothing, nil)
		go func() { _ = server.Run(context.Background()) }()
		Eventually(server.Workers).Should(HaveLen(1))
		Expect(server.Workers()[0].QueueName()).To(Equal(second))

		server = newServer(bullmq.ServerOptions{QueueNames: []string{"frist"}})
		server.Handle(first, doNothing, nil)
		Expect(server.Run(specContext())).To(MatchError(And(ContainSubstring(`"frist"`), ContainSubstring("registered are "+first))))
	})
})
