package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// newSharded returns a sharded queue that is closed when the spec ends. Its shards are on the suite's server, unless the
// options name others.
func newSharded(name string, shards int, o bullmq.ShardedQueueOptions) *bullmq.ShardedQueue {
	GinkgoHelper()
	if o.Connections == nil && o.Queue.URL == "" {
		o.Connections = []*bullmq.Connection{connection()}
	}
	sharded, err := bullmq.NewShardedQueue(context.Background(), name, shards, &o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(sharded.Close)
	return sharded
}

// shardServers starts servers whose data survives, and returns them with a Connection to each. It has one socket, so that
// an outage that was noticed is known for all calls.
func shardServers(count int) (servers []*redisserver.Server, connections []*bullmq.Connection) {
	GinkgoHelper()
	for range count {
		server := startRedis(redisserver.Options{AppendOnly: true})
		servers, connections = append(servers, server), append(connections, connectTo(server.Addr()))
	}
	return servers, connections
}

// waitingIn returns the number of waiting jobs of each shard, by index.
func waitingIn(sharded *bullmq.ShardedQueue) []int {
	GinkgoHelper()
	var counts []int
	for _, shard := range sharded.Shards() {
		n, err := countOf(shard, bullmq.StateWaiting)()
		Expect(err).NotTo(HaveOccurred())
		counts = append(counts, n)
	}
	return counts
}

var _ = Describe("A sharded queue", func() {
	var (
		name string
		ctx  context.Context
	)
	BeforeEach(func() { name, ctx = newQueueName(), specContext() })
	add := func(sharded *bullmq.ShardedQueue, options *bullmq.JobOptions) *bullmq.Job {
		GinkgoHelper()
		job, err := sharded.Add(ctx, "paint", nil, options)
		Expect(err).NotTo(HaveOccurred())
		return job
	}

	It("adds jobs without a key to its shards in turn, which are ordinary queues", func() {
		sharded := newSharded(name, 4, bullmq.ShardedQueueOptions{})
		var names []string
		for range 8 {
			names = append(names, add(sharded, nil).QueueName())
		}
		shards := []string{"{" + name + "-0}", "{" + name + "-1}", "{" + name + "-2}", "{" + name + "-3}"}
		Expect(names).To(Equal(append(shards, shards...)))
		Expect(newQueue(shards[2], nil).Counts(ctx, bullmq.StateWaiting)).To(HaveKeyWithValue(bullmq.StateWaiting, 2))
		Expect(sharded.NumShards()).To(Equal(4))
		Expect(sharded.Name()).To(Equal(name))
		shard, ok := sharded.Shard(shards[3])
		Expect(ok).To(BeTrue())
		Expect(shard.Name()).To(Equal(shards[3]))
		_, ok = sharded.Shard(name)
		Expect(ok).To(BeFalse())
	})

	It("lets adds to shards of one server share calls if so configured", func() {
		sharded := newSharded(name, 3, bullmq.ShardedQueueOptions{
			Connections: []*bullmq.Connection{connectTo(redis.Addr())}, Queue: bullmq.QueueOptions{ShareCalls: true},
		})
		Expect(bullmq.ShareCalls(sharded.Shards()...)).To(BeTrue())
		var adding sync.WaitGroup
		for range 30 {
			adding.Go(func() {
				defer GinkgoRecover()
				add(sharded, nil)
			})
		}
		adding.Wait()
		Expect(waitingIn(sharded)).To(Equal([]int{10, 10, 10}))
	})

	It("selects the shard of a key by FNV-1a", func() {
		for key, hash := range map[string]uint32{"": 0x811c9dc5, "a": 0xe40c292c, "foobar": 0xbf9cf968, "ä": 0x199de0e2} {
			for _, n := range []int{1, 3, 10, 1000} {
				Expect(bullmq.ShardIndex(key, n)).To(Equal(int(hash%uint32(n))), "%q of %d", key, n)
			}
		}
	})

	It("adds jobs with one JobID to one shard, which has only one of them", func() {
		sharded := newSharded(name, 5, bullmq.ShardedQueueOptions{})
		for i := range 20 {
			options := &bullmq.JobOptions{JobID: fmt.Sprint("job-", i)}
			first, second := add(sharded, options), add(sharded, options)
			Expect(first.AddOutcome()).To(Equal(bullmq.Added))
			Expect(second.AddOutcome()).To(Equal(bullmq.AlreadyExists))
			Expect(sharded.Find(ctx, first.ID)).To(HaveExactElements(HaveField("ID", first.ID)))
			Expect(sharded.Job(ctx, first.QueueName(), first.ID)).To(HaveField("Name", "paint"))
		}
		Expect(waitingIn(sharded)).NotTo(ContainElement(0))
		_, err := sharded.Find(ctx, "none")
		Expect(err).To(MatchError(bullmq.ErrJobNotFound))
		_, err = sharded.Job(ctx, "{other-0}", "job-1")
		Expect(err).To(And(MatchError(bullmq.ErrJobNotFound), MatchError(ContainSubstring("{other-0}"))))
	})

	It("adds jobs with one deduplication id to one shard, whatever their JobIDs are", func() {
		sharded := newSharded(name, 5, bullmq.ShardedQueueOptions{})
		owner := add(sharded, &bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "k"}})
		for i := range 10 {
			job := add(sharded, &bullmq.JobOptions{JobID: fmt.Sprint("job-", i), Deduplication: &bullmq.Deduplication{ID: "k"}})
			Expect(job.AddOutcome()).To(Equal(bullmq.Deduplicated))
			Expect(job.ID).To(Equal(owner.ID))
		}
		Expect(sharded.Counts(ctx, bullmq.StateWaiting)).To(HaveKeyWithValue(bullmq.StateWaiting, 1))
	})

	It("adds jobs with one key to one shard, in their order", func() {
		sharded := newSharded(name, 5, bullmq.ShardedQueueOptions{ShardKey: func(job *bullmq.NewJob) string { return job.Data.(string) }})
		places := map[string]string{}
		for i := range 30 {
			key := fmt.Sprint("tenant-", i%6)
			job, err := sharded.Add(ctx, fmt.Sprint(i), key, nil)
			Expect(err).NotTo(HaveOccurred())
			if i >= 6 {
				Expect(job.QueueName()).To(Equal(places[key]))
			}
			places[key] = job.QueueName()
		}
		shard, _ := sharded.Shard(places["tenant-2"])
		jobs, err := shard.Jobs(ctx, bullmq.AllEntries(), bullmq.StateWaiting)
		Expect(err).NotTo(HaveOccurred())
		var order []string
		for _, job := range jobs {
			if string(job.Data) == `"tenant-2"` {
				order = append(order, job.Name)
			}
		}
		Expect(order).To(Equal([]string{"2", "8", "14", "20", "26"}))
	})

	It("adds a child to the shard of its parent, and refuses a parent that is elsewhere", func() {
		sharded := newSharded(name, 3, bullmq.ShardedQueueOptions{})
		add(sharded, nil)
		parent := add(sharded, nil)
		for range 4 {
			Expect(add(sharded, &bullmq.JobOptions{Parent: parent.AsParent()}).QueueName()).To(Equal(parent.QueueName()))
		}
		_, err := sharded.Add(ctx, "paint", nil, &bullmq.JobOptions{Parent: &bullmq.ParentRef{ID: "1", QueueKey: "bull:" + name}})
		Expect(err).To(MatchError(ContainSubstring("is no shard of this queue")))
	})

	It("adds jobs to the shard with fewer jobs if so configured", func() {
		sharded := newSharded(name, 2, bullmq.ShardedQueueOptions{Choose: bullmq.LeastLoaded})
		full := sharded.Shards()[0]
		_, err := full.AddBulk(ctx, slices.Repeat([]bullmq.BulkJob{{Name: "paint"}}, 200))
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() string { return add(sharded, nil).QueueName() }).Should(Equal("{" + name + "-1}"))
		Eventually(func(g Gomega) { // once the jobs were counted
			before, err := countOf(full, bullmq.StateWaiting)()
			g.Expect(err).NotTo(HaveOccurred())
			for range 20 {
				add(sharded, nil)
			}
			g.Expect(countOf(full, bullmq.StateWaiting)()).To(Equal(before))
		}).Should(Succeed())
	})

	Describe("adds in bulk", func() {
		It("in turn, by key, and with the result in the order of the jobs", func() {
			sharded := newSharded(name, 3, bullmq.ShardedQueueOptions{})
			var bulk []bullmq.BulkJob
			for i := range 300 {
				b := bullmq.BulkJob{Name: fmt.Sprint("job-", i), Data: i}
				if i%10 == 0 {
					b.Options = &bullmq.JobOptions{JobID: fmt.Sprint("id-", i%50)}
				}
				bulk = append(bulk, b)
			}
			jobs, err := sharded.AddBulk(ctx, bulk)
			Expect(err).NotTo(HaveOccurred())
			Expect(jobs).To(HaveLen(300))
			for i, job := range jobs {
				Expect(job.Name).To(Equal(bulk[i].Name))
				if i%10 == 0 && i >= 50 {
					Expect(job.AddOutcome()).To(Equal(bullmq.AlreadyExists), job.Name)
					continue
				}
				stored, err := sharded.Job(ctx, job.QueueName(), job.ID)
				Expect(err).NotTo(HaveOccurred())
				Expect(stored.Name).To(Equal(job.Name))
			}
			Expect(sharded.Counts(ctx, bullmq.StateWaiting)).To(HaveKeyWithValue(bullmq.StateWaiting, 275))
			for _, n := range waitingIn(sharded) {
				Expect(n).To(BeNumerically(">=", 90))
			}
		})

		It("adds no job if one is invalid", func() {
			sharded := newSharded(name, 3, bullmq.ShardedQueueOptions{})
			_, err := sharded.AddBulk(ctx, []bullmq.BulkJob{{Name: "a"}, {Name: "b"}, {Name: "c", Options: &bullmq.JobOptions{JobID: "17"}}})
			Expect(err).To(MatchError(And(ContainSubstring("none of 3 jobs"), ContainSubstring(`job 2, "c"`))))
			Expect(waitingIn(sharded)).To(Equal([]int{0, 0, 0}))
		})

		It("and names each job that a shard refuses", func() {
			sharded := newSharded(name, 2, bullmq.ShardedQueueOptions{})
			missing := &bullmq.ParentRef{ID: "none", QueueKey: "bull:{" + name + "-1}"}
			jobs, err := sharded.AddBulk(ctx, []bullmq.BulkJob{{Name: "a"}, {Name: "b", Options: &bullmq.JobOptions{Parent: missing}}, {Name: "c"}})
			var failed *bullmq.BulkError
			Expect(errors.As(err, &failed)).To(BeTrue())
			Expect(failed.Of(0)).To(Succeed())
			Expect(failed.Of(1)).To(MatchError(bullmq.ErrParentNotFound))
			Expect(failed.Of(2)).To(Succeed())
			Expect([]bool{jobs[0].ID == "", jobs[1].ID == "", jobs[2].ID == ""}).To(Equal([]bool{false, true, false}))
		})
	})

	It("runs its middleware once for each add, with the name of the sharded queue", func() {
		var seen []string
		middleware := func(next bullmq.AddFunc) bullmq.AddFunc {
			return func(ctx context.Context, jobs []*bullmq.NewJob) error {
				for _, job := range jobs {
					seen = append(seen, job.QueueName+" "+job.Name+job.SchedulerID)
					job.Data = "changed"
				}
				return next(ctx, jobs)
			}
		}
		sharded := newSharded(name, 3, bullmq.ShardedQueueOptions{
			Queue:    bullmq.QueueOptions{Middleware: []bullmq.AddMiddleware{middleware}},
			ShardKey: func(job *bullmq.NewJob) string { return fmt.Sprint(job.Data) },
		})
		one, err := sharded.Add(ctx, "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		more, err := sharded.AddBulk(ctx, []bullmq.BulkJob{{Name: "b"}, {Name: "c"}})
		Expect(err).NotTo(HaveOccurred())
		_, err = sharded.UpsertScheduler(ctx, "daily", bullmq.Repeat{Every: time.Hour}, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(seen).To(Equal([]string{name + " a", name + " b", name + " c", name + " dailydaily"}))
		for _, job := range append(more, one) {
			Expect(string(job.Data)).To(Equal(`"changed"`))
			Expect(job.QueueName()).To(Equal(one.QueueName()), "the shard of the key that the middleware has made")
		}
	})

	It("keeps a flow on the shard of its root, and refuses one of several queues", func() {
		sharded := newSharded(name, 5, bullmq.ShardedQueueOptions{Queue: bullmq.QueueOptions{DefaultJobOptions: &bullmq.JobOptions{Attempts: 7}}})
		for i := range 4 {
			node, err := sharded.AddFlow(ctx, bullmq.Flow{
				Name: "wall", Options: &bullmq.JobOptions{JobID: fmt.Sprint("wall-", i)},
				Children: []bullmq.Flow{{Name: "brick"}, {Name: "brick", QueueName: name, Children: []bullmq.Flow{{Name: "clay"}}}},
			})
			Expect(err).NotTo(HaveOccurred())
			again := add(sharded, &bullmq.JobOptions{JobID: fmt.Sprint("wall-", i)})
			Expect(again.AddOutcome()).To(Equal(bullmq.AlreadyExists))
			for _, job := range []*bullmq.Job{node.Job, node.Children[0].Job, node.Children[1].Job, node.Children[1].Children[0].Job} {
				Expect(job.QueueName()).To(Equal(again.QueueName()))
				Expect(job.Options.Attempts).To(Equal(7))
			}
		}
		_, err := sharded.AddFlow(ctx, bullmq.Flow{Name: "wall", Children: []bullmq.Flow{{Name: "mail", QueueName: "mails"}}})
		Expect(err).To(MatchError(ContainSubstring(`all jobs of a flow must be in ` + name)))
	})

	It("refuses jobs with a target, whose routes no worker of its shards serves", func() {
		sharded := newSharded(name, 2, bullmq.ShardedQueueOptions{})
		target := &bullmq.JobOptions{Target: &bullmq.Target{Capabilities: []string{"gpu"}}}
		refused := MatchError(And(ContainSubstring("has a Target"), ContainSubstring("use a Queue")))
		_, err := sharded.Add(ctx, "paint", nil, target)
		Expect(err).To(refused)
		_, err = sharded.AddBulk(ctx, []bullmq.BulkJob{{Name: "a"}, {Name: "b", Options: target}})
		Expect(err).To(refused)
		_, err = sharded.AddFlow(ctx, bullmq.Flow{Name: "a", Options: target})
		Expect(err).To(refused)
		_, err = sharded.AddFlow(ctx, bullmq.Flow{Name: "a", Children: []bullmq.Flow{{Name: "b", Options: target}}})
		Expect(err).To(refused)
		_, err = sharded.UpsertScheduler(ctx, "daily", bullmq.Repeat{Every: time.Hour}, &bullmq.JobTemplate{Options: target})
		Expect(err).To(refused)
		Expect(sharded.Counts(ctx)).To(HaveEach(0))
		Expect(redisStrings("KEYS", "bull:*"+name+"*@gpu*")).To(BeEmpty())
		add(sharded, &bullmq.JobOptions{Target: &bullmq.Target{}})
	})

	It("keeps each scheduler on one shard, and lists them together", func() {
		sharded := newSharded(name, 4, bullmq.ShardedQueueOptions{})
		for i := range 12 {
			id := fmt.Sprint("s-", i)
			for range 2 {
				_, err := sharded.UpsertScheduler(ctx, id, bullmq.Repeat{Every: time.Hour, StartDate: time.Now().Add(time.Duration(i+1) * time.Minute)}, nil)
				Expect(err).NotTo(HaveOccurred())
			}
			Expect(sharded.Scheduler(ctx, id)).To(HaveField("ID", id))
		}
		all, err := sharded.Schedulers(ctx, bullmq.Page{Offset: 2, Limit: 3, Ascending: true})
		Expect(err).NotTo(HaveOccurred())
		Expect(all).To(HaveExactElements(HaveField("ID", "s-2"), HaveField("ID", "s-3"), HaveField("ID", "s-4")))
		all, err = sharded.Schedulers(ctx, bullmq.Page{Limit: 2})
		Expect(err).NotTo(HaveOccurred())
		Expect(all).To(HaveExactElements(HaveField("ID", "s-11"), HaveField("ID", "s-10")))
		Expect(sharded.RemoveScheduler(ctx, "s-5")).To(Succeed())
		Expect(sharded.RemoveScheduler(ctx, "s-5")).To(MatchError(bullmq.ErrSchedulerNotFound))
		_, err = sharded.Scheduler(ctx, "s-5")
		Expect(err).To(MatchError(bullmq.ErrSchedulerNotFound))
		Expect(sharded.Counts(ctx, bullmq.StateDelayed)).To(HaveKeyWithValue(bullmq.StateDelayed, 11))
	})

	It("has the number of shards that is stored, whatever NewShardedQueue is given", func() {
		Expect(newSharded(name, 3, bullmq.ShardedQueueOptions{}).NumShards()).To(Equal(3))
		Expect(newSharded(name, 8, bullmq.ShardedQueueOptions{}).NumShards()).To(Equal(3))
		Expect(hashAt("bull:" + name + "@x:shards")).To(HaveKeyWithValue("0", ContainSubstring(`{"shards":3,"servers":1,"since":`)))
	})

	It("needs no permission for keys other than those of its shards and their number", func() {
		needed := "~bull:{" + name + "* +@all"
		_, err := bullmq.NewShardedQueue(ctx, name, 2, &bullmq.ShardedQueueOptions{Connections: []*bullmq.Connection{restricted(needed)}})
		Expect(err).To(MatchError(ContainSubstring("NOPERM")))
		sharded := newSharded(name, 2, bullmq.ShardedQueueOptions{Connections: []*bullmq.Connection{restricted(needed + " ~bull:" + name + "@x:shards")}})
		add(sharded, nil)
		Expect(sharded.Resize(ctx, 3)).To(Succeed())
		add(sharded, nil)
	})

	It("reports a stored number that is invalid", func() {
		Expect(redisDo("HSET", "bull:"+name+"@x:shards", "0", "many").Error()).To(Succeed())
		_, err := bullmq.NewShardedQueue(ctx, name, 3, &bullmq.ShardedQueueOptions{Connections: []*bullmq.Connection{connection()}})
		Expect(err).To(MatchError(ContainSubstring("invalid value")))
	})

	It("returns ErrClosed after Close", func() {
		sharded := newSharded(name, 2, bullmq.ShardedQueueOptions{Choose: bullmq.LeastLoaded})
		add(sharded, nil)
		Expect(sharded.Close()).To(Succeed())
		Expect(sharded.Close()).To(Succeed())
		_, err := sharded.Add(ctx, "paint", nil, nil)
		Expect(err).To(MatchError(bullmq.ErrClosed))
		_, err = sharded.AddBulk(ctx, []bullmq.BulkJob{{Name: "paint"}})
		Expect(err).To(MatchError(bullmq.ErrClosed))
		_, err = sharded.Counts(ctx)
		Expect(err).To(MatchError(bullmq.ErrClosed))
		Expect(sharded.Pause(ctx)).To(MatchError(bullmq.ErrClosed))
		Expect(sharded.Resize(ctx, 3)).To(MatchError(bullmq.ErrClosed))
	})

	DescribeTable("refuses", func(queueName string, shards int, o bullmq.ShardedQueueOptions, text string) {
		_, err := bullmq.NewShardedQueue(ctx, queueName, shards, &o)
		Expect(err).To(MatchError(ContainSubstring(text)))
	},
		Entry("a name with braces", "{orders}", 2, bullmq.ShardedQueueOptions{}, "brace"),
		Entry("a name that could be that of a generation", "orders.1", 2, bullmq.ShardedQueueOptions{}, "a dot and digits"),
		Entry("a target in the default options", "orders", 2, bullmq.ShardedQueueOptions{Queue: bullmq.QueueOptions{
			DefaultJobOptions: &bullmq.JobOptions{Target: &bullmq.Target{Region: "eu"}},
		}}, "has a Target"),
		Entry("no shards", "orders", 0, bullmq.ShardedQueueOptions{}, "can't have 0 shards"),
		Entry("too many shards", "orders", 1001, bullmq.ShardedQueueOptions{}, "use 1 to 1000"),
		Entry("a prefix that is a hash tag", "orders", 2, bullmq.ShardedQueueOptions{Queue: bullmq.QueueOptions{Prefix: "{bull}"}}, "one hash slot"),
		Entry("an empty connection", "orders", 2, bullmq.ShardedQueueOptions{Connections: []*bullmq.Connection{nil}}, "Connections[0]"),
		Entry("connections and a URL", "orders", 2, bullmq.ShardedQueueOptions{Connections: []*bullmq.Connection{{}}, Queue: bullmq.QueueOptions{URL: "redis://x"}}, "choose one"),
		Entry("a connection of the queue", "orders", 2, bullmq.ShardedQueueOptions{Queue: bullmq.QueueOptions{Connection: &bullmq.Connection{}}}, "use Connections"),
		Entry("OnHealth of the queue", "orders", 2, bullmq.ShardedQueueOptions{Queue: bullmq.QueueOptions{OnHealth: func(bullmq.Health) {}}}, "OnHealth of ShardedQueueOptions"),
		Entry("an unknown choice", "orders", 2, bullmq.ShardedQueueOptions{Choose: 9}, "Choose is 9"),
		Entry("an unknown answer to an outage", "orders", 2, bullmq.ShardedQueueOptions{OnShardDown: 9}, "OnShardDown is 9"),
		Entry("invalid options of the queue", "orders", 2, bullmq.ShardedQueueOptions{Queue: bullmq.QueueOptions{MaxEvents: -5}}, "MaxEvents"),
	)
})
