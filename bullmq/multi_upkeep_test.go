package bullmq_test

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A worker over many queues", func() {
	var ctx context.Context
	BeforeEach(func() { ctx = specContext() })

	It("renews the locks of all queues together", func() {
		names := newQueueNames(60)
		queues := openQueues(names...)
		addMany(queues, 1)
		var running atomic.Int64
		hold := make(chan struct{})
		worker := newMultiWorker(func(ctx context.Context, _ *bullmq.Job) (any, error) {
			running.Add(1)
			select {
			case <-hold:
				return nil, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}, bullmq.MultiWorkerOptions{Queues: served(names...), Worker: bullmq.WorkerOptions{Concurrency: 60, LockDuration: 4 * time.Second, LockRenewTime: time.Second}})
		events := worker.Events(ctx, 1000)
		run(worker)
		Eventually(running.Load).Should(BeEquivalentTo(60))
		renewed := map[string]bool{}
		Eventually(func() int {
			for {
				select {
				case e := <-events:
					if e.Type == bullmq.EventLocksRenewed {
						renewed[e.QueueName] = true
					}
				default:
					return len(renewed)
				}
			}
		}, "10s").Should(Equal(60))
		close(hold)
		for _, queue := range queues {
			Eventually(countOf(queue, bullmq.StateCompleted)).Should(Equal(1))
		}
	})

	It("loses a lock of one queue without an effect on the others", func() {
		names := newQueueNames(3)
		queues := openQueues(names...)
		addMany(queues, 1)
		causes, running := make(chan string, 3), make(chan struct{}, 3)
		hold := make(chan struct{})
		runMultiWorker(func(ctx context.Context, job *bullmq.Job) (any, error) {
			running <- struct{}{}
			select {
			case <-hold:
			case <-ctx.Done():
				causes <- job.QueueName() + ": " + context.Cause(ctx).Error()
			}
			return nil, nil
		}, bullmq.MultiWorkerOptions{Queues: served(names...), Worker: bullmq.WorkerOptions{Concurrency: 3, LockDuration: 3 * time.Second, LockRenewTime: 200 * time.Millisecond}})
		for range 3 {
			Eventually(running).Should(Receive())
		}
		Expect(redisDo("DEL", keyOf(names[1], "1:lock")).Error()).To(Succeed())
		Eventually(causes).Should(Receive(Equal(names[1] + ": " + bullmq.ErrLockLost.Error())))
		close(hold)
		Eventually(countOf(queues[0], bullmq.StateCompleted)).Should(Equal(1))
		Eventually(countOf(queues[2], bullmq.StateCompleted)).Should(Equal(1))
		Expect(causes).To(BeEmpty())
	})

	It("runs stalled jobs of its queues, and checks only queues with active jobs", func() {
		names := newQueueNames(100)
		queues := openQueues(names...)
		fetched := func(queue *bullmq.Queue) {
			GinkgoHelper()
			addMany([]*bullmq.Queue{queue}, 1)
			Expect(takeJob(newFetcher(queue.Name(), nil))).NotTo(BeNil())
			Expect(redisDo("DEL", keyOf(queue.Name(), "1:lock")).Error()).To(Succeed())
		}
		for _, n := range []int{3, 50, 99} {
			fetched(queues[n])
		}
		var ran startLog
		worker := newMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Queues: served(names...), Worker: bullmq.WorkerOptions{StalledInterval: 300 * time.Millisecond}})
		events := worker.Events(ctx, 100)
		run(worker)
		Eventually(ran.count).Should(Equal(3))
		Expect(ran.each(3)).To(Equal(map[string]int{names[3]: 1, names[50]: 1, names[99]: 1}))
		stalled := map[string]bool{}
		for range 3 {
			Eventually(events).Should(Receive(And(HaveField("Type", bullmq.EventStalled), WithTransform(func(e bullmq.WorkerEvent) bool {
				stalled[e.QueueName] = true
				return len(e.JobIDs) == 1
			}, BeTrue()))))
			for len(events) > 0 {
				if e := <-events; e.Type == bullmq.EventStalled {
					stalled[e.QueueName] = true
				}
			}
			if len(stalled) == 3 {
				break
			}
		}
		Expect(stalled).To(HaveLen(3))
		Expect(redisDo("EXISTS", keyOf(names[4], "stalled-check")).AsInt64()).To(BeZero())
	})

	It("fails jobs that Queue.Cancel has cancelled, while they run and while they wait", func() {
		names := newQueueNames(3)
		queues := openQueues(names...)
		running := make(chan struct{}, 3)
		runMultiWorker(func(ctx context.Context, job *bullmq.Job) (any, error) {
			running <- struct{}{}
			<-ctx.Done()
			return nil, errors.New("stopped")
		}, bullmq.MultiWorkerOptions{Queues: served(names...), Worker: bullmq.WorkerOptions{Concurrency: 1}})
		addMany(queues[:2], 1)
		Eventually(running).Should(Receive())
		ran, waits := queues[0], queues[1]
		if stateOf(ran, "1")() != bullmq.StateActive {
			ran, waits = waits, ran
		}
		for _, queue := range []*bullmq.Queue{waits, ran} {
			_, err := queue.Cancel(ctx, "1", "no longer needed")
			Expect(err).NotTo(HaveOccurred())
		}
		for _, queue := range queues[:2] {
			Eventually(stateOf(queue, "1")).Should(Equal(bullmq.StateFailed))
		}
		Expect(running).To(BeEmpty(), "the second job is not run")
	})
})
