package bullmqhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// proxied returns options of a queue that reaches a server through a proxy.
func proxied(to *redisserver.Server) (*faultproxy.Proxy, *bullmq.QueueOptions) {
	GinkgoHelper()
	proxy, err := faultproxy.Start(to.Addr())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(proxy.Close)
	return proxy, &bullmq.QueueOptions{URL: "redis://" + proxy.Addr()}
}

var _ = Describe("A request of an asynchronous route", func() {
	It("is answered with 202, the address of the status, links, and when to ask", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		a := s.submit()
		Expect(a.status).To(Equal(http.StatusAccepted))
		Expect(a.header.Get("Content-Type")).To(Equal("application/json"))
		Expect(a.header.Get("Cache-Control")).To(Equal("no-store"))
		Expect(strconv.Atoi(a.header.Get("Retry-After"))).To(And(BeNumerically(">=", 1), BeNumerically("<=", 30)))
		job := a.job()
		Expect(job.ID).To(MatchRegexp(`^rq-[\w-]{22}$`))
		Expect(job.State).To(Equal(bullmqhttp.Queued))
		self := "/jobs/" + job.ID
		Expect(a.header.Get("Location")).To(Equal(self))
		Expect(job.Links).To(Equal(bullmqhttp.Links{Self: self, Result: self + "/result", Events: self + "/events", Cancel: self + "/cancel"}))
		Expect(s.submit().job().ID).NotTo(Equal(job.ID))
		stored, err := s.queue.Job(context.Background(), job.ID)
		Expect(err).NotTo(HaveOccurred())
		Expect(stored.Name).To(Equal("report"))
	})

	It("is scheduled if the route has a delay", func() {
		s := start(nil, bullmqhttp.Route{Job: bullmq.JobOptions{Delay: time.Hour}}, nil)
		Expect(s.submit().job().State).To(Equal(bullmqhttp.Scheduled))
	})

	DescribeTable("is refused:", func(status int, code string, path, body string, headers ...string) {
		s := start(&bullmqhttp.Options{MaxBody: 20, MaxHead: 1000}, bullmqhttp.Route{ContentTypes: []string{"application/json"}}, nil)
		a := s.do("POST", path, body, headers...)
		Expect(a.status).To(Equal(status), a.body)
		Expect(a.code()).To(Equal(code))
		Expect(s.jobs()).To(BeZero())
	},
		Entry("a body that is too large", 413, bullmqhttp.CodeTooLarge, "/reports/7", strings.Repeat("1", 21), "Content-Type", "application/json"),
		Entry("a body of another type", 415, bullmqhttp.CodeUnsupportedType, "/reports/7", "a", "Content-Type", "text/plain"),
		Entry("a body without a type", 415, bullmqhttp.CodeUnsupportedType, "/reports/7", "a"),
		Entry("a body that is not JSON", 400, bullmqhttp.CodeInvalidRequest, "/reports/7", `{"a":`, "Content-Type", "application/json"),
		Entry("a malformed query", 400, bullmqhttp.CodeInvalidRequest, "/reports/7?a=%zz", ""),
		Entry("a long path", 431, bullmqhttp.CodeTooLarge, "/reports/"+strings.Repeat("a", 1000), ""),
		Entry("a long header", 431, bullmqhttp.CodeTooLarge, "/reports/7", "", "Accept", strings.Repeat("a", 1000)),
		Entry("a long idempotency key", 400, bullmqhttp.CodeInvalidRequest, "/reports/7", "", "Idempotency-Key", strings.Repeat("a", 256)),
		Entry("an idempotency key that is not ASCII", 400, bullmqhttp.CodeInvalidRequest, "/reports/7", "", "Idempotency-Key", "ä"),
		Entry("two idempotency keys", 400, bullmqhttp.CodeInvalidRequest, "/reports/7", "", "Idempotency-Key", "a", "Idempotency-Key", "b"),
	)

	It("is refused if its length is unknown and its body too large", func() {
		s := start(&bullmqhttp.Options{MaxBody: 1000}, bullmqhttp.Route{}, nil)
		r, err := http.NewRequest("POST", s.url+"/reports/7", io.MultiReader(strings.NewReader(strings.Repeat("a", 1001))))
		Expect(err).NotTo(HaveOccurred())
		a := s.send(r)
		Expect(a.status).To(Equal(http.StatusRequestEntityTooLarge))
		Expect(a.code()).To(Equal(bullmqhttp.CodeTooLarge))
	})

	It("is refused before a body of 100 MB is read", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		address, err := url.Parse(s.url)
		Expect(err).NotTo(HaveOccurred())
		connection, err := net.Dial("tcp", address.Host)
		Expect(err).NotTo(HaveOccurred())
		defer connection.Close()
		_, err = io.WriteString(connection, "POST /reports/7 HTTP/1.1\r\nHost: a\r\nContent-Length: 104857600\r\n\r\n")
		Expect(err).NotTo(HaveOccurred())
		text, _ := io.ReadAll(connection) // the server closes it
		Expect(string(text)).To(HavePrefix("HTTP/1.1 413 "))
	})

	It("is refused if the client may not submit", func() {
		s := start(&bullmqhttp.Options{Authorize: func(r *http.Request, action bullmqhttp.Action) error {
			switch r.Header.Get("Authorization") {
			case "":
				return &bullmqhttp.Problem{Status: http.StatusUnauthorized, Code: "NO_TOKEN"}
			case "reader":
				if action != bullmqhttp.ActionRead {
					return errors.New("the secret reason")
				}
			}
			return nil
		}}, bullmqhttp.Route{}, nil)
		a := s.submit()
		Expect(a.status).To(Equal(http.StatusUnauthorized))
		Expect(a.code()).To(Equal("NO_TOKEN"))
		a = s.submit("Authorization", "reader")
		Expect(a.status).To(Equal(http.StatusForbidden))
		Expect(a.code()).To(Equal(bullmqhttp.CodeForbidden))
		Expect(a.body).NotTo(ContainSubstring("secret"))
		location := s.submit("Authorization", "admin").header.Get("Location")
		Expect(s.get(location, "", "Authorization", "reader").status).To(Equal(http.StatusOK))
		Expect(s.do("DELETE", location, "", "Authorization", "reader").status).To(Equal(http.StatusForbidden))
	})

	It("is refused with 429 while too many jobs wait, but not if it has been accepted before", func() {
		s := start(&bullmqhttp.Options{MaxWaiting: 2}, bullmqhttp.Route{}, nil)
		first := s.submit("Idempotency-Key", "a")
		Expect(s.submit().status).To(Equal(http.StatusAccepted))
		a := s.submit()
		Expect(a.status).To(Equal(http.StatusTooManyRequests))
		Expect(a.code()).To(Equal(bullmqhttp.CodeTooManyWaiting))
		Expect(strconv.Atoi(a.header.Get("Retry-After"))).To(BeNumerically(">=", 1))
		again := s.submit("Idempotency-Key", "a")
		Expect(again.status).To(Equal(http.StatusAccepted))
		Expect(again.job().ID).To(Equal(first.job().ID))
		Expect(s.jobs()).To(Equal(2))
		s.work(func(http.ResponseWriter, *http.Request) {})
		Eventually(func() int { return s.submit().status }).Should(Equal(http.StatusAccepted))
	})

	It("is refused with 503 while Redis is down, and accepted when it is back", func() {
		own, err := redisserver.Start(redisserver.Options{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(own.Close)
		s := start(nil, bullmqhttp.Route{}, &bullmq.QueueOptions{URL: own.URL()})
		Expect(s.submit().status).To(Equal(http.StatusAccepted))
		own.Stop()
		Eventually(func(g Gomega) {
			a := s.submit()
			g.Expect(a.status).To(Equal(http.StatusServiceUnavailable))
			g.Expect(a.code()).To(Equal(bullmqhttp.CodeUnavailable))
			g.Expect(a.header.Get("Retry-After")).To(Equal("5"))
		}).Should(Succeed())
		Expect(own.Start()).To(Succeed())
		Eventually(func() int { return s.submit().status }).Should(Equal(http.StatusAccepted))
	})

	It("is refused with 503 if Redis is full", func() {
		own, err := redisserver.Start(redisserver.Options{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(own.Close)
		s := start(nil, bullmqhttp.Route{}, &bullmq.QueueOptions{URL: own.URL()})
		fill(own)
		a := s.submit()
		Expect(a.status).To(Equal(http.StatusServiceUnavailable))
		Expect(a.body).NotTo(ContainSubstring("maxmemory"))
	})
})

var _ = Describe("A request whose reply from Redis is lost", func() {
	It("has one job", func() {
		proxy, options := proxied(redis)
		s := start(nil, bullmqhttp.Route{}, options)
		Expect(s.submit().status).To(Equal(http.StatusAccepted)) // the script is loaded
		for _, headers := range [][]string{nil, {"Idempotency-Key", "k"}} {
			before := s.jobs()
			lost := proxy.LoseReply("EVALSHA")
			a := s.submit(headers...)
			Eventually(lost).Should(BeClosed())
			Expect(a.status).To(Equal(http.StatusAccepted), a.body)
			Expect(a.header.Get("Idempotency-Replayed")).To(BeEmpty())
			Expect(s.jobs()).To(Equal(before + 1))
			Expect(s.get(a.header.Get("Location"), "").status).To(Equal(http.StatusOK))
		}
	})

	It("is answered with 503 and the address of the job if the outcome stays unknown", func() {
		proxy, options := proxied(redis)
		s := start(nil, bullmqhttp.Route{}, options)
		Expect(s.submit().status).To(Equal(http.StatusAccepted))
		hangs := proxy.HangReply("EVALSHA")
		go func() {
			defer GinkgoRecover()
			Eventually(hangs).Should(BeClosed())
			Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
			proxy.CutAll()
		}()
		a := s.submit("Idempotency-Key", "k")
		Expect(a.status).To(Equal(http.StatusServiceUnavailable), a.body)
		Expect(a.code()).To(Equal(bullmqhttp.CodeMaybeAdded))
		Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
		Eventually(func() int { return s.get(a.header.Get("Location"), "").status }).Should(Equal(http.StatusOK))
		Eventually(func() int { return s.submit("Idempotency-Key", "k").status }).Should(Equal(http.StatusAccepted))
		Expect(s.jobs()).To(Equal(2))
	})

	It("is refused if the key belongs to another request", func() {
		proxy, options := proxied(redis)
		s := start(nil, bullmqhttp.Route{}, options)
		Expect(s.submit("Idempotency-Key", "k").status).To(Equal(http.StatusAccepted))
		lost := proxy.LoseReply("EVALSHA")
		a := s.do("POST", "/reports/8", "", "Idempotency-Key", "k")
		Eventually(lost).Should(BeClosed())
		Expect(a.status).To(Equal(http.StatusUnprocessableEntity), a.body)
	})
})

var _ = Describe("An idempotency key", func() {
	It("gives a repeated request the same job", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		first := s.submit("Idempotency-Key", `"8e03978e"`)
		Expect(first.job().ID).To(MatchRegexp(`^ik-[\w-]{22}$`))
		Expect(first.header.Get("Idempotency-Replayed")).To(BeEmpty())
		again := s.submit("Idempotency-Key", "8e03978e")
		Expect(again.status).To(Equal(http.StatusAccepted))
		Expect(again.header.Get("Location")).To(Equal(first.header.Get("Location")))
		Expect(again.header.Get("Idempotency-Replayed")).To(Equal("true"))
		s.work(func(http.ResponseWriter, *http.Request) {})
		s.ended(first.header.Get("Location"))
		Expect(s.submit("Idempotency-Key", "8e03978e").job().State).To(Equal(bullmqhttp.Succeeded))
		Expect(s.jobs()).To(Equal(1))
	})

	It("refuses another request with 422", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		s.submit("Idempotency-Key", "a")
		for _, other := range [][3]string{{"/reports/7", `{"year":2027}`, "application/json"}, {"/reports/8", `{"year":2026}`, "application/json"}, {"/reports/7?x=1", `{"year":2026}`, "application/json"}, {"/reports/7", `{"year":2026}`, "text/plain"}} {
			a := s.do("POST", other[0], other[1], "Content-Type", other[2], "Idempotency-Key", "a")
			Expect(a.status).To(Equal(http.StatusUnprocessableEntity), a.body)
			Expect(a.code()).To(Equal(bullmqhttp.CodeKeyReused))
		}
		Expect(s.jobs()).To(Equal(1))
	})

	It("is independent of the same key of another owner", func() {
		s := start(&bullmqhttp.Options{Owner: func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil }}, bullmqhttp.Route{}, nil)
		ann, bob := s.submit("Idempotency-Key", "a", "X-User", "ann"), s.submit("Idempotency-Key", "a", "X-User", "bob")
		Expect(ann.job().ID).NotTo(Equal(bob.job().ID))
	})

	It("is free again when its job is removed", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		id := s.submit("Idempotency-Key", "a").job().ID
		Expect(s.queue.Remove(context.Background(), id, nil)).To(Succeed())
		a := s.do("POST", "/reports/8", "", "Idempotency-Key", "a")
		Expect(a.status).To(Equal(http.StatusAccepted))
		Expect(a.header.Get("Idempotency-Replayed")).To(BeEmpty())
	})

	It("makes one job of requests at the same time", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		var accepted, replayed atomic.Int64
		var requests sync.WaitGroup
		for n := range 1000 {
			if n%100 == 0 {
				requests.Wait()
			}
			requests.Go(func() {
				defer GinkgoRecover()
				a := s.submit("Idempotency-Key", fmt.Sprint("key-", n%800))
				Expect(a.status).To(Equal(http.StatusAccepted))
				accepted.Add(1)
				if a.header.Get("Idempotency-Replayed") != "" {
					replayed.Add(1)
				}
			})
		}
		requests.Wait()
		Expect(accepted.Load()).To(BeEquivalentTo(1000))
		Expect(replayed.Load()).To(BeEquivalentTo(200))
		Expect(s.jobs()).To(Equal(800))
	})

	It("may be required", func() {
		s := start(nil, bullmqhttp.Route{RequireKey: true}, nil)
		Expect(s.submit().code()).To(Equal(bullmqhttp.CodeInvalidRequest))
		Expect(s.submit("Idempotency-Key", "a").status).To(Equal(http.StatusAccepted))
	})
})

