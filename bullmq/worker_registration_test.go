package bullmq_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	. "github.com/onsi/gomega/gstruct"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// often is a registration that is renewed often, with a lease that survives a stall.
var often = bullmq.RegistrationOptions{Interval: 50 * time.Millisecond, Lease: 5 * time.Second}

// workersOf returns the workers of a queue for Eventually.
func workersOf(queue *bullmq.Queue) func() ([]bullmq.WorkerInfo, error) {
	return func() ([]bullmq.WorkerInfo, error) { return queue.Workers(context.Background()) }
}

// textLogger returns a Logger that writes all lines to a log.
func textLogger(to *logLines) bullmq.Logger {
	return bullmq.Slog(slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: slog.LevelDebug})))
}

// namesOf returns their names.
func namesOf(workers []bullmq.WorkerInfo, err error) ([]string, error) {
	names := []string{}
	for _, worker := range workers {
		names = append(names, worker.Name)
	}
	return names, err
}

// connectAs opens a connection with the name of a worker of another library. It is closed
// when the spec ends.
func connectAs(connectionName, library string) {
	GinkgoHelper()
	client := ownClient(func(o *rueidis.ClientOption) {
		o.ClientName, o.ForceSingleClient, o.DisableCache, o.PipelineMultiplex = connectionName, true, true, -1
		o.ClientSetInfo = []string{library, "1"}
	})
	Expect(client.Do(context.Background(), client.B().Ping().Build()).Error()).To(Succeed())
}

func connectionName(queue, suffix string) string {
	return "bull:" + base64.StdEncoding.EncodeToString([]byte(queue)) + suffix
}

