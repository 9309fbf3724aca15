package bullmq_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("The ages of a queue", func() {
	var (
		ctx   context.Context
		name  string
		queue *bullmq.Queue
		start = time.UnixMilli(1_700_000_000_000)
		now   time.Time
	)
	clock := func() time.Time { return now }
	BeforeEach(func() {
		ctx, name, now = specContext(), newQueueName(), start
		queue = newQueue(name, &bullmq.QueueOptions{Now: clock})
	})
	add := func(options *bullmq.JobOptions) {
		GinkgoHelper()
		_, err := queue.Add(ctx, "job", nil, options)
		Expect(err).NotTo(HaveOccurred())
	}
	ages := func(states ...bullmq.State) map[bullmq.State]time.Duration {
		GinkgoHelper()
		found, err := queue.Ages(ctx, states...)
		Expect(err).NotTo(HaveOccurred())
		return found
	}

	It("are 0 if the queue is empty", func() {
		Expect(ages()).To(Equal(map[bullmq.State]time.Duration{
			bullmq.StateWaiting: 0, bullmq.StatePrioritized: 0, bullmq.StateDelayed: 0, bullmq.StateActive: 0,
		}))
	})

	It("are those of the oldest job, of whatever priority", func() {
		add(nil)
		add(&bullmq.JobOptions{Priority: 7})
		now = start.Add(10 * time.Second)
		add(nil)
		add(&bullmq.JobOptions{Priority: 1})
		now = start.Add(time.Minute)
		Expect(ages()).To(And(HaveKeyWithValue(bullmq.StateWaiting, time.Minute), HaveKeyWithValue(bullmq.StatePrioritized, time.Minute)))
	})

	It("include a job below LIFO jobs that all came later", func() {
		add(&bullmq.JobOptions{LIFO: true})
		now = start.Add(time.Second)
		add(&bullmq.JobOptions{LIFO: true})
		now = start.Add(time.Minute)
		Expect(ages(bullmq.StateWaiting)).To(Equal(map[bullmq.State]time.Duration{bullmq.StateWaiting: time.Minute}))
	})

	It("count a delayed job only once it is overdue", func() {
		add(&bullmq.JobOptions{Delay: time.Minute})
		now = start.Add(50 * time.Second)
		Expect(ages()).To(HaveKeyWithValue(bullmq.StateDelayed, time.Duration(0)))
		now = start.Add(70 * time.Second)
		Expect(ages()).To(HaveKeyWithValue(bullmq.StateDelayed, 10*time.Second))
	})

	It("count a running job from its start, and a retried one from its last start", func() {
		fetcher := newFetcher(name, &bullmq.FetcherOptions{Now: clock})
		add(&bullmq.JobOptions{Attempts: 2})
		now = start.Add(time.Minute)
		job := takeJob(fetcher)
		now = start.Add(90 * time.Second)
		Expect(ages()).To(And(HaveKeyWithValue(bullmq.StateActive, 30*time.Second), HaveKeyWithValue(bullmq.StateWaiting, time.Duration(0))))
		Expect(fetcher.Fail(ctx, job, context.DeadlineExceeded)).To(Succeed())
		Expect(ages()).To(And(HaveKeyWithValue(bullmq.StateActive, time.Duration(0)), HaveKeyWithValue(bullmq.StateWaiting, 30*time.Second)))
	})

	It("count a job whose delay has passed from that time", func() {
		fetcher := newFetcher(name, &bullmq.FetcherOptions{Now: clock})
		add(&bullmq.JobOptions{Delay: time.Minute})
		add(nil)
		now = start.Add(2 * time.Minute)
		takeJob(fetcher) // promotes the delayed one
		Expect(ages(bullmq.StateWaiting)).To(HaveKeyWithValue(bullmq.StateWaiting, time.Minute))
	})

	It("include the jobs of a paused queue of BullMQ 5", func() {
		queue = newQueue(name, &bullmq.QueueOptions{Now: clock, Dialect: bullmq.V5})
		add(nil)
		Expect(queue.Pause(ctx)).To(Succeed())
		now = start.Add(time.Minute)
		Expect(ages(bullmq.StateWaiting)).To(Equal(map[bullmq.State]time.Duration{bullmq.StateWaiting: time.Minute}))
	})

	It("are refused for states that have no age", func() {
		_, err := queue.Ages(ctx, bullmq.StateCompleted)
		Expect(err).To(MatchError(ContainSubstring(`the state "completed" has no age`)))
	})
})
