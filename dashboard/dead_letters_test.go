package dashboard_test

import (
	"context"
	"errors"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/dashboard"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
)

var _ = Describe("The pages of dead letters", func() {
	ctx := context.Background()

	// fail runs the jobs of a queue, which all fail, and moves them to another queue.
	fail := func(s *site, queue *bullmq.Queue, reasonOf func(*bullmq.Job) string, jobs int) {
		GinkgoHelper()
		for i := range jobs {
			_, err := queue.Add(ctx, "paint", map[string]int{"number": i}, nil)
			Expect(err).NotTo(HaveOccurred())
		}
		worker, err := bullmq.NewWorker(ctx, queue.Name(), func(_ context.Context, job *bullmq.Job) (any, error) { return nil, errors.New(reasonOf(job)) }, &bullmq.WorkerOptions{Connection: s.connection})
		Expect(err).NotTo(HaveOccurred())
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(running) }()
		Eventually(func() (map[bullmq.State]int, error) { return queue.Counts(ctx, bullmq.StateFailed) }).Should(HaveKeyWithValue(bullmq.StateFailed, jobs))
		stop()
		Expect(<-ended).To(Succeed())
		Expect(queue.MoveFailed(ctx, "dead", nil)).To(HaveLen(jobs))
	}
	parity := func(job *bullmq.Job) string {
		if strings.HasSuffix(string(job.Data), "0}") {
			return `the <b>bucket</b> is "empty" & more`
		}
		return "connection refused"
	}

	It("count letters by reason and origin, and show each with its failed job", func() {
		s := open(nil)
		s.queue("dead")
		Expect(s.page("/dead-letters")).To(ContainSubstring("No dead letter waits"))
		Expect(s.page("/queues/dead/dead-letters")).To(ContainSubstring("No dead letter."))
		fail(s, s.queue("orders"), parity, 3)
		fail(s, s.queue("mails"), parity, 1)
		Expect(s.page("/dead-letters")).To(MatchRegexp(`(?s)<a href="/queues/dead/dead-letters">dead</a></th>\s*<td class="number">4<`))
		page := s.page("/queues/dead/dead-letters")
		Expect(page).To(ContainSubstring("4 dead letters"))
		Expect(page).To(MatchRegexp(`connection refused</a></th><td class="number">2<`))
		Expect(page).To(MatchRegexp(`bucket&lt;/b&gt; is &#34;empty&#34; &amp; more</a></th><td class="number">2<`))
		Expect(page).To(MatchRegexp(`>orders</a></th><td class="number">3<`))
		Expect(page).NotTo(ContainSubstring("<b>bucket"))
		Expect(strings.Count(page, `type="checkbox"`)).To(Equal(4))

		links := regexp.MustCompile(`href="([^"]*dead-letters\?reason=[^"]*bucket[^"]*)"`).FindStringSubmatch(page)
		Expect(links).NotTo(BeNil())
		Expect(strings.Count(s.page(html.UnescapeString(links[1])), `type="checkbox"`)).To(Equal(2))
		Expect(strings.Count(s.page("/queues/dead/dead-letters?origin=mails"), `type="checkbox"`)).To(Equal(1))

		letter := s.page("/queues/dead/jobs/orders-2")
		Expect(letter).To(MatchRegexp(`(?s)Dead letter.*<code>2</code> of <a href="/queues/orders">orders</a>.*after 1 attempt.*connection refused.*Stack traces`))
		Expect(letter).To(ContainSubstring(`href="/queues/dead/actions/replay?id=orders-2"`))
	})

	It("replay one letter, selected ones, and all with a reason or from a queue, after a count", func() {
		var records []dashboard.Record
		s := open(&dashboard.Options{Audit: func(_ *http.Request, record dashboard.Record) { records = append(records, record) }})
		dead, orders, mails := s.queue("dead"), s.queue("orders"), s.queue("mails")
		fail(s, orders, parity, 12)
		fail(s, mails, parity, 2)
		waiting := func(queue *bullmq.Queue) int {
			GinkgoHelper()
			counts, err := queue.Counts(ctx, bullmq.StateWaiting)
			Expect(err).NotTo(HaveOccurred())
			return counts[bullmq.StateWaiting]
		}
		Expect(s.page("/queues/dead/actions/replay?job=orders-2")).To(ContainSubstring("Replay 1 dead letter of dead."))
		Expect(waiting(orders)).To(BeZero())
		s.post("/queues/dead/actions/replay", url.Values{"job": {"orders-2"}})
		Expect(waiting(orders)).To(Equal(1))
		_, text := s.post("/queues/dead/actions/replay", url.Values{"job": {"orders-3", "orders-4", "none"}})
		Expect(text).To(ContainSubstring("2 dead letters replayed."))
		Expect(waiting(orders)).To(Equal(3))
		reason := parity(&bullmq.Job{Data: []byte("10}")})
		Expect(html.UnescapeString(s.page("/queues/dead/actions/replay?reason=" + url.QueryEscape(reason)))).To(ContainSubstring("Replay 3 dead letters of dead with the reason “" + reason + "”."))
		_, text = s.post("/queues/dead/actions/replay", url.Values{"reason": {reason}})
		Expect(text).To(ContainSubstring("3 dead letters replayed."))
		Expect(waiting(orders)).To(Equal(5))
		Expect(waiting(mails)).To(Equal(1))
		Expect(s.page("/queues/dead/actions/replay?origin=mails")).To(ContainSubstring("Replay 1 dead letter of dead that failed in mails."))
		s.post("/queues/dead/actions/replay", url.Values{"origin": {"mails"}})
		Expect(waiting(mails)).To(Equal(2))
		Expect(s.page("/queues/dead/actions/replay?all=1")).To(ContainSubstring("Replay all 7 dead letters of dead."))
		s.post("/queues/dead/actions/replay", url.Values{"all": {"1"}})
		Expect(waiting(orders)).To(Equal(12))
		Expect(waiting(dead)).To(BeZero())
		response, _ := s.post("/queues/dead/actions/replay", nil)
		Expect(response.StatusCode).To(Equal(http.StatusBadRequest))
		Expect(records).To(HaveLen(6))
	})

	DescribeTable("show and replay jobs that a Node worker has failed", func(version string) {
		s := open(nil)
		orders := s.queue("orders")
		node := s.node(version)
		node.do("add", map[string]any{"queue": "orders", "name": "paint", "data": map[string]any{"a": 1}})
		worker, err := nodeprocess.Start("worker.mjs", "-redis", s.redis.Addr(), "-queue", "orders", "-bullmq", version, "-fail-every", "1")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(worker.Stop)
		Eventually(func() (map[bullmq.State]int, error) { return orders.Counts(ctx, bullmq.StateFailed) }).Should(HaveKeyWithValue(bullmq.StateFailed, 1))
		worker.Stop()
		Expect(orders.MoveFailed(ctx, "dead", nil)).To(HaveLen(1))
		Expect(s.page("/queues/dead/dead-letters")).To(ContainSubstring("of this worker fails"))
		s.post("/queues/dead/actions/replay", url.Values{"all": {"1"}})
		Expect(orders.Counts(ctx, bullmq.StateWaiting)).To(HaveKeyWithValue(bullmq.StateWaiting, 1))
	},
		Entry("bullmq 6", "6"),
		Entry("bullmq 5", "5"),
	)

	It("have no way to replay for a reader who may not", func() {
		s := open(&dashboard.Options{ReadOnly: true})
		s.queue("dead")
		fail(s, s.queue("orders"), parity, 1)
		Expect(s.page("/queues/dead/dead-letters")).NotTo(ContainSubstring("actions/replay?"))
		Expect(s.page("/queues/dead/dead-letters")).NotTo(ContainSubstring("checkbox"))
		response, _ := s.post("/queues/dead/actions/replay", url.Values{"all": {"1"}})
		Expect(response.StatusCode).To(Equal(http.StatusForbidden))
	})
})
