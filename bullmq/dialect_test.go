package bullmq_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("The dialect of a queue", func() {
	var (
		name string
		ctx  context.Context
	)
	BeforeEach(func() { name, ctx = newQueueName(), specContext() })

	// parks reports whether a paused queue's jobs go to the list paused, as in BullMQ 5.
	parks := func(queue *bullmq.Queue) bool {
		GinkgoHelper()
		Expect(queue.Pause(ctx)).To(Succeed())
		job, err := queue.Add(ctx, "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		return len(listAt(keyOf(name, "paused"))) > 0 && listAt(keyOf(name, "paused"))[0] == job.ID
	}

	DescribeTable("is detected", func(prepare func(), want bool) {
		prepare()
		Expect(parks(newQueue(name, nil))).To(Equal(want))
	},
		Entry("without anything stored", func() {}, false),
		Entry("from the version of BullMQ 5", func() { redisDo("HSET", keyOf(name, "meta"), "version", "bullmq:5.81.5") }, true),
		Entry("from the version of BullMQ 6", func() { redisDo("HSET", keyOf(name, "meta"), "version", "bullmq:6.7.0") }, false),
		Entry("from the version of BullMQ 4", func() { redisDo("HSET", keyOf(name, "meta"), "version", "bullmq:4.17.0") }, false),
		Entry("from the version of a port, which has its own numbers", func() { redisDo("HSET", keyOf(name, "meta"), "version", "bullmq:1.1.0") }, false),
		Entry("from an unknown version", func() { redisDo("HSET", keyOf(name, "meta"), "version", "bullmq:55.1") }, false),
		Entry("from jobs in paused", func() {
			redisDo("HSET", keyOf(name, "meta"), "version", "bullmq:6.7.0", "paused", "1")
			redisDo("LPUSH", keyOf(name, "paused"), "old")
		}, true),
	)

	It("is the one in the options, whatever is stored", func() {
		redisDo("HSET", keyOf(name, "meta"), "version", "bullmq:5.81.5")
		Expect(parks(newQueue(name, &bullmq.QueueOptions{Dialect: bullmq.V6}))).To(BeFalse())
		name = newQueueName()
		Expect(parks(newQueue(name, &bullmq.QueueOptions{Dialect: bullmq.V5}))).To(BeTrue())
	})

	It("is written to meta if no version is stored, and otherwise left as it is", func() {
		newQueue(name, &bullmq.QueueOptions{Dialect: bullmq.V5})
		Expect(hashAt(keyOf(name, "meta"))).To(HaveKeyWithValue("version", "bullmq:"+bullmq.WireVersion5))
		newQueue(name, &bullmq.QueueOptions{Dialect: bullmq.V6})
		Expect(hashAt(keyOf(name, "meta"))).To(HaveKeyWithValue("version", "bullmq:"+bullmq.WireVersion5))
		name = newQueueName()
		newQueue(name, nil)
		Expect(hashAt(keyOf(name, "meta"))).To(HaveKeyWithValue("version", "bullmq:"+bullmq.WireVersion))
	})

	It("is detected by workers and for the queues of flows", func() {
		redisDo("HSET", keyOf(name, "meta"), "version", "bullmq:5.81.5", "paused", "1")
		flows, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: connection()})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(flows.Close)
		_, err = flows.Add(ctx, bullmq.Flow{Name: "a", QueueName: name})
		Expect(err).NotTo(HaveOccurred())
		Expect(listAt(keyOf(name, "paused"))).To(HaveLen(1))

		fetcher := newFetcher(name, nil)
		queue := newQueue(name, nil)
		Expect(queue.Resume(ctx)).To(Succeed())
		job, err := fetcher.TryFetch(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(queue.Pause(ctx)).To(Succeed())
		Expect(job.MoveToWait(ctx)).Error().NotTo(HaveOccurred())
		Expect(listAt(keyOf(name, "paused"))).To(Equal([]string{job.ID}))
	})

	It("of BullMQ 5 makes Counts and Jobs include paused jobs among the waiting", func() {
		queue := newQueue(name, &bullmq.QueueOptions{Dialect: bullmq.V5})
		Expect(parks(queue)).To(BeTrue())
		Expect(queue.Counts(ctx, bullmq.StateWaiting)).To(Equal(map[bullmq.State]int{bullmq.StateWaiting: 0, bullmq.StatePaused: 1}))
		Expect(queue.Counts(ctx)).To(HaveKeyWithValue(bullmq.StatePaused, 1))
		Expect(queue.Count(ctx)).To(BeEquivalentTo(1))
		Expect(queue.Jobs(ctx, bullmq.AllEntries(), bullmq.StateWaiting)).To(HaveLen(1))
		Expect(queue.CountsPerPriority(ctx, 0)).To(Equal(map[int]int{0: 1}))
	})

	It("of BullMQ 5 lets a manual fetch fail jobs that are marked to fail and return the next", func() {
		queue := newQueue(name, &bullmq.QueueOptions{Dialect: bullmq.V5})
		fetcher := newFetcher(name, &bullmq.FetcherOptions{Dialect: bullmq.V5})
		for range 2 {
			_, err := queue.Add(ctx, "a", nil, nil)
			Expect(err).NotTo(HaveOccurred())
		}
		redisDo("HSET", keyOf(name, "1"), "defa", "it had no chance")
		job, err := fetcher.TryFetch(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(job.ID).To(Equal("2"))
		Expect(hashAt(keyOf(name, "1"))).To(HaveKeyWithValue("failedReason", "it had no chance"))
	})
})

var _ = Describe("A dialect that does not exist", func() {
	It("is refused by every type that has one", func() {
		ctx, name := specContext(), newQueueName()
		for _, dialect := range []bullmq.Dialect{-1, 3, 7} {
			_, err := bullmq.NewQueue(ctx, name, &bullmq.QueueOptions{Connection: connection(), Dialect: dialect})
			refused := And(MatchError(ContainSubstring(fmt.Sprintf("Dialect %d is unknown: use Detect, V6 or V5", dialect))), MatchError(HavePrefix("bullmq: ")))
			Expect(err).To(refused)
			_, err = bullmq.NewWorker(ctx, name, doNothing, &bullmq.WorkerOptions{Connection: connection(), Dialect: dialect})
			Expect(err).To(refused)
			_, err = bullmq.NewFetcher(ctx, name, &bullmq.FetcherOptions{Connection: connection(), Dialect: dialect})
			Expect(err).To(refused)
			_, err = bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: connection(), Dialect: dialect})
			Expect(err).To(refused)
		}
		Expect(keysOf(name)).To(BeEmpty())
	})
})
