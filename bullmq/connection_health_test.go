package bullmq_test

import (
	"context"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// healthLog collects the arguments of OnHealth.
type healthLog struct {
	mu  sync.Mutex
	all []bullmq.Health
}

func (t *healthLog) record(h bullmq.Health) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, h)
}

// reachable returns the reported values of Reachable in order.
func (t *healthLog) reachable() []bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []bool
	for _, h := range t.all {
		all = append(all, h.Reachable)
	}
	return all
}

func (t *healthLog) last() bullmq.Health {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all[len(t.all)-1]
}

var _ = Describe("Health", Label("slow"), func() {
	var (
		name string
		ctx  context.Context
	)
	BeforeEach(func() { name, ctx = newQueueName(), specContext() })
	// try makes a call and ignores its result.
	try := func(queue *bullmq.Queue) {
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		_, _ = queue.Add(short, "a", nil, nil)
	}
	// tried makes calls until one has failed early enough to be noticed.
	tried := func(queue *bullmq.Queue) func() bullmq.Health {
		return func() bullmq.Health { try(queue); return queue.Health() }
	}

	It("reports an outage and its end once each for a queue, a worker of one queue or of many, an event reader and a flow producer", func() {
		server := startRedis(redisserver.Options{})
		own := bullmq.URL(server.URL())
		var inQueue, inWorker, inMany, inEvents, inFlows healthLog
		queue := newQueue(name, &bullmq.QueueOptions{Connection: own, OnHealth: inQueue.record})
		worker := runWorker(name, doNothing, &bullmq.WorkerOptions{Connection: own, OnHealth: inWorker.record})
		many := runMultiWorker(doNothing, bullmq.MultiWorkerOptions{
			Queues: served(name, newQueueName()), Worker: bullmq.WorkerOptions{Connection: own, OnHealth: inMany.record},
		})
		events := newEvents(name, bullmq.QueueEventsOptions{Connection: own, OnHealth: inEvents.record})
		go func() {
			for range events.All(ctx) {
			}
		}()
		flows, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: own, OnHealth: inFlows.record})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(flows.Close)
		all := []interface{ Health() bullmq.Health }{queue, worker, many, events, flows}
		for _, one := range all {
			Expect(one.Health()).To(And(HaveField("Reachable", true), HaveField("Err", BeNil()), HaveField("Since", BeTemporally("~", time.Now(), 5*time.Second))))
			Expect(one.Health().String()).To(HavePrefix("Redis is reachable since"))
		}

		begun := time.Now()
		server.Stop()
		// Users that block on Redis notice an outage by themselves, others with their next call.
		Eventually(inWorker.reachable, "10s").Should(Equal([]bool{false}))
		Eventually(inMany.reachable, "10s").Should(Equal([]bool{false}))
		Eventually(inEvents.reachable, "10s").Should(Equal([]bool{false}))
		Eventually(tried(queue)).Should(HaveField("Reachable", false))
		_, _ = flows.Add(ctx, bullmq.Flow{QueueName: name, Name: "a"})
		for _, one := range all {
			Eventually(one.Health, "10s").Should(And(HaveField("Reachable", false), HaveField("Since", BeTemporally("~", begun, 5*time.Second)),
				HaveField("Err", MatchError(ContainSubstring(server.Addr())))))
			Expect(one.Health().String()).To(HavePrefix("Redis is unreachable since"))
		}
		Eventually(inQueue.reachable).Should(Equal([]bool{false}))

		Expect(server.Start()).To(Succeed())
		for _, one := range all {
			Eventually(one.Health, "10s").Should(And(HaveField("Reachable", true), HaveField("Since", BeTemporally(">", begun)), HaveField("Err", HaveOccurred())))
			Expect(one.Health().String()).To(HavePrefix("Redis is reachable again since"))
		}
		for _, changes := range []*healthLog{&inQueue, &inWorker, &inMany, &inEvents, &inFlows} {
			Eventually(changes.reachable).Should(Equal([]bool{false, true}))
			Expect(changes.last().Reachable).To(BeTrue())
		}
	})

	It("of an idle queue is updated by Ping, which returns at the end of its context", func() {
		server := startRedis(redisserver.Options{Password: "open-sesame"})
		proxy := proxied(server.Addr())
		queue := newQueue(name, &bullmq.QueueOptions{Connection: bullmq.URL("redis://:open-sesame@" + proxy.Addr())})
		ping := func(within time.Duration) (time.Duration, error) {
			short, cancel := context.WithTimeout(ctx, within)
			defer cancel()
			begun := time.Now()
			err := queue.Ping(short)
			return time.Since(begun), err
		}
		_, err := ping(10 * time.Second)
		Expect(err).NotTo(HaveOccurred())

		Expect(proxy.Set(faultproxy.Faults{BlackHole: true})).To(Succeed())
		Expect(queue.Health().Reachable).To(BeTrue(), "nobody has asked")
		for range 4 { // the connection is reopened meanwhile
			took, err := ping(300 * time.Millisecond)
			Expect(err).To(And(MatchError(context.DeadlineExceeded), MatchError(HavePrefix("bullmq: queue "+name+": ping Redis at "+proxy.Addr()+": "))))
			Expect(took).To(BeNumerically("<", 3*time.Second))
		}
		Eventually(queue.Health).Should(HaveField("Reachable", false))
		Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
		Eventually(func() error { _, err := ping(time.Second); return err }).Should(Succeed())

		server.Stop()
		Eventually(func() error { _, err := ping(time.Second); return err }).Should(HaveOccurred())
		Expect(queue.Close()).To(Succeed())
		Expect(queue.Ping(ctx)).To(MatchError(bullmq.ErrClosed))
	})

	It("stays good for a user without the right to PING", func() {
		queue := newQueue(name, &bullmq.QueueOptions{Connection: restricted("~bull:* +@all -hdel")})
		Expect(queue.Ping(ctx)).To(Succeed())
	})

	It("makes no call while Redis is available", func() {
		calls := func() string {
			for line := range strings.Lines(redisText("INFO", "commandstats")) {
				if strings.HasPrefix(line, "cmdstat_hdel:") {
					return line
				}
			}
			return ""
		}
		queue := newQueue(name, nil)
		runWorker(name, doNothing, &bullmq.WorkerOptions{DrainDelay: 50 * time.Millisecond, StalledInterval: 50 * time.Millisecond})
		before := calls()
		job, err := queue.Add(ctx, "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateCompleted))
		time.Sleep(200 * time.Millisecond)
		Expect(calls()).To(Equal(before))
	})

	It("does not report connections that are lost and reopened at once", func() {
		server := startRedis(redisserver.Options{})
		own := bullmq.URL(server.URL())
		var changes healthLog
		queue := newQueue(name, &bullmq.QueueOptions{Connection: own, OnHealth: changes.record, AddWait: 5 * time.Second})
		runWorker(name, doNothing, &bullmq.WorkerOptions{Connection: own, OnHealth: changes.record})
		admin := clientOf(server)
		for range 5 {
			Expect(admin.Do(ctx, admin.B().Arbitrary("CLIENT", "KILL", "TYPE", "normal").Build()).Error()).To(Succeed())
			_, err := queue.Add(ctx, "a", nil, &bullmq.JobOptions{JobID: "a"})
			Expect(err).NotTo(HaveOccurred())
		}
		Consistently(changes.reachable, 200*time.Millisecond).Should(BeEmpty())
	})

	It("reports a Redis that does not reply", func() {
		proxy, via := proxiedRedis()
		var changes healthLog
		queue := newQueue(name, &bullmq.QueueOptions{Connection: via, OnHealth: changes.record})
		Expect(proxy.Set(faultproxy.Faults{BlackHole: true})).To(Succeed())
		try(queue)
		Expect(queue.Health().Reachable).To(BeTrue(), "a call with too little time is no outage yet")
		Eventually(changes.reachable).Should(Equal([]bool{false}))
		Expect(changes.last().Err).To(MatchError(ContainSubstring("no reply within 2s")))
		Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
		Eventually(changes.reachable).Should(Equal([]bool{false, true}))
	})

	It("reports a Redis that replies with temporary errors", func() {
		server := startRedis(redisserver.Options{})
		var changes healthLog
		queue := newQueue(name, &bullmq.QueueOptions{Connection: bullmq.URL(server.URL()), OnHealth: changes.record})
		admin := clientOf(server)
		nobody, err := redisserver.FreePort()
		Expect(err).NotTo(HaveOccurred())
		Expect(admin.Do(ctx, admin.B().Replicaof().Host("127.0.0.1").Port(int64(nobody)).Build()).Error()).To(Succeed())
		_, err = queue.Add(ctx, "a", nil, nil)
		Expect(err).To(And(MatchError(ContainSubstring("READONLY")), Not(MatchError(bullmq.ErrMaybeAdded))))
		Eventually(changes.reachable).Should(Equal([]bool{false}))
		Expect(changes.last().Err).To(MatchError(ContainSubstring("READONLY")))
		_, err = queue.Counts(ctx)
		Expect(err).NotTo(HaveOccurred(), "it can be read")
		Consistently(changes.reachable, 100*time.Millisecond).Should(Equal([]bool{false}))
		Expect(admin.Do(ctx, admin.B().Replicaof().No().One().Build()).Error()).To(Succeed())
		Eventually(changes.reachable).Should(Equal([]bool{false, true}))
	})

	It("is checked before a queue opens, which fails if Redis cannot tell the queue's version", func() {
		server := startRedis(redisserver.Options{Config: []string{"replica-serve-stale-data no"}})
		admin := clientOf(server)
		nobody, err := redisserver.FreePort()
		Expect(err).NotTo(HaveOccurred())
		Expect(admin.Do(ctx, admin.B().Hset().Key(keyOf(name, "meta")).FieldValue().FieldValue("version", "bullmq:5.0.0").Build()).Error()).To(Succeed())
		Expect(admin.Do(ctx, admin.B().Replicaof().Host("127.0.0.1").Port(int64(nobody)).Build()).Error()).To(Succeed())
		_, err = bullmq.NewWorker(ctx, name, doNothing, &bullmq.WorkerOptions{Connection: bullmq.URL(server.URL())})
		Expect(err).To(MatchError(ContainSubstring("MASTERDOWN")))
	})

	It("is logged once for all users of a connection that have a logger", func() {
		proxy := proxied(redis.Addr())
		via, err := bullmq.Connect(ctx, "redis://"+proxy.Addr())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(via.Close)
		var lines logLines
		told := make(chan bool, 10)
		silent := newQueue(name, &bullmq.QueueOptions{Connection: via, OnHealth: func(h bullmq.Health) { told <- h.Reachable }})
		var users []*bullmq.Queue
		for range 2 {
			users = append(users, newQueue(name, &bullmq.QueueOptions{
				Connection: via, Logger: bullmq.Zerolog(zerolog.New(&lines)), OnHealth: func(h bullmq.Health) { told <- h.Reachable },
			}))
		}
		for range 2 {
			Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
			proxy.CutAll()
			for _, queue := range append([]*bullmq.Queue{silent}, users...) {
				Eventually(tried(queue)).Should(HaveField("Reachable", false))
				Eventually(told).Should(Receive(BeFalse()))
			}
			Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
			for range 3 {
				Eventually(told, "10s").Should(Receive(BeTrue()))
			}
		}
		Expect(lines.with("Redis is unreachable")).To(Equal(2))
		Expect(lines.with("Redis is reachable again")).To(Equal(2))
		Expect(lines.with(`"outage_ms":`)).To(Equal(2))
	})

	It("logs what OnHealth is called with, and survives its panic", func() {
		proxy, via := proxiedRedis()
		var lines logLines
		queue := newQueue(name, &bullmq.QueueOptions{Connection: via, Logger: bullmq.Zerolog(zerolog.New(&lines)), OnHealth: func(bullmq.Health) { panic("boom") }})
		Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
		proxy.CutAll()
		Eventually(tried(queue)).Should(HaveField("Reachable", false))
		Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
		Eventually(queue.Health).Should(HaveField("Reachable", true))
		Eventually(lines.count).Should(Equal(4))
		Expect(lines.all()).To(And(ContainSubstring("Redis is unreachable"), ContainSubstring("Redis is reachable again"), ContainSubstring("OnHealth panicked"), ContainSubstring("connection_health_test.go")))
	})
})
