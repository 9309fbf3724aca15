package bullmq_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// spanHook is a Telemetry that calls a function when a span starts.
type spanHook struct {
	counters
	started func(ctx context.Context, span string)
}

func (h *spanHook) StartSpan(ctx context.Context, name string, _ bullmq.SpanKind) (context.Context, bullmq.Span) {
	h.started(ctx, name)
	return ctx, noSpan{}
}

var _ = Describe("Resize", func() {
	var (
		name string
		ctx  context.Context
	)
	BeforeEach(func() { name, ctx = newQueueName(), specContext() })

	It("lets all producers add to the new shards, and loses no job", Label("slow"), func() {
		sharded, other := newSharded(name, 2, bullmq.ShardedQueueOptions{}), newSharded(name, 2, bullmq.ShardedQueueOptions{})
		ledger, stop := newAddLedger(), make(chan struct{})
		var adding sync.WaitGroup
		var latest atomic.Value
		adding.Go(func() {
			for number := 0; ; number++ {
				select {
				case <-stop:
					return
				default:
				}
				job, err := other.Add(ctx, "paint", number, nil)
				ledger.record(number, err)
				if err == nil {
					latest.Store(job.QueueName())
				}
				time.Sleep(2 * time.Millisecond) // not so many jobs that reading them takes long
			}
		})
		for generation, shards := range []int{4, 3} {
			Expect(sharded.Resize(ctx, shards)).To(Succeed())
			Expect(sharded.NumShards()).To(Equal(shards))
			Eventually(latest.Load, "20s").Should(HavePrefix(fmt.Sprintf("{%s.%d-", name, generation+1)))
		}
		close(stop)
		adding.Wait()
		Expect(ledger.failures()).To(BeEmpty())
		Expect(sharded.Shards()).To(HaveLen(9))
		ledger.matches(ctx, sharded)
		Expect(sharded.Counts(ctx, bullmq.StateWaiting)).To(HaveKeyWithValue(bullmq.StateWaiting, len(ledger.added)))
	})

	It("does nothing if the number is the same", func() {
		sharded := newSharded(name, 2, bullmq.ShardedQueueOptions{})
		before := hashAt("bull:" + name + "@x:shards")
		Expect(sharded.Resize(ctx, 2)).To(Succeed())
		Expect(hashAt("bull:" + name + "@x:shards")).To(Equal(before))
		Expect(sharded.Resize(ctx, 0)).To(MatchError(ContainSubstring("use 1 to 1000")))
	})

	It("is noticed by a producer that has not added for a while", func() {
		sharded, other := newSharded(name, 2, bullmq.ShardedQueueOptions{}), newSharded(name, 2, bullmq.ShardedQueueOptions{})
		Expect(sharded.Resize(ctx, 3)).To(Succeed())
		other.Forget(2500 * time.Millisecond)
		job, err := other.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(job.QueueName()).To(HavePrefix("{" + name + ".1-"))
	})

	It("gives the new shards the pause and the limits of the old ones", func() {
		sharded := newSharded(name, 4, bullmq.ShardedQueueOptions{})
		Expect(sharded.Pause(ctx)).To(Succeed())
		Expect(sharded.SetGlobalConcurrency(ctx, 9)).To(Succeed())
		Expect(sharded.SetGlobalRateLimit(ctx, bullmq.Limiter{Max: 8, Duration: time.Minute})).To(Succeed())
		Expect(sharded.Resize(ctx, 9)).To(MatchError(ContainSubstring("its global rate limit of 8 can't be divided")))
		Expect(sharded.Resize(ctx, 10)).To(MatchError(ContainSubstring("its global concurrency of 9 can't be divided")))
		Expect(sharded.NumShards()).To(Equal(4))
		Expect(sharded.Resize(ctx, 3)).To(Succeed())
		for i, shard := range sharded.Shards()[:3] {
			Expect(shard.Name()).To(Equal(fmt.Sprintf("{%s.1-%d}", name, i)))
			Expect(shard.Meta(ctx)).To(And(
				HaveField("Paused", true), HaveField("Concurrency", HaveValue(Equal(3))),
				HaveField("RateLimit", HaveField("Max", []int{3, 3, 2}[i]))))
		}
		Expect(sharded.Resume(ctx)).To(Succeed())
		Expect(sharded.IsPaused(ctx)).To(BeFalse())
		for _, shard := range sharded.Shards() {
			Expect(shard.IsPaused(ctx)).To(BeFalse(), shard.Name())
		}
	})

	It("is noticed by a change of a limit, which fails if the new shards can't have it", func() {
		sharded, other := newSharded(name, 2, bullmq.ShardedQueueOptions{}), newSharded(name, 2, bullmq.ShardedQueueOptions{})
		Expect(sharded.Resize(ctx, 5)).To(Succeed())
		Expect(other.SetGlobalConcurrency(ctx, 3)).To(MatchError(ContainSubstring("can't be divided among 5 shards")))
		for _, shard := range sharded.Shards()[:5] {
			Expect(shard.Meta(ctx)).To(HaveField("Concurrency", BeNil()), shard.Name())
		}
	})

	It("clears what a Resize that failed has left in the new shards, before it begins them and when it is repeated", func() {
		sharded := newSharded(name, 2, bullmq.ShardedQueueOptions{})
		Expect(sharded.SetGlobalConcurrency(ctx, 6)).To(Succeed())
		left := newQueue("{"+name+".1-2}", nil)
		spoil := func() {
			GinkgoHelper()
			Expect(left.Pause(ctx)).To(Succeed())
			Expect(left.SetGlobalConcurrency(ctx, 100)).To(Succeed())
			Expect(left.SetGlobalRateLimit(ctx, bullmq.Limiter{Max: 1, Duration: time.Hour})).To(Succeed())
		}
		for range 2 {
			spoil()
			Expect(sharded.Resize(ctx, 3)).To(Succeed())
			Expect(left.Meta(ctx)).To(And(HaveField("Paused", false), HaveField("Concurrency", HaveValue(Equal(2))), HaveField("RateLimit", BeNil())))
		}
	})

	It("lets a scheduler with a limit run no more often, and removes one that has ended", func() {
		var now atomic.Int64
		now.Store(fixedNow)
		clock := func() time.Time { return time.UnixMilli(now.Load()) }
		sharded := newSharded(name, 1, bullmq.ShardedQueueOptions{Queue: bullmq.QueueOptions{Now: clock}})
		upsert := func(id string, repeat bullmq.Repeat) {
			GinkgoHelper()
			repeat.Every = time.Hour
			_, err := sharded.UpsertScheduler(ctx, id, repeat, nil)
			Expect(err).NotTo(HaveOccurred())
		}
		fetcher := newFetcher("{"+name+"-0}", &bullmq.FetcherOptions{Now: clock})
		run := func(count int) {
			GinkgoHelper()
			for range count {
				endJob(fetcher, takeJob(fetcher), nil, nil)
			}
			Expect(takeJob(fetcher)).To(BeNil())
		}
		upsert("once", bullmq.Repeat{Limit: 1})
		upsert("ended", bullmq.Repeat{EndDate: clock().Add(30 * time.Minute)})
		upsert("thrice", bullmq.Repeat{Limit: 3})
		run(3)
		now.Add((90 * time.Minute).Milliseconds())
		run(2) // the second runs of the last two
		upsert("waiting", bullmq.Repeat{Limit: 2})

		Expect(sharded.Resize(ctx, 2)).To(Succeed())
		all, err := sharded.Schedulers(ctx, bullmq.Page{Limit: -1, Ascending: true})
		Expect(err).NotTo(HaveOccurred())
		Expect(all).To(HaveExactElements(
			And(HaveField("ID", "thrice"), HaveField("Repeat.Limit", 1), HaveField("Next", clock().Add(30*time.Minute))),
			And(HaveField("ID", "waiting"), HaveField("Repeat.Limit", 1), HaveField("Next", clock().Add(time.Hour))),
		))
		Expect(sharded.Counts(ctx, bullmq.StateWaiting, bullmq.StateDelayed)).To(Equal(map[bullmq.State]int{bullmq.StateWaiting: 1, bullmq.StateDelayed: 2}))
		run(1)
		now.Add((2 * time.Hour).Milliseconds())
		Expect(sharded.Retire(ctx, &bullmq.RetireOptions{RemoveFinished: true})).To(Equal([]string{"{" + name + "-0}"}))
		Expect(sharded.Schedulers(ctx, bullmq.AllEntries())).To(HaveLen(2))
	})

	It("does not leave a scheduler twice that a producer changes which does not know of it yet", func() {
		var second *bullmq.ShardedQueue
		var resizing sync.Once
		during := &spanHook{started: func(_ context.Context, span string) { // while the scheduler is stored
			if strings.HasPrefix(span, "add ") {
				resizing.Do(func() { Expect(second.Resize(ctx, 4)).To(Succeed()) })
			}
		}}
		first := newSharded(name, 2, bullmq.ShardedQueueOptions{Queue: bullmq.QueueOptions{Telemetry: during}})
		second = newSharded(name, 2, bullmq.ShardedQueueOptions{})
		for _, id := range []string{"a", "b", "c"} {
			_, err := first.UpsertScheduler(ctx, id, bullmq.Repeat{Every: time.Hour}, nil)
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(second.Resize(ctx, 3)).To(Succeed())
		_, err := first.UpsertScheduler(ctx, "a", bullmq.Repeat{Every: time.Minute}, nil)
		Expect(err).NotTo(HaveOccurred())
		for _, shard := range second.Shards()[3:] {
			Expect(shard.CountSchedulers(ctx)).To(BeZero(), shard.Name())
		}
		all, err := second.Schedulers(ctx, bullmq.AllEntries())
		Expect(err).NotTo(HaveOccurred())
		Expect(all).To(HaveLen(3))

		third := newSharded(name, 2, bullmq.ShardedQueueOptions{})
		Expect(second.Resize(ctx, 5)).To(Succeed())
		Expect(third.RemoveScheduler(ctx, "a")).To(Succeed())
		_, err = second.Scheduler(ctx, "a")
		Expect(err).To(MatchError(bullmq.ErrSchedulerNotFound))
	})

	It("moves the schedulers, whose next jobs keep their times", func() {
		sharded := newSharded(name, 2, bullmq.ShardedQueueOptions{})
		next := map[string]time.Time{}
		for i := range 6 {
			id := fmt.Sprint("every-", i)
			_, err := sharded.UpsertScheduler(ctx, id, bullmq.Repeat{Every: time.Hour, StartDate: time.Now().Add(time.Duration(i+1) * time.Minute), Limit: 5}, &bullmq.JobTemplate{
				Name: "paint", Data: map[string]int{"i": i}, Options: &bullmq.JobOptions{Attempts: 3},
			})
			Expect(err).NotTo(HaveOccurred())
		}
		_, err := sharded.UpsertScheduler(ctx, "cron", bullmq.Repeat{Pattern: "0 3 1 1 *", TimeZone: "UTC"}, nil)
		Expect(err).NotTo(HaveOccurred())
		all, err := sharded.Schedulers(ctx, bullmq.AllEntries())
		Expect(err).NotTo(HaveOccurred())
		for _, s := range all {
			next[s.ID] = s.Next
		}
		Expect(next).To(HaveLen(7))

		Expect(sharded.Resize(ctx, 5)).To(Succeed())
		all, err = sharded.Schedulers(ctx, bullmq.AllEntries())
		Expect(err).NotTo(HaveOccurred())
		Expect(all).To(HaveLen(7))
		for _, s := range all {
			Expect(s.Next).To(Equal(next[s.ID]), s.ID)
			if s.ID != "cron" {
				Expect(s.Name).To(Equal("paint"))
				Expect(s.Repeat.Limit).To(Equal(5))
				Expect(string(s.Data)).To(HavePrefix(`{"i":`))
				Expect(string(s.RawOptions)).To(ContainSubstring(`"attempts":3`))
			}
		}
		for _, shard := range sharded.Shards()[5:] {
			Expect(shard.CountSchedulers(ctx)).To(BeZero())
			Expect(shard.Counts(ctx, bullmq.StateDelayed)).To(HaveKeyWithValue(bullmq.StateDelayed, 0))
		}
		Expect(sharded.Counts(ctx, bullmq.StateDelayed)).To(HaveKeyWithValue(bullmq.StateDelayed, 7))
		Expect(sharded.Resize(ctx, 5)).To(Succeed())
	})

	It("leaves ids with the older shard that knows them, so that no job is added twice", func() {
		sharded := newSharded(name, 3, bullmq.ShardedQueueOptions{})
		var bulk []bullmq.BulkJob
		for i := range 20 {
			bulk = append(bulk,
				bullmq.BulkJob{Name: "paint", Options: &bullmq.JobOptions{JobID: fmt.Sprint("job-", i)}},
				bullmq.BulkJob{Name: "paint", Options: &bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: fmt.Sprint("key-", i)}}})
		}
		first, err := sharded.AddBulk(ctx, bulk)
		Expect(err).NotTo(HaveOccurred())
		for i, shards := range []int{7, 2} {
			Expect(sharded.Resize(ctx, shards)).To(Succeed())
			again, err := sharded.AddBulk(ctx, bulk)
			Expect(err).NotTo(HaveOccurred())
			for j, job := range again {
				Expect(job.AddOutcome()).To(Equal([]bullmq.AddOutcome{bullmq.AlreadyExists, bullmq.Deduplicated}[j%2]))
				Expect([]string{job.QueueName(), job.ID}).To(Equal([]string{first[j].QueueName(), first[j].ID}))
			}
			job, err := sharded.Add(ctx, "paint", nil, bulk[4].Options)
			Expect(err).NotTo(HaveOccurred())
			Expect(job.AddOutcome()).To(Equal(bullmq.AlreadyExists))
			fresh, err := sharded.Add(ctx, "paint", nil, &bullmq.JobOptions{JobID: fmt.Sprint("new-", i)})
			Expect(err).NotTo(HaveOccurred())
			Expect(fresh.QueueName()).To(HavePrefix(fmt.Sprintf("{%s.%d-", name, i+1)))
		}
		Expect(sharded.Counts(ctx, bullmq.StateWaiting)).To(HaveKeyWithValue(bullmq.StateWaiting, 42))
		Expect(first[0].Remove(ctx)).To(Succeed())
		job, err := sharded.Add(ctx, "paint", nil, bulk[0].Options)
		Expect(err).NotTo(HaveOccurred())
		Expect(job.QueueName()).To(HavePrefix("{" + name + ".2-"))
	})

	It("lets an add with an id wait no longer than AddWait, however many generations it asks", func() {
		var deadline time.Time
		noting := &spanHook{started: func(ctx context.Context, span string) {
			if strings.HasPrefix(span, "add ") {
				deadline, _ = ctx.Deadline()
			}
		}}
		sharded := newSharded(name, 1, bullmq.ShardedQueueOptions{Queue: bullmq.QueueOptions{AddWait: 10 * time.Second, Telemetry: noting}})
		Expect(sharded.Resize(ctx, 2)).To(Succeed())
		begun := time.Now()
		job, err := sharded.Add(ctx, "paint", nil, &bullmq.JobOptions{JobID: "a"})
		Expect(err).NotTo(HaveOccurred())
		Expect(job.QueueName()).To(HavePrefix("{" + name + ".1-"))
		Expect(deadline).To(And(BeTemporally(">=", begun.Add(10*time.Second)), BeTemporally("<", time.Now().Add(10*time.Second))))
	})

	It("uses servers that were appended, and leaves older shards where they are", Label("slow"), func() {
		_, connections := shardServers(3)
		before := newSharded(name, 4, bullmq.ShardedQueueOptions{Connections: connections[:2]})
		old, err := before.AddBulk(ctx, []bullmq.BulkJob{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}})
		Expect(err).NotTo(HaveOccurred())
		after := newSharded(name, 4, bullmq.ShardedQueueOptions{Connections: connections})
		Expect(after.Resize(ctx, 4)).To(Succeed())
		for _, job := range old {
			Expect(after.Job(ctx, job.QueueName(), job.ID)).To(HaveField("Name", job.Name))
		}
		for i, shard := range after.Shards()[:4] {
			Expect(shard.Name()).To(Equal(fmt.Sprintf("{%s.1-%d}", name, i)))
			on := newQueue(shard.Name(), &bullmq.QueueOptions{Connection: connections[i%3]})
			Expect(on.Add(ctx, "paint", nil, nil)).To(HaveField("ID", "1"))
			Expect(shard.Counts(ctx, bullmq.StateWaiting)).To(HaveKeyWithValue(bullmq.StateWaiting, 1))
		}

		before.Forget(time.Minute)
		job, err := before.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred(), "a producer without the new server goes on")
		Expect(job.QueueName()).To(HavePrefix("{" + name + "-"))
		_, err = bullmq.NewShardedQueue(ctx, name, 4, &bullmq.ShardedQueueOptions{Connections: connections[:2]})
		Expect(err).To(MatchError(ContainSubstring("append the missing ones")))
	})

	It("by two processes at the same time begins each generation once", func() {
		first, second := newSharded(name, 2, bullmq.ShardedQueueOptions{}), newSharded(name, 2, bullmq.ShardedQueueOptions{})
		errs := make(chan error, 2)
		go func() { errs <- first.Resize(ctx, 3) }()
		go func() { errs <- second.Resize(ctx, 4) }()
		for range 2 {
			if err := <-errs; err != nil {
				Expect(err).To(MatchError(ContainSubstring("another process resizes it")))
			}
		}
		Expect(first.Resize(ctx, 5)).To(Succeed())
		second.Forget(time.Minute)
		Expect(second.Counts(ctx)).NotTo(BeNil())
		Expect(second.NumShards()).To(Equal(5))
	})
})

