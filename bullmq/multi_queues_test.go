package bullmq_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

var _ = Describe("The queues of a worker over many queues", func() {
	var ctx context.Context
	BeforeEach(func() { ctx = specContext() })

	It("are served once they are added, whether the worker is idle or busy", func() {
		names := newQueueNames(12)
		queues := openQueues(names...)
		addMany(queues[1:], 2)
		var ran startLog
		worker := runMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Queues: served(names[0]), Worker: bullmq.WorkerOptions{DrainDelay: time.Minute}})
		waitUntilIdle(queues[0])
		for _, name := range names[1:6] {
			Expect(worker.AddQueue(bullmq.ServedQueue{Name: name})).To(Succeed())
		}
		Eventually(ran.count).Should(Equal(10))
		addMany(queues[:1], 500)
		for _, name := range names[6:] {
			Expect(worker.AddQueue(bullmq.ServedQueue{Name: name})).To(Succeed())
		}
		Eventually(ran.count).Should(Equal(522))
		waitUntilIdle(queues[0])
		addMany(queues, 1)
		Eventually(ran.count).Should(Equal(534))
		ran.once(534)
		slices.Sort(names)
		Expect(worker.Queues()).To(Equal(names))
	})

	It("get no call once they are removed, and may be added again", func() {
		names := newQueueNames(3)
		queues := openQueues(names...)
		var ran startLog
		worker := runMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Queues: served(names...), Worker: bullmq.WorkerOptions{DrainDelay: 50 * time.Millisecond}})
		addMany(queues, 1)
		Eventually(ran.count).Should(Equal(3))
		Expect(worker.RemoveQueue(names[1])).To(BeTrue())
		Expect(worker.RemoveQueue(names[1])).To(BeFalse())
		Expect(worker.Queues()).NotTo(ContainElement(names[1]))
		addMany(queues, 1)
		Eventually(ran.count).Should(Equal(5))
		Eventually(func() map[string]float64 { return scoresAt(keyOf(names[1], "marker")) }).Should(Equal(map[string]float64{"0": 0}))
		before := snapshot(names[1])
		time.Sleep(300 * time.Millisecond)
		Expect(ran.count()).To(Equal(5))
		Expect(snapshot(names[1])).To(Equal(before), "the wake-up is left to others")
		Expect(worker.AddQueue(bullmq.ServedQueue{Name: names[1]})).To(Succeed())
		Eventually(ran.count).Should(Equal(6))
		ran.once(6)
	})

	It("that are removed while jobs run finish these jobs, which count when the queue is added again", func() {
		names := newQueueNames(2)
		queues := openQueues(names...)
		addMany(queues[1:], 3)
		var running, most, done atomic.Int64
		hold := make(chan struct{})
		worker := runMultiWorker(func(context.Context, *bullmq.Job) (any, error) {
			most.Store(max(most.Load(), running.Add(1)))
			<-hold
			running.Add(-1)
			done.Add(1)
			return nil, nil
		}, bullmq.MultiWorkerOptions{Queues: served(names...), QueueConcurrency: 1, Worker: bullmq.WorkerOptions{Concurrency: 5}})
		Eventually(running.Load).Should(BeEquivalentTo(1))
		Expect(worker.RemoveQueue(names[1])).To(BeTrue())
		Expect(worker.AddQueue(bullmq.ServedQueue{Name: names[1]})).To(Succeed())
		Consistently(running.Load, "100ms").Should(BeEquivalentTo(1))
		Expect(worker.RemoveQueue(names[1])).To(BeTrue())
		close(hold)
		Eventually(done.Load).Should(BeEquivalentTo(1))
		Eventually(countOf(queues[1], bullmq.StateCompleted)).Should(Equal(1))
		Expect(worker.AddQueue(bullmq.ServedQueue{Name: names[1]})).To(Succeed())
		Eventually(done.Load).Should(BeEquivalentTo(3))
		Expect(most.Load()).To(BeEquivalentTo(1))
	})

	It("are added and removed at any moment without a lost job", func() {
		names := newQueueNames(10)
		queues := openQueues(names...)
		var ran startLog
		worker := runMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Queues: served(names[0]), Worker: bullmq.WorkerOptions{Concurrency: 4, DrainDelay: time.Minute}})
		for round := range 30 {
			addMany(queues[round%10:round%10+1], 5)
			for i, name := range names[1:] {
				if (round+i)%3 == 0 {
					worker.RemoveQueue(name)
				} else {
					Expect(worker.AddQueue(bullmq.ServedQueue{Name: name, Weight: 1 + i})).To(Succeed())
				}
			}
		}
		for _, name := range names {
			Expect(worker.AddQueue(bullmq.ServedQueue{Name: name})).To(Succeed())
		}
		Eventually(ran.count).Should(Equal(150))
		ran.once(150)
	})

	It("are not created or kept by a worker that finds no job in them", func() {
		names := newQueueNames(300)
		runMultiWorker(doNothing, bullmq.MultiWorkerOptions{
			Queues: served(names...), Worker: bullmq.WorkerOptions{DrainDelay: 20 * time.Millisecond, StalledInterval: 50 * time.Millisecond},
		})
		time.Sleep(time.Second)
		for _, name := range []string{names[0], names[150], names[299]} {
			Expect(keysOf(name)).To(BeEmpty())
		}
	})

	It("are found without a wake-up, if another worker has taken it and died", func() {
		names := newQueueNames(3)
		queues := openQueues(names...)
		var ran startLog
		runMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Queues: served(names...), Worker: bullmq.WorkerOptions{DrainDelay: 300 * time.Millisecond}})
		waitUntilIdle(queues[0])
		// The jobs of another queue, without its marker.
		other := openQueues(newQueueName())[0]
		addMany([]*bullmq.Queue{other}, 2)
		for _, suffix := range []string{"1", "2", "id", "meta", "wait"} {
			Expect(redisDo("RENAME", keyOf(other.Name(), suffix), keyOf(names[2], suffix)).Error()).To(Succeed())
		}
		Eventually(ran.count).Should(Equal(2))
	})

	DescribeTable("are served whatever the rhythm of the adds, without a look at an interval", Label("slow"), func(count, concurrency int) {
		names := newQueueNames(count)
		queues := openQueues(names...)
		all := served(names...)
		all[0].Concurrency = 1
		Expect(queues[1].SetGlobalConcurrency(ctx, 1)).To(Succeed())
		var ran startLog
		runMultiWorker(func(ctx context.Context, job *bullmq.Job) (any, error) {
			if n := rand.IntN(20); n > 17 {
				time.Sleep(time.Duration(n) * time.Millisecond)
			}
			return ran.handle(ctx, job)
		}, bullmq.MultiWorkerOptions{Queues: all, Worker: bullmq.WorkerOptions{Concurrency: concurrency, DrainDelay: time.Minute}})
		runWorker(names[2], ran.handle, &bullmq.WorkerOptions{DrainDelay: time.Minute})
		added := 0
		for range 30 {
			for range rand.IntN(20) {
				n := 1 + rand.IntN(3)
				at := rand.IntN(count)
				if rand.IntN(2) == 0 {
					at = rand.IntN(3)
				}
				addMany(queues[at:at+1], n)
				added += n
			}
			if rand.IntN(3) == 0 {
				Eventually(ran.count, "20s").Should(Equal(added))
			}
			time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		}
		Eventually(ran.count, "20s").Should(Equal(added))
		ran.once(added)
	},
		Entry("of few queues with one slot", 5, 1),
		Entry("of few queues with some slots", 5, 4),
		Entry("of more queues than one wait includes when it ends often", 400, 3),
	)

	It("may be ten thousand, which cost almost nothing while they are idle and are served at once", Label("slow"), func() {
		server := startRedis(redisserver.Options{})
		conn, err := bullmq.Connect(ctx, server.URL())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		names := make([]string, 10_000)
		for i := range names {
			names[i] = fmt.Sprintf("tenant-%d", i)
		}
		var at atomic.Int64
		var ran atomic.Int64
		runMultiWorker(func(context.Context, *bullmq.Job) (any, error) {
			at.Store(time.Now().UnixNano())
			ran.Add(1)
			return nil, nil
		}, bullmq.MultiWorkerOptions{Queues: served(names...), Worker: bullmq.WorkerOptions{Connection: conn, Concurrency: 10}})
		producers := make([]*bullmq.Queue, 40)
		for i := range producers {
			producers[i] = newQueue(names[i*250+100], &bullmq.QueueOptions{Connection: conn})
		}
		time.Sleep(2 * time.Second)
		used := func() time.Duration {
			var of syscall.Rusage
			Expect(syscall.Getrusage(syscall.RUSAGE_SELF, &of)).To(Succeed())
			return time.Duration(of.Utime.Nano() + of.Stime.Nano())
		}
		ownBefore, redisBefore, begun := used(), cpuOf(server), time.Now()
		time.Sleep(15 * time.Second)
		took := time.Since(begun)
		own, redis := used()-ownBefore, cpuOf(server)-redisBefore
		GinkgoWriter.Printf("idle: %.2f %% of a core in this process, %.2f %% in Redis\n", 100*own.Seconds()/took.Seconds(), 100*redis.Seconds()/took.Seconds())
		// On a quiet machine both are below 1 %. A busy one, or the race detector, makes them a multiple of that.
		Expect(own).To(BeNumerically("<", took/8))
		Expect(redis).To(BeNumerically("<", took/8))
		// One by one, the first of them in one wait for all, the others more and more often.
		var waits []time.Duration
		for i := range 200 {
			added := time.Now()
			addMany(producers[i%40:i%40+1], 1)
			Eventually(ran.Load).Should(BeEquivalentTo(i + 1))
			waits = append(waits, time.Duration(at.Load()-added.UnixNano()))
		}
		slices.Sort(waits)
		GinkgoWriter.Printf("from add to start: half within %v, all but one in 20 within %v, all within %v\n", waits[100], waits[190], waits[199])
		Expect(waits[100]).To(BeNumerically("<", 100*time.Millisecond))
	})
})
