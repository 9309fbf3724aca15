package bullmq_test

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("RepairPaused", func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, nil)
	})
	add := func(options *bullmq.JobOptions) string {
		GinkgoHelper()
		job, err := queue.Add(ctx, "a", nil, options)
		Expect(err).NotTo(HaveOccurred())
		return job.ID
	}

	It("puts stranded jobs back in front, oldest first, tells of each, and wakes a worker", func() {
		for range 3 {
			add(nil)
		}
		ranked := add(&bullmq.JobOptions{Priority: 4})
		do("DEL", key(name, "wait"), key(name, "prioritized"), key(name, "marker"))
		last := add(nil)
		done := add(nil)
		do("HSET", key(name, done), "finishedOn", "5")
		do("LREM", key(name, "wait"), "1", done)
		do("HSET", key(name, "remains"), "progress", "5")
		do("DEL", key(name, "marker"))

		Expect(queue.FindStrandedJobs(ctx)).To(Equal([]string{"1", "2", "3", ranked}))
		Expect(list(key(name, "wait"))).To(Equal([]string{last}))
		Expect(queue.RepairPaused(ctx)).To(Equal([]string{"1", "2", "3", ranked}))
		Expect(list(key(name, "wait"))).To(Equal([]string{last, "3", "2", "1"}))
		Expect(zset(key(name, "prioritized"))).To(Equal([]string{ranked}))
		Expect(zset(key(name, "marker"))).To(Equal([]string{"0"}))
		Expect(events(name)[len(events(name))-4:]).To(HaveEach(HavePrefix("waiting jobId=")))
		Expect(queue.RepairPaused(ctx)).To(BeEmpty())
	})

	It("passes over a job that a worker holds, be it missing from active", func() {
		add(nil)
		do("DEL", key(name, "wait"))
		do("SET", key(name, "1:lock"), "t")
		Expect(queue.RepairPaused(ctx)).To(BeEmpty())
	})

	It("takes jobs out of paused when the queue isn't, those first, and leaves a paused queue to its resume", func() {
		add(nil)
		add(nil)
		do("RENAME", key(name, "wait"), key(name, "paused"))
		add(nil)
		do("HSET", key(name, "meta"), "paused", "1")
		Expect(queue.RepairPaused(ctx)).To(BeEmpty())
		Expect(list(key(name, "paused"))).To(Equal([]string{"2", "1"}))
		do("HDEL", key(name, "meta"), "paused")
		Expect(queue.RepairPaused(ctx)).To(BeEmpty())
		Expect(list(key(name, "wait"))).To(Equal([]string{"3", "2", "1"}))
		Expect(do("EXISTS", key(name, "paused")).AsInt64()).To(BeZero())
	})

	It("brings into safety what BullMQ 5 would overwrite at its resume", func() {
		add(nil)
		do("HSET", key(name, "meta"), "paused", "1")
		do("LPUSH", key(name, "paused"), "old")
		do("HSET", key(name, "old"), "name", "a", "data", "{}", "opts", "{}", "timestamp", "1")
		five := newQueue(name, &bullmq.QueueOptions{Dialect: bullmq.V5})
		Expect(five.RepairPaused(ctx)).To(BeEmpty())
		Expect(list(key(name, "paused"))).To(Equal([]string{"1", "old"}))
		Expect(list(key(name, "wait"))).To(BeEmpty())
	})

	It("wakes a worker for jobs that wait though nobody was woken for them", func() {
		Expect(do("LPUSH", key(name, "wait"), "1").Error()).To(Succeed())
		Expect(newQueue(name, &bullmq.QueueOptions{Dialect: bullmq.V5}).RepairPaused(ctx)).To(BeEmpty())
		Expect(scores(key(name, "marker"))).To(HaveKey("0"))
	})

	It("and a pause and a resume join long lists in order", func() {
		five := newQueue(name, &bullmq.QueueOptions{Dialect: bullmq.V5})
		var pushed []string
		push := func(suffix string, from, count int) {
			words := []string{"LPUSH", key(name, suffix)}
			for n := range count {
				words = append(words, fmt.Sprint(from+n))
			}
			pushed = append(pushed, words[2:]...)
			Expect(do(words...).Error()).To(Succeed())
		}
		// oldestFirst is a list of jobs from the end at which workers take.
		oldestFirst := func(suffix string) []string {
			jobs := list(key(name, suffix))
			slices.Reverse(jobs)
			return jobs
		}
		push("paused", 0, 15000)
		push("wait", 15000, 15000)
		Expect(five.Pause(ctx)).To(Succeed())
		Expect(oldestFirst("paused")).To(Equal(pushed))
		push("wait", 30000, 10)
		Expect(five.Resume(ctx)).To(Succeed())
		Expect(oldestFirst("wait")).To(Equal(pushed))
	})
})
