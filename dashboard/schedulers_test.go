package dashboard_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/dashboard"
)

var _ = Describe("The pages of schedulers", func() {
	ctx := context.Background()

	timesOf := func(page string) (times []time.Time) {
		GinkgoHelper()
		list := regexp.MustCompile(`(?s)<ol class="times">(.*?)</ol>`).FindStringSubmatch(page)
		Expect(list).NotTo(BeNil())
		for _, found := range regexp.MustCompile(`datetime="([^"]*)"`).FindAllStringSubmatch(list[1], -1) {
			at, err := time.Parse(time.RFC3339, found[1])
			Expect(err).NotTo(HaveOccurred())
			times = append(times, at)
		}
		return times
	}

	It("list the schedulers of all queues in words, the next one first", func() {
		s := open(nil)
		s.queue("empty")
		_, err := s.queue("mails").UpsertScheduler(ctx, "digest", bullmq.Repeat{Every: 90 * time.Minute, Limit: 5, StartDate: time.Now().Add(time.Hour)}, nil)
		Expect(err).NotTo(HaveOccurred())
		_, err = s.queue("orders").UpsertScheduler(ctx, "nightly", bullmq.Repeat{Pattern: "0 30 3 * * 1-5", TimeZone: "Europe/Paris", StartDate: time.Now().Add(24 * time.Hour)}, &bullmq.JobTemplate{Name: "close", Data: map[string]string{"mode": "<full>"}})
		Expect(err).NotTo(HaveOccurred())
		page := s.page("/schedulers")
		Expect(page).To(ContainSubstring("2 schedulers of 2 queues"))
		Expect(page).To(ContainSubstring("every 90 minutes, at most 5 times"))
		Expect(page).To(ContainSubstring("Monday to Friday at 03:30, Europe/Paris time"))
		Expect(page).To(MatchRegexp(`(?s)digest.*nightly`))
		Expect(s.page("/queues/orders")).To(ContainSubstring(`<a href="/queues/orders/schedulers">Schedulers</a>`))
		Expect(s.page("/queues/orders/schedulers")).NotTo(ContainSubstring("digest"))
		one := s.page("/queues/orders/schedulers/nightly")
		Expect(one).To(ContainSubstring("&lt;full&gt;"))
		times := timesOf(one)
		Expect(times).To(HaveLen(10))
		paris, err := time.LoadLocation("Europe/Paris")
		Expect(err).NotTo(HaveOccurred())
		for _, at := range times {
			Expect(at.In(paris).Format("15:04")).To(Equal("03:30"))
			Expect(at.In(paris).Weekday()).NotTo(BeElementOf(time.Saturday, time.Sunday))
		}
		response, _ := s.get("/queues/orders/schedulers/none")
		Expect(response.StatusCode).To(Equal(http.StatusNotFound))
	})

	DescribeTable("show the times at which a worker then runs the jobs", func(repeat bullmq.Repeat) {
		s := open(nil)
		queue := s.queue("orders")
		_, err := queue.UpsertScheduler(ctx, "often", repeat, nil)
		Expect(err).NotTo(HaveOccurred())
		predicted := timesOf(s.page("/queues/orders/schedulers/often"))
		Expect(predicted).NotTo(BeEmpty())
		worker, err := bullmq.NewWorker(ctx, "orders", func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, &bullmq.WorkerOptions{Connection: s.connection, Concurrency: 10})
		Expect(err).NotTo(HaveOccurred())
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(running) }()
		DeferCleanup(func() { stop(); Expect(<-ended).To(Succeed()) })
		for _, at := range predicted[:min(len(predicted), 3)] {
			id := fmt.Sprintf("repeat:often:%d", at.UnixMilli())
			Eventually(func() error { _, err := queue.Job(ctx, id); return err }, "20s", "20ms").Should(Succeed(), id)
		}
		Eventually(func() string { return s.page("/queues/orders/schedulers/often") }).Should(MatchRegexp(`(?s)Last runs.*>completed<`))
	},
		Entry("with a pattern with seconds", bullmq.Repeat{Pattern: "*/2 * * * * *", TimeZone: "UTC"}),
		Entry("with an interval", bullmq.Repeat{Every: 1500 * time.Millisecond}),
		Entry("with an interval and an offset", bullmq.Repeat{Every: 2 * time.Second, Offset: 300 * time.Millisecond}),
		Entry("with a limit", bullmq.Repeat{Every: time.Second, Limit: 3}),
	)

	It("show when a scheduler ends, stands still, or is overdue", func() {
		s := open(&dashboard.Options{Now: func() time.Time { return time.Now().Add(time.Minute) }})
		queue := s.queue("orders")
		for id, repeat := range map[string]bullmq.Repeat{
			"limited": {Every: time.Hour, Limit: 3}, "ends": {Pattern: "0 0 1 1 *", TimeZone: "UTC", EndDate: time.Date(time.Now().Year()+3, 6, 1, 0, 0, 0, 0, time.UTC)},
			"still": {Every: time.Hour, StartDate: time.Now().Add(time.Hour)}, "local": {Pattern: "H 3 * * *"},
		} {
			_, err := queue.UpsertScheduler(ctx, id, repeat, nil)
			Expect(err).NotTo(HaveOccurred())
		}
		limited := s.page("/queues/orders/schedulers/limited")
		Expect(timesOf(limited)).To(HaveLen(3))
		Expect(limited).To(ContainSubstring("The scheduler then ends."))
		Expect(limited).To(ContainSubstring("overdue"))
		ends := s.page("/queues/orders/schedulers/ends")
		Expect(len(timesOf(ends))).To(BeElementOf(2, 3))
		Expect(ends).To(ContainSubstring("The scheduler then ends."))
		local := s.page("/queues/orders/schedulers/local")
		Expect(local).To(ContainSubstring("each worker uses its own"))
		Expect(local).To(ContainSubstring("Only the next run is certain"))
		still, err := queue.Scheduler(ctx, "still")
		Expect(err).NotTo(HaveOccurred())
		s.redisText("DEL", fmt.Sprintf("bull:orders:repeat:still:%d", still.Next.UnixMilli()))
		Expect(s.page("/queues/orders/schedulers/still")).To(ContainSubstring("stands still"))
	})

	DescribeTable("show and remove the schedulers of a queue that only Node uses", func(version string) {
		s := open(nil)
		node := s.node(version)
		node.do("upsertScheduler", map[string]any{"queue": "orders", "id": "every-five", "repeat": map[string]any{"every": 300_000}, "template": map[string]any{"name": "sweep", "data": map[string]any{"a": 1}}})
		node.do("upsertScheduler", map[string]any{"queue": "orders", "id": "quarter", "repeat": map[string]any{"pattern": "*/15 * * * *", "tz": "UTC", "limit": 2}})
		page := s.page("/schedulers")
		Expect(page).To(ContainSubstring("every 5 minutes"))
		Expect(page).To(ContainSubstring("every 15 minutes, UTC time, at most 2 times"))
		Expect(page).To(ContainSubstring("sweep"))
		Expect(timesOf(s.page("/queues/orders/schedulers/every-five"))).To(HaveLen(10))
		Expect(timesOf(s.page("/queues/orders/schedulers/quarter"))).To(HaveLen(2))

		Expect(s.page("/queues/orders/schedulers/quarter")).To(ContainSubstring("actions/remove-scheduler?scheduler=quarter"))
		Expect(s.page("/queues/orders/actions/remove-scheduler?scheduler=quarter")).To(ContainSubstring("comes back when a program upserts it"))
		_, text := s.post("/queues/orders/actions/remove-scheduler", url.Values{"scheduler": {"quarter"}})
		Expect(text).To(ContainSubstring("The scheduler quarter of orders was removed."))
		Expect(s.page("/schedulers")).NotTo(ContainSubstring("quarter"))
		response, _ := s.post("/queues/orders/actions/remove-scheduler", url.Values{"scheduler": {"quarter"}})
		Expect(response.StatusCode).To(Equal(http.StatusNotFound))
		response, _ = s.post("/queues/orders/actions/remove-scheduler", nil)
		Expect(response.StatusCode).To(Equal(http.StatusBadRequest))
	},
		Entry("bullmq 6", "6"),
		Entry("bullmq 5", "5"),
	)

	It("run a scheduler at once, pause it and resume it", func() {
		s := open(nil)
		queue := s.queue("orders")
		_, err := queue.UpsertScheduler(ctx, "hourly", bullmq.Repeat{Every: time.Hour, StartDate: time.Now().Add(time.Hour)}, &bullmq.JobTemplate{Name: "sweep"})
		Expect(err).NotTo(HaveOccurred())
		page := s.page("/queues/orders/schedulers/hourly")
		Expect(page).To(ContainSubstring("actions/pause-scheduler?scheduler=hourly"))
		Expect(page).NotTo(ContainSubstring("actions/resume-scheduler"))
		_, text := s.post("/queues/orders/actions/run-scheduler", url.Values{"scheduler": {"hourly"}})
		Expect(text).To(ContainSubstring("A job of the scheduler hourly of orders was added."))
		Expect(queue.Counts(ctx, bullmq.StateWaiting, bullmq.StateDelayed)).To(Equal(map[bullmq.State]int{bullmq.StateWaiting: 1, bullmq.StateDelayed: 1}))

		Expect(s.page("/queues/orders/actions/pause-scheduler?scheduler=hourly")).To(ContainSubstring("ends the pause"))
		s.post("/queues/orders/actions/pause-scheduler", url.Values{"scheduler": {"hourly"}})
		Expect(queue.CountSchedulers(ctx)).To(BeZero())
		Expect(s.page("/queues/orders/schedulers")).To(MatchRegexp(`hourly</a> <span class="badge warn">paused`))
		page = s.page("/queues/orders/schedulers/hourly")
		Expect(page).To(ContainSubstring("It is paused since"))
		Expect(page).To(ContainSubstring("actions/resume-scheduler?scheduler=hourly"))
		Expect(page).NotTo(ContainSubstring("actions/pause-scheduler"))
		Expect(page).NotTo(ContainSubstring("Next times"))
		s.post("/queues/orders/actions/resume-scheduler", url.Values{"scheduler": {"hourly"}})
		Expect(queue.CountSchedulers(ctx)).To(Equal(1))
		Expect(timesOf(s.page("/queues/orders/schedulers/hourly"))).To(HaveLen(10))
	})

	It("list a queue whose schedulers are all paused, and paused schedulers page by page", func() {
		s := open(nil)
		_, err := s.queue("orders").UpsertScheduler(ctx, "hourly", bullmq.Repeat{Every: time.Hour}, nil)
		Expect(err).NotTo(HaveOccurred())
		queue := s.queue("mails")
		for i := range 60 {
			id := fmt.Sprintf("digest-%02d", i)
			_, err := queue.UpsertScheduler(ctx, id, bullmq.Repeat{Every: time.Hour, StartDate: time.Now().Add(time.Hour)}, nil)
			Expect(err).NotTo(HaveOccurred())
			if i > 2 {
				Expect(queue.PauseScheduler(ctx, id)).To(Succeed())
			}
		}
		page := s.page("/queues/mails/schedulers")
		Expect(page).To(ContainSubstring("60 schedulers, 57 paused"))
		next := regexp.MustCompile(`rel="next" href="([^"]*)"`).FindStringSubmatch(page)
		Expect(next).NotTo(BeNil())
		rest := s.page(next[1])
		Expect(strings.Count(page, `<th scope="row">`) + strings.Count(rest, `<th scope="row">`)).To(Equal(60))
		Expect(rest).To(ContainSubstring("digest-59"))

		for i := range 3 {
			Expect(queue.PauseScheduler(ctx, fmt.Sprintf("digest-%02d", i))).To(Succeed())
		}
		page = s.page("/schedulers")
		Expect(page).To(ContainSubstring("61 schedulers of 2 queues, 60 paused"))
		Expect(page).To(MatchRegexp(`digest-00</a> <span class="badge warn">paused`))
	})

	It("shows broken schedulers, and changes nothing in Redis", func() {
		s := open(nil)
		queue := s.queue("orders")
		_, err := queue.UpsertScheduler(ctx, "good", bullmq.Repeat{Every: time.Hour}, nil)
		Expect(err).NotTo(HaveOccurred())
		s.redisText("ZADD", "bull:orders:repeat", "1", "without a record")
		s.redisText("ZADD", "bull:orders:repeat", "2", "old::::0 0 * * *")
		s.redisText("ZADD", "bull:orders:repeat", "3", `<script>alert("x")</script>`)
		s.redisText("HSET", `bull:orders:repeat:<script>alert("x")</script>`, "name", `<script>`, "pattern", "99 <script>", "tz", "<script>", "every", "x")
		page := s.page("/schedulers")
		Expect(page).To(ContainSubstring("4 schedulers"))
		Expect(page).To(ContainSubstring("a pattern that can’t be read"))
		Expect(page).NotTo(ContainSubstring("<script>"))
		for _, id := range []string{"old::::0 0 * * *", `<script>alert("x")</script>`} {
			response, text := s.get("/queues/orders/schedulers/" + url.PathEscape(id))
			Expect(response.StatusCode).To(BeElementOf(http.StatusOK, http.StatusNotFound))
			Expect(text).NotTo(ContainSubstring("<script>alert"))
		}
		Expect(queue.CountSchedulers(ctx)).To(Equal(4))
	})

	It("reads pages of many schedulers with at most 300 commands, and leaves out queues that the reader may not see", func() {
		s := open(&dashboard.Options{Access: func(_ *http.Request, use dashboard.Use) error {
			if use.Queue == "secret" {
				return errors.New("no")
			}
			return nil
		}})
		for i := range 60 {
			queue := s.queue(fmt.Sprintf("queue-%02d", i))
			for j := range 3 {
				_, err := queue.UpsertScheduler(ctx, fmt.Sprintf("scheduler-%d", j), bullmq.Repeat{Every: time.Hour}, nil)
				Expect(err).NotTo(HaveOccurred())
			}
		}
		_, err := s.queue("secret").UpsertScheduler(ctx, "s", bullmq.Repeat{Every: time.Hour}, nil)
		Expect(err).NotTo(HaveOccurred())
		s.page("/")
		before := s.commands()
		seen := map[string]bool{}
		for path, pages := "/schedulers", 0; path != ""; pages++ {
			Expect(pages).To(BeNumerically("<", 10))
			page := s.page(path)
			for _, found := range regexp.MustCompile(`href="(/queues/[^"]*/schedulers/[^"]*)"`).FindAllStringSubmatch(page, -1) {
				Expect(seen).NotTo(HaveKey(found[1]))
				seen[found[1]] = true
			}
			path = ""
			if next := regexp.MustCompile(`rel="next" href="([^"]*)"`).FindStringSubmatch(page); next != nil {
				path = next[1]
			}
			Expect(page).NotTo(ContainSubstring("secret"))
			Expect(s.commands() - before).To(BeNumerically("<=", 300))
			before = s.commands()
		}
		Expect(seen).To(HaveLen(180))
	})
})