var _ = Describe("Retire", func() {
	var (
		name string
		ctx  context.Context
		now  atomic.Int64
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		now.Store(fixedNow)
	})
	open := func(shards int) *bullmq.ShardedQueue {
		GinkgoHelper()
		return newSharded(name, shards, bullmq.ShardedQueueOptions{Queue: bullmq.QueueOptions{Now: func() time.Time { return time.UnixMilli(now.Load()) }}})
	}

	It("removes an older generation without jobs, but not within an hour", func() {
		sharded := open(2)
		Expect(sharded.Resize(ctx, 3)).To(Succeed())
		Expect(sharded.Retire(ctx, nil)).To(BeEmpty())
		now.Add(time.Hour.Milliseconds())
		Expect(sharded.Retire(ctx, nil)).To(Equal([]string{"{" + name + "-0}", "{" + name + "-1}"}))
		Expect(sharded.Shards()).To(HaveLen(3))
		Expect(redisStrings("KEYS", "bull:{"+name+"-*")).To(BeEmpty())
		Expect(hashAt("bull:" + name + "@x:shards")).To(And(HaveLen(1), HaveKey("1")))
		_, err := sharded.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(newSharded(name, 2, bullmq.ShardedQueueOptions{}).NumShards()).To(Equal(3))
	})

	It("keeps a generation with jobs, and one with finished jobs unless they are to be removed", func() {
		sharded := open(2)
		job, err := sharded.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(sharded.Resize(ctx, 3)).To(Succeed())
		now.Add(2 * time.Hour.Milliseconds())
		Expect(sharded.Retire(ctx, &bullmq.RetireOptions{RemoveFinished: true})).To(BeEmpty())
		fetcher := newFetcher(job.QueueName(), nil)
		endJob(fetcher, takeJob(fetcher), nil, nil)
		Expect(sharded.Retire(ctx, nil)).To(BeEmpty())
		Expect(sharded.Find(ctx, job.ID)).To(HaveLen(1))
		Expect(sharded.Retire(ctx, &bullmq.RetireOptions{RemoveFinished: true})).To(HaveLen(2))
		_, err = sharded.Find(ctx, job.ID)
		Expect(err).To(MatchError(bullmq.ErrJobNotFound))
	})

	It("leaves a job that is added meanwhile, and does not pause its shard", func() {
		var sharded *bullmq.ShardedQueue
		adding := &spanHook{started: func(_ context.Context, span string) {
			if strings.HasPrefix(span, "obliterate {"+name+"-1}") {
				Expect(newQueue("{"+name+"-1}", nil).Add(ctx, "paint", nil, nil)).NotTo(BeNil())
			}
		}}
		sharded = newSharded(name, 2, bullmq.ShardedQueueOptions{Queue: bullmq.QueueOptions{
			Now: func() time.Time { return time.UnixMilli(now.Load()) }, Telemetry: adding,
		}})
		Expect(sharded.Resize(ctx, 3)).To(Succeed())
		now.Add(time.Hour.Milliseconds())
		Expect(sharded.Retire(ctx, nil)).To(BeEmpty())
		old := sharded.Shards()[4]
		Expect(old.Counts(ctx, bullmq.StateWaiting)).To(HaveKeyWithValue(bullmq.StateWaiting, 1))
		Expect(old.IsPaused(ctx)).To(BeFalse())
	})

	It("is safe for a producer that has not read the number of shards for long", func() {
		sharded, other := open(2), open(2)
		Expect(sharded.Resize(ctx, 3)).To(Succeed())
		now.Add(2 * time.Hour.Milliseconds())
		Expect(sharded.Retire(ctx, nil)).To(HaveLen(2))
		other.Forget(2 * time.Hour)
		job, err := other.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(job.QueueName()).To(HavePrefix("{" + name + ".1-"))
	})
})

