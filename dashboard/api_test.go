package dashboard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/dashboard"
)

// apiClient calls the JSON API, and checks each reply against the OpenAPI document.
type apiClient struct {
	*site
	base     string
	document map[string]any
	schemas  *jsonschema.Compiler
	called   map[string]bool // operations that have succeeded
}

func openAPI(options *dashboard.Options) *apiClient {
	GinkgoHelper()
	a := &apiClient{site: open(options), called: map[string]bool{}}
	if options != nil {
		a.base = options.Base
	}
	response, text := a.get(a.base + "/api/v1/openapi.json")
	Expect(response.StatusCode).To(Equal(200), text)
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	Expect(err).NotTo(HaveOccurred())
	a.document = document.(map[string]any)
	a.schemas = jsonschema.NewCompiler()
	a.schemas.DefaultDraft(jsonschema.Draft2020)
	Expect(a.schemas.AddResource("http://api/openapi.json", document)).To(Succeed())
	return a
}

// operation returns the path of the document that describes a path.
func (a *apiClient) operation(path string) string {
	path, _, _ = strings.Cut(strings.TrimPrefix(path, a.base+"/api/v1"), "?")
	if _, ok := a.document["paths"].(map[string]any)[path]; ok {
		return path
	}
	parts := strings.Split(path, "/")
	for described := range a.document["paths"].(map[string]any) {
		names := strings.Split(described, "/")
		if len(names) == len(parts) && !slices.ContainsFunc(names, func(name string) bool {
			part := parts[0]
			parts = append(parts[1:], part)
			return name != part && !strings.HasPrefix(name, "{")
		}) {
			return described
		}
		parts = strings.Split(path, "/")
	}
	return ""
}

// call sends a request, and returns the status and the reply.
func (a *apiClient) call(method, path string, body any, changes ...func(*http.Request)) (int, map[string]any) {
	GinkgoHelper()
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		Expect(err).NotTo(HaveOccurred())
		reader = bytes.NewReader(text)
	}
	path = a.base + path
	request, err := http.NewRequest(method, a.web.URL+path, reader)
	Expect(err).NotTo(HaveOccurred())
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	for _, change := range changes {
		change(request)
	}
	response, err := a.web.Client().Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	Expect(response.Header.Get("Content-Type")).To(Equal("application/json"), string(text))
	reply, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	Expect(err).NotTo(HaveOccurred())
	location := "http://api/openapi.json#/components/schemas/Error"
	if response.StatusCode == 200 {
		described := a.operation(path)
		Expect(described).NotTo(BeEmpty(), path)
		a.called[strings.ToLower(method)+" "+described] = true
		escaped := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(described)
		location = "http://api/openapi.json#/paths/" + escaped + "/" + strings.ToLower(method) + "/responses/200/content/application~1json/schema"
	}
	schema, err := a.schemas.Compile(location)
	Expect(err).NotTo(HaveOccurred())
	Expect(schema.Validate(reply)).To(Succeed(), string(text))
	var plain map[string]any
	Expect(json.Unmarshal(text, &plain)).To(Succeed())
	return response.StatusCode, plain
}

// code returns the code of an error.
func code(reply map[string]any) any {
	detail, _ := reply["error"].(map[string]any)
	return detail["code"]
}

