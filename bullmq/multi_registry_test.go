package bullmq_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A worker over the queues of a Registry", func() {
	var ctx context.Context
	var registry *bullmq.Registry
	var name string // of the registry
	BeforeEach(func() {
		ctx, name = specContext(), newQueueName()
		registry = newRegistry(name, bullmq.RegistryOptions{})
	})

	// open opens a queue of the registry.
	open := func() *bullmq.Queue {
		GinkgoHelper()
		queue, err := registry.Queue(ctx, newQueueName())
		Expect(err).NotTo(HaveOccurred())
		return queue
	}
	listeners := func() []string { return zsetAt("bull:" + name + "@x:listeners") }

	It("serves those that are registered when it starts, and those that appear later", func() {
		first := []*bullmq.Queue{open(), open()}
		addMany(first, 2)
		var ran startLog
		worker := runMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Registry: name})
		Eventually(ran.count).Should(Equal(4))
		later := []*bullmq.Queue{open(), open(), open()}
		addMany(later, 2)
		Eventually(ran.count).Should(Equal(10))
		addMany(append(first, later...), 1)
		Eventually(ran.count).Should(Equal(15))
		ran.once(15)
		Expect(worker.Queues()).To(Equal(must(registry.Queues(ctx))))
	})

	It("starts the first job of a new queue within 100 milliseconds", func() {
		steadily(func(g Gomega) {
			started := make(chan time.Time, 9)
			worker := newMultiWorker(func(context.Context, *bullmq.Job) (any, error) {
				started <- time.Now()
				return nil, nil
			}, bullmq.MultiWorkerOptions{Registry: name})
			run(worker)
			defer worker.Close() // also if this try fails, or the worker would take jobs of the next one
			Eventually(listeners).ShouldNot(BeEmpty())
			var late []time.Duration
			for range 9 {
				queueName, begun := newQueueName(), time.Now()
				queue, err := registry.Queue(ctx, queueName)
				g.Expect(err).NotTo(HaveOccurred())
				_, err = queue.Add(ctx, "first", nil, nil)
				g.Expect(err).NotTo(HaveOccurred())
				var at time.Time
				g.Eventually(started, "5s").Should(Receive(&at))
				late = append(late, at.Sub(begun))
			}
			slices.Sort(late)
			g.Expect(late[len(late)/2]).To(BeNumerically("<", 100*time.Millisecond), fmt.Sprint(late))
			g.Expect(worker.Close()).To(Succeed())
		})
	})

	It("serves a queue that a client of BullMQ has announced, and so do all other workers", func() {
		var ran startLog
		workers := []*bullmq.MultiWorker{
			runMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Registry: name}), runMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Registry: name}),
		}
		Eventually(listeners).Should(HaveLen(2))
		queues := openQueues(newQueueNames(5)...)
		for _, queue := range queues {
			Expect(redisDo("ZADD", "bull:"+name+"@x:new", "0", queue.Name()).Error()).To(Succeed())
		}
		addMany(queues, 1)
		Eventually(ran.count).Should(Equal(5))
		for _, worker := range workers {
			Eventually(worker.Queues).Should(HaveLen(5))
		}
		Expect(zsetAt("bull:" + name + "@x:queues")).To(HaveLen(5))
	})

	It("stops serving a queue that leaves the registry, and serves it again when it returns", func() {
		queues := []*bullmq.Queue{open(), open()}
		var ran startLog
		worker := runMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Registry: name})
		addMany(queues, 1)
		Eventually(ran.count).Should(Equal(2))
		Expect(registry.Unregister(ctx, queues[0].Name())).To(Succeed())
		Eventually(worker.Queues).Should(Equal([]string{queues[1].Name()}))
		plain := newQueue(queues[0].Name(), nil)
		addMany([]*bullmq.Queue{plain}, 1)
		Consistently(ran.count, 300*time.Millisecond).Should(Equal(2))
		addMany(queues[:1], 1)
		Eventually(ran.count).Should(Equal(4))
		ran.once(4)

		Eventually(countOf(queues[1], bullmq.StateActive)).Should(BeZero())
		Expect(queues[1].Obliterate(ctx, nil)).To(Succeed())
		Eventually(worker.Queues).Should(Equal([]string{queues[0].Name()}))
		Consistently(func() []string { return keysOf(queues[1].Name()) }, 200*time.Millisecond).Should(BeEmpty())
	})

	It("serves its own queues besides, also if they leave the registry", func() {
		own, other := open(), open()
		var ran startLog
		worker := runMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Registry: name, Queues: served(own.Name())})
		Eventually(worker.Queues).Should(ConsistOf(own.Name(), other.Name()))
		Expect(registry.Unregister(ctx, own.Name(), other.Name())).To(Succeed())
		Eventually(worker.Queues).Should(Equal([]string{own.Name()}))
		addMany([]*bullmq.Queue{own}, 1)
		Eventually(ran.count).Should(Equal(1))
	})

	It("serves the queues that Accept chooses, as it says, and asks once for each", func() {
		accepted, rejected, broken := open(), open(), open()
		var mu sync.Mutex
		asked := map[string]int{}
		var ran, own startLog
		logs := &logLines{}
		worker := runMultiWorker(ran.handle, bullmq.MultiWorkerOptions{
			Registry: name,
			Worker:   bullmq.WorkerOptions{Logger: bullmq.Slog(slog.New(slog.NewJSONHandler(logs, nil)))},
			Accept: func(queueName string) (bullmq.ServedQueue, bool) {
				mu.Lock()
				defer mu.Unlock()
				asked[queueName]++
				if queueName == broken.Name() {
					panic("out of order")
				}
				return bullmq.ServedQueue{Handler: own.handle, Weight: 3}, queueName != rejected.Name()
			},
		})
		addMany([]*bullmq.Queue{accepted, rejected, broken}, 2)
		Eventually(own.count).Should(Equal(2))
		for _, queue := range []*bullmq.Queue{accepted, rejected, broken} {
			bullmq.AgeRegistration(queue)
		}
		addMany([]*bullmq.Queue{accepted, rejected, broken}, 1)
		late := open()
		addMany([]*bullmq.Queue{late}, 1)
		Eventually(own.count).Should(Equal(4))
		Expect(worker.Queues()).To(ConsistOf(accepted.Name(), late.Name()))
		Expect(ran.count()).To(BeZero())
		Expect(countOf(rejected, bullmq.StateWaiting)()).To(Equal(3))
		mu.Lock()
		defer mu.Unlock()
		Expect(asked).To(Equal(map[string]int{accepted.Name(): 1, rejected.Name(): 1, broken.Name(): 1, late.Name(): 1}))
		Expect(logs.all()).To(And(ContainSubstring("Accept panicked: out of order"), ContainSubstring(broken.Name())))
	})

	It("skips names that no queue can have, and serves the others", func() {
		Expect(redisDo("ZADD", "bull:"+name+"@x:new", "0", "a:b", "0", "\xff", "0", "").Error()).To(Succeed())
		queue := open()
		addMany([]*bullmq.Queue{queue}, 1)
		var ran startLog
		worker := runMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Registry: name})
		Eventually(ran.count).Should(Equal(1))
		Expect(worker.Queues()).To(Equal([]string{queue.Name()}))
	})

	It("learns of queues while all its slots are taken", func() {
		release := make(chan struct{})
		var once sync.Once
		free := func() { once.Do(func() { close(release) }) }
		DeferCleanup(free)
		var ran startLog
		worker := runMultiWorker(func(ctx context.Context, job *bullmq.Job) (any, error) {
			<-release
			return ran.handle(ctx, job)
		}, bullmq.MultiWorkerOptions{Registry: name, Worker: bullmq.WorkerOptions{Concurrency: 1}})
		busy := open()
		addMany([]*bullmq.Queue{busy}, 2)
		Eventually(countOf(busy, bullmq.StateActive)).Should(Equal(1))
		other := open()
		addMany([]*bullmq.Queue{other}, 1)
		Eventually(worker.Queues).Should(ContainElement(other.Name()))
		free()
		Eventually(ran.count).Should(Equal(3))
	})

	It("continues after its connections were lost", func() {
		proxy := proxied(redis.Addr())
		var ran startLog
		runMultiWorker(ran.handle, bullmq.MultiWorkerOptions{
			Registry: name, Worker: bullmq.WorkerOptions{Connection: connectTo(proxy.Addr())},
		})
		Eventually(listeners).ShouldNot(BeEmpty())
		proxy.CutAll()
		addMany([]*bullmq.Queue{open(), open()}, 1)
		Eventually(ran.count, "20s").Should(Equal(2))
		proxy.CutAll()
		addMany([]*bullmq.Queue{open()}, 1)
		Eventually(ran.count, "20s").Should(Equal(3))
	})

	It("stops serving a queue that leaves the registry even if the reply to its wait is lost", func() {
		left, stays := open(), open()
		proxy, via := proxiedRedis()
		lost := proxy.LoseReply("bzpopmin bull:" + name + "@x:wake")
		worker := runMultiWorker(doNothing, bullmq.MultiWorkerOptions{Registry: name, Worker: bullmq.WorkerOptions{Connection: via}})
		Eventually(worker.Queues).Should(HaveLen(2))
		Expect(registry.Unregister(ctx, left.Name())).To(Succeed())
		Eventually(lost).Should(BeClosed())
		Eventually(worker.Queues).Should(Equal([]string{stays.Name()}))
	})

	It("polls if a caller's client has no connection left for the wait", func() {
		client := ownClient(func(o *rueidis.ClientOption) { o.BlockingPoolSize = 1 })
		conn, err := bullmq.ConnectClient(ctx, client)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		var ran startLog
		runMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Registry: name, Worker: bullmq.WorkerOptions{Connection: conn}})
		for n := range 3 {
			addMany([]*bullmq.Queue{open()}, 1)
			Eventually(ran.count, "10s").Should(Equal(n + 1))
		}
	})

	It("serves ten thousand queues", Label("slow"), func() {
		names := newQueueNames(10000)
		Expect(registry.Register(ctx, names...)).To(Succeed())
		var ran startLog
		worker := runMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Registry: name})
		Eventually(func() int { return len(worker.Queues()) }, "30s", "50ms").Should(Equal(10000))
		addMany(openQueues(names[0], names[9999]), 1)
		Eventually(ran.count, "20s").Should(Equal(2))
		addMany([]*bullmq.Queue{open()}, 1)
		Eventually(ran.count, "20s").Should(Equal(3))
		Expect(registry.Unregister(ctx, names[:9000]...)).To(Succeed())
		Eventually(func() int { return len(worker.Queues()) }, "30s", "50ms").Should(Equal(1001))
	})

	It("removes queues that have vanished", func() {
		gone, kept := newQueueName(), open()
		Expect(redisDo("ZADD", "bull:"+name+"@x:queues", "1", gone, "1", kept.Name()).Error()).To(Succeed())
		worker := runMultiWorker(doNothing, bullmq.MultiWorkerOptions{Registry: name})
		Eventually(func() []string { return must(registry.Queues(ctx)) }).Should(Equal([]string{kept.Name()}))
		Eventually(worker.Queues).Should(Equal([]string{kept.Name()}))
		Expect(keysOf(gone)).To(BeEmpty())
	})

	It("listens no more once it is closed, and leaves announced queues to others", func() {
		worker := runMultiWorker(doNothing, bullmq.MultiWorkerOptions{Registry: name})
		Eventually(listeners).Should(HaveLen(1))
		Expect(worker.Close()).To(Succeed())
		Expect(listeners()).To(BeEmpty())
		Expect(redisDo("ZADD", "bull:"+name+"@x:new", "0", "later").Error()).To(Succeed())
		Expect(zsetAt("bull:" + name + "@x:new")).To(Equal([]string{"later"}))
		open()
		Expect(redisStrings("KEYS", "bull:"+name+"@x:wake:*")).To(BeEmpty())
	})

	It("may be one of a Server, whose middleware wraps its handlers", func() {
		var wrapped startLog
		server := bullmq.NewServer(connectTo(redis.Addr()), &bullmq.ServerOptions{
			QueueNames: []string{name},
			Middleware: []bullmq.Middleware{func(next bullmq.Handler) bullmq.Handler {
				return func(ctx context.Context, job *bullmq.Job) (any, error) {
					_, _ = wrapped.handle(ctx, job)
					return next(ctx, job)
				}
			}},
		})
		var ran startLog
		server.HandleQueues(doNothing, &bullmq.MultiWorkerOptions{Queues: served(newQueueName())})
		server.HandleQueues(nil, &bullmq.MultiWorkerOptions{
			Registry: name, Accept: func(string) (bullmq.ServedQueue, bool) { return bullmq.ServedQueue{Handler: ran.handle}, true },
		})
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- server.Run(running) }()
		addMany([]*bullmq.Queue{open()}, 2)
		Eventually(ran.count, "10s").Should(Equal(2))
		Expect(wrapped.count()).To(Equal(2))
		Expect(server.MultiWorkers()).To(HaveLen(1))
		stop()
		Eventually(ended, "10s").Should(Receive(BeNil()))
	})

	It("serves queues of the registry's slot on a cluster", Label("slow"), func() {
		conn := clustered()
		name := "{" + name + "}"
		registry := newRegistry(name, bullmq.RegistryOptions{Connection: conn})
		var ran startLog
		runMultiWorker(ran.handle, bullmq.MultiWorkerOptions{Registry: name, Worker: bullmq.WorkerOptions{Connection: conn}})
		for n, queueName := range []string{name + "-a", "{" + newQueueName() + "}"} {
			queue, err := registry.Queue(ctx, queueName)
			Expect(err).NotTo(HaveOccurred())
			_, err = queue.Add(ctx, "a", nil, nil)
			Expect(err).NotTo(HaveOccurred())
			Eventually(ran.count, "10s").Should(Equal(n + 1))
		}
		_, err := bullmq.NewMultiWorker(ctx, doNothing, &bullmq.MultiWorkerOptions{
			Registry: "tenants", Queues: served(name + "-a"), Worker: bullmq.WorkerOptions{Connection: conn},
		})
		Expect(err).To(MatchError(ContainSubstring("hash slot")))
	})
})

// must returns a value that was read without an error.
func must[T any](value T, err error) T {
	GinkgoHelper()
	Expect(err).NotTo(HaveOccurred())
	return value
}
