package dashboard_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/dashboard"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
)

// ownScripts are the elements of the dashboard's scripts.
var ownScripts = regexp.MustCompile(`<script src="[\w./-]*/assets/[\w.-]+"( defer)?></script>`)

var _ = Describe("The dashboard", func() {
	ctx := context.Background()

	It("lists queues with their counts, and shows their jobs", func() {
		s := open(&dashboard.Options{Base: "/queues-of/shop"})
		orders := s.queue("orders")
		for _, options := range []*bullmq.JobOptions{nil, nil, {Delay: time.Hour}, {Priority: 3}} {
			_, err := orders.Add(ctx, "paint", map[string]string{"color": "blue & <green>"}, options)
			Expect(err).NotTo(HaveOccurred())
		}
		s.queue("mails")
		Expect(s.queue("paused").Pause(ctx)).To(Succeed())

		overview := s.page("/queues-of/shop/")
		Expect(overview).To(ContainSubstring(`<a href="/queues-of/shop/queues/orders">orders</a>`))
		Expect(overview).To(ContainSubstring("no workers"))
		Expect(overview).To(MatchRegexp(`(?s)>paused</a> <span class="badge warn">paused</span>`))
		Expect(overview).To(ContainSubstring("3 queues"))
		filtered := s.page("/queues-of/shop/?filter=ORD")
		Expect(filtered).To(ContainSubstring("2 hidden"))
		Expect(filtered).NotTo(ContainSubstring("mails"))

		page := s.page("/queues-of/shop/queues/orders?state=waiting")
		Expect(page).To(ContainSubstring(`<a class="id" title="2" href="/queues-of/shop/queues/orders/jobs/2">2</a>`))
		Expect(page).To(ContainSubstring("blue &amp; &lt;green&gt;"))
		Expect(page).NotTo(ContainSubstring("jobs/3"))
		Expect(s.page("/queues-of/shop/queues/orders?state=waiting&data=red")).To(ContainSubstring("No job of this state matches"))
		Expect(s.page("/queues-of/shop/queues/orders?state=delayed&name=paint")).To(ContainSubstring("jobs/3"))

		job := s.page("/queues-of/shop/queues/orders/jobs/3")
		Expect(job).To(ContainSubstring(`<span class="badge">delayed</span>`))
		Expect(job).To(MatchRegexp("<b>due</b>"))
		response, raw := s.get("/queues-of/shop/queues/orders/jobs/3/raw/data")
		Expect(response.Header.Get("Content-Type")).To(HavePrefix("text/plain"))
		Expect(raw).To(Equal(`{"color":"blue & <green>"}`))
	})

	It("shows why a job has failed, its logs, and the worker", func() {
		s := open(nil)
		queue := s.queue("orders")
		_, err := queue.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		worker, err := bullmq.NewWorker(ctx, "orders", func(ctx context.Context, job *bullmq.Job) (any, error) {
			_, err := job.Log(ctx, "opens the <b>bucket</b>")
			return nil, errors.Join(err, errors.New("the bucket is empty"))
		}, &bullmq.WorkerOptions{Connection: s.connection, Name: "painter"})
		Expect(err).NotTo(HaveOccurred())
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(running) }()
		DeferCleanup(func() { stop(); Expect(<-ended).To(Succeed()) })
		Eventually(func() string { return s.page("/queues/orders?state=failed") }).Should(ContainSubstring("the bucket is empty"))
		Expect(s.page("/queues/orders")).To(ContainSubstring(`aria-current="page">failed`), "it begins with the failed jobs")
		job := s.page("/queues/orders/jobs/1")
		Expect(job).To(ContainSubstring("opens the &lt;b&gt;bucket&lt;/b&gt;"))
		Expect(job).To(ContainSubstring("Stack traces"))
		Expect(job).To(MatchRegexp(`<li class="bad">.*<b>failed</b>`))
		Eventually(func() string { return s.page("/workers") }).Should(ContainSubstring("painter"))
		Expect(s.page("/queues/orders")).NotTo(ContainSubstring("no workers"))
	})

	It("continues on the next page until all jobs were shown", func() {
		s := open(nil)
		queue := s.queue("orders")
		jobs := make([]bullmq.BulkJob, 130)
		for i := range jobs {
			jobs[i].Name = "paint & sand"
		}
		_, err := queue.AddBulk(ctx, jobs)
		Expect(err).NotTo(HaveOccurred())
		seen := map[string]bool{}
		path := "/queues/orders?state=waiting&name=" + url.QueryEscape("paint & sand")
		for pages := 1; path != ""; pages++ {
			Expect(pages).To(BeNumerically("<", 5))
			text := s.page(path)
			for _, job := range regexp.MustCompile(`jobs/(\d+)"`).FindAllStringSubmatch(text, -1) {
				Expect(seen).NotTo(HaveKey(job[1]))
				seen[job[1]] = true
			}
			path = ""
			if next := regexp.MustCompile(`rel="next" href="([^"]*)"`).FindStringSubmatch(text); next != nil {
				path = html.UnescapeString(next[1])
			}
		}
		Expect(seen).To(HaveLen(130))
	})

	DescribeTable("shows a queue that only Node uses, and its workers", func(version string) {
		s := open(nil)
		start := func(script string, arguments ...string) *nodeprocess.Process {
			GinkgoHelper()
			process, err := nodeprocess.Start(script, append([]string{"-redis", s.redis.Addr(), "-queue", "orders", "-bullmq", version}, arguments...)...)
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(process.Stop)
			return process
		}
		producer := start("producer.mjs", "-generate", "40")
		start("worker.mjs", "-name", "noddy", "-fail-every", "3")
		Eventually(producer.Lines(), "30s").Should(BeClosed())
		Eventually(func() string { return s.page("/queues/orders?state=failed") }, "30s").Should(ContainSubstring("of this worker fails"))
		Eventually(func() string { return s.page("/workers") }).Should(ContainSubstring("noddy"))
		overview := s.page("/")
		Expect(overview).To(ContainSubstring(`>orders</a>`))
		Expect(overview).To(ContainSubstring("1 queue<"))
		id := regexp.MustCompile(`/queues/orders/jobs/[^"]*`).FindString(s.page("/queues/orders?state=failed"))
		Expect(s.page(id)).To(ContainSubstring("Stack traces"))
	},
		Entry("bullmq 6", "6"),
		Entry("bullmq 5", "5"),
	)

	DescribeTable("shows hostile text as text", func(hostile string) {
		s := open(nil)
		name := "q" + strings.ReplaceAll(strings.ReplaceAll(hostile, ":", ""), "\x00", "")
		queue := s.queue(name)
		_, err := queue.Add(ctx, hostile, map[string]string{hostile: hostile}, &bullmq.JobOptions{JobID: "job-" + strings.ReplaceAll(hostile, ":", "")})
		Expect(err).NotTo(HaveOccurred())
		for _, path := range []string{"/", "/queues/" + url.PathEscape(name) + "?state=waiting", "/queues/" + url.PathEscape(name) + "/jobs/" + url.PathEscape("job-"+strings.ReplaceAll(hostile, ":", ""))} {
			text := ownScripts.ReplaceAllString(s.page(path), "")
			Expect(text).NotTo(ContainSubstring("<script"))
			Expect(regexp.MustCompile(`"[^"]*"`).ReplaceAllString(text, `""`)).NotTo(MatchRegexp(`<[^>]* on\w+=`))
			Expect(text).NotTo(ContainSubstring("javascript:"))
			Expect(strings.ToValidUTF8(text, "") == text).To(BeTrue())
		}
	},
		Entry("with markup", `"><script>alert(1)</script>`),
		Entry("with attributes", `" onmouseover="alert(1)" x="`),
		Entry("with a path", `../../etc/passwd?x#y%2f`),
		Entry("with a template", `{{.}}{{template "layout"}}`),
		Entry("in other scripts", "ünï😀\u202e\u0301"),
	)

	It("cuts long and deeply nested values, and serves the whole", func() {
		s := open(nil)
		queue := s.queue("orders")
		long := strings.Repeat("ü", 1_500_000)
		_, err := queue.Add(ctx, "long", long, nil)
		Expect(err).NotTo(HaveOccurred())
		_, err = queue.Add(ctx, "deep", []byte(strings.Repeat("[", 5000)+strings.Repeat("]", 5000)), nil)
		Expect(err).NotTo(HaveOccurred())
		text := s.page("/queues/orders/jobs/1")
		Expect(len(text)).To(BeNumerically("<", 100_000))
		Expect(text).To(ContainSubstring("The whole value"))
		_, raw := s.get("/queues/orders/jobs/1/raw/data")
		Expect(raw).To(HaveLen(3_000_002))
		Expect(len(s.page("/queues/orders/jobs/2"))).To(BeNumerically("<", 100_000))
		Expect(len(s.page("/queues/orders?state=waiting"))).To(BeNumerically("<", 100_000))
	})

	It("shows what Redact returns in place of data, result and progress", func() {
		s := open(&dashboard.Options{Redact: func(queue, job string, value []byte) []byte {
			return []byte(fmt.Sprintf(`"%s %s: %d bytes"`, queue, job, len(value)))
		}})
		_, err := s.queue("orders").Add(ctx, "paint", "the secret", nil)
		Expect(err).NotTo(HaveOccurred())
		for _, path := range []string{"/queues/orders?state=waiting", "/queues/orders/jobs/1", "/queues/orders/jobs/1/raw/data"} {
			_, text := s.get(path)
			Expect(text).To(ContainSubstring("orders paint: 12 bytes"))
			Expect(text).NotTo(ContainSubstring("the secret"))
		}
	})

	It("refuses requests from elsewhere, under another name or through a proxy, unless Authorize permits them", func() {
		s := open(nil)
		for name, change := range map[string]func(*http.Request){
			"another name": func(r *http.Request) { r.Host = "queues.example.com" },
			"a proxy":      func(r *http.Request) { r.Header.Set("X-Forwarded-For", "192.0.2.1") },
			"a proxy (2)":  func(r *http.Request) { r.Header.Set("Forwarded", "for=192.0.2.1") },
		} {
			response, text := s.get("/", change)
			Expect(response.StatusCode).To(Equal(http.StatusForbidden), name)
			Expect(text).To(ContainSubstring("Options.Authorize"))
		}
		for _, host := range []string{"localhost:99", "127.0.0.1", "[::1]:3000", "queues.localhost"} {
			response, _ := s.get("/", func(r *http.Request) { r.Host = host })
			Expect(response.StatusCode).To(Equal(http.StatusOK), host)
		}
		guarded := open(&dashboard.Options{Authorize: func(r *http.Request) error {
			if _, password, _ := r.BasicAuth(); password != "right" {
				return errors.New("ask the team for the password")
			}
			return nil
		}})
		response, text := guarded.get("/")
		Expect(response.StatusCode).To(Equal(http.StatusForbidden))
		Expect(text).To(ContainSubstring("ask the team"))
		response, _ = guarded.get("/assets/style.css")
		Expect(response.StatusCode).To(Equal(http.StatusForbidden))
		response, _ = guarded.get("/", func(r *http.Request) { r.Host = "queues.example.com"; r.SetBasicAuth("a", "right") })
		Expect(response.StatusCode).To(Equal(http.StatusOK))
	})

	It("sends strict security headers with every reply, and answers nothing but reads", func() {
		s := open(nil)
		for _, path := range []string{"/", "/workers", "/assets/style.css", "/none", "/queues/none"} {
			response, _ := s.get(path)
			Expect(response.Header.Get("Content-Security-Policy")).To(HavePrefix("default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'"))
			Expect(response.Header.Get("X-Content-Type-Options")).To(Equal("nosniff"))
			Expect(response.Header.Get("Cache-Control")).To(Equal("no-store"))
		}
		s.queue("orders")
		for _, path := range []string{"/", "/queues/orders", "/queues/orders/jobs/1"} {
			response, err := http.Post(s.web.URL+path, "text/plain", nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(response.Body.Close()).To(Succeed())
			Expect(response.StatusCode).To(Equal(http.StatusMethodNotAllowed))
		}
	})

	It("finds a queue without jobs as soon as a client has opened it", func() {
		s := open(nil)
		s.queue("orders")
		s.page("/")
		response, _ := s.get("/queues/mails")
		Expect(response.StatusCode).To(Equal(http.StatusNotFound))
		s.queue("mails")
		s.page("/queues/mails")
		s.page("/queues/mails/actions/pause")
	})

	It("has a page for everything that goes wrong", func() {
		s := open(&dashboard.Options{Queues: []string{"orders", "mails"}, Timeout: 2 * time.Second})
		s.queue("orders")
		s.queue("secret")
		for path, status := range map[string]int{
			"/queues/none": 404, "/queues/secret": 404, "/queues/secret/jobs/1": 404, "/queues/orders/jobs/17": 404, "/queues/orders/jobs/1/raw/data": 404,
			"/queues/orders?state=done": 400, "/queues/orders?after=nonsense": 400, "/queues/orders": 200,
		} {
			response, text := s.get(path)
			Expect(response.StatusCode).To(Equal(status), path)
			Expect(text).To(ContainSubstring("</html>"), path)
		}
		Expect(s.page("/")).NotTo(ContainSubstring("secret"))
		s.redis.Kill()
		response, text := s.get("/")
		Expect(response.StatusCode).To(BeElementOf(503, 504))
		Expect(text).To(ContainSubstring("</html>"))
		Expect(s.redis.Start()).To(Succeed())
		Eventually(func() int { response, _ := s.get("/"); return response.StatusCode }).Should(Equal(200))
	})

	It("changes nothing in Redis", func() {
		s := open(nil)
		queue := s.queue("orders")
		_, err := queue.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		writes := func() int {
			info := s.redisText("INFO", "persistence")
			changes := regexp.MustCompile(`rdb_changes_since_last_save:(\d+)`).FindStringSubmatch(info)
			n, err := strconv.Atoi(changes[1])
			Expect(err).NotTo(HaveOccurred())
			return n
		}
		before := writes()
		for _, path := range []string{"/", "/queues/orders", "/queues/orders/jobs/1", "/workers", "/queues/orders?state=failed&data=x"} {
			s.page(path)
		}
		Expect(writes()).To(Equal(before))
	})

	It("shows 500 queues and a queue of many jobs with at most 300 commands a page", func() {
		s := open(nil)
		for i := range 500 {
			s.redisText("HSET", fmt.Sprintf("bull:queue-%d:meta", i), "version", "bullmq:6.7.0")
		}
		queue := s.queue("large")
		for range 20 {
			_, err := queue.AddBulk(ctx, make([]bullmq.BulkJob, 5000))
			Expect(err).NotTo(HaveOccurred())
		}
		s.page("/") // the first one scans the keys
		for _, path := range []string{"/", "/queues/large?state=waiting"} {
			before := s.commands()
			s.page(path)
			Expect(s.commands()-before).To(BeNumerically("<=", 300), path)
		}
	})

	It("is refused with what is wrong", func() {
		s := open(nil)
		for text, options := range map[string]*dashboard.Options{
			`Options.Base "queues"`: {Base: "queues"}, `Options.Base "/queues/"`: {Base: "/queues/"}, `Options.Base "/{x}"`: {Base: "/{x}"},
			"Options.Timeout -1s": {Timeout: -time.Second},
		} {
			_, err := dashboard.New(s.connection, options)
			Expect(err).To(MatchError(ContainSubstring(text)))
		}
		_, err := dashboard.New(nil, nil)
		Expect(err).To(MatchError(ContainSubstring("there is no Connection")))
	})
})