var _ = Describe("The header Prefer", func() {
	hello := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/reports/7.pdf")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "hello "+r.PathValue("id"))
	}

	It("makes the reply the response of the handler, if that is there in time", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		s.work(hello)
		a := s.submit("Prefer", "respond-async, wait=20")
		Expect(a.status).To(Equal(http.StatusCreated))
		Expect(a.body).To(Equal("hello 7"))
		Expect(a.header.Get("Content-Type")).To(Equal("text/plain; charset=utf-8"))
		Expect(a.header.Get("Location")).To(Equal("/reports/7.pdf"))
		Expect(a.header.Get("Content-Location")).To(MatchRegexp(`^/jobs/rq-[\w-]+/result$`))
		Expect(a.header.Get("Preference-Applied")).To(Equal("wait=20"))
		Expect(a.header.Values("Vary")).To(ContainElement("Prefer"))
	})

	It("makes the reply 202 if the job has not ended in time", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		begun := time.Now()
		a := s.submit("Prefer", "respond-async", "Prefer", `wait="1"`)
		Expect(a.status).To(Equal(http.StatusAccepted))
		Expect(time.Since(begun)).To(BeNumerically(">=", time.Second))
		Expect(a.header.Get("Preference-Applied")).To(Equal("respond-async, wait=1"))
	})

	It("is limited by MaxWait", func() {
		s := start(&bullmqhttp.Options{MaxWait: time.Second}, bullmqhttp.Route{}, nil)
		a := s.submit("Prefer", "wait=3600")
		Expect(a.status).To(Equal(http.StatusAccepted))
		Expect(a.header.Get("Preference-Applied")).To(Equal("wait=1"))
	})

	It("overrides the wait of the route", func() {
		s := start(nil, bullmqhttp.Route{Wait: 20 * time.Second}, nil)
		a := s.submit("Prefer", "respond-async")
		Expect(a.status).To(Equal(http.StatusAccepted))
		Expect(a.header.Get("Preference-Applied")).To(Equal("respond-async"))
		Expect(s.submit("Prefer", "wait=0").status).To(Equal(http.StatusAccepted))
		s.work(hello)
		a = s.submit()
		Expect(a.status).To(Equal(http.StatusCreated))
		Expect(a.header.Get("Preference-Applied")).To(BeEmpty())
	})

	It("is ignored if it is malformed", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		a := s.submit("Prefer", `wait=abc; foo, wait=5, ,=, handling=lenient; wait=1`)
		Expect(a.status).To(Equal(http.StatusAccepted))
		Expect(a.header.Get("Preference-Applied")).To(BeEmpty())
	})

	It("shows why the job failed", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		s.work(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no disk", http.StatusInsufficientStorage) })
		a := s.submit("Prefer", "wait=20")
		Expect(a.status).To(Equal(http.StatusInternalServerError))
		Expect(a.code()).To(Equal(bullmqhttp.CodeJobFailed))
		Expect(a.body).To(ContainSubstring("HTTP 507 Insufficient Storage: no disk"))
	})

	It("lets the job run if the client leaves", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		ctx, cancel := context.WithCancel(context.Background())
		r, err := http.NewRequestWithContext(ctx, "POST", s.url+"/reports/7", nil)
		Expect(err).NotTo(HaveOccurred())
		r.Header.Set("Prefer", "wait=20")
		go func() {
			defer GinkgoRecover()
			Eventually(s.jobs).Should(Equal(1))
			cancel()
		}()
		_, err = s.client.Do(r)
		Expect(err).To(MatchError(context.Canceled))
		ran := make(chan bool, 1)
		s.work(func(http.ResponseWriter, *http.Request) { ran <- true })
		Eventually(ran).Should(Receive())
	})

	It("makes many requests wait on one connection to Redis", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		const clients = 300
		var waits sync.WaitGroup
		for range clients {
			waits.Go(func() {
				defer GinkgoRecover()
				Expect(s.submit("Prefer", "wait=25").status).To(Equal(http.StatusCreated))
			})
		}
		Eventually(s.jobs).Should(Equal(clients))
		Eventually(reading).Should(Equal(1))
		s.work(hello)
		waits.Wait()
	})

	It("makes the reply the response even if Redis restarts meanwhile", func() {
		own, err := redisserver.Start(redisserver.Options{AppendOnly: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(own.Close)
		s := start(nil, bullmqhttp.Route{}, &bullmq.QueueOptions{URL: own.URL()})
		answers := make(chan answer, 1)
		go func() {
			defer GinkgoRecover()
			answers <- s.submit("Prefer", "wait=25")
		}()
		Eventually(s.jobs).Should(Equal(1))
		own.Kill()
		Expect(own.Start()).To(Succeed())
		s.workWith(bullmqhttp.Serve(http.HandlerFunc(hello)), &bullmq.WorkerOptions{URL: own.URL()})
		var a answer
		Eventually(answers, "30s").Should(Receive(&a))
		Expect(a.body).To(Equal("hello 7"))
	})

	It("has no effect when the server is closed", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		go func() {
			defer GinkgoRecover()
			Eventually(s.jobs).Should(Equal(1))
			s.server.Close()
		}()
		begun := time.Now()
		Expect(s.submit("Prefer", "wait=25").status).To(Equal(http.StatusAccepted))
		Expect(time.Since(begun)).To(BeNumerically("<", 20*time.Second))
	})
})

var _ = Describe("A route", func() {
	It("is refused if it is invalid", func() {
		s := start(nil, bullmqhttp.Route{}, nil)
		for _, route := range []bullmqhttp.Route{
			{Wait: -1}, {MaxBody: -1}, {ContentTypes: []string{"//"}}, {Job: bullmq.JobOptions{JobID: "a"}},
			{Job: bullmq.JobOptions{KeepFailed: bullmq.KeepAll()}}, {Job: bullmq.JobOptions{Target: &bullmq.Target{}}},
		} {
			Expect(func() { s.server.Async("other", route) }).To(Panic())
		}
		Expect(func() { s.server.Async("", bullmqhttp.Route{}) }).To(Panic())
		Expect(func() { s.server.Async("report", bullmqhttp.Route{}) }).To(PanicWith(ContainSubstring("exists already")))
		for _, o := range []bullmqhttp.Options{{Base: "jobs"}, {MaxBody: -1}, {KeepFor: time.Second}} {
			Expect(func() { bullmqhttp.New(s.queue, &o) }).To(Panic())
		}
		Expect(func() { bullmqhttp.New(nil, nil) }).To(Panic())
	})
})
