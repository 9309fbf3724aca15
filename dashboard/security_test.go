package dashboard_test

import (
	"context"
	"encoding/json"
	"errors"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/dashboard"
)

// header sets headers of a request.
func header(pairs ...string) func(*http.Request) {
	return func(r *http.Request) {
		for i := 0; i < len(pairs); i += 2 {
			r.Header.Del(pairs[i])
			if pairs[i+1] != "" {
				r.Header.Set(pairs[i], pairs[i+1])
			}
		}
	}
}

// send sends a request that no browser and no library has tidied.
func (s *site) send(method, path, body string, changes ...func(*http.Request)) (*http.Response, string) {
	GinkgoHelper()
	request, err := http.NewRequest(method, s.web.URL, strings.NewReader(body))
	Expect(err).NotTo(HaveOccurred())
	request.URL.Opaque = path
	for _, change := range changes {
		change(request)
	}
	client := *s.web.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := client.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return response, string(text)
}

var (
	foreignTag       = regexp.MustCompile(`(?i)^<(script|img|iframe|object|embed|base|svg:|math|style|xss)`)
	foreignAttribute = regexp.MustCompile(`(?i)\s(on\w+|style|srcdoc|xlink:href)\s*=`)
	ownAddress       = regexp.MustCompile(`^(/[^/\\]|/$|\?|#)`)
)

