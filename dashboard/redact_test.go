package dashboard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/dashboard"
)

var _ = Describe("Redaction", func() {
	ctx := context.Background()
	type object = map[string]any
	// Both functions hide only what belongs to the queue payments, and leave other queues alone.
	hiding := func() *dashboard.Options {
		return &dashboard.Options{
			Redact: func(queue, job string, value []byte) []byte {
				if queue == "payments" {
					return []byte(strings.ReplaceAll(string(value), "sesame", "***"))
				}
				return value
			},
			RedactText: func(queue, job, text string) string {
				if queue == "payments" {
					return strings.ReplaceAll(text, "sesame", "***")
				}
				return text
			},
		}
	}

	// fill stores the secret in all that a program writes about a job.
	fill := func(s *site) {
		GinkgoHelper()
		payments := s.queue("payments")
		s.queue("orders")
		s.queue("letters")
		s.work("payments", func(ctx context.Context, job *bullmq.Job) (any, error) {
			if job.ID == "long" {
				return nil, errors.New("sesame " + strings.Repeat("x", 600))
			}
			Expect(job.UpdateProgress(ctx, object{"step": "sesame"})).To(Succeed())
			if job.ID == "good" {
				return "sesame", nil
			}
			return nil, errors.New("no sesame")
		}, bullmq.WorkerOptions{})
		_, err := payments.Add(ctx, "charge", "sesame", &bullmq.JobOptions{JobID: "dead"})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() ([]string, error) { return payments.MoveFailed(ctx, "letters", nil) }).Should(HaveLen(1))
		_, err = payments.Add(ctx, "charge", object{"password": "sesame"}, &bullmq.JobOptions{JobID: "bad"})
		Expect(err).NotTo(HaveOccurred())
		_, err = payments.Add(ctx, "good", "sesame", &bullmq.JobOptions{JobID: "good"})
		Expect(err).NotTo(HaveOccurred())
		for _, id := range []string{"bad", "good"} {
			_, err = payments.AddJobLog(ctx, id, "knows sesame", nil)
			Expect(err).NotTo(HaveOccurred())
		}
		producer, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: s.connection})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(producer.Close)
		_, err = producer.Add(ctx, bullmq.Flow{Name: "order", QueueName: "orders", Options: &bullmq.JobOptions{JobID: "parent"}, Children: []bullmq.Flow{
			{Name: "child", QueueName: "payments", Data: "sesame", Options: &bullmq.JobOptions{JobID: "child"}},
			{Name: "long", QueueName: "payments", Data: "sesame", Options: &bullmq.JobOptions{JobID: "long"}},
		}})
		Expect(err).NotTo(HaveOccurred())
		_, err = payments.UpsertScheduler(ctx, "hourly", bullmq.Repeat{Every: time.Hour, StartDate: time.Now().Add(time.Hour)}, &bullmq.JobTemplate{Name: "collect", Data: "sesame"})
		Expect(err).NotTo(HaveOccurred())
		scheduler, err := payments.Scheduler(ctx, "hourly")
		Expect(err).NotTo(HaveOccurred())
		run := fmt.Sprintf("repeat:hourly:%d", scheduler.Next.Add(-time.Hour).UnixMilli())
		s.redisText("HSET", "bull:payments:"+run, "name", "collect", "data", `"sesame"`, "opts", "{}", "timestamp", "1", "delay", "0", "failedReason", "sesame", "finishedOn", "2", "processedOn", "1")
		s.redisText("ZADD", "bull:payments:failed", "2", run)
		s.redisText("HSET", "bull:payments:repeat:hourly", "ic", "2")
		Eventually(func() int {
			counts, _ := payments.Counts(ctx, bullmq.StateFailed, bullmq.StateCompleted)
			return counts[bullmq.StateFailed]*10 + counts[bullmq.StateCompleted]
		}).Should(Equal(41))
	}

	// shows returns the patterns of the addresses whose replies contain a text.
	shows := func(s *site, pages *dashboard.Dashboard, text string) (patterns []string) {
		GinkgoHelper()
		jobs := map[string][]string{"payments": {"bad", "good", "child", "long"}, "orders": {"parent"}, "letters": {}}
		found, err := s.queue("letters").Search(ctx, bullmq.JobSearch{States: []bullmq.State{bullmq.StateWaiting}})
		Expect(err).NotTo(HaveOccurred())
		for _, job := range found.Jobs {
			jobs["letters"] = append(jobs["letters"], job.ID)
		}
		states := []string{"", "?state=failed", "?state=completed", "?state=waiting"}
		for _, pattern := range pages.Patterns() {
			path, reads := strings.CutPrefix(pattern, "GET ")
			if !reads || path == "/live" || strings.HasPrefix(path, "/assets/") {
				continue
			}
			paths := []string{}
			for queue, ids := range jobs {
				for _, id := range append(ids, "none") {
					for _, part := range []string{"data", "result", "progress", "options", "logs"} {
						for _, action := range []string{"edit", "retry", "duplicate", "replay", "remove"} {
							address := strings.NewReplacer("{$}", "", "{queue}", queue, "{job}", url.PathEscape(id), "{part}", part, "{scheduler}", "hourly", "{action}", action).Replace(path)
							if strings.Contains(path, "{action}") {
								address += "?id=" + url.QueryEscape(id)
							}
							paths = append(paths, address)
						}
					}
				}
			}
			slices.Sort(paths)
			for _, address := range slices.Compact(paths) {
				for _, state := range states {
					if strings.Contains(address, "?") && state != "" {
						continue
					}
					if _, body := s.get(address + state); strings.Contains(body, text) && !slices.Contains(patterns, path) {
						patterns = append(patterns, path)
					}
				}
			}
		}
		return patterns
	}

	It("hides data, results, progress, logs, errors, stack traces and reasons wherever they are shown", func() {
		s := open(hiding())
		fill(s)
		plain, err := dashboard.New(s.connection, nil)
		Expect(err).NotTo(HaveOccurred())
		open := &site{redis: s.redis, connection: s.connection, web: httptest.NewServer(plain)}
		DeferCleanup(open.web.Close)
		Expect(shows(open, plain, "sesame")).To(ConsistOf(
			"/queues/{queue}", "/queues/{queue}/jobs/{job}", "/queues/{queue}/jobs/{job}/flow", "/queues/{queue}/dead-letters", "/queues/{queue}/schedulers/{scheduler}",
			"/queues/{queue}/jobs/{job}/raw/{part}", "/queues/{queue}/schedulers/{scheduler}/raw/{part}", "/queues/{queue}/actions/{action}",
			"/api/v1/queues/{queue}/jobs", "/api/v1/queues/{queue}/jobs/{job}", "/api/v1/queues/{queue}/jobs/{job}/logs", "/api/v1/queues/{queue}/jobs/{job}/flow",
			"/api/v1/queues/{queue}/schedulers/{scheduler}", "/api/v1/queues/{queue}/dead-letters", "/api/v1/queues/{queue}/jobs/{job}/values/{part}",
			"/api/v1/queues/{queue}/schedulers/{scheduler}/values/{part}"), "without redaction these show the secret")
		Expect(shows(s, plain, "sesame")).To(BeEmpty())
		Expect(shows(s, plain, "***")).To(HaveLen(15), "the same places, except for the form that edits data, which begins empty")
		Expect(s.page("/queues/payments/jobs/bad")).To(And(ContainSubstring("knows ***"), ContainSubstring("no ***")))
		Expect(s.page("/queues/orders/jobs/parent/flow")).To(And(ContainSubstring("no ***"), ContainSubstring(`<span class="quiet">hidden</span>`)), "a reason that was not read whole is hidden")
	})

	It("sends no text of jobs with its streams", func() {
		s := open(hiding())
		s.queue("payments")
		reading, stop := context.WithCancel(ctx)
		DeferCleanup(stop)
		request, err := http.NewRequestWithContext(reading, http.MethodGet, s.web.URL+"/live?queue=payments", nil)
		Expect(err).NotTo(HaveOccurred())
		response, err := s.web.Client().Do(request)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(response.Body.Close)
		_, err = s.queue("payments").Add(ctx, "charge", "sesame", nil)
		Expect(err).NotTo(HaveOccurred())
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			Expect(lines.Text()).To(BeElementOf(": BullMQ", "", "event: change", "data:"))
			if lines.Text() == "data:" {
				return
			}
		}
		Fail("the stream has ended")
	})

	It("refuses to search, count and select by what is hidden", func() {
		s := open(hiding())
		fill(s)
		Expect(s.page("/queues/payments")).NotTo(Or(ContainSubstring("Error contains"), ContainSubstring("Data contains")))
		letters := s.page("/queues/letters/dead-letters")
		Expect(letters).To(And(ContainSubstring("1 dead letter"), ContainSubstring("By queue of the failed job"), Not(ContainSubstring("By reason"))))
		for _, path := range []string{
			"/queues/payments?error=ses", "/queues/payments?data=ses", "/queues/letters/dead-letters?reason=ses", "/queues/payments/actions/retry?all=1&state=failed&error=ses",
			"/queues/letters/actions/replay?reason=ses", "/api/v1/queues/payments/jobs?error=ses", "/api/v1/queues/letters/dead-letters?reason=ses",
		} {
			response, text := s.get(path)
			Expect(response.StatusCode).To(Equal(400), path)
			Expect(text).To(ContainSubstring("hidden"), path)
		}
		for path, body := range map[string]string{
			"payments/actions/retry?plan=1": `{"all":true,"state":"failed","error":"ses"}`, "letters/actions/replay?plan=1": `{"reason":"no sesame"}`,
			"payments/actions/edit": `{"job":"good","value":1,"was":"0123"}`,
		} {
			a := &apiClient{site: s}
			response, err := s.web.Client().Post(a.web.URL+"/api/v1/queues/"+path, "application/json", strings.NewReader(body))
			Expect(err).NotTo(HaveOccurred())
			Expect(response.Body.Close()).To(Succeed())
			Expect(response.StatusCode).To(Equal(400), path)
		}
		_, text := s.get("/api/v1/queues/letters/dead-letters")
		var reply object
		Expect(json.Unmarshal([]byte(text), &reply)).To(Succeed())
		Expect(reply).To(And(HaveKeyWithValue("total", 1.0), Not(HaveKey("reasons")), HaveKeyWithValue("letters", ConsistOf(HaveKeyWithValue("reason", "no ***")))))
	})

	It("leaves logs and errors as they are without RedactText", func() {
		s := open(&dashboard.Options{Redact: func(string, string, []byte) []byte { return []byte(`"***"`) }})
		fill(s)
		page := s.page("/queues/payments/jobs/bad")
		Expect(page).To(And(ContainSubstring("knows sesame"), ContainSubstring("no sesame"), ContainSubstring("***")))
		Expect(s.page("/queues/payments?state=failed&error=sesame")).To(ContainSubstring("no sesame"))
	})
})
