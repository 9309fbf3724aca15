package bullmqhttp_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
)

// gate is an http.Handler that waits until it is opened, or its context ends.
type gate struct {
	open    chan struct{}
	started chan struct{}
	opening sync.Once
}

func newGate() *gate {
	g := &gate{open: make(chan struct{}), started: make(chan struct{}, 100)}
	DeferCleanup(g.pass)
	return g
}

func (g *gate) pass() { g.opening.Do(func() { close(g.open) }) }

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.started <- struct{}{}
	select {
	case <-g.open:
	case <-r.Context().Done():
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, "done")
}

var _ = Describe("The status of a job", func() {
	It("follows the job from the queue to its end", func() {
		s, g := start(nil, bullmqhttp.Route{}, nil), newGate()
		location := s.submit().header.Get("Location")
		a := s.get(location, "")
		Expect(a.status).To(Equal(http.StatusOK))
		Expect(a.header.Get("Retry-After")).To(Equal("1"))
		queued := a.job()
		Expect(queued.State).To(Equal(bullmqhttp.Queued))
		Expect(queued.Route).To(Equal("report"))
		Expect(queued.Created).To(BeTemporally("~", time.Now(), 10*time.Second))

		s.work(g.ServeHTTP)
		Eventually(g.started).Should(Receive())
		running := s.get(location, "").job()
		Expect(running.State).To(Equal(bullmqhttp.Running))
		Expect(running.Started).To(BeTemporally("~", time.Now(), 10*time.Second))

		Expect(s.queue.UpdateJobProgress(context.Background(), running.ID, map[string]int{"percent": 40})).To(Succeed())
		Expect(s.get(location, "").job().Progress).To(MatchJSON(`{"percent":40}`))

		g.pass()
		ended := s.ended(location)
		Expect(ended.State).To(Equal(bullmqhttp.Succeeded))
		Expect(ended.ResponseStatus).To(Equal(http.StatusCreated))
		Expect(ended.Attempts).To(Equal(1))
		Expect(ended.Expires).To(Equal(ended.Ended.Add(24 * time.Hour)))
		Expect(s.get(location, "").header.Get("Retry-After")).To(BeEmpty())
		Expect(s.do("HEAD", location, "").status).To(Equal(http.StatusOK))
	})

	It("shows when a delayed job is due, and that a failed attempt is retried", func() {
		s := start(nil, bullmqhttp.Route{Job: bullmq.JobOptions{Delay: time.Hour, Attempts: 2, Backoff: bullmq.FixedBackoff(time.Hour)}}, nil)
		location := s.submit().header.Get("Location")
		a := s.get(location, "")
		Expect(a.job().State).To(Equal(bullmqhttp.Scheduled))
		Expect(a.job().Due).To(BeTemporally("~", time.Now().Add(time.Hour), 20*time.Second))
		Expect(a.header.Get("Retry-After")).To(Equal("30"))

		Expect(s.queue.JobRef(a.job().ID).Promote(context.Background())).To(Succeed())
		s.work(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
		Eventually(func(g Gomega) {
			status := s.get(location, "").job()
			g.Expect(status.State).To(Equal(bullmqhttp.Retrying))
			g.Expect(status.Attempts).To(Equal(1))
			g.Expect(status.Error).To(Equal("HTTP 502 Bad Gateway"))
		}).Should(Succeed())
	})

	It("has an ETag that changes with it", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		location := s.submit().header.Get("Location")
		etag := s.get(location, "").header.Get("ETag")
		Expect(etag).To(MatchRegexp(`^"[\w-]+"$`))
		a := s.get(location, "", "If-None-Match", `"other", W/`+etag)
		Expect(a.status).To(Equal(http.StatusNotModified))
		Expect(a.body).To(BeEmpty())
		s.work(func(http.ResponseWriter, *http.Request) {})
		s.ended(location)
		Expect(s.get(location, "", "If-None-Match", etag).status).To(Equal(http.StatusOK))
	})

	It("may be waited for until the job ends", func() {
		s, g := start(nil, bullmqhttp.Route{}, nil), newGate()
		s.work(g.ServeHTTP)
		location := s.submit().header.Get("Location")
		Expect(s.get(location, "?wait=1").job().State).To(Equal(bullmqhttp.Running))
		Expect(s.get(location, "?wait=x").code()).To(Equal(bullmqhttp.CodeInvalidRequest))
		time.AfterFunc(100*time.Millisecond, g.pass)
		a := s.get(location, "", "Prefer", "wait=20")
		Expect(a.job().State).To(Equal(bullmqhttp.Succeeded))
		Expect(a.header.Get("Preference-Applied")).To(Equal("wait=20"))
	})

	It("may be waited for until it changes", func() {
		s, g := start(nil, bullmqhttp.Route{}, nil), newGate()
		location := s.submit().header.Get("Location")
		id, etag := s.get(location, "").job().ID, s.get(location, "").header.Get("ETag")
		Expect(s.get(location, "?wait=1", "If-None-Match", etag).status).To(Equal(http.StatusNotModified))

		answers := make(chan answer, 1)
		poll := func(etag string) {
			go func() {
				defer GinkgoRecover()
				answers <- s.get(location, "?wait=25", "If-None-Match", etag)
			}()
		}
		var a answer
		poll(etag)
		s.work(g.ServeHTTP)
		Eventually(answers).Should(Receive(&a))
		Expect(a.job().State).To(Equal(bullmqhttp.Running))
		poll(a.header.Get("ETag"))
		Expect(s.queue.UpdateJobProgress(context.Background(), id, 50)).To(Succeed())
		Eventually(answers).Should(Receive(&a))
		Expect(a.job().Progress).To(MatchJSON("50"))
		g.pass()
		Expect(s.ended(location).State).To(Equal(bullmqhttp.Succeeded))
	})

	It("lets 300 clients wait on one connection to Redis", func() {
		s, g := start(nil, bullmqhttp.Route{}, nil), newGate()
		s.work(g.ServeHTTP)
		location := s.submit().header.Get("Location")
		Eventually(g.started).Should(Receive())
		etag := s.get(location, "").header.Get("ETag")
		var waits sync.WaitGroup
		for n := range 300 {
			waits.Go(func() {
				defer GinkgoRecover()
				if n%2 == 0 {
					Expect(s.get(location, "?wait=25").job().State).To(Equal(bullmqhttp.Succeeded))
				} else {
					Expect(s.get(location, "?wait=25", "If-None-Match", etag).job().State).To(Equal(bullmqhttp.Succeeded))
				}
			})
		}
		time.Sleep(200 * time.Millisecond)
		Eventually(reading).Should(Equal(1))
		g.pass()
		waits.Wait()
	})

	It("leads to the result if the client prefers that", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		location := s.submit().header.Get("Location")
		Expect(s.get(location, "", "Prefer", "return=representation").status).To(Equal(http.StatusOK))
		s.work(func(http.ResponseWriter, *http.Request) {})
		s.ended(location)
		a := s.get(location, "", "Prefer", "return=representation")
		Expect(a.status).To(Equal(http.StatusSeeOther))
		Expect(a.header.Get("Location")).To(Equal(location + "/result"))
		Expect(a.header.Get("Preference-Applied")).To(Equal("return=representation"))
	})

	It("is not found for another owner, an unknown id, and a job that is no request", func() {
		s := start(&bullmqhttp.Options{Base: "/api/jobs", Owner: func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil }}, bullmqhttp.Route{}, nil)
		location := s.submit("X-User", "ann").header.Get("Location")
		Expect(location).To(HavePrefix("/api/jobs/"))
		Expect(s.get(location, "", "X-User", "ann").status).To(Equal(http.StatusOK))
		plain, err := s.queue.Add(context.Background(), "plain", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		other, err := s.queue.Add(context.Background(), "plain", nil, &bullmq.JobOptions{JobID: "rq-aaaaaaaaaaaaaaaaaaaaaa"})
		Expect(err).NotTo(HaveOccurred())
		for _, path := range []string{location, "/api/jobs/" + plain.ID, "/api/jobs/" + other.ID, "/api/jobs/rq-bbbbbbbbbbbbbbbbbbbbbb", "/api/jobs/", location + "/", location + "/other", "/api/jobs/meta", "/api/jobs/rq-%2e%2e%2faaaaaaaaaaaaaaaaaaa"} {
			a := s.get(path, "", "X-User", "bob")
			Expect(a.status).To(Equal(http.StatusNotFound), path)
			Expect(a.code()).To(Equal(bullmqhttp.CodeJobNotFound))
		}
		Expect(s.do("DELETE", location, "", "X-User", "bob").status).To(Equal(http.StatusNotFound))
		public := httptest.NewServer(bullmqhttp.New(s.queue, &bullmqhttp.Options{Base: "/api/jobs"}))
		defer public.Close()
		unowned := service{url: public.URL, client: s.client}
		Expect(unowned.get(location, "").status).To(Equal(http.StatusNotFound))
		Expect(s.get(location, "/result", "X-User", "bob").status).To(Equal(http.StatusGone))
		Expect(s.get(location, "", "X-User", "ann").job().State).To(Equal(bullmqhttp.Queued))
	})

	It("names the methods that are allowed", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		location := s.submit().header.Get("Location")
		a := s.do("PUT", location, "")
		Expect(a.status).To(Equal(http.StatusMethodNotAllowed))
		Expect(a.code()).To(Equal(bullmqhttp.CodeMethodNotAllowed))
		Expect(a.header.Get("Allow")).To(Equal("GET, HEAD, DELETE"))
		Expect(s.do("GET", location+"/cancel", "").header.Get("Allow")).To(Equal("POST"))
	})

	It("shows the reason of a failure as the options say", func() {
		s := start(&bullmqhttp.Options{Reason: func(reason string) string { return "shown: " + reason }}, bullmqhttp.Route{}, nil)
		s.work(func(http.ResponseWriter, *http.Request) { panic("a") })
		Expect(s.ended(s.submit().header.Get("Location")).Error).To(Equal("shown: panic: a"))
	})
})

