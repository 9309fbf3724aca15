package bullmq_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
)

var _ = Describe("Closing while calls are in flight", func() {
	// The suite's leak check counts connections, so it finds one that rueidis opens during Close.
	It("keeps no connection open and ends those calls with an error", func() {
		name := newQueueName()
		for i := range 60 {
			queue, err := bullmq.NewQueue(context.Background(), name, &bullmq.QueueOptions{Connection: connection()})
			Expect(err).NotTo(HaveOccurred())
			var calls sync.WaitGroup
			for range 4 {
				calls.Go(func() {
					defer GinkgoRecover()
					for range 3 {
						_, err := queue.Counts(context.Background())
						Expect(err == nil || errors.Is(err, bullmq.ErrClosed)).To(BeTrue(), "%v", err)
					}
				})
			}
			time.Sleep(time.Duration(i%10) * 50 * time.Microsecond) // while a connection is being opened
			Expect(queue.Close()).To(Succeed())
			calls.Wait()
		}
	})
})

var _ = Describe("Queues that are closed while goroutines add jobs", func() {
	It("fail adds with ErrClosed or ErrMaybeAdded only, and lose none that succeeded", func() {
		for range 5 {
			name, ctx := newQueueName(), specContext()
			queue, err := bullmq.NewQueue(ctx, name, &bullmq.QueueOptions{Connection: connection()})
			Expect(err).NotTo(HaveOccurred())
			var added, doubtful atomic.Int64
			var calls sync.WaitGroup
			for range 30 {
				calls.Go(func() {
					defer GinkgoRecover()
					for {
						_, err := queue.Add(ctx, "paint", nil, nil)
						switch {
						case err == nil:
							added.Add(1)
							continue
						case errors.Is(err, bullmq.ErrMaybeAdded):
							doubtful.Add(1)
						default:
							Expect(err).To(MatchError(bullmq.ErrClosed))
						}
						return
					}
				})
			}
			waited := make(chan error, 1)
			go func() { _, err := queue.WaitForJob(ctx, "none"); waited <- err }()
			Eventually(added.Load).Should(BeNumerically(">", 50))
			Expect(queue.Close()).To(Succeed())
			calls.Wait()
			Eventually(waited).Should(Receive(HaveOccurred()))
			there := len(listAt(keyOf(name, "wait")))
			Expect(there).To(And(BeNumerically(">=", added.Load()), BeNumerically("<=", added.Load()+doubtful.Load())))
		}
	})
})

var _ = Describe("Closing a Connection before its queues", func() {
	It("ends their waits and watches with ErrClosed, and logs nothing", func() {
		ctx := specContext()
		conn, err := bullmq.Connect(ctx, redis.URL())
		Expect(err).NotTo(HaveOccurred())
		var log logLines
		queue := newQueue(newQueueName(), &bullmq.QueueOptions{Connection: conn, Logger: bullmq.Zerolog(zerolog.New(&log))})
		job, err := queue.Add(ctx, "paint", nil, &bullmq.JobOptions{Delay: time.Hour})
		Expect(err).NotTo(HaveOccurred())
		ended, begun := make(chan error, 2), make(chan struct{})
		go func() { _, err := queue.WaitForJob(ctx, job.ID); ended <- err }()
		go func() {
			for event, err := range queue.WatchJob(ctx, job.ID) {
				if err != nil {
					ended <- err
				} else if event.Type == bullmq.EventDelayed {
					close(begun)
				}
			}
		}()
		Eventually(begun, "5s").Should(BeClosed())
		time.Sleep(100 * time.Millisecond) // the events are being read
		Expect(conn.Close()).To(Succeed())
		for range 2 {
			Eventually(ended, "20s").Should(Receive(MatchError(bullmq.ErrClosed)))
		}
		Expect(queue.Close()).To(Succeed())
		Expect(log.all()).To(BeEmpty())
	})

	It("makes a running worker say once that it runs no more jobs, and what to do", func() {
		conn, err := bullmq.Connect(specContext(), redis.URL())
		Expect(err).NotTo(HaveOccurred())
		var log logLines
		started := make(chan struct{})
		worker := newWorker(newQueueName(), doNothing, &bullmq.WorkerOptions{
			Connection: conn, Logger: bullmq.Zerolog(zerolog.New(&log)), DrainDelay: 100 * time.Millisecond,
			Events: bullmq.WorkerEvents{Drained: func() { close(started) }},
		})
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(context.Background()) }()
		Eventually(started, "5s").Should(BeClosed())
		Expect(conn.Close()).To(Succeed())
		Eventually(log.all, "10s").Should(ContainSubstring("stop workers before you close their Connection"))
		time.Sleep(1500 * time.Millisecond) // it tries again meanwhile
		Expect(worker.Close()).To(Succeed())
		Eventually(ended, "10s").Should(Receive())
		Expect(strings.Count(log.all(), `"level":"error"`)).To(Equal(1), log.all())
	})
})

var _ = Describe("Closing while Redis is unreachable", Label("slow"), func() {
	It("opens no connection when Redis is back", func() {
		proxy := proxied(redis.Addr())
		via, ctx := bullmq.URL("redis://"+proxy.Addr()), specContext()
		for range 5 {
			name := newQueueName()
			queue, err := bullmq.NewQueue(ctx, name, &bullmq.QueueOptions{Connection: via})
			Expect(err).NotTo(HaveOccurred())
			worker, err := bullmq.NewWorker(ctx, name, doNothing, &bullmq.WorkerOptions{Connection: via})
			Expect(err).NotTo(HaveOccurred())
			reader, err := bullmq.NewQueueEvents(ctx, name, &bullmq.QueueEventsOptions{Connection: via})
			Expect(err).NotTo(HaveOccurred())
			flows, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: via})
			Expect(err).NotTo(HaveOccurred())
			worked, read := make(chan error, 1), make(chan struct{})
			go func() { worked <- worker.Run(ctx) }()
			go func() {
				defer close(read)
				for range reader.All(ctx) {
				}
			}()
			waitUntilIdle(queue)
			Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
			proxy.CutAll()
			Eventually(queue.Health).Should(HaveField("Reachable", true)) // an idle queue has not noticed the outage yet
			_, err = queue.Add(ctx, "paint", nil, nil)
			Expect(err).To(HaveOccurred())
			_, err = flows.Add(ctx, bullmq.Flow{Name: "paint", QueueName: name})
			Expect(err).To(HaveOccurred())
			Expect(queue.Close()).To(Succeed())
			Expect(worker.Close()).To(Succeed())
			Expect(reader.Close()).To(Succeed())
			Expect(flows.Close()).To(Succeed())
			Eventually(worked).Should(Receive())
			Eventually(read).Should(BeClosed())
			Eventually(proxy.Connections).Should(BeZero())
			Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
		}
		before := proxy.Accepted()
		Consistently(proxy.Accepted, 700*time.Millisecond).Should(Equal(before))
	})
})
