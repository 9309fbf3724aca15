package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("Ended jobs", func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
		clock time.Time // the worker's
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue, clock = newQueue(name, nil), time.UnixMilli(fixedNow)
	})
	newClockedFetcher := func(o bullmq.FetcherOptions) *bullmq.Fetcher {
		GinkgoHelper()
		o.Now = func() time.Time { return clock }
		return newFetcher(name, &o)
	}
	// run adds a job and ends it, with err if that is not nil.
	run := func(worker *bullmq.Fetcher, id string, options bullmq.JobOptions, reason error) {
		GinkgoHelper()
		options.JobID = id
		_, err := queue.Add(ctx, "paint", nil, &options)
		Expect(err).NotTo(HaveOccurred())
		job := takeJob(worker)
		Expect(job.ID).To(Equal(id))
		endJob(worker, job, "result of "+id, reason)
	}
	completed := func() []string { GinkgoHelper(); return zsetAt(keyOf(name, "completed")) }
	failed := func() []string { GinkgoHelper(); return zsetAt(keyOf(name, "failed")) }
	keep := func(wire string) (k bullmq.Retention) {
		GinkgoHelper()
		Expect(k.UnmarshalJSON([]byte(wire))).To(Succeed())
		return k
	}

	DescribeTable("are removed at once after their event if removal is", func(wire string) {
		worker := newClockedFetcher(bullmq.FetcherOptions{})
		run(worker, "a", bullmq.JobOptions{KeepCompleted: keep(wire)}, nil)
		Expect(completed()).To(BeEmpty())
		Expect(keysOf(name)).NotTo(ContainElement(HavePrefix(keyOf(name, "a"))))
		Expect(eventsOf(name)).To(ContainElement(`completed jobId=a returnvalue="result of a" prev=active`))

		run(worker, "b", bullmq.JobOptions{KeepFailed: keep(wire)}, errors.New("boom"))
		Expect(failed()).To(BeEmpty())
		Expect(keysOf(name)).NotTo(ContainElement(HavePrefix(keyOf(name, "b"))))
		Expect(eventsOf(name)).To(ContainElement(`failed jobId=b failedReason=boom prev=active`))
	},
		Entry("true", `true`), Entry("0", `0`), Entry("{age:0}", `{"age":0}`), Entry("{count:0}", `{"count":0}`),
	)

	DescribeTable("are all kept if removal is", func(wire string) {
		worker := newClockedFetcher(bullmq.FetcherOptions{KeepCompleted: bullmq.KeepNone(), KeepFailed: bullmq.KeepNone()})
		for n := range 3 {
			id := fmt.Sprint("job-", n)
			run(worker, id, bullmq.JobOptions{KeepCompleted: keep(wire)}, nil)
			run(worker, id+"-failed", bullmq.JobOptions{KeepFailed: keep(wire)}, errors.New("boom"))
		}
		Expect(completed()).To(HaveLen(3))
		Expect(failed()).To(HaveLen(3))
		Expect(hashAt(keyOf(name, "job-1"))).To(And(HaveKeyWithValue("returnvalue", `"result of job-1"`), HaveKeyWithValue("finishedOn", "1700000000000")))
		Expect(hashAt(keyOf(name, "job-1-failed"))).To(HaveKeyWithValue("failedReason", "boom"))
	},
		Entry("false", `false`), Entry("-1", `-1`), Entry("{count:-1}", `{"count":-1}`),
	)

	It("are kept by default", func() {
		worker := newClockedFetcher(bullmq.FetcherOptions{})
		run(worker, "a", bullmq.JobOptions{}, nil)
		run(worker, "b", bullmq.JobOptions{}, errors.New("boom"))
		Expect(completed()).To(Equal([]string{"a"}))
		Expect(failed()).To(Equal([]string{"b"}))
	})

	It("follow the worker's options if the job has none", func() {
		worker := newClockedFetcher(bullmq.FetcherOptions{KeepCompleted: bullmq.KeepNone(), KeepFailed: bullmq.KeepLast(1)})
		run(worker, "a", bullmq.JobOptions{}, nil)
		run(worker, "kept", bullmq.JobOptions{KeepCompleted: bullmq.KeepAll()}, nil)
		for _, id := range []string{"x", "y"} {
			clock = clock.Add(time.Second)
			run(worker, id, bullmq.JobOptions{}, errors.New("boom"))
		}
		Expect(completed()).To(Equal([]string{"kept"}))
		Expect(failed()).To(Equal([]string{"y"}))
	})

	It("beyond the retained number are removed with their logs and keys", func() {
		worker := newClockedFetcher(bullmq.FetcherOptions{})
		for _, id := range []string{"a", "b", "c", "d"} {
			_, err := queue.Add(ctx, "paint", nil, &bullmq.JobOptions{JobID: id, KeepCompleted: bullmq.KeepLast(2)})
			Expect(err).NotTo(HaveOccurred())
			_, err = queue.AddJobLog(ctx, id, "row", nil)
			Expect(err).NotTo(HaveOccurred())
			clock = clock.Add(time.Second)
			run(worker, id, bullmq.JobOptions{}, nil) // was added above
		}
		Expect(completed()).To(Equal([]string{"c", "d"}))
		Expect(keysOf(name)).NotTo(ContainElement(Or(HavePrefix(keyOf(name, "a")), HavePrefix(keyOf(name, "b")))))
		Expect(keysOf(name)).To(ContainElements(keyOf(name, "c"), keyOf(name, "c:logs")))
	})

	Describe("with an age", func() {
		aged := bullmq.JobOptions{KeepCompleted: bullmq.KeepFor(time.Second), KeepFailed: bullmq.KeepFor(time.Second)}

		It("remain until the next job with an age ends in the same state", func() {
			worker := newClockedFetcher(bullmq.FetcherOptions{})
			run(worker, "old", aged, nil)
			clock = clock.Add(3 * time.Second)
			Expect(completed()).To(Equal([]string{"old"}))
			run(worker, "no-age", bullmq.JobOptions{}, nil)
			Expect(completed()).To(ConsistOf("old", "no-age"))
			run(worker, "failure", aged, errors.New("boom"))
			Expect(completed()).To(ConsistOf("old", "no-age"), "failures remove failures only")
			clock = clock.Add(500 * time.Millisecond)
			run(worker, "young", aged, nil)
			Expect(completed()).To(ConsistOf("no-age", "young"))
			Expect(failed()).To(Equal([]string{"failure"}))
		})

		It("are removed up to the limit at a time", func() {
			worker := newClockedFetcher(bullmq.FetcherOptions{})
			for n := range 5 {
				run(worker, fmt.Sprint("old-", n), bullmq.JobOptions{}, nil)
			}
			clock = clock.Add(time.Minute)
			run(worker, "new", bullmq.JobOptions{KeepCompleted: bullmq.KeepWithin(bullmq.RetentionLimits{Age: time.Second, Removals: 2})}, nil)
			Expect(completed()).To(HaveLen(4))
			run(worker, "newer", bullmq.JobOptions{KeepCompleted: bullmq.KeepWithin(bullmq.RetentionLimits{Age: time.Second, Removals: 10})}, nil)
			Expect(completed()).To(ConsistOf("new", "newer"))
		})

		It("are also limited in number", func() {
			worker := newClockedFetcher(bullmq.FetcherOptions{})
			for n := range 4 {
				clock = clock.Add(time.Second)
				run(worker, fmt.Sprint("job-", n), bullmq.JobOptions{KeepCompleted: bullmq.KeepWithin(bullmq.RetentionLimits{Age: time.Hour, Count: 2})}, nil)
			}
			Expect(completed()).To(Equal([]string{"job-2", "job-3"}))
		})
	})

	It("release their deduplication id when they are removed", func() {
		worker := newClockedFetcher(bullmq.FetcherOptions{})
		run(worker, "a", bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d"}, KeepCompleted: bullmq.KeepNone()}, nil)
		Expect(queue.DeduplicationJobID(ctx, "d")).Error().To(MatchError(bullmq.ErrDeduplicationNotFound))
	})

	It("cause one drained event when the last one ends, and no other while the worker is idle", func() {
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, &bullmq.WorkerOptions{DrainDelay: 30 * time.Millisecond})
		Expect(queue.Pause(ctx)).To(Succeed())
		for range 3 {
			_, err := queue.Add(ctx, "paint", nil, nil)
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(queue.Resume(ctx)).To(Succeed())
		drained := func() (n int) {
			for _, event := range eventsOf(name) {
				if event == "drained" {
					n++
				}
			}
			return n
		}
		Eventually(drained).Should(Equal(1))
		Consistently(drained, 150*time.Millisecond).Should(Equal(1))
		Expect(completed()).To(HaveLen(3))
	})
})