var _ = Describe("The result of a job", func() {
	It("is the response of the handler", func() {
		s := start(&bullmqhttp.Options{ResponseHeaders: []string{"X-Pages"}}, bullmqhttp.Route{}, nil)
		s.work(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/pdf")
			w.Header().Set("X-Pages", "3")
			w.Header().Set("Set-Cookie", "a=b")
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, "\xff\x00PDF")
		}, bullmqhttp.ServeOptions{Headers: []string{"X-Pages", "Set-Cookie"}})
		location := s.submit().header.Get("Location")
		a := s.get(location, "/result?wait=20")
		Expect(a.status).To(Equal(http.StatusNotFound))
		Expect(a.body).To(Equal("\xff\x00PDF"))
		Expect(a.header.Get("Content-Type")).To(Equal("application/pdf"))
		Expect(a.header.Get("X-Pages")).To(Equal("3"))
		Expect(a.header).NotTo(HaveKey("Set-Cookie"))
		Expect(a.header.Get("X-Content-Type-Options")).To(Equal("nosniff"))
		head := s.do("HEAD", location+"/result", "")
		Expect(head.status).To(Equal(http.StatusNotFound))
		Expect(head.header.Get("Content-Length")).To(Equal("5"))
	})

	It("is the value of a handler that is no http.Handler", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		s.workWith(func(context.Context, *bullmq.Job) (any, error) { return map[string]any{"pages": 3}, nil }, &bullmq.WorkerOptions{})
		a := s.submit("Prefer", "wait=20")
		Expect(a.status).To(Equal(http.StatusOK))
		Expect(a.header.Get("Content-Type")).To(Equal("application/json"))
		Expect(a.body).To(MatchJSON(`{"pages":3}`))
	})

	It("is refused with 409 before the end, and with 410 once the job is removed", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		submitted := s.submit()
		location := submitted.header.Get("Location")
		a := s.get(location, "/result")
		Expect(a.status).To(Equal(http.StatusConflict))
		Expect(a.code()).To(Equal(bullmqhttp.CodeNotFinished))
		Expect(a.header.Get("Retry-After")).To(Equal("1"))
		Expect(s.queue.Remove(context.Background(), submitted.job().ID, nil)).To(Succeed())
		a = s.get(location, "/result")
		Expect(a.status).To(Equal(http.StatusGone))
		Expect(a.code()).To(Equal(bullmqhttp.CodeResultGone))
		Expect(s.get("/jobs/1", "/result").status).To(Equal(http.StatusNotFound))
	})

	It("can add no headers of its own", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		s.workWith(func(context.Context, *bullmq.Job) (any, error) {
			return json.RawMessage(`{"status":200,"headers":{"etag":"1\r\nX-Evil: 1","x-evil":"1","transfer-encoding":"chunked","link\r\nx-evil":"1"},"contentType":"text/plain\r\nX-Evil: 1","body":"a","encoding":"text"}`), nil
		}, &bullmq.WorkerOptions{})
		a := s.submit("Prefer", "wait=20")
		Expect(a.status).To(Equal(http.StatusOK))
		Expect(a.body).To(Equal("a"))
		Expect(a.header).NotTo(HaveKey("X-Evil"))
	})

	It("is refused if it is not valid", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		s.workWith(func(context.Context, *bullmq.Job) (any, error) { return map[string]any{"status": 1}, nil }, &bullmq.WorkerOptions{})
		a := s.submit("Prefer", "wait=20")
		Expect(a.status).To(Equal(http.StatusInternalServerError))
		Expect(a.code()).To(Equal(bullmqhttp.CodeJobFailed))
	})
})

