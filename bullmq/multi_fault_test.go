package bullmq_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

var _ = Describe("A worker over many queues", Label("slow"), func() {
	var ctx context.Context
	BeforeEach(func() { ctx = specContext() })

	It("runs each job once while its connections are cut again and again", func() {
		names := newQueueNames(20)
		queues := openQueues(names...)
		proxy, via := proxiedRedis()
		var ran startLog
		runMultiWorker(func(ctx context.Context, job *bullmq.Job) (any, error) {
			time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
			return ran.handle(ctx, job)
		}, bullmq.MultiWorkerOptions{Queues: served(names...), Worker: bullmq.WorkerOptions{Connection: via, Concurrency: 20}})
		const rounds = 40
		for range rounds {
			addMany(queues, 5)
			time.Sleep(time.Duration(10+rand.IntN(40)) * time.Millisecond)
			proxy.CutAll()
		}
		Eventually(ran.count, "20s").Should(BeNumerically(">=", rounds*100))
		for _, queue := range queues {
			Eventually(countOf(queue, bullmq.StateCompleted), "10s").Should(Equal(rounds * 5))
			Expect(countOf(queue, bullmq.StateActive)()).To(BeZero())
		}
		ran.once(rounds * 100)
	})

	DescribeTable("runs each job once when a reply is lost", func(part string, outage bool) {
		names := newQueueNames(4)
		queues := openQueues(names...)
		proxy, via := proxiedRedis()
		var ran startLog
		runMultiWorker(ran.handle, bullmq.MultiWorkerOptions{
			Queues: served(names...), Worker: bullmq.WorkerOptions{
				Connection: via, Concurrency: 3, Name: "the-one-that-takes", Registration: &bullmq.RegistrationOptions{Skip: true},
			},
		})
		addMany(queues, 1)
		Eventually(ran.count).Should(Equal(4)) // the server has the scripts
		added := 4
		for range 5 {
			for _, queue := range queues {
				Eventually(countOf(queue, bullmq.StateActive)).Should(BeZero())
			}
			lost := proxy.LoseReply(part)
			if outage {
				Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
			}
			Eventually(func() <-chan struct{} { // a wait that has begun before replies first
				addMany(queues, 3)
				added += 12
				return lost
			}).WithPolling(100 * time.Millisecond).Should(BeClosed())
			if outage {
				proxy.CutAll()
				time.Sleep(300 * time.Millisecond)
				Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
			}
			Eventually(ran.count, "10s").Should(Equal(added))
		}
		for _, queue := range queues {
			Eventually(countOf(queue, bullmq.StateCompleted)).Should(Equal(added / 4))
		}
		ran.once(added)
	},
		Entry("to a call that fetches or ends jobs", "the-one-that-takes", false),
		Entry("and Redis can't be reached for a while", "the-one-that-takes", true),
		Entry("to a wait", "bzpopmin", false),
	)

	It("runs a job that the last call before its stop has fetched, when the reply of that call is lost after the stop", func() {
		queue := openQueues(newQueueName())[0]
		proxy, via := proxiedRedis()
		var ran startLog
		started, release := make(chan struct{}, 2), make(chan struct{})
		worker := newMultiWorker(func(ctx context.Context, job *bullmq.Job) (any, error) {
			started <- struct{}{}
			<-release
			return ran.handle(ctx, job)
		}, bullmq.MultiWorkerOptions{Queues: served(queue.Name()), Worker: bullmq.WorkerOptions{
			Connection: via, Concurrency: 1, Name: "the-one-that-ends", Registration: &bullmq.RegistrationOptions{Skip: true},
		}})
		stopping, stop := context.WithCancel(ctx)
		events := worker.Events(ctx, 100)
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(stopping) }()
		addMany([]*bullmq.Queue{queue}, 2)
		Eventually(started).Should(Receive())
		hung := proxy.HangReply("the-one-that-ends")
		close(release)
		Eventually(hung).Should(BeClosed())
		stop()
		Eventually(events).Should(Receive(HaveField("Type", bullmq.EventClosing)))
		time.Sleep(100 * time.Millisecond) // the dispatcher ends
		proxy.CutAll()
		Eventually(ended, "10s").Should(Receive(BeNil()))
		Expect(countOf(queue, bullmq.StateCompleted)()).To(Equal(2))
		ran.once(2)
	})

	It("fetches a delayed job whose time a lost reply to a poll has claimed", func() {
		queue := openQueues(newQueueName())[0]
		proxy := proxied(redis.Addr())
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{proxy.Addr()}, DisableCache: true, BlockingPoolSize: 1, PipelineMultiplex: -1})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(client.Close)
		_, release := client.Dedicate()
		DeferCleanup(release)
		conn, err := bullmq.ConnectClient(ctx, client)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		var ran startLog
		runMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Queues: served(queue.Name()), Worker: bullmq.WorkerOptions{
			Connection: conn, DrainDelay: time.Minute, SkipStalledCheck: true, Registration: &bullmq.RegistrationOptions{Skip: true},
		}})
		addMany([]*bullmq.Queue{queue}, 1)
		Eventually(ran.count).Should(Equal(1))
		Eventually(countOf(queue, bullmq.StateActive)).Should(BeZero())
		lost := proxy.LoseReply("bull:" + queue.Name() + ":")
		_, err = queue.Add(ctx, "later", nil, &bullmq.JobOptions{Delay: 500 * time.Millisecond})
		Expect(err).NotTo(HaveOccurred())
		Eventually(lost).Should(BeClosed())
		Eventually(ran.count).Should(Equal(2))
	})

	It("goes on when Redis has restarted with its data, and when its scripts are gone", func() {
		server := startRedis(redisserver.Options{AppendOnly: true})
		names := newQueueNames(5)
		client := clientOf(server)
		conn := bullmq.Options(rueidis.ClientOption{InitAddress: []string{server.Addr()}})
		open := func() (queues []*bullmq.Queue) {
			for _, name := range names {
				queues = append(queues, newQueue(name, &bullmq.QueueOptions{Connection: conn}))
			}
			return queues
		}
		queues := open()
		var ran startLog
		runMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Queues: served(names...), Worker: bullmq.WorkerOptions{Connection: conn, Concurrency: 3}})
		addMany(queues, 4)
		Eventually(ran.count).Should(Equal(20))
		Expect(client.Do(ctx, client.B().ScriptFlush().Build()).Error()).To(Succeed())
		addMany(queues, 4)
		Eventually(ran.count).Should(Equal(40))
		Expect(server.Restart()).To(Succeed())
		Eventually(func() error { _, err := queues[0].Add(ctx, "a", nil, nil); return err }, "10s").Should(Succeed())
		Eventually(ran.count, "10s").Should(Equal(41))
		ran.once(41)
		Eventually(func() error { return client.Do(ctx, client.B().Flushall().Build()).Error() }).Should(Succeed())
		addMany(open(), 4) // the connections of the others may still be broken
		Eventually(ran.count, "10s").Should(Equal(61))
	})

	It("polls over a caller's client without a free connection", func() {
		client := ownClient(func(o *rueidis.ClientOption) { o.BlockingPoolSize = 1 })
		hold, cancel := context.WithCancel(ctx)
		defer cancel()
		taken, release := client.Dedicate()
		DeferCleanup(release)
		go taken.Do(hold, taken.B().Blpop().Key(newQueueName()).Timeout(3).Build())
		names := newQueueNames(3)
		queues := openQueues(names...)
		conn, err := bullmq.ConnectClient(ctx, client)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		var ran startLog
		runMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Queues: served(names...), Worker: bullmq.WorkerOptions{Connection: conn, DrainDelay: time.Minute}})
		for round := range 3 {
			addMany(queues, 2)
			Eventually(ran.count).Should(Equal(6 * (round + 1)))
		}
	})

	It("leaves a queue with broken values alone and serves the others", func() {
		names := newQueueNames(3)
		queues := openQueues(names...)
		Expect(redisDo("SET", keyOf(names[0], "wait"), "no list").Error()).To(Succeed())
		Expect(redisDo("ZADD", keyOf(names[0], "marker"), "0", "0").Error()).To(Succeed())
		var ran startLog
		var faults atomic.Int64
		worker := newMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Queues: served(names...), Worker: bullmq.WorkerOptions{
			Events: bullmq.WorkerEvents{Error: func(error) { faults.Add(1) }},
		}})
		run(worker)
		for round := range 5 {
			addMany(queues[1:], 3)
			Eventually(ran.count).Should(Equal(6 * (round + 1)))
		}
		Eventually(faults.Load).Should(BeNumerically(">", 0))
		Expect(redisDo("DEL", keyOf(names[0], "wait")).Error()).To(Succeed())
		addMany(queues[:1], 3)
		Eventually(ran.count, "10s").Should(Equal(33))
		ran.once(33)
	})

	It("serves queues in several slots of a cluster", func() {
		conn := clustered()
		var names []string
		for _, tag := range []string{"a", "b", "c"} {
			for range 3 {
				names = append(names, "{"+tag+"}-"+newQueueName())
			}
		}
		var queues []*bullmq.Queue
		for _, name := range names {
			queues = append(queues, newQueue(name, &bullmq.QueueOptions{Connection: conn}))
		}
		var ran startLog
		worker := runMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Queues: served(names...), Worker: bullmq.WorkerOptions{Connection: conn, Concurrency: 4}})
		for round := range 4 {
			addMany(queues, 5)
			Eventually(ran.count, "20s").Should(Equal(45 * (round + 1)))
		}
		ran.once(180)
		Eventually(func() int { return len(blockedClients(queues[0])) }).Should(Equal(3), "one wait for the queues of a slot")
		Consistently(func() int { return len(blockedClients(queues[0])) }, "100ms").Should(Equal(3))
		Expect(worker.AddQueue(bullmq.ServedQueue{Name: "untagged"})).To(MatchError(ContainSubstring("must be in one hash slot")))
	})

	DescribeTable("needs no right besides those of a worker in docs/security.md", func(count int) {
		names := newQueueNames(count)
		queues := openQueues(names...)
		var keys []string
		for _, name := range names {
			keys = append(keys, "~bull:"+name+":*")
		}
		addMany(queues, 1)
		var ran startLog
		var faults atomic.Int64
		runMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Queues: served(names...), Worker: bullmq.WorkerOptions{
			Connection: restricted(strings.Join(append(keys, rightsOf("worker")...), " ")), Concurrency: 3,
			DrainDelay: 100 * time.Millisecond, StalledInterval: 200 * time.Millisecond,
			Events: bullmq.WorkerEvents{Error: func(err error) {
				GinkgoWriter.Println(err)
				faults.Add(1)
			}},
		}})
		Eventually(ran.count).Should(Equal(count))
		time.Sleep(time.Second)
		addMany(queues, 1)
		Eventually(ran.count).Should(Equal(2 * count))
		Expect(faults.Load()).To(BeZero())
		ran.once(2 * count)
	},
		Entry("for few queues", 5),
		Entry("for many queues", 40),
	)
})
