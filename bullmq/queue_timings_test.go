package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("The timings of a queue", func() {
	var (
		ctx   context.Context
		name  string
		queue *bullmq.Queue
		start = time.UnixMilli(1_700_000_000_000)
		now   time.Time
	)
	BeforeEach(func() {
		ctx, name, now = specContext(), newQueueName(), start
		queue = newQueue(name, &bullmq.QueueOptions{Now: func() time.Time { return now }})
	})
	timings := func(query bullmq.TimingQuery) *bullmq.QueueTimings {
		GinkgoHelper()
		found, err := queue.Timings(ctx, query)
		Expect(err).NotTo(HaveOccurred())
		return found
	}
	// run adds a job, starts it after the wait and ends it after the run.
	run := func(id string, options bullmq.JobOptions, wait, run time.Duration, reason error) {
		GinkgoHelper()
		options.JobID = id
		_, err := queue.Add(ctx, "paint-"+id, strings.Repeat("x", 100), &options)
		Expect(err).NotTo(HaveOccurred())
		fetcher := newFetcher(name, &bullmq.FetcherOptions{Now: func() time.Time { return now }})
		now = now.Add(wait)
		job := takeJob(fetcher)
		now = now.Add(run)
		endJob(fetcher, job, nil, reason)
	}

	It("tell how long each finished job has waited and run, the newest first", func() {
		Expect(timings(bullmq.TimingQuery{})).To(Equal(&bullmq.QueueTimings{}))
		run("a", bullmq.JobOptions{}, 2*time.Second, 30*time.Second, nil)
		run("b", bullmq.JobOptions{Delay: time.Minute}, time.Minute+500*time.Millisecond, time.Second, errors.New("no"))
		run("c", bullmq.JobOptions{Backoff: bullmq.FixedBackoff(time.Hour), Attempts: 2}, time.Millisecond, 0, nil)
		before := snapshot(name)
		found := timings(bullmq.TimingQuery{})
		Expect(snapshot(name)).To(Equal(before), "it changes nothing")
		Expect(found.More).To(BeFalse())
		Expect(found.Unknown).To(BeZero())
		Expect(found.Jobs).To(HaveLen(3))
		Expect(found.Jobs[0]).To(And(HaveField("ID", "c"), HaveField("Wait", time.Millisecond), HaveField("Run", time.Duration(0)), HaveField("AttemptsMade", 1)))
		Expect(found.Jobs[1]).To(And(HaveField("ID", "b"), HaveField("Name", "paint-b"), HaveField("State", bullmq.StateFailed),
			HaveField("Wait", 500*time.Millisecond), HaveField("Run", time.Second)))
		Expect(found.Jobs[2]).To(Equal(bullmq.JobTiming{
			ID: "a", Name: "paint-a", State: bullmq.StateCompleted, AttemptsMade: 1,
			ProcessedOn: start.Add(2 * time.Second), FinishedOn: start.Add(32 * time.Second), Wait: 2 * time.Second, Run: 30 * time.Second,
		}))
		found = timings(bullmq.TimingQuery{Limit: 1})
		Expect(found.Jobs).To(HaveLen(1))
		Expect(found.More).To(BeTrue())
		found = timings(bullmq.TimingQuery{Since: start.Add(time.Minute)})
		Expect(found.Jobs).To(HaveLen(2))
		Expect(found.More).To(BeFalse())
	})

	It("need a call for 1,000 jobs, and leave out those without times", func() {
		var batch []bullmq.BulkJob
		for range 2500 {
			batch = append(batch, bullmq.BulkJob{Name: "paint"})
		}
		_, err := queue.AddBulk(ctx, batch)
		Expect(err).NotTo(HaveOccurred())
		for i := range 2500 { // as workers do, in a shorter time
			key, at := keyOf(name, fmt.Sprint(i+1)), fmt.Sprint(start.UnixMilli()+int64(i))
			set := "completed"
			if i%3 == 0 {
				set = "failed"
			}
			if i != 100 {
				Expect(redisDo("HSET", key, "processedOn", at, "finishedOn", at, "atm", "1").Error()).To(Succeed())
			}
			Expect(redisDo("ZADD", keyOf(name, set), at, fmt.Sprint(i+1)).Error()).To(Succeed())
		}
		Expect(redisDo("DEL", keyOf(name, "5")).Error()).To(Succeed())
		Expect(redisDo("SET", keyOf(name, "5"), "text").Error()).To(Succeed())
		timings(bullmq.TimingQuery{Limit: 1})
		before := commandCalls()
		found := timings(bullmq.TimingQuery{})
		Expect(found.Jobs).To(HaveLen(1000))
		Expect(found.More).To(BeTrue())
		Expect(commandCalls()["evalsha"] - before["evalsha"]).To(Equal(1))
		found = timings(bullmq.TimingQuery{Limit: 10_000})
		Expect(commandCalls()["evalsha"] - before["evalsha"]).To(Equal(4))
		Expect(found.Jobs).To(HaveLen(2498))
		Expect(found.Unknown).To(Equal(1))
		Expect(found.More).To(BeFalse())
		for i, job := range found.Jobs[1:] {
			Expect(job.FinishedOn).To(BeTemporally("<=", found.Jobs[i].FinishedOn))
		}
	})

	It("can't be read with a negative limit", func() {
		_, err := queue.Timings(ctx, bullmq.TimingQuery{Limit: -1})
		Expect(err).To(MatchError(ContainSubstring("Limit -1")))
	})
})
