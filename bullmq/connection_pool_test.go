package bullmq_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"
	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A client whose pool has too few connections", Label("slow"), func() {
	var (
		ctx    context.Context
		lines  *logLines
		logger bullmq.Logger
	)
	BeforeEach(func() {
		ctx, lines = specContext(), &logLines{}
		logger = bullmq.Zerolog(zerolog.New(lines))
	})
	// pooled returns a client with n connections in its pool and one shared connection.
	pooled := func(size int) rueidis.Client {
		GinkgoHelper()
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redis.Addr()}, DisableCache: true, BlockingPoolSize: size, PipelineMultiplex: -1})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(client.Close)
		return client
	}
	warnings := func() int { return strings.Count(lines.all(), "BlockingPoolSize") }

	DescribeTable("lets all workers of a queue fetch jobs", func(size, workers int) {
		client, name := pooled(size), newQueueName()
		queue := newQueue(name, nil)
		var together sync.WaitGroup
		together.Add(workers)
		for range workers {
			runWorker(name, func(context.Context, *bullmq.Job) (any, error) {
				together.Done()
				together.Wait()
				return nil, nil
			}, &bullmq.WorkerOptions{Connection: bullmq.Client(client), Logger: logger, DrainDelay: 10 * time.Second})
		}
		Eventually(warnings, "10s").Should(Equal(1))
		Expect(lines.all()).To(ContainSubstring(fmt.Sprintf(`"needed":%d`, workers)))
		// A worker runs one job at a time, so these finish only once each worker has fetched one.
		_, err := queue.AddBulk(ctx, make([]bullmq.BulkJob, workers))
		Expect(err).NotTo(HaveOccurred())
		Eventually(countOf(queue, bullmq.StateCompleted), "8s").Should(Equal(workers))
		Expect(warnings()).To(Equal(1))
	},
		Entry("with one connection for two workers", 1, 2),
		Entry("with four connections for eight workers", 4, 8),
	)

	DescribeTable("serves workers, event readers and waits for results of several queues", func(size int) {
		client := pooled(size)
		const queues, jobs = 3, 20
		var seen [queues]atomic.Int64
		var waits sync.WaitGroup
		failures := make(chan error, queues*jobs)
		for q := range queues {
			via := bullmq.Client(client)
			name := newQueueName()
			queue := newQueue(name, &bullmq.QueueOptions{Connection: via, Logger: logger})
			reader := newEvents(name, bullmq.QueueEventsOptions{Connection: via, Logger: logger})
			read := make(chan struct{})
			go func() {
				defer close(read)
				for event, err := range reader.All(ctx) {
					if err != nil {
						failures <- err
					} else if event.Type == bullmq.EventCompleted {
						seen[q].Add(1)
					}
				}
			}()
			DeferCleanup(func() { Expect(reader.Close()).To(Succeed()); Eventually(read).Should(BeClosed()) })
			runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) { return job.ID, nil },
				&bullmq.WorkerOptions{Connection: via, Logger: logger})
			waits.Go(func() {
				for range jobs {
					job, err := queue.Add(ctx, "a", nil, nil)
					if err == nil {
						_, err = queue.WaitForJob(ctx, job.ID)
					}
					if err != nil {
						failures <- err
						return
					}
				}
			})
		}
		done := make(chan struct{})
		go func() { waits.Wait(); close(done) }()
		Eventually(done, "30s").Should(BeClosed())
		for q := range queues {
			Eventually(seen[q].Load, "10s").Should(BeEquivalentTo(jobs))
		}
		Expect(failures).NotTo(Receive())
		Eventually(warnings, "10s").Should(Equal(1))
	},
		Entry("with one connection", 1),
		Entry("with two connections", 2),
		Entry("with three connections", 3),
	)

	It("lets the workers of a cluster take turns without errors", func() {
		clustered()
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{cluster.Addr()}, DisableCache: true, BlockingPoolSize: 1})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(client.Close)
		const workers = 4
		name, via := "{"+newQueueName()+"}", bullmq.Client(client)
		queue := newQueue(name, &bullmq.QueueOptions{Connection: via})
		failures := make(chan error, 100)
		for range workers {
			runWorker(name, doNothing, &bullmq.WorkerOptions{Connection: via, Logger: logger, DrainDelay: time.Second,
				Events: bullmq.WorkerEvents{Error: func(err error) { failures <- err }}})
		}
		Eventually(warnings, "15s").Should(Equal(1))
		_, err = queue.AddBulk(ctx, make([]bullmq.BulkJob, workers))
		Expect(err).NotTo(HaveOccurred())
		Eventually(countOf(queue, bullmq.StateCompleted), "10s").Should(Equal(workers))
		Consistently(failures, "1s").ShouldNot(Receive())
	})

	It("serves a worker as soon as the caller's own commands release a connection", func() {
		client, name := pooled(1), newQueueName()
		queue := newQueue(name, nil)
		_, release := client.Dedicate()
		runWorker(name, doNothing, &bullmq.WorkerOptions{Connection: bullmq.Client(client), Logger: logger})
		job, err := queue.Add(ctx, "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateCompleted))
		delayed, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{Delay: 500 * time.Millisecond})
		Expect(err).NotTo(HaveOccurred())
		Eventually(stateOf(queue, delayed.ID)).Should(Equal(bullmq.StateCompleted))
		Expect(queue.ConnectedWorkers(ctx)).To(BeEmpty())
		Eventually(warnings, "10s").Should(Equal(1))
		release()
		waitUntilIdle(queue)
	})

	It("serves manual fetches and leaks no goroutine for calls that waited", func() {
		client, name := pooled(1), newQueueName()
		queue := newQueue(name, nil)
		_, release := client.Dedicate()
		defer release()
		fetcher := newFetcher(name, &bullmq.FetcherOptions{Connection: bullmq.Client(client)})
		fetchNone := func() {
			GinkgoHelper()
			soon, cancel := context.WithTimeout(ctx, 150*time.Millisecond)
			defer cancel()
			_, err := fetcher.Fetch(soon)
			Expect(err).To(MatchError(context.DeadlineExceeded))
		}
		fetchNone()
		before := runtime.NumGoroutine()
		for range 5 {
			fetchNone()
		}
		Eventually(runtime.NumGoroutine).Should(BeNumerically("<=", before))

		waiting := make(chan *bullmq.Job, 1)
		go func() { job, _ := fetcher.Fetch(ctx); waiting <- job }()
		time.Sleep(300 * time.Millisecond)
		job, err := queue.Add(ctx, "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Eventually(waiting).Should(Receive(HaveField("ID", job.ID)))
	})

	It("closes workers and readers at once that still wait for a connection", func() {
		client, name := pooled(1), newQueueName()
		_, release := client.Dedicate()
		defer release()
		worker, stop, ended := startWorker(name, doNothing, &bullmq.WorkerOptions{Connection: bullmq.Client(client)})
		reader := newEvents(name, bullmq.QueueEventsOptions{Connection: bullmq.Client(client)})
		read := make(chan struct{})
		go func() {
			defer close(read)
			for range reader.All(ctx) {
			}
		}()
		time.Sleep(300 * time.Millisecond)
		stop()
		Eventually(ended).Should(Receive(BeNil()))
		Expect(worker.Close()).To(Succeed())
		Expect(reader.Close()).To(Succeed())
		Eventually(read).Should(BeClosed())
	})

	It("adds flows and bulks of thousands of jobs while every connection is in use", func() {
		client, name := pooled(1), newQueueName()
		_, release := client.Dedicate()
		defer release()
		flows, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: bullmq.Client(client)})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(flows.Close)
		short, cancel := context.WithTimeout(ctx, 40*time.Second)
		defer cancel()
		children := make([]bullmq.Flow, 2500)
		for i := range children {
			children[i] = bullmq.Flow{Name: "child", QueueName: name}
		}
		_, err = flows.Add(short, bullmq.Flow{Name: "parent", QueueName: name, Children: children})
		Expect(err).NotTo(HaveOccurred())
		queue := newQueue(name, &bullmq.QueueOptions{Connection: bullmq.Client(client)})
		_, err = queue.AddBulk(short, make([]bullmq.BulkJob, 2500))
		Expect(err).NotTo(HaveOccurred())
	})

	It("does not affect a worker that opens its own connections", func() {
		own := bullmq.Options(rueidis.ClientOption{InitAddress: []string{redis.Addr()}, BlockingPoolSize: 1})
		name := newQueueName()
		queue := newQueue(name, &bullmq.QueueOptions{Connection: own})
		for range 3 {
			runWorker(name, doNothing, &bullmq.WorkerOptions{Connection: own, Concurrency: 20, BatchSize: 1, Logger: logger})
		}
		Eventually(func() ([]bullmq.ConnectedClient, error) { return queue.ConnectedWorkers(ctx) }).Should(HaveLen(3))
		_, err := queue.AddBulk(ctx, make([]bullmq.BulkJob, 300))
		Expect(err).NotTo(HaveOccurred())
		Eventually(countOf(queue, bullmq.StateCompleted), "15s").Should(Equal(300))
		Expect(warnings()).To(BeZero())
	})

	It("lets jobs finish while another hangs on the only connection for that", func() {
		proxy, _ := proxiedRedis()
		via := bullmq.Options(rueidis.ClientOption{InitAddress: []string{proxy.Addr()}, BlockingPoolSize: 1, PipelineMultiplex: -1})
		name := newQueueName()
		queue := newQueue(name, nil)
		finish := make(chan struct{})
		hung := proxy.HangReply("the first end")
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			if job.Name == "first" {
				return "the first end", nil
			}
			<-finish
			return nil, nil
		}, &bullmq.WorkerOptions{Connection: via, Concurrency: 2, BatchSize: 1}) // the call that hangs is abandoned after 10 s
		second, err := queue.Add(ctx, "second", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		_, err = queue.Add(ctx, "first", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Eventually(hung).Should(BeClosed())
		close(finish)
		Eventually(stateOf(queue, second.ID), "7s").Should(Equal(bullmq.StateCompleted))
	})
})
