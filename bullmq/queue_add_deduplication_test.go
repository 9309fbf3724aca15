package bullmq_test

import (
	"context"
	"errors"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("Jobs with the same deduplication id", func() {
	var (
		name   string
		queue  *bullmq.Queue
		worker *bullmq.Fetcher
		ctx    context.Context
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, &bullmq.QueueOptions{Now: fixedClock(fixedNow)})
		worker = newFetcher(name, &bullmq.FetcherOptions{Now: fixedClock(fixedNow)})
	})
	add := func(data int, d bullmq.Deduplication, delay time.Duration) string {
		GinkgoHelper()
		d.ID = "d"
		job, err := queue.Add(ctx, "paint", data, &bullmq.JobOptions{Deduplication: &d, Delay: delay})
		Expect(err).NotTo(HaveOccurred())
		return job.ID
	}
	owner := func() string { GinkgoHelper(); return stringAt(keyOf(name, "de:d")) }
	ttl := func() int64 {
		GinkgoHelper()
		ms, err := redisDo("PTTL", keyOf(name, "de:d")).AsInt64()
		Expect(err).NotTo(HaveOccurred())
		return ms
	}

	It("are dropped until their owner finishes, and report the owner's id", func() {
		Expect(add(1, bullmq.Deduplication{}, 0)).To(Equal("1"))
		Expect(hashAt(keyOf(name, "1"))).To(HaveKeyWithValue("deid", "d"))
		Expect(add(2, bullmq.Deduplication{}, 0)).To(Equal("1"))
		job := takeJob(worker)
		Expect(add(3, bullmq.Deduplication{}, 0)).To(Equal("1"), "while it runs")
		endJob(worker, job, nil, nil)
		Expect(owner()).To(BeEmpty())
		Expect(add(4, bullmq.Deduplication{}, 0)).To(Equal("4"))
		Expect(eventsOf(name)).To(ContainElements(
			"deduplicated jobId=1 deduplicationId=d deduplicatedJobId=2", "deduplicated jobId=1 deduplicationId=d deduplicatedJobId=3"))
		Expect(eventsOf(name)).NotTo(ContainElement(HavePrefix("debounced")))
	})

	It("are dropped during the ttl, whether their owner has finished or not", func() {
		Expect(add(1, bullmq.Deduplication{TTL: time.Minute}, 0)).To(Equal("1"))
		endJob(worker, takeJob(worker), nil, nil)
		Expect(ttl()).To(BeNumerically("~", 60000, 5000))
		Expect(add(2, bullmq.Deduplication{TTL: time.Minute}, 0)).To(Equal("1"))
		redisDo("DEL", keyOf(name, "de:d")) // as if the ttl had expired
		Expect(add(3, bullmq.Deduplication{TTL: time.Minute}, 0)).To(Equal("3"))
	})

	It("restart the ttl with Extend", func() {
		add(1, bullmq.Deduplication{TTL: time.Minute, Extend: true}, 0)
		redisDo("PEXPIRE", keyOf(name, "de:d"), "5000")
		add(2, bullmq.Deduplication{TTL: time.Minute}, 0)
		Expect(ttl()).To(BeNumerically("<=", 5000))
		add(3, bullmq.Deduplication{TTL: time.Minute, Extend: true}, 0)
		Expect(ttl()).To(BeNumerically(">", 50000))
		Expect(owner()).To(Equal("1"))
	})

	It("replace a delayed owner with Replace", func() {
		replace := bullmq.Deduplication{TTL: time.Minute, Extend: true, Replace: true}
		for n := range 5 {
			Expect(add(n, replace, time.Second)).To(Equal(strconv.Itoa(n + 1)))
		}
		Expect(zsetAt(keyOf(name, "delayed"))).To(Equal([]string{"5"}))
		Expect(hashAt(keyOf(name, "5"))).To(HaveKeyWithValue("data", "4"))
		Expect(keysOf(name)).NotTo(ContainElement(keyOf(name, "4")))
		Expect(owner()).To(Equal("5"))
		Expect(eventsOf(name)).To(ContainElements("removed jobId=4 prev=delayed", "deduplicated jobId=5 deduplicationId=d deduplicatedJobId=4"))
	})

	It("do not replace an owner that is ready", func() {
		add(1, bullmq.Deduplication{Replace: true}, 0)
		Expect(add(2, bullmq.Deduplication{Replace: true}, 0)).To(Equal("1"))
		Expect(listAt(keyOf(name, "wait"))).To(Equal([]string{"1"}))
	})

	It("reschedule a delayed owner with Reschedule", func() {
		add(1, bullmq.Deduplication{}, time.Minute)
		Expect(add(2, bullmq.Deduplication{Reschedule: true}, time.Second)).To(Equal("1"))
		Expect(scoresAt(keyOf(name, "delayed"))).To(Equal(map[string]float64{"1": (fixedNow + 1000) * 4096}))
		Expect(hashAt(keyOf(name, "1"))).To(And(HaveKeyWithValue("delay", "1000"), HaveKeyWithValue("data", "1")))
	})

	DescribeTable("keep only the newest until an active owner", func(reason error) {
		keep := bullmq.Deduplication{KeepLastIfActive: true}
		add(1, keep, 0)
		job := takeJob(worker)
		Expect(add(2, keep, 0)).To(Equal("1"))
		Expect(add(3, keep, 0)).To(Equal("1"))
		Expect(listAt(keyOf(name, "wait"))).To(BeEmpty())
		endJob(worker, job, nil, reason)
		next := takeJob(worker)
		Expect(string(next.Data)).To(Equal("3"))
		Expect(owner()).To(Equal(next.ID))
		Expect(keysOf(name)).NotTo(ContainElement(keyOf(name, "dn:d")))
		endJob(worker, next, nil, nil)
		Expect(takeJob(worker)).To(BeNil())
		Expect(owner()).To(BeEmpty())
	},
		Entry("completes", nil), Entry("fails", errors.New("boom")),
	)

	It("take over the id from an owner that no longer exists", func() {
		add(1, bullmq.Deduplication{}, 0)
		redisDo("DEL", keyOf(name, "1"), keyOf(name, "wait"))
		Expect(add(2, bullmq.Deduplication{}, 0)).To(Equal("2"))
		Expect(owner()).To(Equal("2"))
	})

	DescribeTable("leave the id to the newer owner when the old, failed one", func(happens func(old *bullmq.Job)) {
		add(1, bullmq.Deduplication{}, 0)
		endJob(worker, takeJob(worker), nil, errors.New("boom"))
		Expect(add(2, bullmq.Deduplication{}, time.Minute)).To(Equal("2"))
		old, err := queue.Job(ctx, "1")
		Expect(err).NotTo(HaveOccurred())
		happens(old)
		Expect(add(3, bullmq.Deduplication{}, 0)).To(Equal("2"))
		Expect(owner()).To(Equal("2"))
	},
		Entry("is removed", func(old *bullmq.Job) { Expect(old.Remove(ctx)).To(Succeed()) }),
		Entry("is cleaned", func(*bullmq.Job) {
			Expect(queue.Clean(ctx, &bullmq.CleanOptions{State: bullmq.StateFailed})).To(Equal([]string{"1"}))
		}),
		Entry("makes room for a newer failure", func(*bullmq.Job) {
			_, err := queue.Add(ctx, "paint", nil, &bullmq.JobOptions{KeepFailed: bullmq.KeepLast(1)})
			Expect(err).NotTo(HaveOccurred())
			endJob(worker, takeJob(worker), nil, errors.New("boom"))
			Expect(zsetAt(keyOf(name, "failed"))).To(Equal([]string{"3"}))
		}),
		Entry("is in no state any more and is removed", func(*bullmq.Job) {
			redisDo("ZREM", keyOf(name, "failed"), "1")
			redisDo("DEL", keyOf(name, "marker")) // has a member 1, for the delayed job
			Expect(queue.RemoveOrphanedJobs(ctx, nil)).To(Equal([]string{"1"}))
		}),
		Entry("is retried and completes", func(old *bullmq.Job) {
			Expect(old.Retry(ctx, bullmq.StateFailed, nil)).To(Succeed())
			endJob(worker, takeJob(worker), nil, nil)
		}),
		Entry("is retried and drained", func(old *bullmq.Job) {
			Expect(old.Retry(ctx, bullmq.StateFailed, nil)).To(Succeed())
			Expect(queue.Drain(ctx, nil)).To(Succeed())
			Expect(keysOf(name)).NotTo(ContainElement(old.Key()))
		}),
	)

	It("added in quick succession run as one, with the data of the last", func() {
		const quiet = 500 * time.Millisecond
		live := newQueue(name, nil)
		ran := make(chan string, 5)
		runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) { ran <- string(job.Data); return nil, nil }, nil)
		jobs := make([]bullmq.BulkJob, 5)
		for n := range jobs {
			jobs[n] = bullmq.BulkJob{Name: "paint", Data: n, Options: &bullmq.JobOptions{
				Delay: quiet, Deduplication: &bullmq.Deduplication{ID: "d", TTL: quiet, Extend: true, Replace: true},
			}}
		}
		begun := time.Now()
		_, err := live.AddBulk(ctx, jobs) // in one call, so that a slow machine cannot delay one of them
		Expect(err).NotTo(HaveOccurred())
		Eventually(ran).Should(Receive(Equal("4")))
		Expect(time.Since(begun)).To(BeNumerically(">=", quiet-time.Millisecond))
		Consistently(ran, 100*time.Millisecond).ShouldNot(Receive())
	})
})
