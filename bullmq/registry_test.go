package bullmq_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// newRegistry returns a registry on the suite's server that is closed when the spec ends.
func newRegistry(name string, options bullmq.RegistryOptions) *bullmq.Registry {
	GinkgoHelper()
	if options.Connection == nil && options.URL == "" {
		options.URL = redis.URL()
	}
	registry, err := bullmq.NewRegistry(context.Background(), name, &options)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(registry.Close)
	return registry
}

var _ = Describe("A Registry", func() {
	var ctx context.Context
	var registry *bullmq.Registry
	var name string
	BeforeEach(func() {
		ctx, name = specContext(), newQueueName()
		registry = newRegistry(name, bullmq.RegistryOptions{})
	})

	// registeredAt returns the time of the last registration of a queue.
	registeredAt := func(queue string) float64 {
		GinkgoHelper()
		return scoresAt("bull:" + name + "@x:queues")[queue]
	}

	It("lists the queues that were opened through it or registered", func() {
		Expect(registry.Name()).To(Equal(name))
		Expect(registry.Queues(ctx)).To(BeEmpty())
		opened := newQueueName()
		_, err := registry.Queue(ctx, opened)
		Expect(err).NotTo(HaveOccurred())
		Expect(registry.Register(ctx, "a", "b")).To(Succeed())
		Expect(registry.Queues(ctx)).To(Equal([]string{"a", "b", opened}))
		Expect(registry.Unregister(ctx, "a", "unknown")).To(Succeed())
		Expect(newRegistry(name, bullmq.RegistryOptions{}).Queues(ctx)).To(Equal([]string{"b", opened}))
	})

	It("opens ordinary queues, each of them once", func() {
		queueName := newQueueName()
		var all sync.WaitGroup
		queues := make([]*bullmq.Queue, 10)
		for i := range queues {
			all.Go(func() {
				defer GinkgoRecover()
				var err error
				queues[i], err = registry.Queue(ctx, queueName)
				Expect(err).NotTo(HaveOccurred())
			})
		}
		all.Wait()
		Expect(queues).To(HaveEach(BeIdenticalTo(queues[0])))
		job, err := queues[0].Add(ctx, "paint", "blue", nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(newQueue(queueName, nil).Job(ctx, job.ID)).To(HaveField("Data", rawJSON(`"blue"`)))
		Expect(queues[0].Close()).To(Succeed())
		again, err := registry.Queue(ctx, queueName)
		Expect(err).NotTo(HaveOccurred())
		Expect(again).NotTo(BeIdenticalTo(queues[0]))
		Expect(again.Job(ctx, job.ID)).To(HaveField("Name", "paint"))
	})

	It("gives its queues the options for queues", func() {
		registry := newRegistry(name, bullmq.RegistryOptions{
			Prefix: "shop", QueueOptions: &bullmq.QueueOptions{DefaultJobOptions: &bullmq.JobOptions{Attempts: 7}, MaxEvents: 33},
		})
		queueName := newQueueName()
		queue, err := registry.Queue(ctx, queueName)
		Expect(err).NotTo(HaveOccurred())
		job, err := queue.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(job.Options.Attempts).To(Equal(7))
		Expect(hashAt("shop:" + queueName + ":meta")).To(HaveKeyWithValue("opts.maxLenEvents", "33"))
		Expect(zsetAt("shop:" + name + "@x:queues")).To(Equal([]string{queueName}))
	})

	It("renews a registration when jobs are added, and not with each", func() {
		queueName := newQueueName()
		queue, err := registry.Queue(ctx, queueName)
		Expect(err).NotTo(HaveOccurred())
		add := func(call string) {
			GinkgoHelper()
			var err error
			switch call {
			case "Add":
				_, err = queue.Add(ctx, "paint", nil, nil)
			case "AddBulk":
				_, err = queue.AddBulk(ctx, []bullmq.BulkJob{{Name: "paint"}})
			case "UpsertScheduler":
				_, err = queue.UpsertScheduler(ctx, "s", bullmq.Repeat{Every: time.Hour}, nil)
			}
			Expect(err).NotTo(HaveOccurred())
		}
		registered := registeredAt(queueName)
		for _, call := range []string{"Add", "AddBulk", "UpsertScheduler"} {
			time.Sleep(2 * time.Millisecond)
			add(call)
			Expect(registeredAt(queueName)).To(Equal(registered), call)
			bullmq.AgeRegistration(queue)
			add(call)
			Expect(registeredAt(queueName)).To(BeNumerically(">", registered), call)
			registered = registeredAt(queueName)
		}
	})

	It("adds a job all the same when the registration can't be renewed", func() {
		queue, err := registry.Queue(ctx, newQueueName())
		Expect(err).NotTo(HaveOccurred())
		key := "bull:" + name + "@x:queues"
		Expect(redisDo("DEL", key).Error()).To(Succeed())
		Expect(redisDo("SET", key, "no sorted set").Error()).To(Succeed())
		bullmq.AgeRegistration(queue)
		_, err = queue.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		_, err = registry.Queue(ctx, newQueueName())
		Expect(err).To(MatchError(ContainSubstring("WRONGTYPE")), "a queue that can't be registered is not opened")
	})

	It("removes a queue that is obliterated, and registers it again with the next job", func() {
		queueName := newQueueName()
		queue, err := registry.Queue(ctx, queueName)
		Expect(err).NotTo(HaveOccurred())
		Expect(queue.Obliterate(ctx, nil)).To(Succeed())
		Expect(registry.Queues(ctx)).To(BeEmpty())
		_, err = queue.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(registry.Queues(ctx)).To(Equal([]string{queueName}))
		Expect(registry.Unregister(ctx, queueName)).To(Succeed())
		Expect(registry.Queues(ctx)).To(BeEmpty())
		_, err = queue.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(registry.Queues(ctx)).To(Equal([]string{queueName}))
	})

	It("shares the calls that add jobs to its queues", func() {
		queues := make([]*bullmq.Queue, 50)
		for i := range queues {
			var err error
			queues[i], err = registry.Queue(ctx, newQueueName())
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(bullmq.ShareCalls(queues...)).To(BeTrue())
		for i, of := range addTogether(ctx, queues, 2, func() {}, func() {}) {
			Expect(of).To(HaveEach(BeNil()))
			Expect(countOf(queues[i], bullmq.StateWaiting)()).To(Equal(2))
		}
	})

	It("shares a connection, and leaves it open", func() {
		conn := connectTo(redis.Addr())
		registry := newRegistry(name, bullmq.RegistryOptions{Connection: conn})
		queue, err := registry.Queue(ctx, newQueueName())
		Expect(err).NotTo(HaveOccurred())
		Expect(registry.Close()).To(Succeed())
		_, err = queue.Add(ctx, "paint", nil, nil)
		Expect(err).To(MatchError(bullmq.ErrClosed))
		_, err = registry.Queue(ctx, queue.Name())
		Expect(err).To(MatchError(bullmq.ErrClosed))
		_, err = registry.Queues(ctx)
		Expect(err).To(MatchError(bullmq.ErrClosed))
		Expect(conn.Ping(ctx)).To(Succeed())
		Expect(registry.Close()).To(Succeed())
	})

	DescribeTable("refuses", func(open func() error, want string) {
		Expect(open()).To(MatchError(ContainSubstring(want)))
	},
		Entry("a name with a colon", func() error { _, err := bullmq.NewRegistry(context.Background(), "a:b", nil); return err }, "colon"),
		Entry("options of queues with an address", func() error {
			_, err := bullmq.NewRegistry(context.Background(), "a", &bullmq.RegistryOptions{QueueOptions: &bullmq.QueueOptions{URL: "redis://x"}})
			return err
		}, "set them in RegistryOptions"),
		Entry("to register a name that no queue can have", func() error { return registry.Register(ctx, "ok", "a:b") }, "none of 2 queues was registered"),
		Entry("to open a queue with such a name", func() error { _, err := registry.Queue(ctx, "a:b"); return err }, "colon"),
	)

	It("can be used by a producer with the permissions in docs/security.md", func() {
		queueName := newQueueName()
		rules := append(rightsOf("producer"), "+pexpire", "+zremrangebyscore", "~bull:"+name+"@x:*", "~bull:"+queueName+":*")
		Expect(redisDo("ZADD", "bull:"+name+"@x:listeners", "9999999999999", "w").Error()).To(Succeed())
		registry := newRegistry(name, bullmq.RegistryOptions{Connection: restricted(strings.Join(rules, " "))})
		queue, err := registry.Queue(ctx, queueName)
		Expect(err).NotTo(HaveOccurred())
		_, err = queue.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(registry.Queues(ctx)).To(Equal([]string{queueName}))
		Expect(registry.Unregister(ctx, queueName)).To(Succeed())
		Expect(zsetAt("bull:" + name + "@x:wake:w")).To(Equal([]string{"all", "new"}))
	})

	It("has its keys in one slot of a cluster", Label("slow"), func() {
		conn := clustered()
		_, err := bullmq.NewRegistry(ctx, "tenants", &bullmq.RegistryOptions{Connection: conn})
		Expect(err).To(MatchError(ContainSubstring("hash slot")))
		registry := newRegistry(fmt.Sprintf("{%s}", name), bullmq.RegistryOptions{Connection: conn})
		Expect(registry.Register(ctx, "a", "b")).To(Succeed())
		Expect(registry.Unregister(ctx, "a")).To(Succeed())
		Expect(registry.Queues(ctx)).To(Equal([]string{"b"}))
	})
})
