package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// failedShards returns the names of the shards in a *ShardError.
func failedShards(err error) []string {
	GinkgoHelper()
	var failed *bullmq.ShardError
	Expect(errors.As(err, &failed)).To(BeTrue(), "%v", err)
	return failed.QueueNames()
}

var _ = Describe("The shards of a queue", func() {
	var (
		name string
		ctx  context.Context
	)
	BeforeEach(func() { name, ctx = newQueueName(), specContext() })

	It("are paused and resumed together", func() {
		sharded := newSharded(name, 3, bullmq.ShardedQueueOptions{})
		Expect(sharded.Pause(ctx)).To(Succeed())
		Expect(sharded.IsPaused(ctx)).To(BeTrue())
		for _, shard := range sharded.Shards() {
			Expect(shard.IsPaused(ctx)).To(BeTrue())
		}
		Expect(sharded.Shards()[1].Resume(ctx)).To(Succeed())
		Expect(sharded.IsPaused(ctx)).To(BeFalse())
		Expect(sharded.Resume(ctx)).To(Succeed())
		for _, shard := range sharded.Shards() {
			Expect(shard.IsPaused(ctx)).To(BeFalse())
		}
	})

	It("divide global limits among them, which must be at least their number", func() {
		sharded := newSharded(name, 4, bullmq.ShardedQueueOptions{})
		Expect(sharded.SetGlobalConcurrency(ctx, 10)).To(Succeed())
		Expect(sharded.SetGlobalRateLimit(ctx, bullmq.Limiter{Max: 7, Duration: time.Second})).To(Succeed())
		var concurrency, rates []int
		for _, shard := range sharded.Shards() {
			meta, err := shard.Meta(ctx)
			Expect(err).NotTo(HaveOccurred())
			concurrency, rates = append(concurrency, *meta.Concurrency), append(rates, meta.RateLimit.Max)
		}
		Expect(concurrency).To(Equal([]int{3, 3, 2, 2}))
		Expect(rates).To(Equal([]int{2, 2, 2, 1}))
		Expect(sharded.GlobalConcurrency(ctx)).To(Equal(10))
		Expect(sharded.GlobalRateLimit(ctx)).To(Equal(&bullmq.Limiter{Max: 7, Duration: time.Second}))

		Expect(sharded.SetGlobalConcurrency(ctx, 3)).To(MatchError(ContainSubstring("use at least 4")))
		Expect(sharded.SetGlobalConcurrency(ctx, -1)).To(MatchError(ContainSubstring("less than 0")))
		Expect(sharded.SetGlobalRateLimit(ctx, bullmq.Limiter{Max: 3, Duration: time.Second})).To(MatchError(ContainSubstring("use at least 4")))
		Expect(sharded.SetGlobalRateLimit(ctx, bullmq.Limiter{})).To(MatchError(ContainSubstring("RemoveGlobalRateLimit")))
		Expect(sharded.GlobalConcurrency(ctx)).To(Equal(10), "nothing was changed")

		Expect(sharded.RemoveGlobalConcurrency(ctx)).To(Succeed())
		Expect(sharded.RemoveGlobalRateLimit(ctx)).To(Succeed())
		Expect(sharded.GlobalConcurrency(ctx)).To(BeZero())
		Expect(sharded.GlobalRateLimit(ctx)).To(BeNil())
		Expect(sharded.SetGlobalConcurrency(ctx, 0)).To(Succeed())
		Expect(sharded.Shards()[3].Meta(ctx)).To(HaveField("Concurrency", HaveValue(Equal(0))))
	})

	It("are counted together, and the oldest job of all has the age", func() {
		now := int64(fixedNow)
		sharded := newSharded(name, 3, bullmq.ShardedQueueOptions{Queue: bullmq.QueueOptions{Now: func() time.Time { return time.UnixMilli(now) }}})
		for i := range 7 {
			_, err := sharded.Add(ctx, "paint", nil, &bullmq.JobOptions{Delay: time.Duration(i%2) * time.Hour})
			Expect(err).NotTo(HaveOccurred())
			now += 1000
		}
		Expect(sharded.Counts(ctx, bullmq.StateWaiting, bullmq.StateDelayed)).To(Equal(map[bullmq.State]int{bullmq.StateWaiting: 4, bullmq.StateDelayed: 3}))
		Expect(sharded.ShardCounts(ctx, bullmq.StateWaiting)).To(HaveLen(3))
		Expect(sharded.Ages(ctx)).To(HaveKeyWithValue(bullmq.StateWaiting, 7*time.Second))
		Expect(sharded.Drain(ctx, &bullmq.DrainOptions{Delayed: true})).To(Succeed())
		Expect(sharded.Counts(ctx)).To(HaveEach(0))
	})

	It("have metrics whose minutes are added up", func() {
		at := func(minute int) time.Time {
			return time.UnixMilli(fixedNow).Truncate(time.Minute).Add(time.Duration(minute) * time.Minute)
		}
		sum := bullmq.SumMetrics([]bullmq.JobMetrics{
			{Count: 9, PrevTime: at(10), PrevCount: 7, Points: []int{1, 2, 4}, Total: 3},
			{Count: 30, PrevTime: at(8).Add(59 * time.Second), PrevCount: 20, Points: []int{10, 10}, Total: 2},
			{},
		})
		Expect(sum).To(Equal(bullmq.JobMetrics{Count: 39, PrevTime: at(10), PrevCount: 27, Points: []int{1, 2, 14, 10}, Total: 4}))
	})

	It("have metrics that are read by page", func() {
		sharded := newSharded(name, 2, bullmq.ShardedQueueOptions{})
		for i, shard := range sharded.Shards() {
			key := keyOf(shard.Name(), "metrics:completed")
			Expect(redisDo("HSET", key, "count", "100", "prevTS", fmt.Sprint(fixedNow), "prevCount", "90").Error()).To(Succeed())
			Expect(redisDo("RPUSH", key+":data", fmt.Sprint(1+i), "2", "3", "4").Error()).To(Succeed())
		}
		Expect(sharded.Metrics(ctx, bullmq.StateCompleted, bullmq.Page{Offset: 1, Limit: 2})).To(And(
			HaveField("Points", []int{4, 6}), HaveField("Total", 4), HaveField("Count", 200)))
		Expect(sharded.Metrics(ctx, bullmq.StateCompleted, bullmq.Page{Limit: -1, Ascending: true})).To(HaveField("Points", []int{8, 6, 4, 3}))
		_, err := sharded.Metrics(ctx, bullmq.StateActive, bullmq.Page{})
		Expect(err).To(HaveOccurred())
	})

	It("are removed together with the stored number", func() {
		sharded := newSharded(name, 3, bullmq.ShardedQueueOptions{})
		_, err := sharded.AddBulk(ctx, slices.Repeat([]bullmq.BulkJob{{Name: "paint"}}, 9))
		Expect(err).NotTo(HaveOccurred())
		Expect(sharded.Obliterate(ctx, nil)).To(Succeed())
		Expect(redisStrings("KEYS", "bull:*"+name+"*")).To(BeEmpty())

		sharded.Forget(time.Minute)
		_, err = sharded.Add(ctx, "paint", nil, nil)
		Expect(err).To(And(MatchError(bullmq.ErrClosed), MatchError(ContainSubstring("was obliterated"))))
		Expect(sharded.Resize(ctx, 4)).To(MatchError(bullmq.ErrClosed))
		Expect(sharded.Pause(ctx)).To(MatchError(bullmq.ErrClosed))
		Expect(redisStrings("KEYS", "bull:*"+name+"*")).To(BeEmpty(), "it stores nothing again")
		Expect(newSharded(name, 5, bullmq.ShardedQueueOptions{}).NumShards()).To(Equal(5))
	})

	Context("of which one is down", Label("slow"), func() {
		var sharded *bullmq.ShardedQueue
		var stop, start func()
		BeforeEach(func() {
			servers, connections := shardServers(3)
			sharded = newSharded(name, 3, bullmq.ShardedQueueOptions{Connections: connections})
			for range 6 {
				_, err := sharded.Add(ctx, "paint", nil, nil)
				Expect(err).NotTo(HaveOccurred())
			}
			stop = servers[1].Kill
			start = func() { Expect(servers[1].Start()).To(Succeed()) }
		})
		down := func() string { return "{" + name + "-1}" }

		It("are paused on the others, and Pause tells which one is not", func() {
			stop()
			short, cancel := context.WithTimeout(ctx, 4*time.Second) // enough for the others on a busy machine
			defer cancel()
			err := sharded.Pause(short)
			Expect(failedShards(err)).To(Equal([]string{down()}))
			Expect(err).To(MatchError(context.DeadlineExceeded))
			Expect(err.Error()).To(HavePrefix("bullmq: shard " + down() + " failed: "))
			for _, at := range []int{0, 2} {
				Expect(sharded.Shards()[at].IsPaused(ctx)).To(BeTrue())
			}

			paused := make(chan error, 1)
			go func() { paused <- sharded.Pause(ctx) }()
			Consistently(paused, "200ms").ShouldNot(Receive())
			start()
			Eventually(paused, "20s").Should(Receive(BeNil()))
			Expect(sharded.IsPaused(ctx)).To(BeTrue())
		})

		It("are counted without it, with an error that names it", func() {
			stop()
			short, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			counts, err := sharded.Counts(short, bullmq.StateWaiting)
			Expect(failedShards(err)).To(Equal([]string{down()}))
			Expect(counts).To(Equal(map[bullmq.State]int{bullmq.StateWaiting: 4}))
			byShard, err := sharded.ShardCounts(short, bullmq.StateWaiting)
			Expect(err).To(HaveOccurred())
			Expect(byShard).To(And(HaveLen(2), Not(HaveKey(down()))))
			err = sharded.Each(short, func(ctx context.Context, shard *bullmq.Queue) error {
				_, err := shard.TrimEvents(ctx, 10)
				return err
			})
			Expect(failedShards(err)).To(Equal([]string{down()}))
		})

		It("are unhealthy together, and the health of each is known", func() {
			Expect(sharded.Health()).To(And(HaveField("Reachable", true), HaveField("Err", BeNil())))
			Expect(sharded.Ping(ctx)).To(Succeed())
			stop()
			Eventually(func() bullmq.Health {
				short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
				defer cancel()
				_ = sharded.Ping(short)
				return sharded.Health()
			}, "10s").Should(HaveField("Reachable", false))
			Expect(failedShards(sharded.Health().Err)).To(Equal([]string{down()}))
			health := sharded.ShardHealth()
			Expect(health).To(HaveLen(3))
			for shard, h := range health {
				Expect(h.Reachable).To(Equal(shard != down()), shard)
			}
			start()
			Eventually(sharded.Health, "10s").Should(And(HaveField("Reachable", true), HaveField("Err", Not(BeNil()))))
		})
	})
})
