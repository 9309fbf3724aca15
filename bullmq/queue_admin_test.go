package bullmq_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A queue", func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, &bullmq.QueueOptions{Now: fixedClock(fixedNow)})
	})
	add := func(jobName string, options *bullmq.JobOptions) {
		GinkgoHelper()
		_, err := queue.Add(ctx, jobName, nil, options)
		Expect(err).NotTo(HaveOccurred())
	}

	Describe("that is paused", func() {
		It("delivers no job until it is resumed, and keeps its waiting jobs in place", func() {
			Expect(queue.IsPaused(ctx)).To(BeFalse())
			Expect(queue.Pause(ctx)).To(Succeed())
			Expect(queue.IsPaused(ctx)).To(BeTrue())
			for n := range 21 {
				add(fmt.Sprint(n), nil)
			}
			Expect(queue.Counts(ctx, bullmq.StateWaiting, bullmq.StatePaused)).To(Equal(map[bullmq.State]int{bullmq.StateWaiting: 21, bullmq.StatePaused: 0}))
			Expect(keysOf(name)).NotTo(ContainElement(keyOf(name, "marker")), "nobody is woken")
			fetcher := newFetcher(name, nil)
			Expect(takeJob(fetcher)).To(BeNil())

			Expect(queue.Resume(ctx)).To(Succeed())
			Expect(queue.IsPaused(ctx)).To(BeFalse())
			Expect(scoresAt(keyOf(name, "marker"))).To(HaveKey("0"))
			Expect(takeJob(fetcher).Name).To(Equal("0"))
			Expect(eventsOf(name)).To(ContainElements("paused", "resumed"))
		})

		It("revokes the wake-up of an idle worker", func() {
			add("a", nil)
			Expect(scoresAt(keyOf(name, "marker"))).To(HaveKey("0"))
			Expect(queue.Pause(ctx)).To(Succeed())
			Expect(keysOf(name)).NotTo(ContainElement(keyOf(name, "marker")))
		})

		It("runs a job that became due meanwhile before those added after it", func() {
			add("due", &bullmq.JobOptions{Delay: time.Second})
			Expect(queue.Pause(ctx)).To(Succeed())
			fetcher := newFetcher(name, &bullmq.FetcherOptions{Now: fixedClock(fixedNow + 2000)})
			Expect(takeJob(fetcher)).To(BeNil())
			add("later", nil)
			Expect(queue.Resume(ctx)).To(Succeed())
			Expect(takeJob(fetcher).Name).To(Equal("due"))
			Expect(takeJob(fetcher).Name).To(Equal("later"))
		})

		It("keeps all jobs that return to it, and runs each when it is resumed", func() {
			ids := []string{}
			fetcher := newFetcher(name, nil)
			for _, options := range []bullmq.JobOptions{
				{}, {Attempts: 2}, {Attempts: 2, Priority: 3}, {Attempts: 2, Backoff: bullmq.FixedBackoff(time.Hour)}, {},
			} {
				job, err := queue.Add(ctx, "a", nil, &options)
				Expect(err).NotTo(HaveOccurred())
				ids = append(ids, job.ID)
			}
			taken := map[string]*bullmq.Job{}
			for range ids {
				job := takeJob(fetcher)
				taken[job.ID] = job
			}
			Expect(queue.Pause(ctx)).To(Succeed())
			Expect(taken["5"].MoveToWait(ctx)).To(Succeed())
			for _, id := range []string{"1", "2", "3", "4"} {
				err := fetcher.Fail(ctx, taken[id], context.Canceled)
				Expect(err).NotTo(HaveOccurred())
			}
			Expect(taken["1"].Retry(ctx, bullmq.StateFailed, nil)).To(Succeed())
			Expect(queue.PromoteJobs(ctx, nil)).To(Succeed())
			Expect(takeJob(fetcher)).To(BeNil())

			Expect(queue.Resume(ctx)).To(Succeed())
			runWorker(name, doNothing, nil)
			for _, id := range ids {
				Eventually(stateOf(queue, id)).Should(Equal(bullmq.StateCompleted), "job "+id)
			}
		})

		It("by BullMQ 5 restores all its paused jobs in order before later jobs", func() {
			const parked = 15000
			push := []string{"LPUSH", keyOf(name, "paused")}
			for n := range parked {
				push = append(push, fmt.Sprint("p", n))
			}
			Expect(redisDo(push...).Error()).To(Succeed())
			redisDo("HSET", keyOf(name, "meta"), "paused", "1")
			add("later", nil)
			Expect(queue.Resume(ctx)).To(Succeed())
			Expect(keysOf(name)).NotTo(ContainElement(keyOf(name, "paused")))
			waiting := listAt(keyOf(name, "wait"))
			Expect(waiting).To(HaveLen(parked + 1))
			Expect(waiting[0]).To(Equal("1"))
			Expect(waiting[1]).To(Equal(fmt.Sprint("p", parked-1)))
			Expect(waiting[parked]).To(Equal("p0"))
			Expect(eventsOf(name)).To(HaveExactElements("added jobId=1 name=later", "waiting jobId=1", "resumed"))
		})
	})

	Describe("with a global concurrency", func() {
		It("reports it, and whether it is reached, until it is removed", func() {
			Expect(queue.GlobalConcurrency(ctx)).To(BeZero())
			Expect(queue.SetGlobalConcurrency(ctx, 1)).To(Succeed())
			Expect(queue.GlobalConcurrency(ctx)).To(Equal(1))
			Expect(hashAt(keyOf(name, "meta"))).To(HaveKeyWithValue("concurrency", "1"))
			add("a", nil)
			add("b", nil)
			Expect(queue.IsMaxed(ctx)).To(BeFalse())
			fetcher := newFetcher(name, nil)
			Expect(takeJob(fetcher).Name).To(Equal("a"))
			Expect(queue.IsMaxed(ctx)).To(BeTrue())
			Expect(takeJob(fetcher)).To(BeNil())
			Expect(queue.RemoveGlobalConcurrency(ctx)).To(Succeed())
			Expect(queue.IsMaxed(ctx)).To(BeFalse())
			Expect(hashAt(keyOf(name, "meta"))).NotTo(HaveKey("concurrency"))
			Expect(takeJob(fetcher).Name).To(Equal("b"))
		})

		It("refuses a negative one", func() {
			Expect(queue.SetGlobalConcurrency(ctx, -1)).To(MatchError(ContainSubstring("-1 is less than 0; use RemoveGlobalConcurrency to remove the limit")))
			Expect(hashAt(keyOf(name, "meta"))).NotTo(HaveKey("concurrency"))
		})
	})

	Describe("with a global rate limit", func() {
		It("reports it until it is removed", func() {
			Expect(queue.GlobalRateLimit(ctx)).To(BeNil())
			Expect(queue.SetGlobalRateLimit(ctx, bullmq.Limiter{Max: 5, Duration: 2 * time.Second})).To(Succeed())
			Expect(queue.GlobalRateLimit(ctx)).To(Equal(&bullmq.Limiter{Max: 5, Duration: 2 * time.Second}))
			Expect(hashAt(keyOf(name, "meta"))).To(And(HaveKeyWithValue("max", "5"), HaveKeyWithValue("duration", "2000")))
			Expect(queue.RemoveGlobalRateLimit(ctx)).To(Succeed())
			Expect(queue.GlobalRateLimit(ctx)).To(BeNil())
			Expect(hashAt(keyOf(name, "meta"))).To(And(Not(HaveKey("max")), Not(HaveKey("duration"))))
		})

		It("refuses an invalid one", func() {
			for _, limit := range []bullmq.Limiter{{}, {Max: 5}, {Duration: time.Second}, {Max: 5, Duration: 1000}} {
				Expect(queue.SetGlobalRateLimit(ctx, limit)).To(MatchError(And(ContainSubstring("Limiter needs"), ContainSubstring("RemoveGlobalRateLimit"))))
			}
			Expect(hashAt(keyOf(name, "meta"))).NotTo(HaveKey("max"))
			fetcher := newFetcher(name, nil)
			for _, wait := range []time.Duration{-time.Second, 0, 500} {
				Expect(queue.RateLimit(ctx, wait)).To(MatchError(And(ContainSubstring(wait.String()), ContainSubstring("less than a millisecond"))))
				Expect(fetcher.RateLimit(ctx, wait)).To(MatchError(ContainSubstring("less than a millisecond")))
			}
		})

		It("starts no more jobs than that, and reports how long the limit lasts", func() {
			Expect(queue.SetGlobalRateLimit(ctx, bullmq.Limiter{Max: 1, Duration: time.Minute})).To(Succeed())
			add("a", nil)
			add("b", nil)
			fetcher := newFetcher(name, nil)
			Expect(queue.RateLimitTTL(ctx, 0)).To(BeZero())
			Expect(takeJob(fetcher).Name).To(Equal("a"))
			Expect(takeJob(fetcher)).To(BeNil())
			Expect(queue.RateLimitTTL(ctx, 0)).To(BeNumerically("~", time.Minute, 5*time.Second))
			Expect(queue.RateLimitTTL(ctx, 2)).To(BeZero(), "two would be allowed")
		})

		It("is stopped by RateLimit for a time, and released again", func() {
			Expect(queue.RateLimitTTL(ctx, 0)).To(BeZero())
			Expect(queue.RemoveRateLimitKey(ctx)).To(BeFalse())
			Expect(queue.RateLimit(ctx, time.Minute)).To(Succeed())
			Expect(stringAt(keyOf(name, "limiter"))).To(Equal("9007199254740991"))
			Expect(queue.RateLimitTTL(ctx, 100)).To(BeNumerically("~", time.Minute, 5*time.Second))
			add("a", nil)
			fetcher := newFetcher(name, &bullmq.FetcherOptions{Limiter: &bullmq.Limiter{Max: 100, Duration: time.Second}})
			Expect(takeJob(fetcher)).To(BeNil())
			Expect(queue.RemoveRateLimitKey(ctx)).To(BeTrue())
			Expect(takeJob(fetcher).Name).To(Equal("a"))
		})
	})

	Describe("with deduplicated jobs", func() {
		It("reports which job owns an id, and releases it", func() {
			options := &bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d"}}
			Expect(queue.DeduplicationJobID(ctx, "d")).Error().To(MatchError(bullmq.ErrDeduplicationNotFound))
			add("a", options)
			Expect(queue.DeduplicationJobID(ctx, "d")).To(Equal("1"))
			add("b", options)
			Expect(listAt(keyOf(name, "wait"))).To(Equal([]string{"1"}))
			Expect(eventsOf(name)).To(ContainElement("deduplicated jobId=1 deduplicationId=d deduplicatedJobId=2"))
			Expect(queue.RemoveDeduplicationKey(ctx, "d")).To(BeTrue())
			Expect(queue.RemoveDeduplicationKey(ctx, "d")).To(BeFalse())
			add("c", options)
			Expect(queue.DeduplicationJobID(ctx, "d")).To(Equal("3"))
		})

		It("releases an id from a job only while that job owns it", func() {
			options := &bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d"}}
			first, err := queue.Add(ctx, "a", nil, options)
			Expect(err).NotTo(HaveOccurred())
			Expect(first.RemoveDeduplicationKey(ctx)).To(BeTrue())
			add("b", options)
			Expect(first.RemoveDeduplicationKey(ctx)).To(BeFalse())
			Expect(queue.DeduplicationJobID(ctx, "d")).To(Equal("2"))
		})
	})

	It("trims the events stream and reports how many entries were removed", func() {
		for range 500 {
			redisDo("XADD", keyOf(name, "events"), "*", "event", "noise")
		}
		Expect(queue.TrimEvents(ctx, 100)).To(BeNumerically("~", 400, 100))
		Expect(redisDo("XLEN", keyOf(name, "events")).AsInt64()).To(BeNumerically("~", 100, 100))
		Expect(queue.TrimEvents(ctx, 0)).To(BeNumerically(">", 0))
		Expect(redisDo("XLEN", keyOf(name, "events")).AsInt64()).To(BeZero())
	})

	It("removes what BullMQ 3 stored for its priorities, and nothing else", func() {
		add("a", nil)
		before := snapshot(name)
		Expect(queue.RemoveDeprecatedPriorityKey(ctx)).To(BeFalse())
		redisDo("ZADD", keyOf(name, "priority"), "3", "1")
		Expect(queue.RemoveDeprecatedPriorityKey(ctx)).To(BeTrue())
		Expect(snapshot(name)).To(Equal(before))
	})
})