var _ = Describe("Cancelling a job", func() {
	It("ends one that waits", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		location := s.submit().header.Get("Location")
		Expect(s.do("DELETE", location, "").status).To(Equal(http.StatusAccepted))
		s.work(func(http.ResponseWriter, *http.Request) { Fail("the handler was called") })
		status := s.ended(location)
		Expect(status.State).To(Equal(bullmqhttp.Cancelled))
		Expect(status.Error).To(Equal("cancelled: by the client"))
		a := s.get(location, "/result")
		Expect(a.status).To(Equal(http.StatusGone))
		Expect(a.code()).To(Equal(bullmqhttp.CodeCancelled))
		Expect(s.do("DELETE", location, "").status).To(Equal(http.StatusOK))
	})

	It("ends the request's context of one that runs", func() {
		s, g := start(nil, bullmqhttp.Route{Job: bullmq.JobOptions{Attempts: 3}}, nil), newGate()
		s.work(g.ServeHTTP)
		location := s.submit().header.Get("Location")
		Eventually(g.started).Should(Receive())
		a := s.do("POST", location+"/cancel", "")
		Expect(a.status).To(Equal(http.StatusAccepted))
		Expect(s.ended(location).State).To(Equal(bullmqhttp.Cancelled))
	})

	It("is refused with 409 once the job has ended", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		s.work(func(http.ResponseWriter, *http.Request) {})
		location := s.submit().header.Get("Location")
		s.ended(location)
		a := s.do("DELETE", location, "")
		Expect(a.status).To(Equal(http.StatusConflict))
		Expect(a.code()).To(Equal(bullmqhttp.CodeFinished))
	})
})