var _ = Describe("A new generation of which one server can't be reached", Label("slow"), func() {
	It("is added to and worked on at its other servers, and at that one when it is back", func() {
		name, ctx := newQueueName(), specContext()
		servers, connections := shardServers(2)
		own := []*bullmq.Connection{connectTo(servers[0].Addr()), connectTo(servers[1].Addr())}
		sharded := newSharded(name, 2, bullmq.ShardedQueueOptions{Connections: connections})
		other := newSharded(name, 2, bullmq.ShardedQueueOptions{Connections: own, OnShardDown: bullmq.ElsewhereWhenDown})
		var runs runsByData
		runSharded(other, runs.handle, nil)
		Expect(sharded.Resize(ctx, 4)).To(Succeed())
		servers[1].Stop() // before the other ShardedQueue reads the generations, about a second later

		var number, added atomic.Int64
		add := func() (string, error) {
			job, err := other.Add(ctx, "paint", number.Add(1), nil)
			if err != nil {
				return "", err // such as ErrMaybeAdded, when the server stops
			}
			added.Add(1)
			return job.QueueName(), nil
		}
		Eventually(add, "20s").Should(HavePrefix("{" + name + ".1-"))
		for range 4 {
			Expect(add()).To(BeElementOf("{"+name+".1-0}", "{"+name+".1-2}"))
		}
		Eventually(runs.count, "20s").Should(BeNumerically(">=", added.Load()))
		Expect(servers[1].Start()).To(Succeed())
		Eventually(add, "20s").Should(BeElementOf("{"+name+".1-1}", "{"+name+".1-3}"))
		Eventually(runs.count, "20s").Should(BeNumerically(">=", added.Load()))
	})
})

var _ = Describe("A producer that can't read the number of shards", Label("slow"), func() {
	It("adds to the shards that it knows, and fails when that was long ago", func() {
		name, ctx := newQueueName(), specContext()
		servers, connections := shardServers(2)
		sharded := newSharded(name, 2, bullmq.ShardedQueueOptions{Connections: connections, OnShardDown: bullmq.ElsewhereWhenDown})
		servers[0].Stop()
		sharded.Forget(time.Minute)
		for range 3 {
			Expect(sharded.Add(ctx, "paint", nil, nil)).To(HaveField("Name", "paint"))
		}
		sharded.Forget(time.Hour)
		_, err := sharded.Add(ctx, "paint", nil, nil)
		Expect(err).To(MatchError(ContainSubstring("the number of shards of " + name + " was not read for")))
		Expect(servers[0].Start()).To(Succeed())
		Eventually(func() error { _, err := sharded.Add(ctx, "paint", nil, nil); return err }, "20s").Should(Succeed())
	})
})
