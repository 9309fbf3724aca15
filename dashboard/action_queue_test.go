package dashboard_test

import (
	"context"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/url"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/dashboard"
)

var _ = Describe("Actions on a queue", func() {
	ctx := context.Background()
	var s *site
	var orders *bullmq.Queue
	BeforeEach(func() {
		s = open(nil)
		orders = s.queue("orders")
	})
	add := func(jobs int, options *bullmq.JobOptions) {
		GinkgoHelper()
		bulk := make([]bullmq.BulkJob, jobs)
		for i := range bulk {
			bulk[i] = bullmq.BulkJob{Name: "paint", Options: options}
		}
		_, err := orders.AddBulk(ctx, bulk)
		Expect(err).NotTo(HaveOccurred())
	}
	count := func(state bullmq.State) int {
		GinkgoHelper()
		counts, err := orders.Counts(ctx, state)
		Expect(err).NotTo(HaveOccurred())
		return counts[state]
	}
	ask := func(action string) string {
		GinkgoHelper()
		return html.UnescapeString(s.page("/queues/orders/actions/" + action))
	}
	do := func(action string, form url.Values) string {
		GinkgoHelper()
		_, text := s.post("/queues/orders/actions/"+action, form)
		return html.UnescapeString(text)
	}

	// check presses Check only.
	check := func(action string, form url.Values) string {
		GinkgoHelper()
		asked := url.Values{"ask": {"1"}, "sent": {"1"}}
		maps.Copy(asked, form)
		return do(action, asked)
	}

	It("pause and resume it, and tell how many jobs wait", func() {
		add(3, nil)
		Expect(ask("pause")).To(ContainSubstring("Workers of orders start no more jobs. 3 jobs wait. The 0 that run end."))
		Expect(do("pause", nil)).To(ContainSubstring("orders is paused."))
		Expect(orders.IsPaused(ctx)).To(BeTrue())
		Expect(ask("resume")).To(ContainSubstring("3 jobs wait."))
		Expect(do("resume", nil)).To(ContainSubstring("orders is no longer paused."))
		Expect(orders.IsPaused(ctx)).To(BeFalse())
	})

	It("set and remove the global concurrency and rate limit, and begin with those that are stored", func() {
		Expect(do("concurrency", url.Values{"concurrency": {"3"}})).To(ContainSubstring("At most 3 jobs of orders run at a time."))
		Expect(orders.GlobalConcurrency(ctx)).To(Equal(3))
		Expect(ask("concurrency")).To(ContainSubstring(`name="concurrency" value="3"`))
		Expect(do("concurrency", url.Values{"concurrency": {"-1"}, "sent": {"1"}})).To(ContainSubstring("write a whole number"))
		Expect(do("concurrency", url.Values{"concurrency": {""}})).To(ContainSubstring("orders has no global concurrency."))
		Expect(orders.Meta(ctx)).To(HaveField("Concurrency", BeNil()))

		Expect(do("ratelimit", url.Values{"max": {"10"}, "duration": {"1m"}})).To(ContainSubstring("At most 10 jobs of orders start in 1 m."))
		Expect(orders.GlobalRateLimit(ctx)).To(Equal(&bullmq.Limiter{Max: 10, Duration: time.Minute}))
		page := ask("ratelimit")
		Expect(page).To(ContainSubstring(`name="max" value="10"`))
		Expect(page).To(ContainSubstring(`name="duration" value="1m0s"`))
		Expect(do("ratelimit", url.Values{"max": {"10"}})).To(ContainSubstring("write the period of the limit"))
		Expect(do("ratelimit", url.Values{"max": {"0"}})).To(ContainSubstring("leave the number empty for no limit"))
		Expect(do("ratelimit", url.Values{"max": {"none"}})).To(ContainSubstring("orders has no global rate limit."))
		Expect(orders.GlobalRateLimit(ctx)).To(BeNil())
	})

	It("stop it by a concurrency of 0, as the command and BullMQ do, and show that it is stopped", func() {
		add(2, nil)
		Expect(check("concurrency", url.Values{"concurrency": {"0"}})).To(ContainSubstring("Stop orders: no job starts, in all workers together, until the limit is changed or removed. It has 2 ready jobs. Now there is no limit."))
		Expect(do("concurrency", url.Values{"concurrency": {"0"}})).To(ContainSubstring("No job of orders starts until the concurrency is changed or removed."))
		Expect(orders.Meta(ctx)).To(HaveField("Concurrency", HaveValue(BeZero())))
		Expect(s.page("/queues/orders")).To(ContainSubstring("stopped: concurrency 0"))
		Expect(s.page("/")).To(ContainSubstring("stopped: concurrency 0"))
		Expect(ask("concurrency")).To(And(ContainSubstring(`name="concurrency" value="0"`), ContainSubstring("Now the limit is 0, so that no job starts.")))
		Expect(check("concurrency", url.Values{"concurrency": {"none"}})).To(ContainSubstring("Remove the limit of the jobs of orders that run at a time. Now the limit is 0"))
		Expect(do("concurrency", nil)).To(ContainSubstring("write the concurrency, or none for no limit"), "a form without the field removes nothing")
		Expect(do("concurrency", url.Values{"concurrency": {"none"}})).To(ContainSubstring("orders has no global concurrency."))
		Expect(s.page("/queues/orders")).NotTo(ContainSubstring("stopped: concurrency 0"))
	})

	It("state before they act which value is set, and how many jobs they change", func() {
		add(3, nil)
		s.fail("orders", 3)
		add(2, &bullmq.JobOptions{Delay: time.Hour})
		Expect(check("concurrency", url.Values{"concurrency": {"7"}})).To(ContainSubstring("Let at most 7 jobs of orders run at a time, in all workers together. Now there is no limit."))
		Expect(check("ratelimit", url.Values{"max": {"5"}, "duration": {"2m"}})).To(ContainSubstring("Let at most 5 jobs of orders start in 2 m"))
		Expect(check("ratelimit", url.Values{"max": {""}})).To(ContainSubstring("Remove the limit of the jobs of orders that start in a period. Now there is no limit."))
		Expect(check("retryall", url.Values{"state": {"failed"}, "clear": {"1"}})).To(ContainSubstring("Move all 3 failed jobs of orders back to waiting. They run again, without regard to their priority. Their attempts made are cleared."))
		Expect(check("retryall", url.Values{"state": {"completed"}})).To(ContainSubstring("Move all 0 completed jobs of orders"))
		Expect(check("drain", url.Values{"delayed": {"1"}})).To(ContainSubstring("Remove the 0 jobs that wait in orders, prioritized ones too. Remove the 2 delayed jobs too."))
		Expect(check("delay", url.Values{"all": {"1"}, "state": {"delayed"}, "delay": {"5m"}})).To(ContainSubstring("Change the delay of 2 jobs of orders. The new delay is 5 m, from now on."))
		Expect(check("priority", url.Values{"all": {"1"}, "state": {"delayed"}, "priority": {"9"}, "lifo": {"1"}})).To(ContainSubstring("Change the priority of 2 jobs of orders. The new priority is 9, before the other jobs of this priority."))
		Expect(check("cancel", url.Values{"all": {"1"}, "state": {"delayed"}, "reason": {"no paint"}})).To(ContainSubstring("Cancel 2 jobs of orders. The reason is “no paint”."))
		Expect(check("remove", url.Values{"all": {"1"}, "state": {"failed"}, "keep": {"1"}})).To(ContainSubstring("Remove 3 jobs of orders. Their children in a flow stay."))
		Expect(check("add", url.Values{"name": {"glue"}, "data": {"[1]"}, "delay": {"5m"}})).To(ContainSubstring("Add a job “glue” with 3 bytes of data and a delay of 5 m to orders."))
	})

	It("retry all failed jobs and promote all delayed ones, also the next ones of schedulers", func() {
		add(4, nil)
		s.fail("orders", 4)
		Expect(ask("retryall")).To(ContainSubstring("Move all 4 failed jobs of orders back to waiting."))
		Expect(do("retryall", url.Values{"state": {"failed"}, "clear": {"1"}})).To(ContainSubstring("4 jobs retried."))
		Expect(count(bullmq.StateWaiting)).To(Equal(4))
		job, err := orders.Job(ctx, "1")
		Expect(err).NotTo(HaveOccurred())
		Expect(job.AttemptsMade).To(Equal(0))
		Expect(do("retryall", url.Values{"state": {"delayed"}})).To(ContainSubstring("jobs are retried from failed or completed"))

		add(3, &bullmq.JobOptions{Delay: time.Hour})
		_, err = orders.UpsertScheduler(ctx, "hourly", bullmq.Repeat{Every: time.Hour}, &bullmq.JobTemplate{Name: "count"})
		Expect(err).NotTo(HaveOccurred())
		Expect(ask("promoteall")).To(MatchRegexp(`Make all \d delayed jobs of orders ready now\. The next jobs of 1 scheduler are among them\.`))
		Expect(do("promoteall", nil)).To(MatchRegexp(`\d jobs promoted\.`))
		Expect(count(bullmq.StateDelayed)).To(Equal(0))
	})

	It("drain it, with the delayed jobs or without", func() {
		add(3, nil)
		add(2, &bullmq.JobOptions{Priority: 1})
		add(4, &bullmq.JobOptions{Delay: time.Hour})
		Expect(ask("drain")).To(And(ContainSubstring("Remove the 5 jobs that wait in orders"), ContainSubstring("4 delayed jobs stay"), ContainSubstring("can’t be brought back")))
		Expect(do("drain", nil)).To(ContainSubstring("5 jobs removed."))
		Expect(count(bullmq.StateDelayed)).To(Equal(4))
		Expect(do("drain", url.Values{"delayed": {"1"}})).To(ContainSubstring("4 jobs removed."))
		Expect(orders.Count(ctx)).To(Equal(0))
	})

	It("clean the jobs of a state by age and number", func() {
		add(10, nil)
		s.fail("orders", 10)
		Expect(ask("clean")).To(ContainSubstring("Remove 0 completed jobs of orders, of any age. Now the queue has 10 failed jobs."))
		Expect(check("clean", url.Values{"state": {"failed"}})).To(ContainSubstring("Remove 10 failed jobs of orders, of any age."))
		Expect(check("clean", url.Values{"state": {"failed"}, "age": {"1h"}})).To(ContainSubstring("Remove 0 failed jobs of orders, older than 1 h."))
		hourAgo := fmt.Sprint(time.Now().Add(-time.Hour).UnixMilli())
		for _, id := range []string{"1", "2", "3"} {
			s.redisText("ZADD", "bull:orders:failed", "XX", hourAgo, id)
		}
		Expect(check("clean", url.Values{"state": {"failed"}, "age": {"30m"}})).To(ContainSubstring("Remove 3 failed jobs of orders, older than 30 m."))
		Expect(check("clean", url.Values{"state": {"failed"}, "age": {"30m"}, "limit": {"2"}})).To(ContainSubstring("Remove 2 failed jobs of orders, older than 30 m. It removes at most 2, the oldest first."))
		add(5, nil)
		_, err := orders.Add(ctx, "old", nil, &bullmq.JobOptions{Timestamp: time.Now().Add(-time.Hour)})
		Expect(err).NotTo(HaveOccurred())
		Expect(check("clean", url.Values{"state": {"waiting"}, "age": {"30m"}})).To(ContainSubstring("Remove 1 waiting job of orders, older than 30 m."))
		Expect(do("clean", url.Values{"state": {"failed"}, "age": {"2h"}})).To(ContainSubstring("0 failed jobs removed."))
		Expect(do("clean", url.Values{"state": {"failed"}, "limit": {"4"}})).To(ContainSubstring("4 failed jobs removed."))
		Expect(do("clean", url.Values{"state": {"failed"}})).To(ContainSubstring("6 failed jobs removed."))
		Expect(do("clean", url.Values{"state": {"done"}})).To(ContainSubstring("select one of the states"))
		Expect(do("clean", url.Values{"state": {"failed"}, "age": {"old"}})).To(ContainSubstring("is not a duration"))
	})

	It("obliterate it only behind its typed name, and not while jobs run", func() {
		add(2, nil)
		page := ask("obliterate")
		Expect(page).To(And(ContainSubstring("Remove the queue orders with its 2 jobs and 0 schedulers."), ContainSubstring("To confirm, type <b>orders</b>")))
		for _, typed := range []string{"", "order", "ORDERS", "orders "} {
			response, text := s.post("/queues/orders/actions/obliterate", url.Values{"confirm": {typed}, "force": {"1"}})
			Expect(response.StatusCode).To(Equal(400))
			Expect(text).To(ContainSubstring("type the name of the queue"))
		}
		Expect(orders.Count(ctx)).To(Equal(2))
		s.redisText("LMOVE", "bull:orders:wait", "bull:orders:active", "RIGHT", "LEFT")
		Expect(do("obliterate", url.Values{"confirm": {"orders"}})).To(ContainSubstring("nothing was removed, as the queue has 1 active job"))
		Expect(orders.IsPaused(ctx)).To(BeFalse(), "a refused action changes nothing")
		Expect(do("obliterate", url.Values{"confirm": {"orders"}, "force": {"1"}})).To(ContainSubstring("orders is removed."))
		Expect(s.redisText("EXISTS", "bull:orders:meta")).NotTo(ContainSubstring("1"))
		response, _ := s.get("/queues/orders")
		Expect(response.StatusCode).To(Equal(404))
	})

	It("find and remove orphaned jobs, and repair stranded ones", func() {
		add(2, nil)
		s.redisText("LREM", "bull:orders:wait", "1", "1")
		s.redisText("HSET", "bull:orders:99", "returnvalue", "1")
		Expect(ask("repair")).To(ContainSubstring("Make 1 stranded job of orders ready (1)."))
		Expect(do("repair", nil)).To(ContainSubstring("1 job repaired."))
		Expect(count(bullmq.StateWaiting)).To(Equal(2))
		Expect(ask("orphans")).To(ContainSubstring("Remove 1 orphaned job of orders (99)"))
		Expect(do("orphans", nil)).To(ContainSubstring("1 job removed."))
		Expect(s.redisText("EXISTS", "bull:orders:99")).NotTo(ContainSubstring("1"))
	})

	It("stop in time, tell how many jobs are left, and continue when repeated", func() {
		s = open(&dashboard.Options{Timeout: 60 * time.Millisecond})
		orders = s.queue("orders")
		Eventually(func() string {
			if count(bullmq.StateDelayed) < 10_000 { // a slow machine may have promoted them all in calls whose replies came too late
				for range 10 {
					add(5000, &bullmq.JobOptions{Delay: time.Hour})
				}
			}
			return do("promoteall", nil)
		}, "60s").Should(MatchRegexp(`jobs? promoted\. There was no time for [\d,]+ other jobs: repeat the action\.`))
		Eventually(func() string { return do("promoteall", nil) }, "60s").Should(MatchRegexp(`jobs? promoted\.<`))
		Expect(count(bullmq.StateDelayed)).To(Equal(0))
	})

	It("are audited when they succeed, fail and are refused, with what was asked for", func() {
		var records []string
		_, _ = orders, ctx
		s = open(&dashboard.Options{Audit: auditTo(&records)})
		s.queue("orders")
		do("pause", nil)
		do("concurrency", url.Values{"concurrency": {"x"}})
		do("obliterate", url.Values{"confirm": {"x"}})
		s.post("/queues/none/actions/pause", nil)
		s.post("/queues/orders/actions/remove", url.Values{"job": {"1", "2"}})
		Expect(records).To(HaveExactElements(
			"pause orders  [] orders is paused. <nil>",
			ContainSubstring("concurrency orders  []  the concurrency is"),
			ContainSubstring("obliterate orders  []  type the name"),
			ContainSubstring("pause none  []  there is no queue"),
			"remove orders  [1 2] 0 jobs removed. 2 jobs not removed. <nil>",
		))
	})

	DescribeTable("cleans the waiting jobs of a paused queue, as Node counts them", func(version string) {
		s := open(nil)
		node := s.node(version)
		for range 3 {
			node.do("add", map[string]any{"queue": "orders", "name": "paint", "data": 1})
		}
		node.do("pause", map[string]any{"queue": "orders"})
		_, text := s.get("/queues/orders/actions/clean?sent=1&state=waiting")
		Expect(text).To(ContainSubstring("Remove 3 waiting jobs of orders, of any age."))
		_, text = s.get("/queues/orders/actions/clean?sent=1&state=waiting&age=1h")
		Expect(text).To(ContainSubstring("Remove 0 waiting jobs of orders, older than 1 h"))
		_, text = s.post("/queues/orders/actions/clean", url.Values{"sent": {"1"}, "state": {"waiting"}, "limit": {"2"}})
		Expect(text).To(ContainSubstring("2 waiting jobs removed."))
		_, text = s.post("/queues/orders/actions/clean", url.Values{"sent": {"1"}, "state": {"waiting"}})
		Expect(text).To(ContainSubstring("1 waiting job removed."))
		for _, id := range []string{"1", "2", "3"} {
			Expect(string(node.do("state", map[string]any{"queue": "orders", "id": id}))).To(Equal(`"unknown"`))
		}
	},
		Entry("of bullmq 6", "6"),
		Entry("of bullmq 5", "5"),
	)
})

// auditTo collects records as texts.
func auditTo(records *[]string) func(*http.Request, dashboard.Record) {
	return func(_ *http.Request, r dashboard.Record) {
		*records = append(*records, fmt.Sprintf("%s %s %s %s %s %v", r.Action, r.Queue, r.Job, r.Jobs, r.Done, r.Err))
	}
}
