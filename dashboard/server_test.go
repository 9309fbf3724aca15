package dashboard_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/dashboard"
)

var _ = Describe("The page of the server", func() {
	ctx := context.Background()

	It("shows version, memory, policy, latency and clock, and the jobs of each queue that the reader may see", func() {
		s := open(&dashboard.Options{Access: func(_ *http.Request, use dashboard.Use) error {
			if use.Queue == "secret" {
				return errors.New("no")
			}
			return nil
		}})
		s.queue("secret")
		orders := s.queue("orders")
		for range 3 {
			_, err := orders.Add(ctx, "paint", nil, &bullmq.JobOptions{Delay: time.Hour})
			Expect(err).NotTo(HaveOccurred())
		}
		s.node("6").do("add", map[string]any{"queue": "mails", "name": "send"})
		page := s.page("/server")
		Expect(page).To(And(
			MatchRegexp(`(Redis|Valkey) \d+\.\d+`), ContainSubstring("<dt>Policy</dt><dd>noeviction</dd>"), MatchRegexp(`<dt>Latency</dt><dd>\d+\.\d ms</dd>`),
			ContainSubstring("<dt>Clock</dt>"), ContainSubstring("no limit"), MatchRegexp(`(?s)orders</a>.*mails</a>`), MatchRegexp(`all queues</th><td></td><td class="number">4<`)))
		Expect(page).NotTo(ContainSubstring("secret"))
		Expect(page).NotTo(ContainSubstring("notice warn"))
	})

	It("shows of which versions the queues are, and estimates their memory if asked, with few commands", func() {
		s := open(nil)
		for i := range 120 {
			_, err := s.queue(fmt.Sprintf("queue-%03d", i)).Add(ctx, "paint", nil, nil)
			Expect(err).NotTo(HaveOccurred())
		}
		for range 3 {
			_, err := s.queue("large").Add(ctx, "paint", strings.Repeat("x", 100_000), nil)
			Expect(err).NotTo(HaveOccurred())
		}
		s.node("5").do("add", map[string]any{"queue": "mails", "name": "send"})
		s.redisText("DEL", "bull:queue-000:meta")
		s.redisText("HSET", "bull:queue-001:meta", "version", "<b>pro</b>")
		page := s.page("/server")
		Expect(page).To(ContainSubstring("119 queues of BullMQ " + bullmq.WireVersion + ", 1 queue of an unknown version, 1 queue of BullMQ " + bullmq.WireVersion5 + ", 1 queue of BullMQ &lt;b&gt;pro&lt;/b&gt;"))
		Expect(page).To(ContainSubstring("72 queues with fewer jobs are not shown."))
		Expect(page).NotTo(ContainSubstring("Memory and jobs"))
		Expect(s.calls("memory|usage")).To(BeZero())

		evals := func() int { return s.calls("eval") + s.calls("eval_ro") + s.calls("evalsha") + s.calls("evalsha_ro") }
		before := evals()
		measured := s.calls("memory|usage")
		page = s.page("/server?memory=1")
		measured = s.calls("memory|usage") - measured
		Expect(page).To(MatchRegexp(`(?s)Memory and jobs by queue.*<tbody><tr><th scope="row"><a href="/queues/large">large</a></th><td><svg[^>]*>.*?</svg></td>\s*<td class="number">3\d\d\.\d kB</td>`))
		Expect(page).To(ContainSubstring("It is made of the queues with the most jobs."))
		Expect(evals()-before).To(BeNumerically("~", 8, 2), "three calls for all queues, and five for the memory of fifty")
		Expect(measured).To(BeNumerically("<=", 50*30))
	})

	It("estimates only keys if the user may not measure memory", func() {
		s := open(nil)
		_, err := s.queue("orders").Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		s.redisText("ACL", "SETUSER", "default", "-memory|usage")
		page := s.page("/server?memory=1")
		Expect(page).To(ContainSubstring("may not call MEMORY USAGE"))
		Expect(page).To(ContainSubstring("orders</a>"))
	})

	It("warns of a policy that evicts jobs, and of full memory", func() {
		s := open(nil)
		s.redisText("CONFIG", "SET", "maxmemory", "1000000")
		s.redisText("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
		page := s.page("/server")
		Expect(page).To(ContainSubstring("maxmemory-policy is allkeys-lru."))
		Expect(page).To(MatchRegexp(`\d+ % of maxmemory are used`))
	})
})