// tags are the elements of a page with their attributes, but without the values of these. Each is listed once.
// Patterns would take most of the time of the suite here, because a page has hundreds of elements.
func tags(page string) (all []string) {
	var bare strings.Builder // the page without what is in quotation marks
	for page != "" {
		before, after, found := strings.Cut(page, `"`)
		bare.WriteString(before)
		if _, rest, closed := strings.Cut(after, `"`); found && closed {
			bare.WriteString(`""`)
			page = rest
			continue
		}
		bare.WriteString(after)
		break
	}
	_, rest, _ := strings.Cut(bare.String(), "<")
	for part := range strings.SplitSeq(rest, "<") {
		if tag, _, _ := strings.Cut(part, ">"); tag != "" && tag[0] != '/' && tag[0] != '!' {
			all = append(all, "<"+tag)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// addresses are the values of attributes whose names end as one of these do.
func addresses(page string, names ...string) (all []string) {
	for before, rest, found := strings.Cut(page, `="`); found; before, rest, found = strings.Cut(rest, `="`) {
		if slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(before, name) }) {
			address, _, _ := strings.Cut(rest, `"`)
			all = append(all, html.UnescapeString(address))
		}
	}
	return all
}

// expectNoMarkup fails if a page has elements, attributes or addresses that are not the dashboard's own.
func expectNoMarkup(path, page, base string) {
	GinkgoHelper()
	Expect(utf8.ValidString(page)).To(BeTrue(), path)
	for _, tag := range tags(ownScripts.ReplaceAllString(page, "")) {
		Expect(foreignTag.MatchString(tag)).To(BeFalse(), "%s: %s", path, tag)
		Expect(foreignAttribute.MatchString(tag)).To(BeFalse(), "%s: %s", path, tag)
	}
	for _, at := range addresses(page, "href", "action", "src") {
		Expect(ownAddress.MatchString(at)).To(BeTrue(), "%s: %s", path, at)
		if base != "" && at[0] == '/' {
			Expect(at).To(HavePrefix(base), path)
		}
	}
}

var _ = Describe("An attacker", func() {
	ctx := context.Background()
	isPaused := func(queue *bullmq.Queue) bool {
		GinkgoHelper()
		paused, err := queue.IsPaused(ctx)
		Expect(err).NotTo(HaveOccurred())
		return paused
	}

	It("can't act by a page of another site, whatever the browser, the form and the content type", func() {
		s := open(nil)
		orders := s.queue("orders")
		page, api := "/queues/orders/actions/pause", "/api/v1/queues/orders/actions/pause"
		form, text, multipart, asJSON := "application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x", "application/json"
		for _, path := range []string{page, api} {
			for _, kind := range []string{form, text, multipart, asJSON, "", "application/json, text/plain", "application/x-www-form-urlencoded; charset=utf-7"} {
				for _, origin := range [][]string{
					{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "cross-site", "Origin", "null"},
					{"Origin", "https://evil.example"}, {"Origin", "null"}, {"Origin", "http://localhost:1"}, {"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"},
				} {
					response, _ := s.send("POST", path, "{}", header("Content-Type", kind), header(origin...))
					Expect(response.StatusCode).To(BeElementOf(403, 415), "%s %s %s", path, kind, origin)
				}
			}
		}
		for _, method := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "get", "POST "} {
			for _, path := range []string{page, api} {
				if method == "POST " {
					continue // no client sends it
				}
				s.send(method, path, "confirm=orders", header("Content-Type", form, "X-HTTP-Method-Override", "POST"))
			}
		}
		s.send("GET", page+"?once=1&sent=1&_method=POST", "")
		Expect(isPaused(orders)).To(BeFalse())
		response, _ := s.send("OPTIONS", api, "", header("Origin", "https://evil.example", "Access-Control-Request-Method", "POST"))
		Expect(response.Header).NotTo(HaveKey("Access-Control-Allow-Origin"))
	})

	It("can't make a browser read, or load expensive pages, from another site", func() {
		s := open(nil)
		s.queue("orders")
		for _, path := range []string{"/", "/queues/orders", "/queues/orders/actions/orphans", "/api/v1/queues", "/live", "/assets/style.css"} {
			for _, how := range [][]string{
				{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"},
				{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty", "Origin", "https://evil.example"},
				{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"},
			} {
				response, _ := s.send("GET", path, "", header(how...))
				Expect(response.StatusCode).To(Equal(403), "%s %s", path, how)
				Expect(response.Header.Get("Cross-Origin-Resource-Policy")).To(Equal("same-origin"))
				Expect(response.Header).NotTo(HaveKey("Access-Control-Allow-Origin"))
			}
		}
		response, _ := s.send("GET", "/queues/orders", "", header("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"))
		Expect(response.StatusCode).To(Equal(200), "a link in a chat opens the page")
	})

	It("can't bring markup or scripts into any page or JSON by any value in Redis", func() {
		for _, base := range []string{"", "/tools/queues"} {
			s := open(&dashboard.Options{Base: base})
			hostile := `"><img src=x onerror=alert(1)>'"<script>alert(1)</script>javascript:alert(1)//{{.}}` + "\u2028\u202e]]>"
			name := "q" + strings.ReplaceAll(hostile, ":", "")
			quoted, err := json.Marshal(hostile)
			Expect(err).NotTo(HaveOccurred())
			flows, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: s.connection})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(flows.Close)
			_, err = flows.Add(ctx, bullmq.Flow{Name: hostile, QueueName: name, Data: hostile, Options: &bullmq.JobOptions{JobID: "p" + strings.ReplaceAll(hostile, ":", "")}, Children: []bullmq.Flow{{Name: hostile, QueueName: name + "2", Data: hostile}}})
			Expect(err).NotTo(HaveOccurred())
			queue := s.queue(name)
			for _, state := range []string{"failed", "completed"} {
				id := state + strings.ReplaceAll(hostile, ":", "")
				s.redisText("HSET", "bull:"+name+":"+id, "name", hostile, "data", string(quoted), "opts", `{"x":`+string(quoted)+`,"deadLetter":{"queue":`+string(quoted)+`,"id":`+string(quoted)+`,"reason":`+string(quoted)+`}}`,
					"timestamp", "1700000000000", "processedOn", "1700000000000", "finishedOn", "1700000000000", "failedReason", hostile, "returnvalue", hostile, "progress", hostile, "stacktrace", `[`+string(quoted)+`]`,
					"pb", hostile, "parentKey", hostile, "parent", `{"id":`+string(quoted)+`,"queueKey":`+string(quoted)+`}`, "rjk", hostile, "deid", hostile, "atm", hostile, "delay", hostile, "priority", hostile)
				s.redisText("ZADD", "bull:"+name+":"+state, "1700000000000", id)
				s.redisText("RPUSH", "bull:"+name+":"+id+":logs", hostile)
			}
			_, err = queue.UpsertScheduler(ctx, "s"+hostile, bullmq.Repeat{Every: time.Hour}, &bullmq.JobTemplate{Name: hostile, Data: hostile})
			Expect(err).NotTo(HaveOccurred())
			s.redisText("HSET", "bull:"+name+":repeat:odd", "name", hostile, "pattern", hostile, "tz", hostile, "data", string(quoted), "opts", hostile)
			s.redisText("ZADD", "bull:"+name+":repeat", "1900000000000", "odd")
			running, stop := context.WithCancel(ctx)
			worker, err := bullmq.NewWorker(ctx, name+"2", func(context.Context, *bullmq.Job) (any, error) { return nil, errors.New(hostile) }, &bullmq.WorkerOptions{Connection: s.connection, Name: hostile})
			Expect(err).NotTo(HaveOccurred())
			ended := make(chan error, 1)
			go func() { ended <- worker.Run(running) }()
			DeferCleanup(func() { stop(); Expect(<-ended).To(Succeed()) })
			Eventually(func() string { return s.page(base + "/workers") }).Should(ContainSubstring("onerror"))

			seen, todo := map[string]bool{}, []string{base + "/"}
			add := func(path string) {
				if path, _, _ = strings.Cut(path, "#"); !seen[path] && strings.HasPrefix(path, "/") && len(seen) < 400 {
					seen[path] = true
					todo = append(todo, path)
				}
			}
			for _, field := range []string{"filter", "sort", "only", "group", "state", "name", "data", "error", "after", "job", "scheduler", "reason", "origin", "type", "from", "value", "jobid"} {
				query := "?" + url.Values{field: {hostile}, "sent": {"1"}}.Encode()
				for _, path := range []string{"/", "/queues/" + url.PathEscape(name), "/queues/" + url.PathEscape(name) + "/actions/add", "/queues/" + url.PathEscape(name) + "/actions/retry", "/queues/" + url.PathEscape(name) + "/dead-letters", "/none" + url.PathEscape(hostile)} {
					add(base + path + query)
				}
			}
			for len(todo) > 0 {
				path := todo[0]
				todo = todo[1:]
				response, page := s.get(path)
				Expect(response.StatusCode).To(BeNumerically("<", 500), "%s: %s", path, page)
				if !strings.HasPrefix(response.Header.Get("Content-Type"), "text/html") {
					continue
				}
				expectNoMarkup(path, page, base)
				for _, link := range addresses(page, "href") {
					add(link)
				}
			}
			Expect(len(seen)).To(BeNumerically(">", 100))

			for path := range map[string]bool{"/queues": true, "/workers": true, "/queues/" + url.PathEscape(name) + "/jobs": true, "/queues/" + url.PathEscape(name) + "/schedulers": true, "/queues/" + url.PathEscape(hostile): true} {
				response, text := s.get(base + "/api/v1" + path)
				Expect(response.Header.Get("Content-Type")).To(Equal("application/json"), path)
				Expect(response.Header.Get("X-Content-Type-Options")).To(Equal("nosniff"))
				Expect(json.Valid([]byte(text))).To(BeTrue(), path)
				Expect(text).NotTo(ContainSubstring("<"), path)
			}
		}
	})

	It("can't bring markup or scripts into the page of an action by what is sent to it", func() {
		s := open(nil)
		orders := s.queue("orders")
		_, err := orders.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		hostile := `"><img src=x onerror=alert(1)></textarea><script>alert(1)</script>`
		names := regexp.MustCompile(`"name":"(\w[\w-]*)","title"`).FindAllStringSubmatch(func() string { _, text := s.get("/api/v1/actions"); return text }(), -1)
		Expect(len(names)).To(BeNumerically(">", 15))
		for _, name := range names {
			for _, ask := range []string{"1", ""} {
				form := url.Values{"sent": {"1"}, "ask": {ask}, "job": {hostile, "1"}}
				for _, field := range []string{"name", "data", "value", "reason", "delay", "priority", "state", "max", "duration", "concurrency", "age", "limit", "confirm", "type", "jobid", "dedup", "scheduler", "origin", "after", "was", "once", "attempts", "backoff"} {
					form.Set(field, hostile)
				}
				response, page := s.post("/queues/orders/actions/"+name[1], form)
				Expect(response.StatusCode).To(BeNumerically("<", 500), name[1])
				expectNoMarkup(name[1], page, "")
			}
		}
	})

	It("can't make the dashboard redirect or link to another site", func() {
		for _, base := range []string{"", "/tools/queues"} {
			s := open(&dashboard.Options{Base: base})
			s.queue("orders")
			for _, path := range []string{
				"//evil.example", "//evil.example/", "//evil.example/%2e%2e", "///evil.example/..", "/\\evil.example/..", "/%5c%5cevil.example/../", "/%2f%2fevil.example", "/.//evil.example", "/queues//evil.example/..",
				"/queues/orders/..//evil.example", "/http://evil.example", "/queues/%0d%0aLocation:%20https:%2f%2fevil.example", "/%09/evil.example", "//evil.example/assets/../..",
			} {
				response, page := s.send("GET", base+path, "")
				if location := response.Header.Get("Location"); response.StatusCode >= 300 && response.StatusCode < 400 || location != "" {
					Expect(location).To(MatchRegexp(`^/([^/\\]|$)`), path)
				}
				if strings.HasPrefix(response.Header.Get("Content-Type"), "text/html") && strings.Contains(page, "<main") {
					expectNoMarkup(path, page, base)
				}
			}
			for _, parameter := range []string{"back", "next", "redirect", "return", "url", "Base"} {
				page := s.page(base + "/queues/orders/actions/pause?" + parameter + "=https://evil.example")
				Expect(page).NotTo(ContainSubstring("evil.example"))
			}
			page := s.page(base + "/queues/orders")
			response, forwarded := s.send("GET", base+"/queues/orders", "", header("X-Forwarded-Host", "evil.example", "X-Original-URL", "//evil.example", "X-Forwarded-Prefix", "//evil.example"))
			Expect(response.StatusCode).To(BeElementOf(200, 403))
			Expect(forwarded).NotTo(ContainSubstring("evil.example"))
			Expect(page).NotTo(ContainSubstring("evil.example"))
		}
		s := open(nil)
		for _, base := range []string{"//evil.example", "/a//b", "/..", "/a/../b", `/\evil`, "/%2e", "https://evil.example", "/a b", "/a\r\nb"} {
			_, err := dashboard.New(s.connection, &dashboard.Options{Base: base})
			Expect(err).To(HaveOccurred(), base)
		}
	})

	It("can't read files beside the assets, nor list them", func() {
		for _, base := range []string{"", "/q"} {
			s := open(&dashboard.Options{Base: base})
			for _, path := range []string{
				"/assets/", "/assets", "/assets/../dashboard.go", "/assets/%2e%2e/dashboard.go", "/assets/..%2fdashboard.go", "/assets/..%2f..%2fgo.mod", "/assets/..%5cdashboard.go", "/assets/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
				"/assets/....//dashboard.go", "/assets//etc/passwd", "/assets/%00", "/assets/style.css%00", "/assets/style.css/", "/assets/../templates/layout.gohtml", "/templates/layout.gohtml", "/assets/.", "/assets/%2e", "/assets/index.html", "/openapi.json",
			} {
				response, text := s.send("GET", base+path, "")
				Expect(response.StatusCode).NotTo(Equal(200), path)
				Expect(text).NotTo(ContainSubstring("package dashboard"), path)
				Expect(text).NotTo(ContainSubstring("style.css</a>"), path)
				Expect(text).NotTo(ContainSubstring("root:"), path)
			}
			response, _ := s.send("GET", base+"/assets/style.css", "")
			Expect(response.StatusCode).To(Equal(200))
		}
	})

	It("can't reach a dashboard without Authorize under a name that resolves to this machine", func() {
		s := open(nil)
		s.queue("orders")
		for _, host := range []string{"evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", "evil.localhost.example", "169.254.169.254", "0.0.0.0", "[::]", "[fe80::1]", "127.0.0.1@evil.example", "2130706433x", "localhost:80:evil.example"} {
			for _, path := range []string{"/", "/queues/orders", "/api/v1/queues", "/assets/style.css", "/live", "/none"} {
				response, text := s.get(path, func(r *http.Request) { r.Host = host })
				Expect(response.StatusCode).To(BeElementOf(400, 403), "%s %s", host, path)
				Expect(text).NotTo(ContainSubstring("orders"))
			}
			response, _ := s.post("/queues/orders/actions/pause", nil, func(r *http.Request) { r.Host = host })
			Expect(response.StatusCode).To(BeElementOf(400, 403))
		}
		Expect(isPaused(s.queue("orders"))).To(BeFalse())
	})

	It("gets nothing by any address without permission", func() {
		secret := "salaries-of-all"
		deny := errors.New("go away")
		for name, options := range map[string]*dashboard.Options{
			"Authorize": {Authorize: func(*http.Request) error { return deny }},
			"Access":    {Access: func(*http.Request, dashboard.Use) error { return deny }},
			"Access of the queue": {Access: func(_ *http.Request, use dashboard.Use) error {
				if use.Queue == secret {
					return deny
				}
				return nil
			}},
			"Queues": {Queues: []string{"orders"}},
		} {
			s := open(options)
			queue := s.queue(secret)
			_, err := queue.Add(ctx, "pay", "pay-73119", nil)
			Expect(err).NotTo(HaveOccurred())
			_, err = queue.UpsertScheduler(ctx, "monthly", bullmq.Repeat{Every: time.Hour}, &bullmq.JobTemplate{Name: "pay"})
			Expect(err).NotTo(HaveOccurred())
			pages, err := dashboard.New(s.connection, options)
			Expect(err).NotTo(HaveOccurred())
			tried := 0
			for _, pattern := range pages.Patterns() {
				method, path, _ := strings.Cut(pattern, " ")
				if strings.Contains(path, "/assets/") && name != "Authorize" {
					continue // they are the same for all
				}
				path = strings.NewReplacer("{queue}", secret, "{job}", "1", "{scheduler}", "monthly", "{part}", "data", "{action}", "pause", "{file}", "style.css", "{$}", "", "{letter}", "1").Replace(path)
				Expect(path).NotTo(ContainSubstring("{"), "this test knows all parts of paths")
				kind := "application/x-www-form-urlencoded"
				if strings.Contains(path, "/api/") {
					kind = "application/json"
				}
				if path == "/live" && name != "Authorize" && name != "Access" {
					path += "?queue=" + secret
				}
				response, text := s.send(method, path, "", header("Content-Type", kind, "Sec-Fetch-Site", "same-origin"))
				tried++
				hidden := name == "Authorize" || name == "Access" || strings.Contains(path, secret)
				if hidden && path != "/" || name == "Authorize" {
					Expect(response.StatusCode).To(BeElementOf(403, 404), "%s: %s", name, pattern)
				}
				Expect(text).NotTo(ContainSubstring("pay-73119"), "%s: %s", name, pattern)
				if name != "Queues" || response.StatusCode == 200 { // otherwise the reply repeats the address
					Expect(text).NotTo(ContainSubstring(secret), "%s: %s", name, pattern)
				}
			}
			Expect(tried).To(BeNumerically(">", 15))
			Expect(isPaused(queue)).To(BeFalse())
		}
	})

	It("can't get the job of another queue whose address looks the same", func() {
		s := open(nil)
		_, err := s.queue("a").Add(ctx, "mine", "mine", &bullmq.JobOptions{JobID: "b/jobs/c"})
		Expect(err).NotTo(HaveOccurred())
		_, err = s.queue("a/jobs/b").Add(ctx, "secret", "secret", &bullmq.JobOptions{JobID: "c"})
		Expect(err).NotTo(HaveOccurred())
		update := header("HX-Request", "true", "Sec-Fetch-Site", "same-origin")
		_, other := s.send("GET", "/queues/a%2Fjobs%2Fb/jobs/c", "", update)
		Expect(other).To(ContainSubstring("secret"))
		_, mine := s.send("GET", "/queues/a/jobs/b%2Fjobs%2Fc", "", update)
		Expect(mine).To(ContainSubstring("mine"))
		Expect(mine).NotTo(ContainSubstring("secret"), "viewers share a read only of the same address")
	})

	It("can't use up the streams of others, nor keep pages from being served", func() {
		s := open(&dashboard.Options{MaxStreams: 6, MaxStreamsPerUser: 3, User: func(r *http.Request) string { return r.Header.Get("X-Test-User") }})
		s.queue("orders")
		var open []*http.Response
		stream := func(user string) int {
			GinkgoHelper()
			request, err := http.NewRequest("GET", s.web.URL+"/live", nil)
			Expect(err).NotTo(HaveOccurred())
			request.Header.Set("X-Test-User", user)
			response, err := s.web.Client().Do(request)
			Expect(err).NotTo(HaveOccurred())
			if response.StatusCode != 200 {
				response.Body.Close()
			} else {
				open = append(open, response)
			}
			return response.StatusCode
		}
		DeferCleanup(func() {
			for _, response := range open {
				response.Body.Close()
			}
		})
		refused := 0
		for range 50 {
			if stream("mallory") != 200 {
				refused++
			}
		}
		Expect(refused).To(Equal(47))
		Expect(stream("alice")).To(Equal(200))
		s.page("/queues/orders")
		for _, response := range open {
			response.Body.Close()
		}
		open = nil
		Eventually(func() int { return stream("mallory") }).Should(Equal(200))
	})
})
