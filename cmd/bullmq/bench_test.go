package main

import (
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

var _ = Describe("The command bench", func() {
	It("measures rates and latencies, and removes its queue", func() {
		s := open()
		s.add(s.queue("orders"), 2, "paint", nil, nil)
		before := s.dump()
		output, _ := s.run(0, "bench", "--dry-run")
		Expect(lines(output)).To(HaveExactElements(And(HaveKeyWithValue("jobs", 20000.0), HaveKeyWithValue("policy", "noeviction"), Not(HaveKey("addPerSecond")))))
		output, _ = s.run(0, "bench", "--jobs", "1500", "--samples", "20", "--concurrency", "10")
		Expect(lines(output)).To(HaveExactElements(And(
			HaveKeyWithValue("addPerSecond", BeNumerically(">", 0)), HaveKeyWithValue("processPerSecond", BeNumerically(">", 0)),
			HaveKeyWithValue("addMs", HaveKeyWithValue("p50", BeNumerically(">", 0))), HaveKeyWithValue("startMs", HaveKeyWithValue("p99", BeNumerically(">", 0))))))
		Expect(onTerminal(s.command("bench", "--jobs", "100", "--samples", "2"), "")).To(MatchRegexp(`(?s)100 jobs with 100 bytes each.*add +\d+ jobs/s.*process +\d+ jobs/s.*start one +[\d.]+ ms p50`))
		Expect(s.dump()).To(Equal(before))
	})

	It("removes its queue when it is interrupted, or when the time is over", func() {
		s := open()
		s.queue("orders")
		before := s.dump()
		session, err := gexec.Start(s.command("bench", "--jobs", "1000000", "--timeout", "10m"), GinkgoWriter, GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { session.Kill().Wait("10s") })
		Eventually(func() int {
			n := 0
			for name, err := range bullmq.ListQueues(ctx, s.connection, "") {
				Expect(err).NotTo(HaveOccurred())
				Expect(name).NotTo(BeEmpty())
				n++
			}
			return n
		}).Should(Equal(2))
		session.Signal(syscall.SIGINT)
		Eventually(session, "60s").Should(gexec.Exit(exitInterrupted))
		Expect(s.dump()).To(Equal(before))
	})

	It("refuses to run on a Redis that may remove keys, unless it is told to", func() {
		redis, err := redisserver.Start(redisserver.Options{Config: []string{"maxmemory-policy allkeys-lru"}})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(redis.Close)
		s := openAt(redis.URL(), bullmq.DefaultPrefix)
		_, errors := s.run(1, "bench")
		Expect(errors).To(And(ContainSubstring("allkeys-lru"), ContainSubstring("--any-policy")))
		Expect(s.dump()).To(BeEmpty())
		s.run(0, "bench", "--any-policy", "--jobs", "10", "--samples", "1")
		Expect(s.dump()).To(BeEmpty())
	})
})
