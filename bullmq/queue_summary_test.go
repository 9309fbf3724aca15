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

var _ = Describe("The summary of queues", func() {
	var ctx context.Context
	var link *bullmq.Connection
	BeforeEach(func() { ctx, link = specContext(), sharedConnection() })
	summarize := func(names ...string) []bullmq.QueueSummary {
		GinkgoHelper()
		summaries, err := bullmq.SummarizeQueues(ctx, link, "", names...)
		Expect(err).NotTo(HaveOccurred())
		Expect(summaries).To(HaveLen(len(names)))
		return summaries
	}

	It("agrees with the calls for one queue", func() {
		name := newQueueName()
		queue := newQueue(name, &bullmq.QueueOptions{Connection: link})
		hour := time.Now().Add(-time.Hour)
		for _, options := range []bullmq.JobOptions{
			{Timestamp: hour}, {}, {Timestamp: hour, Priority: 3}, {Delay: time.Hour}, {JobID: "own"},
		} {
			_, err := queue.Add(ctx, "paint", nil, &options)
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(queue.Pause(ctx)).To(Succeed())
		Expect(queue.SetGlobalConcurrency(ctx, 7)).To(Succeed())
		Expect(queue.SetGlobalRateLimit(ctx, bullmq.Limiter{Max: 5, Duration: time.Minute})).To(Succeed())
		Expect(queue.RateLimit(ctx, 20*time.Second)).To(Succeed())
		Expect(redisDo("HSET", keyOf(name, "metrics:completed"), "count", "100", "prevTS", fmt.Sprint(fixedNow)).Error()).To(Succeed())
		Expect(redisDo("RPUSH", keyOf(name, "metrics:completed:data"), "3", "2", "1").Error()).To(Succeed())
		before := snapshot(name)

		summary := summarize(name)[0]
		Expect(summary.Name).To(Equal(name))
		Expect(summary.Err).NotTo(HaveOccurred())
		Expect(queue.Counts(ctx)).To(Equal(summary.Counts))
		ages, err := queue.Ages(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(summary.Ages).To(HaveLen(3))
		for state, age := range summary.Ages {
			Expect(age).To(BeNumerically("~", ages[state], time.Minute), string(state))
		}
		Expect(summary.Ages[bullmq.StatePrioritized]).To(BeNumerically(">", 59*time.Minute))
		Expect(summary.Paused).To(BeTrue())
		Expect(summary.Concurrency).To(Equal(7))
		Expect(summary.Stopped).To(BeFalse())
		Expect(summary.LimitMax).To(Equal(5))
		Expect(summary.LimitDuration).To(Equal(time.Minute))
		Expect(summary.LimitedFor).To(BeNumerically("~", 10*time.Second, 10*time.Second))
		Expect(summary.Added).To(Equal(5))
		Expect(summary.Completed).To(Equal(bullmq.QueueMetrics{Total: 100, Until: time.UnixMilli(fixedNow), Points: []int{3, 2, 1}}))
		Expect(summary.Failed).To(Equal(bullmq.QueueMetrics{}))
		Expect(snapshot(name)).To(Equal(before), "it changes nothing")
	})

	It("tells a global concurrency of 0, which stops the queue, from none", func() {
		name := newQueueName()
		queue := newQueue(name, &bullmq.QueueOptions{Connection: link})
		for _, concurrency := range []int{0, 1} {
			Expect(queue.SetGlobalConcurrency(ctx, concurrency)).To(Succeed())
			Expect(summarize(name)[0].Stopped).To(Equal(concurrency == 0))
		}
		Expect(queue.RemoveGlobalConcurrency(ctx)).To(Succeed())
		Expect(summarize(name)[0].Stopped).To(BeFalse())
	})

	It("tells the version and the dialect of each queue, and how many of its schedulers are paused", func() {
		names := []string{newQueueName(), newQueueName(), newQueueName()}
		queue := newQueue(names[0], &bullmq.QueueOptions{Connection: link, Dialect: bullmq.V6})
		newQueue(names[1], &bullmq.QueueOptions{Connection: link, Dialect: bullmq.V5})
		Expect(redisDo("RPUSH", keyOf(names[2], "paused"), "1").Error()).To(Succeed())
		for _, id := range []string{"nightly", "hourly"} {
			_, err := queue.UpsertScheduler(ctx, id, bullmq.Repeat{Every: time.Hour}, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(queue.PauseScheduler(ctx, id)).To(Succeed())
		}
		summaries := summarize(names...)
		Expect(summaries[0].Version).To(Equal("bullmq:" + bullmq.WireVersion))
		Expect(summaries[1].Version).To(Equal("bullmq:" + bullmq.WireVersion5))
		Expect(summaries[2].Version).To(BeEmpty())
		for i, dialect := range []bullmq.Dialect{bullmq.V6, bullmq.V5, bullmq.V5} {
			Expect(summaries[i].Dialect).To(Equal(dialect))
			Expect(summaries[i].Schedulers).To(BeZero())
		}
		Expect([]int{summaries[0].PausedSchedulers, summaries[1].PausedSchedulers}).To(Equal([]int{2, 0}))
	})

	It("counts schedulers, and tells whether dead letters wait", func() {
		names := []string{newQueueName(), newQueueName()}
		queue, dead := newQueue(names[0], &bullmq.QueueOptions{Connection: link}), newQueue(names[1], &bullmq.QueueOptions{Connection: link})
		for _, id := range []string{"nightly", "hourly"} {
			_, err := queue.UpsertScheduler(ctx, id, bullmq.Repeat{Every: time.Hour}, nil)
			Expect(err).NotTo(HaveOccurred())
		}
		_, err := queue.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(summarize(names...)).To(HaveEach(HaveField("DeadLetters", false)))
		worker := runWorker(names[0], func(context.Context, *bullmq.Job) (any, error) {
			return nil, errors.New("no")
		}, &bullmq.WorkerOptions{DeadLetters: &bullmq.DeadLetterOptions{QueueName: names[1]}})
		Eventually(countOf(dead, bullmq.StateWaiting), "20s").ShouldNot(BeZero())
		Expect(worker.Close()).To(Succeed())
		summaries := summarize(names...)
		Expect(summaries[0].Schedulers).To(Equal(2))
		Expect(summaries[0].DeadLetters).To(BeFalse())
		Expect(summaries[1].Schedulers).To(BeZero())
		Expect(summaries[1].DeadLetters).To(BeTrue())
	})

	It("counts finished jobs, and the jobs that BullMQ 5 has moved to the list paused", func() {
		name := newQueueName()
		queue := newQueue(name, &bullmq.QueueOptions{Connection: link})
		_, err := queue.AddBulk(ctx, make([]bullmq.BulkJob, 10))
		Expect(err).NotTo(HaveOccurred())
		worker := runWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			if job.ID == "2" || job.ID == "5" {
				return nil, errors.New("no")
			}
			return nil, nil
		}, nil)
		Eventually(countOf(queue, bullmq.StateCompleted), "20s").Should(Equal(8))
		Eventually(countOf(queue, bullmq.StateFailed), "20s").Should(Equal(2))
		Expect(worker.Close()).To(Succeed())
		Expect(redisDo("RPUSH", keyOf(name, "paused"), "a", "b").Error()).To(Succeed())
		Expect(summarize(name)[0].Counts).To(And(
			HaveKeyWithValue(bullmq.StateCompleted, 8), HaveKeyWithValue(bullmq.StateFailed, 2), HaveKeyWithValue(bullmq.StateWaiting, 2)))
	})

	It("has queues in the order of the names, also those that do not exist, and makes one call for 50", func() {
		names := make([]string, 120)
		for i := range names {
			names[i] = newQueueName()
		}
		queue := newQueue(names[77], &bullmq.QueueOptions{Connection: link})
		_, err := queue.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		summarize(names[0])
		before := commandCalls()
		summaries := summarize(names...)
		calls := commandCalls()
		Expect(calls["evalsha"] - before["evalsha"]).To(Equal(3))
		for i, summary := range summaries {
			Expect(summary.Name).To(Equal(names[i]))
			want := 0
			if i == 77 {
				want = 1
			}
			Expect(summary.Counts[bullmq.StateWaiting]).To(Equal(want), summary.Name)
		}
		Expect(summarize()).To(BeEmpty())
	})

	It("has an error for a queue that can't be read, and the other queues", func() {
		names := []string{newQueueName(), newQueueName(), newQueueName()}
		for _, name := range names {
			newQueue(name, &bullmq.QueueOptions{Connection: link})
		}
		Expect(redisDo("SET", keyOf(names[1], "wait"), "text").Error()).To(Succeed())
		summaries := summarize(names...)
		Expect(summaries[0].Err).NotTo(HaveOccurred())
		Expect(summaries[1].Err).To(MatchError(ContainSubstring("WRONGTYPE")))
		Expect(summaries[1].Counts).To(BeEmpty())
		Expect(summaries[2].Err).NotTo(HaveOccurred())
		Expect(summaries[2].Counts).NotTo(BeEmpty())
	})

	It("has the queues of several slots of a cluster", func() {
		clustered()
		link, err := bullmq.Connect(ctx, cluster.URL())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(link.Close)
		names := []string{"{" + newQueueName() + "}", "{" + newQueueName() + "}"}
		for _, name := range names {
			_, err := newQueue(name, &bullmq.QueueOptions{Connection: link}).Add(ctx, "paint", nil, nil)
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(bullmq.SummarizeQueues(ctx, link, "", names...)).To(HaveEach(HaveField("Counts", HaveKeyWithValue(bullmq.StateWaiting, 1))))
	})

	It("is refused without a Connection, and for a name that no queue can have", func() {
		_, err := bullmq.SummarizeQueues(ctx, nil, "", "orders")
		Expect(err).To(MatchError(ContainSubstring("there is no Connection")))
		_, err = bullmq.SummarizeQueues(ctx, link, "", "a:b")
		Expect(err).To(MatchError(ContainSubstring("a:b")))
	})
})