var _ = Describe("The JSON API", func() {
	ctx := context.Background()

	It("reads queues, jobs, logs, schedulers and workers, and acts, with replies that fit its OpenAPI document", func() {
		a := openAPI(&dashboard.Options{Base: "/tools/queues"})
		orders := a.queue("orders")
		a.queue("mails")
		for i := range 3 {
			_, err := orders.Add(ctx, "paint", map[string]int{"order": i}, nil)
			Expect(err).NotTo(HaveOccurred())
		}
		a.fail("orders", 3)
		_, err := orders.AddJobLog(ctx, "1", "opens the bucket", nil)
		Expect(err).NotTo(HaveOccurred())
		_, err = orders.Add(ctx, "sand", []int{1}, &bullmq.JobOptions{Delay: time.Hour})
		Expect(err).NotTo(HaveOccurred())
		_, err = orders.UpsertScheduler(ctx, "hourly", bullmq.Repeat{Every: time.Hour}, &bullmq.JobTemplate{Name: "count"})
		Expect(err).NotTo(HaveOccurred())
		Expect(orders.SetGlobalRateLimit(ctx, bullmq.Limiter{Max: 5, Duration: time.Second})).To(Succeed())
		running, stop := context.WithCancel(ctx)
		worker, err := bullmq.NewWorker(ctx, "mails", func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, &bullmq.WorkerOptions{Connection: a.connection, Name: "painter"})
		Expect(err).NotTo(HaveOccurred())
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(running) }()
		DeferCleanup(func() { stop(); Expect(<-ended).To(Succeed()) })

		Eventually(func() int { _, reply := a.call("GET", "/api/v1/workers", nil); return len(reply["workers"].([]any)) }).Should(Equal(1))
		_, reply := a.call("GET", "/api/v1/queues", nil)
		Expect(reply["queues"]).To(ContainElement(And(HaveKeyWithValue("name", "orders"), HaveKeyWithValue("url", "/tools/queues/api/v1/queues/orders"))))
		_, reply = a.call("GET", "/api/v1/queues?filter=none", nil)
		Expect(reply["queues"]).To(BeEmpty())
		_, reply = a.call("GET", "/api/v1/queues/orders", nil)
		Expect(reply["counts"]).To(HaveKeyWithValue("failed", 3.0))
		Expect(reply["rateLimit"]).To(Equal(map[string]any{"max": 5.0, "duration": 1000.0}))

		_, reply = a.call("GET", "/api/v1/queues/orders/jobs?state=failed&limit=2&name=paint", nil)
		Expect(reply["jobs"]).To(HaveLen(2))
		_, reply = a.call("GET", "/api/v1/queues/orders/jobs?state=failed&limit=2&name=paint&after="+url.QueryEscape(reply["next"].(string)), nil)
		Expect(reply["jobs"]).To(HaveLen(1))
		Expect(reply["jobs"].([]any)[0]).To(HaveKeyWithValue("failedReason", "the bucket is empty"))
		_, reply = a.call("GET", "/api/v1/queues/orders/jobs/1", nil)
		Expect(reply["data"]).To(Equal(map[string]any{"order": 0.0}))
		Expect(reply["stacktrace"]).To(HaveLen(1))
		_, reply = a.call("GET", "/api/v1/queues/orders/jobs/1/logs", nil)
		Expect(reply["logs"]).To(Equal([]any{"opens the bucket"}))
		_, reply = a.call("GET", "/api/v1/queues/orders/schedulers", nil)
		Expect(reply["schedulers"]).To(HaveLen(1))
		_, text := a.get("/tools/queues/api/v1/queues/orders/jobs/1/values/data")
		Expect(text).To(Equal(`{"order":0}`))
		a.called["get /queues/{queue}/jobs/{job}/values/{part}"] = true
		_, reply = a.call("GET", "/api/v1/actions", nil)
		Expect(reply["actions"]).To(ContainElement(HaveKeyWithValue("name", "retry")))
		a.call("GET", "/api/v1/openapi.json", nil)
		for _, path := range []string{
			"/search?q=paint", "/routes", "/queues/orders/routes", "/metrics", "/queues/orders/metrics", "/server", "/schedulers", "/queues/orders/schedulers/hourly", "/queues/orders/jobs/1/flow",
		} {
			status, reply := a.call("GET", "/api/v1"+path, nil)
			Expect(status).To(Equal(200), "%s %v", path, reply)
		}
		a.called["get /queues/{queue}/schedulers/{scheduler}/values/{part}"] = true // see the spec of schedulers

		act := func(action string, body any) map[string]any {
			GinkgoHelper()
			status, reply := a.call("POST", "/api/v1/queues/orders/actions/"+action+"?plan=1", body)
			Expect(status).To(Equal(200), "%v", reply)
			Expect(reply["plan"]).NotTo(BeEmpty())
			status, reply = a.call("POST", "/api/v1/queues/orders/actions/"+action, body)
			Expect(status).To(Equal(200), "%v", reply)
			return reply
		}
		type object = map[string]any
		Expect(act("add", object{"name": "paint", "data": object{"order": 9}, "delay": "5m", "priority": 2, "jobid": "nine"})).To(HaveKeyWithValue("done", "Job nine was added to orders."))
		Expect(act("retry", object{"job": []any{"1", 2}, "clear": true})).To(HaveKeyWithValue("done", "2 jobs retried."))
		Expect(act("retry", object{"all": true, "state": "failed", "error": "BUCKET"})).To(HaveKeyWithValue("done", "1 job retried."))
		Expect(act("edit", object{"job": "1", "value": "text"})).To(HaveKeyWithValue("done", "The job has 6 bytes of data."))
		Expect(act("delay", object{"job": "nine", "delay": "1h"})).To(HaveKeyWithValue("done", "1 job delayed."))
		Expect(act("promote", object{"id": "n%69ne"})).To(HaveKeyWithValue("done", "1 job promoted."))
		Expect(act("priority", object{"job": "nine", "priority": 4, "lifo": false})).To(HaveKeyWithValue("done", "1 job changed."))
		Expect(act("duplicate", object{"job": "nine"})["links"]).To(HaveLen(1))
		Expect(act("cancel", object{"job": "nine", "reason": "no paint"})).To(HaveKeyWithValue("done", "1 job cancelled."))
		Expect(act("remove", object{"job": []any{"1", "none"}})["failed"]).To(ContainElement(HaveKeyWithValue("job", "none")))
		for _, action := range []string{"pause", "resume", "promoteall", "drain", "repair", "orphans"} {
			act(action, object{})
		}
		act("concurrency", object{"concurrency": 3})
		_, reply = a.call("GET", "/api/v1/queues/orders", nil)
		Expect(reply).To(HaveKeyWithValue("concurrency", 3.0))
		Expect(act("concurrency", object{"concurrency": 0})).To(HaveKeyWithValue("done", "No job of orders starts until the concurrency is changed or removed."))
		_, reply = a.call("GET", "/api/v1/queues/orders", nil)
		Expect(reply).To(HaveKeyWithValue("concurrency", 0.0))
		for _, none := range []any{nil, "none"} {
			Expect(act("concurrency", object{"concurrency": none})).To(HaveKeyWithValue("done", "orders has no global concurrency."))
		}
		_, reply = a.call("GET", "/api/v1/queues/orders", nil)
		Expect(reply).To(HaveKeyWithValue("concurrency", BeNil()))
		act("ratelimit", object{"max": 3, "duration": "1m"})
		act("retryall", object{"state": "failed"})
		act("clean", object{"state": "completed", "age": "1d", "limit": 10})
		act("remove-scheduler", object{"scheduler": "hourly"})
		act("obliterate", object{"confirm": "orders", "force": true})

		dead := a.queue("dead")
		_, err = a.queue("letters").Add(ctx, "send", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		a.fail("letters", 1)
		Expect(a.queue("letters").MoveFailed(ctx, "dead", nil)).To(HaveLen(1))
		_, reply = a.call("GET", "/api/v1/queues/dead/dead-letters", nil)
		Expect(reply["letters"]).To(HaveLen(1))
		Expect(reply["origins"]).To(HaveKeyWithValue("letters", 1.0))
		_, reply = a.call("POST", "/api/v1/queues/dead/actions/replay", object{"all": true})
		Expect(reply["done"]).To(Equal("1 dead letter replayed."))
		Expect(dead.Count(ctx)).To(Equal(0))

		for path, operations := range a.document["paths"].(map[string]any) {
			for method := range operations.(map[string]any) {
				if !a.called[method+" "+path] {
					Expect(method).To(Equal("post"), "each read that is described was called: %s", path)
					_, reply := a.call("POST", strings.ReplaceAll("/api/v1"+path, "{queue}", "mails")+"?plan=1", object{})
					Expect(reply).NotTo(BeEmpty())
				}
			}
		}
	})

	It("replies to each error with a stable code", func() {
		a := openAPI(&dashboard.Options{Timeout: 2 * time.Second})
		orders := a.queue("orders")
		for range 2 {
			_, err := orders.Add(ctx, "paint", nil, nil)
			Expect(err).NotTo(HaveOccurred())
		}
		type object = map[string]any
		plain := func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }
		cross := func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }
		for _, c := range []struct {
			method, path string
			body         any
			status       int
			code         string
			change       func(*http.Request)
		}{
			{"GET", "/api/v1/none", nil, 404, "not_found", nil},
			{"GET", "/api/", nil, 404, "not_found", nil},
			{"GET", "/api/v2/queues", nil, 404, "not_found", nil},
			{"POST", "/api/v1/queues", object{}, 405, "method_not_allowed", nil},
			{"DELETE", "/api/v1/queues/orders", nil, 405, "method_not_allowed", nil},
			{"GET", "/api/v1/queues/none", nil, 404, "not_found", nil},
			{"GET", "/api/v1/queues/orders/jobs/99", nil, 404, "not_found", nil},
			{"GET", "/api/v1/queues/orders/jobs/99/logs", nil, 404, "not_found", nil},
			{"GET", "/api/v1/queues/orders/jobs?state=done", nil, 400, "bad_request", nil},
			{"GET", "/api/v1/queues/orders/jobs?limit=100000", nil, 400, "bad_request", nil},
			{"GET", "/api/v1/queues/orders/jobs?after=x", nil, 400, "bad_request", nil},
			{"POST", "/api/v1/queues/orders/actions/none", object{}, 404, "not_found", nil},
			{"POST", "/api/v1/queues/none/actions/pause", object{}, 404, "not_found", nil},
			{"POST", "/api/v1/queues/orders/actions/pause", object{"job": "1"}, 400, "bad_request", nil},
			{"POST", "/api/v1/queues/orders/actions/retry", []int{1}, 400, "bad_request", nil},
			{"POST", "/api/v1/queues/orders/actions/retry", object{"job": object{}}, 400, "bad_request", nil},
			{"POST", "/api/v1/queues/orders/actions/retry", object{"job": []any{[]any{"1"}}}, 400, "bad_request", nil},
			{"POST", "/api/v1/queues/orders/actions/retry", object{"state": []any{"failed"}}, 400, "bad_request", nil},
			{"POST", "/api/v1/queues/orders/actions/retry", object{}, 400, "bad_request", nil},
			{"POST", "/api/v1/queues/orders/actions/retry", object{"job": "99"}, 404, "not_found", nil},
			{"POST", "/api/v1/queues/orders/actions/retry", object{"job": "1"}, 409, "conflict", nil},
			{"POST", "/api/v1/queues/orders/actions/obliterate", object{"confirm": "other"}, 400, "confirmation_required", nil},
			{"POST", "/api/v1/queues/orders/actions/add", object{"name": "x", "jobid": 17}, 422, "rejected", nil},
			{"POST", "/api/v1/queues/orders/actions/pause", object{}, 415, "unsupported_media_type", plain},
			{"POST", "/api/v1/queues/orders/actions/pause", object{}, 403, "cross_origin", cross},
			{"POST", "/api/v1/queues/orders/actions/add", object{"name": strings.Repeat("x", 5<<20)}, 413, "too_large", nil},
		} {
			var changes []func(*http.Request)
			if c.change != nil {
				changes = append(changes, c.change)
			}
			status, reply := a.call(c.method, c.path, c.body, changes...)
			Expect([]any{status, code(reply)}).To(Equal([]any{c.status, c.code}), "%s %s %v", c.method, c.path, reply)
		}
		a.redis.Kill()
		status, reply := a.call("GET", "/api/v1/queues/orders", nil)
		Expect(status).To(BeElementOf(503, 504))
		Expect(code(reply)).To(BeElementOf("unavailable", "timeout"))
	})

	It("obeys Authorize, Access, ReadOnly, Redact and Audit", func() {
		var records []string
		a := openAPI(&dashboard.Options{
			Access: func(_ *http.Request, use dashboard.Use) error {
				if use.Queue == "salaries" || use.Action == "drain" {
					return errors.New("not for you")
				}
				return nil
			},
			Redact: func(string, string, []byte) []byte { return []byte(`"hidden"`) },
			Audit:  auditTo(&records),
		})
		_, err := a.queue("orders").Add(ctx, "pay", "the secret", nil)
		Expect(err).NotTo(HaveOccurred())
		a.queue("salaries")
		_, reply := a.call("GET", "/api/v1/queues", nil)
		Expect(reply["queues"]).To(HaveLen(1))
		for _, path := range []string{"", "/jobs", "/jobs/1", "/jobs/1/logs", "/jobs/1/values/data", "/schedulers", "/schedulers/one", "/schedulers/one/values/data", "/jobs/1/flow", "/metrics", "/routes"} {
			hidden, hiddenReply := a.call("GET", "/api/v1/queues/salaries"+path, nil)
			Expect(hidden).To(Equal(403), path)
			Expect(code(hiddenReply)).To(Equal("forbidden"))
		}
		status, reply := a.call("POST", "/api/v1/queues/orders/actions/drain?plan=1", map[string]any{})
		Expect([]any{status, code(reply)}).To(Equal([]any{403, "forbidden"}))
		status, _ = a.call("POST", "/api/v1/queues/orders/actions/drain", map[string]any{})
		Expect(status).To(Equal(403))
		a.call("POST", "/api/v1/queues/orders/actions/pause", map[string]any{})
		Expect(records).To(Equal([]string{"drain orders  []  not for you", "pause orders  [] orders is paused. <nil>"}))
		_, reply = a.call("GET", "/api/v1/queues/orders/jobs", nil)
		Expect(reply["jobs"].([]any)[0]).To(HaveKeyWithValue("data", "hidden"))
		status, _ = a.call("GET", "/api/v1/queues/orders/jobs?data=secret", nil)
		Expect(status).To(Equal(400), "the number of matches would tell what the data contains")
		status, _ = a.call("POST", "/api/v1/queues/orders/actions/promote?plan=1", map[string]any{"all": true, "state": "waiting", "data": "secret"})
		Expect(status).To(Equal(400))
		_, reply = a.call("POST", "/api/v1/queues/orders/actions/edit?plan=1", map[string]any{"job": "1", "value": 1})
		Expect(reply["values"]).To(BeNil())

		reading := openAPI(&dashboard.Options{ReadOnly: true})
		reading.queue("orders")
		status, reply = reading.call("POST", "/api/v1/queues/orders/actions/pause", map[string]any{})
		Expect([]any{status, code(reply)}).To(Equal([]any{403, "read_only"}))
		_, reply = reading.call("GET", "/api/v1/actions", nil)
		Expect(reply["actions"]).To(BeEmpty())

		status, reply = reading.call("GET", "/api/v1/queues", nil, func(r *http.Request) { r.Host = "example.com" })
		Expect([]any{status, code(reply)}).To(Equal([]any{403, "forbidden"}))
	})

	It("shows hostile values as JSON strings, and cuts long and deep ones with a way to the whole", func() {
		a := openAPI(nil)
		orders := a.queue("orders")
		deep := strings.Repeat("[", 500) + strings.Repeat("]", 500)
		for id, data := range map[string]string{"a-plain": `{"a":1}`, "b-long": `"` + strings.Repeat("x", 3<<20) + `"`, "c-deep": deep, "d-broken": `{"a":` + "\xff"} {
			_, err := orders.Add(ctx, "</script>\u2028", json.RawMessage(`{}`), &bullmq.JobOptions{JobID: id})
			Expect(err).NotTo(HaveOccurred())
			a.redisText("HSET", "bull:orders:"+id, "data", data)
		}
		_, reply := a.call("GET", "/api/v1/queues/orders/jobs", nil)
		for _, item := range reply["jobs"].([]any) {
			job := item.(map[string]any)
			if job["id"] == "a-plain" {
				Expect(job["data"]).To(Equal(map[string]any{"a": 1.0}))
				continue
			}
			Expect(job["data"]).To(BeNil())
			whole := job["cut"].(map[string]any)["data"].(map[string]any)
			Expect(len(whole["text"].(string))).To(BeNumerically("<=", 1010))
			_, text := a.get(whole["url"].(string))
			Expect(text).To(HaveLen(int(whole["bytes"].(float64))))
		}
		_, text := a.get("/api/v1/queues/orders/jobs")
		Expect(text).NotTo(ContainSubstring("</script>"))
		Expect(len(text)).To(BeNumerically("<", 100_000))
	})

	It("does an action once for each Idempotency-Key", func() {
		a := openAPI(nil)
		orders := a.queue("orders")
		key := func(key string) func(*http.Request) {
			return func(r *http.Request) { r.Header.Set("Idempotency-Key", key) }
		}
		_, first := a.call("POST", "/api/v1/queues/orders/actions/add", map[string]any{"name": "paint"}, key("one"))
		_, second := a.call("POST", "/api/v1/queues/orders/actions/add", map[string]any{"name": "paint"}, key("one"))
		Expect(second).To(Equal(first))
		a.call("POST", "/api/v1/queues/orders/actions/add", map[string]any{"name": "paint"}, key("two"))
		Expect(orders.Count(ctx)).To(Equal(2))
		status, _ := a.call("POST", "/api/v1/queues/orders/actions/add", map[string]any{"name": "paint"}, key(strings.Repeat("k", 300)))
		Expect(status).To(Equal(400))
	})

	It("addresses jobs and queues whose names are parts of a path, or not UTF-8", func() {
		a := openAPI(nil)
		for _, name := range []string{"..", ".", "a/b", "\xff", "%2f", "~.", "x?y#z", "nul\x00"} {
			a.redisText("HSET", "bull:"+name+":meta", "version", "bullmq:6.7.0")
			a.redisText("HSET", "bull:"+name+":"+name, "name", "odd", "data", "1", "opts", "{}", "timestamp", "1700000000000", "delay", "0", "priority", "0")
			a.redisText("ZADD", "bull:"+name+":failed", "1700000000000", name)
		}
		_, reply := a.call("GET", "/api/v1/queues", nil)
		Expect(reply["queues"]).To(HaveLen(7), "one that is not UTF-8 is left out, as the SDK can't open it")
		for _, item := range reply["queues"].([]any) {
			address := item.(map[string]any)["url"].(string)
			_, jobs := a.call("GET", address+"/jobs", nil)
			Expect(jobs["jobs"]).To(HaveLen(1), "%s %v", address, jobs)
			_, job := a.call("GET", jobs["jobs"].([]any)[0].(map[string]any)["url"].(string), nil)
			Expect(job["name"]).To(Equal("odd"))
			status, done := a.call("POST", address+"/actions/remove", map[string]any{"id": strings.TrimPrefix(address[strings.LastIndex(address, "/")+1:], "~")})
			Expect(status).To(BeElementOf(200, 404), "%v", done)
		}
	})
})
