package dashboard_test

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// finishedJob stores a job that has finished at a time.
func (s *site) finishedJob(queue, id, name string, wait, run time.Duration, finished time.Time) {
	GinkgoHelper()
	ms := func(t time.Time) string { return fmt.Sprint(t.UnixMilli()) }
	s.redisText("HSET", "bull:"+queue+":"+id, "name", name, "data", "{}", "opts", "{}", "timestamp", ms(finished.Add(-run-wait)), "delay", "0",
		"processedOn", ms(finished.Add(-run)), "finishedOn", ms(finished), "atm", "1", "ats", "1", "returnvalue", "null")
	s.redisText("ZADD", "bull:"+queue+":completed", ms(finished), id)
}

// storeMetrics stores the counts of workers, of which the newest is of the minute before until.
func (s *site) storeMetrics(queue, state string, until time.Time, total, before int, points ...int) {
	GinkgoHelper()
	key := "bull:" + queue + ":metrics:" + state
	s.redisText("HSET", key, "count", fmt.Sprint(total), "prevTS", fmt.Sprint(until.UnixMilli()), "prevCount", fmt.Sprint(before))
	for _, n := range points {
		s.redisText("RPUSH", key+":data", fmt.Sprint(n))
	}
}

var _ = Describe("The metrics of a queue", func() {
	It("show percentiles of all durations in a minute and of all jobs with a name", func() {
		s := open(nil)
		s.queue("orders")
		minute := time.Now().Truncate(time.Minute).Add(-3 * time.Minute)
		for i := 1; i <= 100; i++ {
			s.finishedJob("orders", fmt.Sprint("a", i), "paint", time.Duration(i)*10*time.Millisecond, time.Duration(i)*time.Millisecond, minute.Add(time.Duration(i)*time.Millisecond))
		}
		s.finishedJob("orders", "b", "<b>sand</b>", 0, 90*time.Second, minute.Add(-10*time.Minute))
		s.finishedJob("orders", "c", "old", 0, time.Second, minute.Add(-5*time.Hour))
		text := s.page("/queues/orders/metrics")
		Expect(text).To(ContainSubstring("Of 101 finished jobs"))
		Expect(strings.Count(text, "<tr data-t=")).To(Equal(60))
		Expect(strings.Count(text, "data-partial")).To(Equal(1))
		figures := `<td class="number" data-of="wait" data-v="500">500 ms</td><td class="number" data-of="wait" data-v="950">950 ms</td><td class="number" data-of="wait" data-v="990">990 ms</td>` +
			`<td class="number" data-of="run" data-v="50">50 ms</td><td class="number" data-of="run" data-v="95">95 ms</td><td class="number" data-of="run" data-v="99">99 ms</td>`
		Expect(text).To(MatchRegexp(fmt.Sprintf(`(?s)<tr data-t="%d"><th scope="row">[^\n]*</th>\s*<td class="number">100</td>%s`, minute.Unix(), figures)))
		Expect(text).To(MatchRegexp(`<th scope="row">paint</th><td class="number">100</td><td class="number">0</td><td class="number">500 ms</td>`))
		Expect(text).To(MatchRegexp(`<th scope="row">&lt;b&gt;sand&lt;/b&gt;</th>.*>1.5 m</td>`))
		Expect(text).To(ContainSubstring("no worker stores metrics"))
		day := s.page("/queues/orders/metrics?range=24h")
		Expect(day).To(ContainSubstring("Of 102 finished jobs"))
		Expect(strings.Count(day, "<tr data-t=")).To(Equal(96))
		response, _ := s.get("/queues/orders/metrics?range=year")
		Expect(response.StatusCode).To(Equal(http.StatusBadRequest))
	})

	It("leave out the wait of jobs that were retried, and say so", func() {
		s := open(nil)
		s.queue("orders")
		minute := time.Now().Truncate(time.Minute).Add(-3 * time.Minute)
		for _, id := range []string{"a", "b", "c"} {
			s.finishedJob("orders", id, "paint", 500*time.Millisecond, 50*time.Millisecond, minute)
		}
		s.finishedJob("orders", "again", "paint", 20*time.Minute, 50*time.Millisecond, minute)
		s.redisText("HSET", "bull:orders:again", "atm", "2")
		text := s.page("/queues/orders/metrics")
		Expect(text).To(MatchRegexp(`<th scope="row">paint</th><td class="number">4</td><td class="number">0</td><td class="number">500 ms</td><td class="number">500 ms</td><td class="number">500 ms</td>`))
		Expect(text).To(ContainSubstring("The time from ready to start leaves out 1 job with more than one attempt"))
	})

	It("show the counts of workers in the minutes to which they belong, also of an idle queue", func() {
		s := open(nil)
		s.queue("orders")
		s.queue("mails")
		now := time.Now()
		until := now.Truncate(time.Minute).Add(-10*time.Minute + 5*time.Second)
		s.storeMetrics("orders", "completed", until, 17, 12, 7, 5)
		s.storeMetrics("orders", "failed", until, 1, 1, 1, 0)
		text := s.page("/queues/orders/metrics")
		for before, counts := range map[int][2]int{10: {5, 0}, 11: {7, 1}, 12: {5, 0}, 13: {0, 0}} {
			Expect(text).To(MatchRegexp(fmt.Sprintf(`<tr data-t="%d"><th scope="row">[^\n]*</th>\s*<td class="number" data-of="throughput" data-v="%d">%d</td><td class="number" data-of="throughput" data-v="%d">`,
				now.Truncate(time.Minute).Add(-time.Duration(before)*time.Minute).Unix(), counts[0], counts[0], counts[1])), fmt.Sprint(before))
		}
		Expect(text).To(ContainSubstring("There are no durations"))
		Expect(s.page("/")).To(ContainSubstring(`aria-label="12 completed and 1 failed, at most 8 in a minute"`))

		all := s.page("/metrics")
		Expect(all).To(ContainSubstring(`<a href="/queues/orders/metrics">orders</a></th><td class="number">12</td><td class="number">1</td><td class="number">7.7 %</td>`))
		Expect(all).NotTo(ContainSubstring("/queues/mails/metrics"))
		Expect(all).NotTo(ContainSubstring("data-partial"), "summaries have no figures of the present minute")
	})

	It("are read at most once in 10 seconds for all viewers", func() {
		s := open(nil)
		s.queue("orders")
		s.storeMetrics("orders", "completed", time.Now(), 5, 0)
		s.get("/queues/orders/metrics", asUpdate)
		before := s.calls("evalsha") + s.calls("evalsha_ro")
		for range 10 {
			_, text := s.get("/queues/orders/metrics", asUpdate)
			Expect(text).To(ContainSubstring(`data-v="5"`))
		}
		Expect(s.calls("evalsha") + s.calls("evalsha_ro")).To(Equal(before))
	})
})
