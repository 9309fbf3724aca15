package bullmqhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
)

// jobWith returns a job with data, for a handler that is called without a worker.
func jobWith(data string) *bullmq.Job { return &bullmq.Job{ID: "1", Data: json.RawMessage(data)} }

// serveOnce runs a handler for a job with data and returns the stored response.
func serveOnce(data string, handler http.HandlerFunc, options ...bullmqhttp.ServeOptions) (string, error) {
	value, err := bullmqhttp.Serve(handler, options...)(context.Background(), jobWith(data))
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(value)
	Expect(err).NotTo(HaveOccurred())
	return string(text), nil
}

const getData = `{"method":"GET","path":"/a"}`

var _ = Describe("A handler made by Serve", func() {
	It("gets the request as the client sent it", func() {
		s := start(&bullmqhttp.Options{Headers: []string{"x-tenant"}, Carry: func(*http.Request) (any, error) { return "carried", nil }},
			bullmqhttp.Route{}, nil)
		type seen struct {
			method, uri, pattern, id, query, language, kind, body, carry string
			tenants                                                      []string
			authorization, cookie                                        bool
		}
		requests := make(chan seen, 1)
		s.work(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			requests <- seen{
				r.Method, r.URL.EscapedPath(), r.Pattern, r.PathValue("id"), r.URL.Query().Get("q"), r.Header.Get("Accept-Language"),
				r.Header.Get("Content-Type"), string(body), string(bullmqhttp.RequestFromContext(r.Context()).Carry), r.Header["X-Tenant"],
				r.Header.Get("Authorization") != "", r.Header.Get("Cookie") != "",
			}
		})
		a := s.do("POST", "/reports/a%2Fb?q=%C3%A9&q=2", `{ "a": 1 }`, "Content-Type", "application/json; charset=utf-8", "Accept-Language", "de",
			"X-Tenant", "t1", "X-Tenant", "t2", "Authorization", "Bearer secret", "Cookie", "session=secret")
		Expect(a.status).To(Equal(http.StatusAccepted), a.body)
		Eventually(requests).Should(Receive(Equal(seen{
			"POST", "/reports/a%2Fb", "POST /reports/{id}", "a/b", "é", "de", "application/json; charset=utf-8", `{"a":1}`, `"carried"`,
			[]string{"t1", "t2"}, false, false,
		})))
		job, err := s.queue.Job(context.Background(), a.job().ID)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(job.Data)).NotTo(ContainSubstring("secret"))
	})

	It("can be given Authorization and Cookie", func() {
		s := start(nil, bullmqhttp.Route{Headers: []string{"authorization", "cookie"}}, nil)
		seen := make(chan string, 1)
		s.work(func(_ http.ResponseWriter, r *http.Request) {
			seen <- r.Header.Get("Authorization") + " " + r.Header.Get("Cookie")
		})
		s.submit("Authorization", "Bearer x", "Cookie", "a=b")
		Eventually(seen).Should(Receive(Equal("Bearer x a=b")))
	})

	DescribeTable("stores bodies so that Node can read them, and gets their bytes:", func(contentType, body, stored string) {
		s := start(nil, bullmqhttp.Route{}, nil)
		bodies := make(chan string, 1)
		s.work(func(_ http.ResponseWriter, r *http.Request) {
			got, _ := io.ReadAll(r.Body)
			bodies <- string(got)
		})
		a := s.do("POST", "/reports/7", body, "Content-Type", contentType)
		Expect(a.status).To(Equal(http.StatusAccepted), a.body)
		Eventually(bodies).Should(Receive(Equal(body)))
		job, err := s.queue.Job(context.Background(), a.job().ID)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(job.Data)).To(ContainSubstring(stored))
	},
		Entry("JSON", "application/json", `{"n":12345678901234567890,"t":"<é>"}`, `"body":{"n":12345678901234567890,"t":"<é>"}`),
		Entry("JSON by its suffix", "application/merge-patch+json", `[1]`, `"body":[1]`),
		Entry("text", "text/plain", "a\n\"b\" <é>", `"body":"a\n\"b\" <é>","encoding":"text"`),
		Entry("bytes", "image/png", "\x89PNG\xff", `"body":"iVBOR/8=","encoding":"base64"`),
	)

	It("gets JSON byte for byte with RawBody", func() {
		s := start(nil, bullmqhttp.Route{RawBody: true}, nil)
		bodies := make(chan string, 1)
		s.work(func(_ http.ResponseWriter, r *http.Request) {
			got, _ := io.ReadAll(r.Body)
			bodies <- string(got)
		})
		s.do("POST", "/reports/7", "{ \"a\" :\n1 }", "Content-Type", "application/json")
		Eventually(bodies).Should(Receive(Equal("{ \"a\" :\n1 }")))
	})

	It("stores the status, the allowed headers and the body of the response", func() {
		text, err := serveOnce(getData, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Etag", `"1"`)
			w.Header().Set("Set-Cookie", "session=secret")
			w.Header().Set("X-Internal", "1")
			w.Header().Set("Content-Length", "5")
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusCreated)
			w.Header().Set("Location", "/too/late")
			_, _ = io.WriteString(w, `{"ok": `)
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, `true}`)
		}, bullmqhttp.ServeOptions{Headers: []string{"x-internal"}})
		Expect(err).NotTo(HaveOccurred())
		Expect(text).To(MatchJSON(`{"status":201,"headers":{"etag":"\"1\"","x-internal":"1"},"contentType":"application/json","body":{"ok":true}}`))
	})

	It("stores a response without a body, and guesses a missing type", func() {
		Expect(serveOnce(getData, func(http.ResponseWriter, *http.Request) {})).To(MatchJSON(`{"status":200}`))
		Expect(serveOnce(getData, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
			_, err := io.WriteString(w, "x")
			Expect(err).To(MatchError(http.ErrBodyNotAllowed))
		})).To(MatchJSON(`{"status":204}`))
		Expect(serveOnce(getData, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") })).
			To(MatchJSON(`{"status":200,"contentType":"text/html; charset=utf-8","body":"<html>","encoding":"text"}`))
	})

	It("completes the job for a status that another attempt would not change", func() {
		for _, status := range []int{200, 303, 400, 404, 422} {
			Expect(serveOnce(getData, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })).To(ContainSubstring(`"status":`))
		}
	})

	It("fails the attempt for a status that another attempt may change", func() {
		for _, status := range []int{408, 425, 429, 500, 503} {
			_, err := serveOnce(getData, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "7")
				http.Error(w, "not now", status)
			})
			var failed *bullmqhttp.StatusError
			Expect(errors.As(err, &failed)).To(BeTrue())
			Expect(failed.RetryAfter).To(Equal(7 * time.Second))
			Expect(failed.Error()).To(MatchRegexp(`^HTTP \d{3} [A-Z].*: not now$`))
			Expect(errors.Is(err, bullmq.ErrUnrecoverable)).To(BeFalse())
			Expect(bullmqhttp.Classify(err, nil)).To(Equal(bullmq.RetryAfter(7 * time.Second)))
		}
	})

	It("retries a failed attempt, and stores the response of the one that succeeds", func() {
		s := start(nil, bullmqhttp.Route{Job: bullmq.JobOptions{Attempts: 3}}, nil)
		var attempts atomic.Int64
		s.work(func(w http.ResponseWriter, _ *http.Request) {
			switch attempts.Add(1) {
			case 1:
				w.WriteHeader(http.StatusBadGateway)
			case 2:
				panic("oh no")
			}
		})
		status := s.ended(s.submit().header.Get("Location"))
		Expect(status.State).To(Equal(bullmqhttp.Succeeded))
		Expect(status.Attempts).To(Equal(3))
		Expect(status.ResponseStatus).To(Equal(200))
	})

	It("stores the stack of a panic, but not of an aborted handler", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		s.work(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("abort") {
				panic(http.ErrAbortHandler)
			}
			explode()
		})
		read := func(query string) *bullmq.Job {
			a := s.do("POST", "/reports/7"+query, "")
			Expect(s.ended(a.header.Get("Location")).Error).To(Equal("the job failed"))
			job, err := s.queue.Job(context.Background(), a.job().ID)
			Expect(err).NotTo(HaveOccurred())
			return job
		}
		job := read("")
		Expect(job.FailedReason).To(Equal("panic: it exploded"))
		Expect(job.StackTrace[0]).To(ContainSubstring("explode"))
		Expect(read("?abort=1").FailedReason).To(Equal(http.ErrAbortHandler.Error()))
	})

	It("drops the response if the context of the job has ended", func() {
		cause := errors.New("cancelled")
		ctx, cancel := context.WithCancelCause(context.Background())
		_, err := bullmqhttp.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			cancel(cause)
			<-r.Context().Done()
		}))(ctx, jobWith(getData))
		Expect(err).To(Equal(cause))
	})

	It("runs again after a shutdown of its worker, without using an attempt", func() {
		s, g := start(nil, bullmqhttp.Route{}, nil), newGate()
		worker := s.workWith(bullmqhttp.Serve(g), &bullmq.WorkerOptions{ShutdownTimeout: 5 * time.Second})
		location := s.submit().header.Get("Location")
		Eventually(g.started).Should(Receive())
		Expect(worker.Close()).To(Succeed())
		Expect(s.get(location, "").job().State).To(Equal(bullmqhttp.Queued))
		g.pass()
		s.work(g.ServeHTTP)
		Expect(s.ended(location).State).To(Equal(bullmqhttp.Succeeded))
	})

	It("fails the job for a response that is too large", func() {
		_, err := serveOnce(getData, func(w http.ResponseWriter, _ *http.Request) {
			_, err := io.WriteString(w, strings.Repeat("x", 11))
			Expect(err).To(MatchError(bullmqhttp.ErrResponseTooLarge))
		}, bullmqhttp.ServeOptions{MaxResponse: 10})
		Expect(err).To(MatchError(bullmqhttp.ErrResponseTooLarge))
		Expect(err).To(MatchError(bullmq.ErrUnrecoverable))
	})

	DescribeTable("fails the job for data that is no request:", func(data string) {
		_, err := serveOnce(data, func(http.ResponseWriter, *http.Request) { Fail("the handler was called") })
		Expect(err).To(MatchError(bullmq.ErrUnrecoverable))
	},
		Entry("another object", `{"order":1}`),
		Entry("a number", `1`),
		Entry("a method with a line break", `{"method":"GET\r\nX: 1","path":"/"}`),
		Entry("an address as path", `{"method":"GET","path":"http://example.org/"}`),
		Entry("a relative path", `{"method":"GET","path":"a"}`),
		Entry("a path with a query", `{"method":"GET","path":"/a?b"}`),
		Entry("an unknown encoding", `{"method":"GET","path":"/a","body":"x","encoding":"gzip"}`),
		Entry("a body that is not base64", `{"method":"GET","path":"/a","body":"?","encoding":"base64"}`),
		Entry("a number as header", `{"method":"GET","path":"/a","headers":{"a":1}}`),
	)

	It("runs a request that a Node program has added", func() {
		text, err := serveOnce(`{"method":"PUT","path":"//a/../b","query":{"q":["1","2"]},"params":{"id":"x"},"headers":{"accept":"text/plain","connection":"close"},"body":{"a":1},"contentType":"application/json"}`,
			func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				_ = json.NewEncoder(w).Encode([]string{r.Method, r.URL.Host, r.URL.Path, r.URL.RawQuery, r.PathValue("id"), r.Header.Get("Accept"), r.Header.Get("Connection"), string(body)})
			})
		Expect(err).NotTo(HaveOccurred())
		Expect(text).To(ContainSubstring(`[\"PUT\",\"\",\"//a/../b\",\"q=1\\u0026q=2\",\"x\",\"text/plain\",\"\",\"{\\\"a\\\":1}\"]`))
	})

	It("refuses invalid options", func() {
		Expect(func() { bullmqhttp.Serve(nil) }).To(Panic())
		Expect(func() { bullmqhttp.Serve(http.NotFoundHandler(), bullmqhttp.ServeOptions{MaxResponse: -1}) }).To(Panic())
	})
})

func explode() { panic("it exploded") }

var _ = Describe("A return value", func() {
	DescribeTable("is read as a response:", func(value string, status int, body string) {
		response, err := bullmqhttp.ReadResponse(&bullmq.Job{ID: "1", ReturnValue: json.RawMessage(value)})
		if status == 0 {
			Expect(err).To(HaveOccurred())
			return
		}
		Expect(err).NotTo(HaveOccurred())
		Expect(response.Status).To(Equal(status))
		Expect(response.Bytes()).To(BeEquivalentTo(body))
	},
		Entry("a response", `{"status":201,"body":"eA==","encoding":"base64","headers":{"etag":["1"]}}`, 201, "x"),
		Entry("any object of Node", `{"status":"sent","n":1}`, 200, `{"status":"sent","n":1}`),
		Entry("an object with more fields", `{"status":404,"n":1}`, 200, `{"status":404,"n":1}`),
		Entry("a number", `7`, 200, `7`),
		Entry("nothing", `null`, 204, ``),
		Entry("an invalid status", `{"status":99}`, 0, ``),
		Entry("invalid headers", `{"status":200,"headers":7}`, 0, ``),
	)
})
