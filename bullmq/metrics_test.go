package bullmq_test

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("Metrics", func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
		clock time.Time
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue, clock = newQueue(name, nil), time.UnixMilli(now).Truncate(time.Minute)
	})
	newCountingWorker := func(points int) *bullmq.Worker {
		GinkgoHelper()
		return newWorker(name, nil, &bullmq.WorkerOptions{MetricsPoints: points, Now: func() time.Time { return clock }})
	}
	run := func(worker *bullmq.Worker, reason error) {
		GinkgoHelper()
		_, err := queue.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		end(worker, take(worker), nil, reason)
	}
	metrics := func(kind bullmq.State, from, to int) bullmq.Metrics {
		GinkgoHelper()
		m, err := queue.Metrics(ctx, kind, from, to)
		Expect(err).NotTo(HaveOccurred())
		return m
	}

	It("count jobs by the minute, with zeros for idle ones, newest first", func() {
		worker := newCountingWorker(100)
		run(worker, nil)
		run(worker, nil)
		begun := clock
		clock = clock.Add(3 * time.Minute)
		run(worker, nil)
		Expect(metrics(bullmq.Completed, 0, -1)).To(Equal(bullmq.Metrics{
			Count: 3, PrevTime: time.UnixMilli(begun.Add(3 * time.Minute).UnixMilli()), PrevCount: 2, Points: []int64{0, 0, 2}, Total: 3,
		}))
		Expect(list(key(name, "metrics:completed:data"))).To(Equal([]string{"0", "0", "2"}))
		Expect(hash(key(name, "metrics:completed"))).To(HaveKeyWithValue("count", "3"))
	})

	It("are handed out in pages", func() {
		worker := newCountingWorker(100)
		for range 4 {
			run(worker, nil)
			clock = clock.Add(time.Minute)
		}
		run(worker, nil)
		Expect(metrics(bullmq.Completed, 1, 2)).To(And(HaveField("Points", []int64{1, 1}), HaveField("Total", int64(4))))
	})

	It("keep failed jobs apart", func() {
		worker := newCountingWorker(100)
		run(worker, errors.New("boom"))
		run(worker, nil)
		Expect(metrics(bullmq.Failed, 0, -1).Count).To(BeEquivalentTo(1))
		Expect(metrics(bullmq.Completed, 0, -1).Count).To(BeEquivalentTo(1))
	})

	It("keep as many minutes as the worker says", func() {
		worker := newCountingWorker(2)
		for range 5 {
			run(worker, nil)
			clock = clock.Add(time.Minute)
		}
		Expect(metrics(bullmq.Completed, 0, -1)).To(And(HaveField("Count", int64(5)), HaveField("Total", int64(2))))
	})

	It("survive a pause of more minutes than are kept", func() {
		worker := newCountingWorker(3)
		run(worker, nil)
		clock = clock.Add(time.Hour)
		run(worker, nil)
		Expect(metrics(bullmq.Completed, 0, -1).Points).To(HaveLen(3))
	})

	It("are not collected unless asked for", func() {
		run(newCountingWorker(0), nil)
		Expect(keysOf(name)).NotTo(ContainElement(ContainSubstring("metrics")))
		Expect(metrics(bullmq.Completed, 0, -1)).To(Equal(bullmq.Metrics{Points: []int64{}}))
	})
})
