package bullmq_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A worker over queues of several nodes of a cluster", Label("slow"), func() {
	It("renews locks, checks for stalled jobs, admits queues and runs jobs of the other nodes while a node does not reply", func() {
		nodes, clients := startCluster(2)
		ctx := specContext()
		conn, err := bullmq.ConnectOption(ctx, rueidis.ClientOption{InitAddress: []string{nodes[0].Addr()}})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		// on returns names of queues whose keys are on a node.
		on := func(node, count int) (names []string) {
			for i := 0; ; i++ {
				tag := "t" + strconv.Itoa(i)
				slot, err := clients[0].Do(ctx, clients[0].B().ClusterKeyslot().Key(tag).Build()).AsInt64()
				Expect(err).NotTo(HaveOccurred())
				if int(slot)*2/16384 != node {
					continue
				}
				for range count {
					names = append(names, fmt.Sprintf("{%s}-%s", tag, newQueueName()))
				}
				return names
			}
		}
		healthy, silent := on(0, 4), on(1, 4)
		var queues []*bullmq.Queue
		for _, name := range append(healthy, silent...) {
			queues = append(queues, newQueue(name, &bullmq.QueueOptions{Connection: conn}))
		}
		running, stalled, added, other, waiting := queues[0], queues[1], queues[2], queues[3], queues[7]

		var running1 atomic.Int64
		hold := make(chan struct{})
		DeferCleanup(func() { close(hold) })
		renewing := newMultiWorker(func(context.Context, *bullmq.Job) (any, error) {
			running1.Add(1)
			<-hold
			return nil, nil
		}, bullmq.MultiWorkerOptions{Queues: served(healthy[0], silent[0]), Worker: bullmq.WorkerOptions{
			Connection: conn, Concurrency: 2, LockDuration: 10 * time.Second, LockRenewTime: 100 * time.Millisecond, ShutdownTimeout: time.Millisecond,
		}})
		addMany([]*bullmq.Queue{running, queues[4]}, 1)
		events := renewing.Events(ctx, 1000)
		go func() { _ = renewing.Run(context.Background()) }()
		Eventually(running1.Load).Should(BeEquivalentTo(2))

		var ran startLog
		starting := newMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Queues: served(silent[1], healthy[1]), Worker: bullmq.WorkerOptions{
			Connection: conn, StalledInterval: 100 * time.Millisecond, ShutdownTimeout: time.Millisecond,
		}})
		addMany([]*bullmq.Queue{stalled, added}, 1)
		Expect(takeJob(newFetcher(stalled.Name(), &bullmq.FetcherOptions{Connection: conn}))).NotTo(BeNil())
		Expect(clients[0].Do(ctx, clients[0].B().Del().Key(keyOf(stalled.Name(), "1:lock")).Build()).Error()).To(Succeed())

		var fetched startLog
		fetching := newMultiWorker(func(ctx context.Context, job *bullmq.Job) (any, error) {
			time.Sleep(2 * time.Millisecond)
			return fetched.handle(ctx, job)
		}, bullmq.MultiWorkerOptions{Queues: served(healthy[3], silent[3]), Worker: bullmq.WorkerOptions{
			Connection: conn, Concurrency: 4, ShutdownTimeout: time.Millisecond,
		}})
		addMany([]*bullmq.Queue{waiting}, 500)
		go func() { _ = fetching.Run(context.Background()) }()
		Eventually(fetched.count).Should(BeNumerically(">", 0))
		Expect(fetching.Pause(ctx)).To(Succeed())
		before := fetched.count()

		Expect(nodes[1].Freeze()).To(Succeed())
		DeferCleanup(nodes[1].Thaw)
		frozen := time.Now()
		for len(events) > 0 {
			<-events
		}
		fetching.Resume()
		go func() { _ = starting.Run(context.Background()) }()
		renewals := func() (n int) {
			for len(events) > 0 {
				if e := <-events; e.Type == bullmq.EventLocksRenewed && e.QueueName == running.Name() {
					n++
				}
			}
			return n
		}
		total := 0
		Eventually(func() int { total += renewals(); return total }, "4s").Should(BeNumerically(">=", 5), "renewals of the lock of a job on the other node")
		GinkgoWriter.Println("renewed", time.Since(frozen))
		addMany([]*bullmq.Queue{other}, 8)
		Eventually(fetched.count).Should(Equal(before+8), "jobs run")
		GinkgoWriter.Println("jobs ran", time.Since(frozen))
		Eventually(ran.order, "10s").Should(ConsistOf(stalled.Name()))
		GinkgoWriter.Println("stalled job ran", time.Since(frozen))
		for _, name := range []string{silent[2], added.Name()} {
			Expect(starting.AddQueue(bullmq.ServedQueue{Name: name})).To(Succeed())
		}
		Eventually(ran.order, "10s").Should(ConsistOf(stalled.Name(), added.Name()))
		GinkgoWriter.Println("added queue served", time.Since(frozen))

		Expect(nodes[1].Thaw()).To(Succeed())
		each := And(HaveLen(2), HaveEach(1))
		waits := func(first *bullmq.Queue) func() map[string]int {
			return func() map[string]int {
				count := map[string]int{}
				for _, client := range blockedClients(first) {
					count[client.Fields["laddr"]]++
				}
				return count
			}
		}
		Eventually(waits(other), "10s").Should(each, "a wait on each node, for the queues of its slot")
		Eventually(waits(queues[5]), "10s").Should(each, "also of a worker that has begun meanwhile")
		GinkgoWriter.Println("waited on both nodes", time.Since(frozen))
	})

	It("keeps nothing for a hash tag of which it serves no queue any more, and serves it again when one is added", func() {
		clustered() // waits until it is usable
		conn, err := bullmq.Connect(specContext(), cluster.URL())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		var names []string
		for range 10 {
			name := newQueueName()
			names = append(names, "{"+name+"}")
		}
		var queues []*bullmq.Queue
		for _, name := range names {
			queues = append(queues, newQueue(name, &bullmq.QueueOptions{Connection: conn}))
		}
		var ran startLog
		worker := runMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Queues: served(names[0]), Worker: bullmq.WorkerOptions{Connection: conn}})
		addMany(queues[:1], 1)
		Eventually(ran.count).Should(Equal(1))
		before := runtime.NumGoroutine()
		for round := range 2 {
			for _, name := range names[1:] {
				Expect(worker.AddQueue(bullmq.ServedQueue{Name: name})).To(Succeed())
			}
			addMany(queues[1:], 1)
			Eventually(ran.count).Should(Equal(1 + 9*(round+1)))
			for _, name := range names[1:] {
				Expect(worker.RemoveQueue(name)).To(BeTrue())
			}
			Eventually(runtime.NumGoroutine).Should(BeNumerically("<", before+9))
		}
		addMany(queues[:1], 1)
		Eventually(ran.count).Should(Equal(20))
	})
})