var _ = Describe("A registered worker", func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, nil)
	})
	register := func(worker string, o bullmq.RegistrationOptions) *bullmq.Worker {
		GinkgoHelper()
		return runWorker(name, doNothing, &bullmq.WorkerOptions{Name: worker, Registration: &o})
	}

	It("is listed with what it is, what it can do, and how busy it is, until it stops", func() {
		host, err := os.Hostname()
		Expect(err).NotTo(HaveOccurred())
		release := make(chan struct{})
		o := often
		o.Version, o.Stack, o.Region, o.Capabilities = "v7", "blue", "eu-west", []string{"gpu", "ffmpeg"}
		begun := time.Now()
		worker := runWorker(name, func(context.Context, *bullmq.Job) (any, error) { <-release; return nil, nil },
			&bullmq.WorkerOptions{Name: "painter", Concurrency: 7, Registration: &o})
		_, err = queue.AddBulk(ctx, []bullmq.BulkJob{{Name: "a"}, {Name: "b"}})
		Expect(err).NotTo(HaveOccurred())
		about := time.Minute
		Eventually(workersOf(queue)).Should(ConsistOf(MatchAllFields(Fields{
			"ID": Not(BeEmpty()), "Name": Equal("painter"), "Queues": Equal([]string{name}), "QueueCount": Equal(1),
			"Host": Equal(host), "PID": Equal(os.Getpid()), "Version": Equal("v7"), "Library": HavePrefix("bullmq-go"),
			"Stack": Equal("blue"), "Region": Equal("eu-west"), "Capabilities": Equal([]string{"gpu", "ffmpeg"}),
			"Concurrency": Equal(7), "Running": Equal(2), "Paused": BeFalse(), "Stopping": BeFalse(),
			"Started": BeTemporally("~", begun, about), "LastSeen": BeTemporally("~", time.Now(), about),
			"Expires":     BeTemporally("~", time.Now(), about),
			"Connections": ConsistOf(And(HaveField("Name", "painter"), HaveField("Fields", HaveKey("cmd")))),
		})))
		workers, err := queue.Workers(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(workers[0].IsRegistered()).To(BeTrue())
		Expect(workers[0].Expires.Sub(workers[0].LastSeen)).To(Equal(5 * time.Second))
		close(release)
		Expect(worker.Close()).To(Succeed())
		Expect(queue.Workers(ctx)).To(BeEmpty())
		Expect(redisStrings("KEYS", "bull:"+name+"@x:*")).To(BeEmpty())
	})

	It("renews its lease, and tells that it is paused, and that it stops", func() {
		release := make(chan struct{})
		o := often
		worker, stop, ended := startWorker(name, func(context.Context, *bullmq.Job) (any, error) { <-release; return nil, nil },
			&bullmq.WorkerOptions{Registration: &o})
		Eventually(workersOf(queue)).Should(ConsistOf(HaveField("ID", Not(BeEmpty()))))
		first, err := queue.Workers(ctx)
		Expect(err).NotTo(HaveOccurred())
		Eventually(workersOf(queue)).Should(ConsistOf(And(
			HaveField("ID", first[0].ID), HaveField("LastSeen", BeTemporally(">", first[0].LastSeen)))))
		Expect(worker.SetConcurrency(3)).To(Succeed())
		Eventually(workersOf(queue)).Should(ConsistOf(HaveField("Concurrency", 3)))
		Expect(worker.PauseNow(ctx)).To(Succeed())
		Eventually(workersOf(queue)).Should(ConsistOf(HaveField("Paused", true)))
		worker.Resume()
		_, err = queue.Add(ctx, "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Eventually(workersOf(queue)).Should(ConsistOf(And(HaveField("Paused", false), HaveField("Running", 1))))
		stop()
		Eventually(workersOf(queue)).Should(ConsistOf(HaveField("Stopping", true)))
		close(release)
		Eventually(ended).Should(Receive(BeNil()))
		Expect(queue.Workers(ctx)).To(BeEmpty())
	})

	It("is no longer listed when its lease has ended while it can't reach Redis, and again afterwards", Label("slow"), func() {
		proxy, link := proxiedRedis()
		runWorker(name, doNothing, &bullmq.WorkerOptions{
			Connection: link, Registration: &bullmq.RegistrationOptions{Interval: 100 * time.Millisecond, Lease: time.Second},
		})
		Eventually(workersOf(queue)).Should(HaveLen(1))
		Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
		proxy.CutAll()
		Eventually(workersOf(queue), "20s").Should(BeEmpty())
		Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
		Eventually(workersOf(queue), "20s").Should(ConsistOf(HaveField("ID", Not(BeEmpty()))))
	})

	It("is known by its connection only if it skips the registration", func() {
		register("quiet", bullmq.RegistrationOptions{Skip: true})
		register("known", often)
		Eventually(func() ([]string, error) { return namesOf(queue.Workers(ctx)) }).Should(Equal([]string{"known", "quiet"}))
		workers, err := queue.Workers(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(workers[1]).To(Equal(bullmq.WorkerInfo{
			Name: "quiet", Queues: []string{name}, QueueCount: 1, Connections: workers[1].Connections,
		}))
		Expect(workers[1].Connections).To(HaveLen(1))
		Expect(workers[1].IsRegistered()).To(BeFalse())
		Eventually(func() ([]bullmq.ConnectedClient, error) { return queue.ConnectedWorkers(ctx) }).Should(HaveLen(2)) // a worker may be registered first
	})

	It("is listed beside workers of other libraries, and has its own connection only", func() {
		connectAs(connectionName(name, ""), "ioredis")
		connectAs(connectionName(name, ":w:noddy"), "ioredis")
		connectAs(connectionName(name, ":qe"), "ioredis")
		connectAs(connectionName(name+"-2", ""), "ioredis")
		register("", often)
		Eventually(workersOf(queue)).Should(HaveExactElements(
			And(HaveField("ID", Not(BeEmpty())), HaveField("Connections", HaveLen(1))),
			And(HaveField("ID", ""), HaveField("Name", ""), HaveField("Connections", HaveLen(1))),
			And(HaveField("ID", ""), HaveField("Name", "noddy"), HaveField("Connections", HaveLen(1)))))
	})

	It("is one of the workers of all queues with a prefix, listed once", func() {
		prefix, o := "fleet-"+name, often
		link, err := bullmq.Connect(ctx, redis.URL())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(link.Close)
		for _, worker := range []struct{ queue, name string }{{"paint", "a"}, {"paint", "b"}, {"wash", "c"}} {
			runWorker(worker.queue, doNothing, &bullmq.WorkerOptions{Name: worker.name, Prefix: prefix, Registration: &o})
		}
		runWorker("paint", doNothing, &bullmq.WorkerOptions{Name: "inner", Prefix: prefix + ":inner", Registration: &o})
		runWorker("dry", doNothing, &bullmq.WorkerOptions{Name: "d", Prefix: prefix, Registration: &bullmq.RegistrationOptions{Skip: true}})
		list := func(queues ...string) func() ([]string, error) {
			return func() ([]string, error) { return namesOf(bullmq.ListWorkers(ctx, link, prefix, queues...)) }
		}
		Eventually(list()).Should(ConsistOf("a", "b", "c", "d"))
		Eventually(list("paint", "dry")).Should(ConsistOf("a", "b", "d"))
		Expect(list("none")()).To(BeEmpty())
		_, err = bullmq.ListWorkers(ctx, link, prefix, "a:b")
		Expect(err).To(MatchError(ContainSubstring("colon")))
		_, err = bullmq.ListWorkers(ctx, nil, "")
		Expect(err).To(MatchError(ContainSubstring("there is no Connection")))
	})

	It("works and stops as always if its user may not register it, and logs that once", func() {
		for _, rules := range []string{"~bull:" + name + ":* +@all", "~bull:* +@all -time"} {
			log := &logLines{}
			o := often
			worker := runWorker(name, doNothing, &bullmq.WorkerOptions{
				Connection: restricted(rules), Registration: &o,
				Logger: textLogger(log),
			})
			Eventually(func() int { return log.with("could not be registered") }).Should(Equal(1), rules)
			job, err := queue.Add(ctx, "a", nil, nil)
			Expect(err).NotTo(HaveOccurred())
			Eventually(stateOf(queue, job.ID)).Should(Equal(bullmq.StateCompleted))
			Eventually(workersOf(queue)).Should(ConsistOf(And(HaveField("ID", ""), HaveField("Connections", HaveLen(1)))))
			Consistently(func() int { return log.with("could not be registered") }, "300ms").Should(Equal(1), rules)
			Expect(worker.Health().Reachable).To(BeTrue())
			Expect(worker.Close()).To(Succeed())
			Expect(log.with("level=ERROR")).To(BeZero(), log.all())
			Expect(log.with("level=WARN")).To(BeZero(), log.all())
		}
	})

	It("is not listed for a reader without permission, who gets its connection", func() {
		register("a", often)
		Eventually(workersOf(queue)).Should(ConsistOf(HaveField("ID", Not(BeEmpty()))))
		reader := newQueue(name, &bullmq.QueueOptions{Connection: restricted("~bull:" + name + ":* +@all"), SkipMetaUpdate: true})
		Eventually(workersOf(reader)).Should(ConsistOf(And(HaveField("ID", ""), HaveField("Name", "a"))))
		blind := newQueue(name, &bullmq.QueueOptions{Connection: restricted("~bull:* +@all -client|list"), SkipMetaUpdate: true})
		Expect(blind.Workers(ctx)).To(ConsistOf(And(HaveField("ID", Not(BeEmpty())), HaveField("Connections", BeEmpty()))))
	})

	It("is removed by Obliterate, and comes back while it runs", func() {
		keys := func() []string { return redisStrings("KEYS", "bull:"+name+"@x:*") }
		register("a", bullmq.RegistrationOptions{Interval: time.Hour})
		Eventually(keys).Should(HaveLen(2))
		Expect(queue.Obliterate(ctx, nil)).To(Succeed())
		Expect(keys()).To(BeEmpty())
		register("b", often)
		Eventually(keys).Should(HaveLen(2))
	})

	It("is stored as JSON that other clients can read, in keys that expire", func() {
		register("a", bullmq.RegistrationOptions{Interval: 20 * time.Minute, Stack: "<blue>"})
		list := "bull:" + name + "@x:workers"
		Eventually(func() ([]string, error) { return redisDo("ZRANGE", list, "0", "-1").AsStrSlice() }).Should(HaveLen(1))
		key := redisStrings("ZRANGE", list, "0", "-1")[0]
		Expect(key).To(HavePrefix("bull:" + name + "@x:worker:"))
		text := redisText("GET", key)
		Expect(text).To(ContainSubstring(`"stack":"<blue>"`))
		var record map[string]any
		Expect(json.Unmarshal([]byte(text), &record)).To(Succeed())
		Expect(record).To(And(HaveKeyWithValue("name", "a"), HaveKeyWithValue("queues", []any{name}), HaveKeyWithValue("lease", BeEquivalentTo(3600000))))
		for _, one := range []string{list, key} {
			Expect(redisDo("PTTL", one).AsInt64()).To(BeNumerically("~", 3600000, 60000), one)
		}
	})

	It("is registered once in each interval, however many jobs it runs", Label("slow"), func() {
		server := startRedis(redisserver.Options{})
		client := clientOf(server)
		link := bullmq.URL(server.URL())
		busy := newQueue(name, &bullmq.QueueOptions{Connection: link})
		runWorker(name, doNothing, &bullmq.WorkerOptions{
			Connection: link, Concurrency: 10, Registration: &bullmq.RegistrationOptions{Interval: time.Hour},
		})
		Eventually(workersOf(busy)).Should(ConsistOf(HaveField("ID", Not(BeEmpty()))))
		calls := func() string {
			info, err := client.Do(ctx, client.B().Info().Section("commandstats").Build()).ToString()
			Expect(err).NotTo(HaveOccurred())
			for line := range strings.Lines(info) {
				if strings.HasPrefix(line, "cmdstat_pexpire:") { // which only the registration calls, and renewals
					count, _, _ := strings.Cut(line, ",")
					return count
				}
			}
			return ""
		}
		before := calls()
		jobs := make([]bullmq.BulkJob, 500)
		for i := range jobs {
			jobs[i].Name = "a"
		}
		_, err := busy.AddBulk(ctx, jobs)
		Expect(err).NotTo(HaveOccurred())
		Eventually(countOf(busy, bullmq.StateCompleted)).Should(Equal(500))
		Expect(calls()).To(Equal(before))
	})

	It("is listed on a cluster, with its connections", Label("slow"), func() {
		clustered()
		link, err := bullmq.Connect(ctx, cluster.URL())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(link.Close)
		o := often
		tagged := "{" + name + "}"
		runWorker(tagged, doNothing, &bullmq.WorkerOptions{Connection: link, Name: "a", Registration: &o})
		queue := newQueue(tagged, &bullmq.QueueOptions{Connection: link})
		Eventually(workersOf(queue)).Should(ConsistOf(And(HaveField("ID", Not(BeEmpty())), HaveField("Connections", Not(BeEmpty())))))
		Expect(bullmq.ListWorkers(ctx, link, "")).To(ContainElement(HaveField("Queues", Equal([]string{tagged}))))
	})

	It("is listed by the clock of Redis, whatever its own clock shows", func() {
		o := often
		runWorker(name, doNothing, &bullmq.WorkerOptions{Now: fixedClock(fixedNow), Registration: &o})
		Eventually(workersOf(queue)).Should(ConsistOf(And(
			HaveField("Started", BeTemporally("==", time.UnixMilli(fixedNow))), HaveField("LastSeen", BeTemporally("~", time.Now(), time.Minute)))))
	})

	It("over many queues is listed for each of them, until it no longer serves the queue", func() {
		names := newQueueNames(3)
		queues := openQueues(names...)
		o := often
		many := runMultiWorker(doNothing, bullmq.MultiWorkerOptions{
			Queues: served(names...), Worker: bullmq.WorkerOptions{Name: "many", Concurrency: 5, Registration: &o},
		})
		one := And(
			HaveField("ID", Not(BeEmpty())), HaveField("Name", "many"), HaveField("Queues", Equal(many.Queues())), HaveField("QueueCount", 3),
			HaveField("Concurrency", 5), HaveField("Connections", HaveLen(1)))
		for _, queue := range queues {
			Eventually(workersOf(queue)).Should(ConsistOf(one))
		}
		link, err := bullmq.Connect(ctx, redis.URL())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(link.Close)
		Expect(bullmq.ListWorkers(ctx, link, "", names...)).To(ConsistOf(one))
		Expect(many.RemoveQueue(names[0])).To(BeTrue())
		Eventually(workersOf(queues[0])).ShouldNot(ContainElement(HaveField("ID", Not(BeEmpty()))))
		Expect(many.AddQueue(bullmq.ServedQueue{Name: name})).To(Succeed())
		Eventually(workersOf(queue)).Should(ConsistOf(HaveField("Queues", ContainElements(name, names[1], names[2]))))
		Expect(many.Close()).To(Succeed())
		for _, name := range append(names, name) {
			Expect(redisStrings("KEYS", "bull:"+name+"@x:*")).To(BeEmpty())
		}
	})

	It("over many queues is no longer listed for a queue that it leaves, even if the first call that removes it fails", func() {
		names := newQueueNames(2)
		queues := openQueues(names...)
		proxy, via := proxiedRedis()
		o := often
		o.Lease = time.Minute
		many := runMultiWorker(doNothing, bullmq.MultiWorkerOptions{
			Queues: served(names...), Worker: bullmq.WorkerOptions{Connection: via, Name: "many", Registration: &o},
		})
		listed := ContainElement(HaveField("ID", Not(BeEmpty())))
		Eventually(workersOf(queues[0])).Should(listed)
		lost := proxy.LoseCommand("zrem")
		Expect(many.RemoveQueue(names[0])).To(BeTrue())
		Eventually(lost).Should(BeClosed())
		Eventually(workersOf(queues[0])).ShouldNot(listed)
		Eventually(workersOf(queues[1])).Should(listed)
	})

	It("over a Registry is listed for the Registry until it has queues, and then for these", func() {
		registry := newRegistry(name, bullmq.RegistryOptions{})
		o := often
		runMultiWorker(doNothing, bullmq.MultiWorkerOptions{Registry: name, Worker: bullmq.WorkerOptions{Registration: &o}})
		Eventually(workersOf(queue)).Should(ConsistOf(And(HaveField("ID", Not(BeEmpty())), HaveField("QueueCount", 0))))
		tenant, err := registry.Queue(ctx, newQueueName())
		Expect(err).NotTo(HaveOccurred())
		Expect(registry.Register(ctx, tenant.Name())).To(Succeed())
		Eventually(workersOf(tenant)).Should(ConsistOf(And(HaveField("ID", Not(BeEmpty())), HaveField("Queues", []string{tenant.Name()}))))
		Eventually(workersOf(queue)).ShouldNot(ContainElement(HaveField("ID", Not(BeEmpty()))))
	})

	It("over many queues is listed soon for a queue that it begins or ceases to serve", func() {
		registry := newRegistry(name, bullmq.RegistryOptions{})
		many := runMultiWorker(doNothing, bullmq.MultiWorkerOptions{Registry: name, Worker: bullmq.WorkerOptions{Registration: &bullmq.RegistrationOptions{}}})
		Eventually(workersOf(queue)).Should(ConsistOf(HaveField("ID", Not(BeEmpty()))))
		registered, added := newQueue(newQueueName(), nil), newQueue(newQueueName(), nil)
		Expect(registry.Register(ctx, registered.Name())).To(Succeed())
		Eventually(workersOf(registered), "3s").Should(ConsistOf(HaveField("ID", Not(BeEmpty()))), "within the interval of 10 s")
		Expect(many.AddQueue(bullmq.ServedQueue{Name: added.Name()})).To(Succeed())
		Eventually(workersOf(added), "3s").Should(ConsistOf(HaveField("ID", Not(BeEmpty()))))
		Expect(many.RemoveQueue(added.Name())).To(BeTrue())
		Eventually(workersOf(added), "3s").Should(BeEmpty())
	})

	It("has a version and a library of its own if the options give none", func() {
		register("a", bullmq.RegistrationOptions{})
		Eventually(workersOf(queue)).Should(ConsistOf(And(
			HaveField("ID", Not(BeEmpty())), HaveField("Library", HavePrefix("bullmq-go")),
		)))
		workers, err := queue.Workers(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(workers[0].Expires.Sub(workers[0].LastSeen)).To(Equal(30 * time.Second))
	})
})

var _ = DescribeTable("A worker is refused if its registration", func(o bullmq.RegistrationOptions, says string) {
	_, err := bullmq.NewWorker(specContext(), newQueueName(), doNothing, &bullmq.WorkerOptions{Connection: connection(), Registration: &o})
	Expect(err).To(MatchError(ContainSubstring(says)))
},
	Entry("has a negative interval", bullmq.RegistrationOptions{Interval: -time.Second}, "Registration.Interval -1s"),
	Entry("has an interval that is a plain number", bullmq.RegistrationOptions{Interval: 500}, "Registration.Interval 500ns"),
	Entry("has a lease that ends before it is renewed", bullmq.RegistrationOptions{Interval: time.Second, Lease: time.Second}, "must be longer than Registration.Interval 1s"),
	Entry("has an empty capability", bullmq.RegistrationOptions{Capabilities: []string{"gpu", ""}}, "empty"),
	Entry("has a text that is not UTF-8", bullmq.RegistrationOptions{Stack: "\xff"}, "UTF-8"),
)

var _ = It("A server gives its registration to the workers that have none", func() {
	ctx, first, second := specContext(), newQueueName(), newQueueName()
	link, err := bullmq.Connect(ctx, redis.URL())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(link.Close)
	server := bullmq.NewServer(link, &bullmq.ServerOptions{
		Signals: []os.Signal{}, Registration: &bullmq.RegistrationOptions{Stack: "blue"},
	})
	server.Handle(first, doNothing, nil)
	server.Handle(second, doNothing, &bullmq.WorkerOptions{Registration: &bullmq.RegistrationOptions{Stack: "green"}})
	run, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- server.Run(run) }()
	Eventually(workersOf(newQueue(first, nil))).Should(ConsistOf(HaveField("Stack", "blue")))
	Eventually(workersOf(newQueue(second, nil))).Should(ConsistOf(HaveField("Stack", "green")))
	stop()
	Eventually(ended).Should(Receive(BeNil()))
})
