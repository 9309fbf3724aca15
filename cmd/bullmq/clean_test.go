package main

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("The commands that empty queues", func() {
	DescribeTable("clean and drain the jobs of Node, once they have counted them and asked", func(version string) {
		n := openNode(version)
		bulk := make([]map[string]any, 5)
		for i := range bulk {
			bulk[i] = map[string]any{"name": "paint", "data": map[string]any{"wall": i}}
		}
		n.call("addBulk", map[string]any{"queue": "orders", "jobs": bulk})
		n.call("run", map[string]any{"queue": "orders", "count": 5, "handler": map[string]any{"return": "dry"}})
		n.call("addBulk", map[string]any{"queue": "orders", "jobs": append(bulk[:3:3],
			map[string]any{"name": "sand", "data": 1, "opts": map[string]any{"priority": 2}},
			map[string]any{"name": "sand", "data": 1, "opts": map[string]any{"delay": 3600000}})})
		orders := n.queue("orders")
		counts := func() map[bullmq.State]int {
			GinkgoHelper()
			counts, err := orders.Counts(ctx)
			Expect(err).NotTo(HaveOccurred())
			return counts
		}

		before := n.dump()
		output, _ := n.run(0, "clean", "orders", "--dry-run")
		Expect(lines(output)).To(HaveExactElements(And(HaveKeyWithValue("matched", 5.0), HaveKeyWithValue("done", 0.0), HaveKeyWithValue("dryRun", true))))
		output, _ = n.run(0, "clean", "orders", "--older-than", "1h", "--dry-run")
		Expect(lines(output)).To(HaveExactElements(HaveKeyWithValue("matched", 0.0)))
		output, _ = n.run(0, "clean", "orders", "--older-than", "1ms", "--limit", "4", "--dry-run")
		Expect(lines(output)).To(HaveExactElements(HaveKeyWithValue("matched", 4.0)))
		output, _ = n.run(0, "clean", "orders", "--older-than", "1ms", "--max-read", "2", "--dry-run")
		Expect(lines(output)).To(HaveExactElements(And(HaveKeyWithValue("matched", 2.0), HaveKeyWithValue("more", true))))
		output, _ = n.run(0, "drain", "orders", "--dry-run", "--delayed")
		Expect(lines(output)).To(HaveExactElements(HaveKeyWithValue("matched", 5.0)))
		Expect(onTerminal(n.command("clean", "orders", "--older-than", "1ms"), "n\n")).To(And(ContainSubstring("remove 5 jobs of orders that are completed? [y/N]"), ContainSubstring("nothing was changed")))
		Expect(onTerminal(n.command("drain", "orders"), "\n")).To(And(ContainSubstring("remove 4 jobs of orders? [y/N]"), ContainSubstring("nothing was changed")))
		Expect(n.dump()).To(Equal(before))

		output, _ = n.run(0, "clean", "orders", "--limit", "2", "--yes")
		Expect(lines(output)).To(HaveExactElements(HaveKeyWithValue("done", 2.0)))
		Expect(onTerminal(n.command("clean", "orders"), "y\n")).To(ContainSubstring("3 of 3 jobs removed"))
		Expect(counts()).To(HaveKeyWithValue(bullmq.StateCompleted, 0))
		Expect(onTerminal(n.command("drain", "orders"), "y\n")).To(ContainSubstring("4 of 4 jobs removed"))
		Expect(counts()).To(And(HaveKeyWithValue(bullmq.StateWaiting, 0), HaveKeyWithValue(bullmq.StatePrioritized, 0), HaveKeyWithValue(bullmq.StateDelayed, 1)))
		output, _ = n.run(0, "drain", "orders", "--delayed", "--yes")
		Expect(lines(output)).To(HaveExactElements(HaveKeyWithValue("done", 1.0)))
		Expect(n.call("count", map[string]any{"queue": "orders"})).To(Equal(0.0))
	},
		Entry("of bullmq 6", "6"),
		Entry("of bullmq 5", "5"),
	)

	It("obliterate a queue only if its name is typed, and no job runs", func() {
		s := open()
		orders := s.queue("orders")
		s.add(orders, 2, "paint", nil, nil)
		s.add(orders, 1, "paint", nil, &bullmq.JobOptions{Delay: time.Hour})
		fetcher, err := bullmq.NewFetcher(ctx, "orders", &bullmq.FetcherOptions{Connection: s.connection})
		Expect(err).NotTo(HaveOccurred())
		defer fetcher.Close()
		job, err := fetcher.TryFetch(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(job).NotTo(BeNil())
		output, _ := s.run(0, "obliterate", "orders", "--dry-run")
		Expect(lines(output)).To(HaveExactElements(And(HaveKeyWithValue("matched", 3.0), HaveKeyWithValue("dryRun", true))))
		_, errors := s.run(1, "obliterate", "orders", "--yes", "--name", "orders")
		Expect(errors).To(And(ContainSubstring("obliterate orders: 1 job is running"), ContainSubstring("--force")))
		Expect(orders.IsPaused(ctx)).To(BeFalse())
		Expect(onTerminal(s.command("obliterate", "orders", "--force"), "order\n")).To(And(ContainSubstring("Type the name of the queue to go on:"), ContainSubstring("nothing was changed")))
		Expect(orders.Count(ctx)).To(Equal(2))
		Expect(onTerminal(s.command("obliterate", "orders", "--force"), "orders\n")).To(ContainSubstring("3 of 3 jobs removed"))
		Expect(s.dump()).To(BeEmpty())
		s.add(orders, 1, "paint", nil, nil)
		s.run(0, "obliterate", "orders", "--yes", "--name", "orders")
		Expect(s.dump()).To(BeEmpty())
	})
})

var _ = Describe("The command limit", func() {
	It("shows, sets and removes the limits that Node sees", func() {
		n := openNode("6")
		n.call("add", map[string]any{"queue": "orders", "name": "paint", "data": 1})
		output, _ := n.run(0, "limit", "orders")
		Expect(lines(output)).To(HaveExactElements(And(HaveKeyWithValue("queue", "orders"), HaveKeyWithValue("concurrency", BeNil()), HaveKeyWithValue("rate", BeNil()))))
		before := n.dump()
		output, _ = n.run(0, "limit", "orders", "--concurrency", "3", "--rate", "100/m", "--dry-run")
		Expect(lines(output)).To(HaveExactElements(And(HaveKeyWithValue("concurrency", 3.0), HaveKeyWithValue("dryRun", true))))
		Expect(n.dump()).To(Equal(before))
		n.run(0, "limit", "orders", "--concurrency", "3", "--rate", "100/m")
		Expect(n.call("globalConcurrency", map[string]any{"queue": "orders"})).To(Equal(3.0))
		Expect(n.call("globalRateLimit", map[string]any{"queue": "orders"})).To(Equal(map[string]any{"max": 100.0, "duration": 60000.0}))
		Expect(onTerminal(n.command("limit", "orders"), "")).To(MatchRegexp(`(?m)^orders +3 +100 jobs in 1m0s`))
		n.call("rateLimit", map[string]any{"queue": "orders", "ms": 3600000})
		output, _ = n.run(0, "limit", "orders")
		Expect(lines(output)).To(HaveExactElements(HaveKeyWithValue("limitedSeconds", BeNumerically(">", 3000))))
		output, _ = n.run(0, "limit", "orders", "--end", "--concurrency", "none")
		Expect(lines(output)).To(HaveExactElements(And(Not(HaveKey("limitedSeconds")), HaveKeyWithValue("concurrency", BeNil()))))
		Expect(n.queue("orders").RateLimitTTL(ctx, 0)).To(BeZero())
		n.run(0, "limit", "orders", "--rate", "none")
		Expect(n.call("globalConcurrency", map[string]any{"queue": "orders"})).To(BeNil())
		Expect(n.call("globalRateLimit", map[string]any{"queue": "orders"})).To(BeNil())
	})

	It("pauses and resumes queues, and tells how many jobs wait", func() {
		n := openNode("5")
		n.call("add", map[string]any{"queue": "orders", "name": "paint", "data": 1})
		before := n.dump()
		output, _ := n.run(0, "pause", "orders", "--dry-run")
		Expect(lines(output)).To(HaveExactElements(And(HaveKeyWithValue("waiting", 1.0), HaveKeyWithValue("dryRun", true))))
		Expect(n.dump()).To(Equal(before))
		Expect(onTerminal(n.command("pause", "orders"), "")).To(MatchRegexp(`(?m)^orders +yes +1 +0`))
		Expect(n.call("isPaused", map[string]any{"queue": "orders"})).To(BeTrue())
		n.run(0, "resume", "orders")
		Expect(n.call("isPaused", map[string]any{"queue": "orders"})).To(BeFalse())
	})
})

var _ = Describe("bullmq clean on a paused queue", func() {
	DescribeTable("removes the waiting jobs, as Node counts them", func(version string) {
		n := openNode(version)
		for range 3 {
			n.call("add", map[string]any{"queue": "orders", "name": "paint", "data": 1})
		}
		n.call("pause", map[string]any{"queue": "orders"})
		output, _ := n.run(0, "clean", "orders", "--state", "waiting", "--dry-run")
		Expect(lines(output)).To(HaveExactElements(HaveKeyWithValue("matched", 3.0)))
		output, _ = n.run(0, "clean", "orders", "--state", "waiting", "--older-than", "1h", "--dry-run")
		Expect(lines(output)).To(HaveExactElements(HaveKeyWithValue("matched", 0.0)))
		time.Sleep(20 * time.Millisecond)
		output, _ = n.run(0, "clean", "orders", "--state", "waiting", "--older-than", "10ms", "--dry-run")
		Expect(lines(output)).To(HaveExactElements(HaveKeyWithValue("matched", 3.0)))
		output, _ = n.run(0, "clean", "orders", "--state", "waiting", "--limit", "1", "--yes")
		Expect(lines(output)).To(HaveExactElements(HaveKeyWithValue("done", 1.0)))
		Expect(onTerminal(n.command("clean", "orders", "--state", "waiting"), "y\n")).To(And(ContainSubstring("remove 2 jobs of orders that are waiting?"), ContainSubstring("2 of 2 jobs removed")))
		for id := range 3 {
			Expect(n.call("state", map[string]any{"queue": "orders", "id": fmt.Sprint(id + 1)})).To(Equal("unknown"))
		}
	},
		Entry("of bullmq 6", "6"),
		Entry("of bullmq 5", "5"),
	)
})
