package bullmqhttp_test

// Redis is down, frozen, full or restarted, or a replica takes over, while clients ask. faults_events_test.go has the
// same for server-sent events.

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// boundary is the longest time that a reply may take during a fault, on a slow machine.
const boundary = 20 * time.Second

// alone starts a Redis for the spec, and a service with it. Its Timeout is 2 seconds.
func alone(o redisserver.Options) (*service, *redisserver.Server) {
	GinkgoHelper()
	own, err := redisserver.Start(o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(own.Close)
	return start(&bullmqhttp.Options{Timeout: 2 * time.Second}, bullmqhttp.Route{}, &bullmq.QueueOptions{URL: own.URL()}), own
}

// workWithURL runs a worker until the spec ends. Its handler replies "done".
func (s *service) workWithURL(url string) {
	GinkgoHelper()
	s.workWith(bullmqhttp.Serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "done")
	})), &bullmq.WorkerOptions{URL: url})
}

// asked is a request of a client.
type asked struct {
	name, method, path string
	headers            []string
}

// reads are the requests that read a job that has not ended.
func reads(location, etag string) []asked {
	return []asked{
		{"a status", "GET", location, nil},
		{"a status with a wait", "GET", location + "?wait=1", nil},
		{"a status that changes", "GET", location + "?wait=1", []string{"If-None-Match", etag}},
		{"a result", "GET", location + "/result", nil},
		{"a result with a wait", "GET", location + "/result?wait=1", nil},
		{"events", "GET", location + "/events", nil},
		{"events after an event", "GET", location + "/events", []string{"Last-Event-ID", "1-0"}},
	}
}

// waits are the requests that are held until a job ends.
func waits(location, etag string) []asked {
	return []asked{
		{"a submit with a wait", "POST", "/reports/7", []string{"Prefer", "wait=25"}},
		{"a status with a wait", "GET", location + "?wait=25", nil},
		{"a status that changes", "GET", location + "?wait=25", []string{"If-None-Match", etag}},
		{"a result with a wait", "GET", location + "/result?wait=25", nil},
		{"events", "GET", location + "/events", nil},
	}
}

// held returns the number of requests that wait for a job, or receive its events.
func held() int {
	return waiting("bullmq.(*Queue).WaitForJob") + waiting("bullmq.(*Queue).yieldEvents")
}

// all sends requests at once, and returns their replies when all have come.
func (s *service) all(requests []asked) map[string]answer {
	GinkgoHelper()
	var mu sync.Mutex
	var sent sync.WaitGroup
	answers := map[string]answer{}
	for _, request := range requests {
		sent.Go(func() {
			defer GinkgoRecover()
			begun := time.Now()
			a := s.do(request.method, request.path, "", request.headers...)
			Expect(time.Since(begun)).To(BeNumerically("<", boundary), request.name)
			mu.Lock()
			defer mu.Unlock()
			answers[request.name] = a
		})
	}
	sent.Wait()
	Expect(answers).To(HaveLen(len(requests)))
	return answers
}

// unavailable checks that replies are 503 with a code and Retry-After.
func unavailable(answers map[string]answer, codes ...any) {
	GinkgoHelper()
	for name, a := range answers {
		Expect(a.status).To(Equal(http.StatusServiceUnavailable), "%s: %s", name, a.body)
		Expect(a.code()).To(BeElementOf(codes...), name)
		Expect(a.header.Get("Retry-After")).To(Equal("5"), name)
	}
}

// leaving sends requests in the background. leave cancels them, and returns when they have ended.
func (s *service) leaving(requests []asked) (leave func()) {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(context.Background())
	var sent sync.WaitGroup
	for _, request := range requests {
		sent.Go(func() {
			defer GinkgoRecover()
			r, err := http.NewRequestWithContext(ctx, request.method, s.url+request.path, nil)
			Expect(err).NotTo(HaveOccurred())
			for i := 0; i < len(request.headers); i += 2 {
				r.Header.Set(request.headers[i], request.headers[i+1])
			}
			reply, err := s.client.Do(r)
			if err == nil {
				_, _ = io.Copy(io.Discard, reply.Body)
				_ = reply.Body.Close()
			}
		})
	}
	leave = func() { cancel(); sent.Wait() }
	DeferCleanup(leave)
	return leave
}

// withKeys are submits with a key each.
func withKeys(n int) (submits []asked) {
	for i := range n {
		key := fmt.Sprint("key-", i)
		submits = append(submits, asked{key, "POST", "/reports/7", []string{"Idempotency-Key", key}})
	}
	return submits
}

// acceptAgain repeats submits until each is accepted.
func (s *service) acceptAgain(submits []asked) {
	GinkgoHelper()
	for _, submit := range submits {
		Eventually(func() int { return s.do(submit.method, submit.path, "", submit.headers...).status }, boundary).Should(Equal(http.StatusAccepted))
	}
}

var _ = Describe("While Redis is down", func() {
	It("each request is answered with 503, and those that waited go on when it is back", func() {
		s, own := alone(redisserver.Options{AppendOnly: true})
		location := s.submit().header.Get("Location")
		etag := s.get(location, "").header.Get("ETag")
		answers := make(chan map[string]answer, 1)
		waits := waits(location, etag)
		go func() {
			defer GinkgoRecover()
			answers <- s.all(waits)
		}()
		Eventually(held).Should(Equal(len(waits)))
		own.Kill()
		unavailable(s.all(append(reads(location, etag), asked{"a cancellation", "DELETE", location, nil})), bullmqhttp.CodeUnavailable)
		Eventually(func() bool { return s.queue.Health().Reachable }, boundary).Should(BeFalse())
		unavailable(s.all(withKeys(3)), bullmqhttp.CodeUnavailable)
		Consistently(answers, "200ms").ShouldNot(Receive())

		Expect(own.Start()).To(Succeed())
		s.acceptAgain(withKeys(3))
		Expect(s.jobs()).To(Equal(1 + 1 + 3))
		s.workWithURL(own.URL())
		var ended map[string]answer
		Eventually(answers, boundary).Should(Receive(&ended))
		for name, a := range ended {
			if name == "a status that changes" { // it may be running
				Expect(a.job().State).NotTo(Equal(bullmqhttp.Queued))
				continue
			}
			Expect(a.status).To(Equal(http.StatusOK), name)
			Expect(a.body).To(Or(Equal("done"), ContainSubstring(`"succeeded"`)), name)
		}
	})
})

var _ = Describe("While Redis is frozen", func() {
	It("each request is answered with 503 in time, no submit makes two jobs, and those that waited go on", func() {
		s, own := alone(redisserver.Options{})
		location := s.submit().header.Get("Location")
		etag := s.get(location, "").header.Get("ETag")
		answers := make(chan map[string]answer, 1)
		waits := waits(location, etag)
		go func() {
			defer GinkgoRecover()
			answers <- s.all(waits)
		}()
		leaveHeld := s.leaving(waits[1:]) // of clients that do not wait for the reply
		Eventually(held).Should(Equal(2*len(waits) - 1))
		Expect(own.Freeze()).To(Succeed())
		leave := s.leaving(append(reads(location, etag), withKeys(3)...))
		requests := append(reads(location, etag), asked{"a cancellation", "DELETE", location, nil}, asked{"a submit", "POST", "/reports/7", nil})
		replies := s.all(append(requests, withKeys(6)...))
		unavailable(replies, bullmqhttp.CodeUnavailable, bullmqhttp.CodeMaybeAdded)
		leave()
		leaveHeld()
		Expect(answers).To(BeEmpty())
		Eventually(func() int { return waiting("bullmqhttp.") }, boundary).Should(Equal(len(waits) + 1)) // events have two goroutines

		Expect(own.Thaw()).To(Succeed())
		s.acceptAgain(withKeys(6))
		for name, a := range replies {
			if a.code() == bullmqhttp.CodeMaybeAdded {
				Expect(a.header.Get("Location")).To(HavePrefix("/jobs/"), name)
				Expect(s.get(a.header.Get("Location"), "").status).To(BeElementOf(http.StatusOK, http.StatusNotFound), name)
			}
		}
		unsure := 1 // the submit without a key
		Expect(s.jobs()).To(And(BeNumerically(">=", 1+1+6), BeNumerically("<=", 1+1+6+unsure)))
		s.workWithURL(own.URL())
		Eventually(answers, boundary).Should(Receive())
	})

	It("a reply comes later than the timeouts of the http.Server, and also after the end of the request's context", func() {
		proxy, options := proxied(redis)
		s := start(&bullmqhttp.Options{Timeout: 500 * time.Millisecond}, bullmqhttp.Route{}, options)
		mux := http.NewServeMux()
		mux.Handle("POST /slow/{id}", s.server.Async("slow", bullmqhttp.Route{}))
		mux.Handle("/jobs/", s.server)
		mux.HandleFunc("/limited/", func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), 100*time.Millisecond)
			defer cancel()
			http.StripPrefix("/limited", s.server).ServeHTTP(w, r.WithContext(ctx))
		})
		web := httptest.NewUnstartedServer(mux)
		web.Config.ReadTimeout, web.Config.WriteTimeout = 300*time.Millisecond, 300*time.Millisecond
		web.Start()
		defer web.Close()
		s.url = web.URL
		location := s.do("POST", "/slow/7", "").header.Get("Location")
		Expect(location).NotTo(BeEmpty())
		Expect(proxy.Set(faultproxy.Faults{BlackHole: true})).To(Succeed())
		unavailable(s.all([]asked{
			{"a status", "GET", location, nil}, {"a result", "GET", location + "/result", nil}, {"events", "GET", location + "/events", nil},
			{"a cancellation", "DELETE", location, nil}, {"a submit", "POST", "/slow/7", nil}, {"a status in a limited time", "GET", "/limited" + location, nil},
		}), bullmqhttp.CodeUnavailable, bullmqhttp.CodeMaybeAdded)
		Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
	})
})

var _ = Describe("While Redis is frozen, a request to a manager", func() {
	It("is answered with 503 in time", func() {
		direct := aside(fmt.Sprint("manager-", queues.Add(1)))
		proxy, m := direct.through(bullmqhttp.ManagerOptions{Timeout: 500 * time.Millisecond})
		path := "/manage/jobs/" + direct.add(nil, nil).ID
		Expect(m.do("GET", path, "").status).To(Equal(http.StatusOK))
		Expect(proxy.Set(faultproxy.Faults{BlackHole: true})).To(Succeed())
		unavailable(m.all([]asked{
			{"get", "GET", path, nil}, {"list", "GET", "/manage/jobs?status=queued", nil}, {"due", "GET", "/manage/due", nil},
			{"stale claims", "GET", "/manage/claims/stale", nil}, {"statistics", "GET", "/manage/stats", nil},
			{"remove", "DELETE", path, nil}, {"cancel", "POST", path + "/cancel", nil},
		}), bullmqhttp.CodeUnavailable)
		Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
	})
})

var _ = Describe("While Redis is full", func() {
	It("submits are answered with 503, and reads and waits as usual", func() {
		s, own := alone(redisserver.Options{})
		location := s.submit().header.Get("Location")
		etag := s.get(location, "").header.Get("ETag")
		leave := s.leaving(waits(location, etag))
		Eventually(held).Should(Equal(len(waits(location, etag))))
		fill(own)
		unavailable(s.all(append(withKeys(3), asked{"a submit", "POST", "/reports/7", nil})), bullmqhttp.CodeUnavailable)
		for name, a := range s.all(reads(location, etag)[:5]) {
			switch {
			case strings.HasPrefix(name, "a result"):
				Expect(a.code()).To(Equal(bullmqhttp.CodeNotFinished), name)
			case name == "a status that changes":
				Expect(a.status).To(Equal(http.StatusNotModified), name)
			default:
				Expect(a.job().State).To(Equal(bullmqhttp.Queued), name)
			}
		}
		if a := s.do("DELETE", location, ""); a.status != http.StatusAccepted { // Redis permits it if its first command frees memory
			unavailable(map[string]answer{"a cancellation": a}, bullmqhttp.CodeUnavailable)
		}
		leave()
		Eventually(func() int { return waiting("bullmqhttp.") }, boundary).Should(BeZero())
		Expect(s.jobs()).To(Equal(2))
		command(own, "CONFIG", "SET", "maxmemory", "0")
		s.acceptAgain(withKeys(3))
		Expect(s.jobs()).To(Equal(2 + 3))
		Expect(s.do("DELETE", location, "").status).To(Equal(http.StatusAccepted))
	})

	It("a submit whose reply was lost finds its job", func() {
		own, err := redisserver.Start(redisserver.Options{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(own.Close)
		proxy, options := proxied(own)
		s := start(nil, bullmqhttp.Route{}, options)
		s.submit()
		for _, headers := range [][]string{nil, {"Idempotency-Key", "a"}} {
			before := s.jobs()
			hangs := proxy.HangReply("EVALSHA")
			go func() {
				defer GinkgoRecover()
				Eventually(hangs).Should(BeClosed())
				fill(own)
				proxy.CutAll()
			}()
			a := s.submit(headers...)
			Expect(a.status).To(Equal(http.StatusAccepted), a.body)
			Expect(a.header.Get("Idempotency-Replayed")).To(BeEmpty())
			Expect(s.jobs()).To(Equal(before + 1))
			command(own, "CONFIG", "SET", "maxmemory", "0")
		}
	})
})

var _ = Describe("A request whose connection to Redis breaks", func() {
	It("is answered all the same if it may be repeated", func() {
		proxy, options := proxied(redis)
		s := start(nil, bullmqhttp.Route{}, options)
		location := s.submit().header.Get("Location")
		for _, request := range []asked{
			{"evalsha", "GET", location, nil}, {"evalsha", "GET", location + "/result", nil}, {"by the client", "DELETE", location, nil},
		} {
			Eventually(func() int { return s.get(location, "").status }).Should(Equal(http.StatusOK))
			lost := proxy.LoseReply(request.name)
			a := s.do(request.method, request.path, "")
			Expect(lost).To(BeClosed(), request.path)
			Expect(a.status).To(BeElementOf(http.StatusOK, http.StatusConflict, http.StatusAccepted), "%s: %s", request.path, a.body)
		}
	})
})

var _ = Describe("A client that leaves", func() {
	// The spec of a frozen Redis has the same.
	DescribeTable("leaves nothing behind while Redis", func(hurt func(*redisserver.Server), heal func(*redisserver.Server)) {
		s, own := alone(redisserver.Options{AppendOnly: true})
		location := s.submit().header.Get("Location")
		etag := s.get(location, "").header.Get("ETag")
		waits := waits(location, etag)
		leave := s.leaving(waits)
		Eventually(held).Should(Equal(len(waits)))
		hurt(own)
		more := s.leaving(append(reads(location, etag), append(withKeys(3), asked{"a cancellation", "DELETE", location, nil})...))
		time.Sleep(100 * time.Millisecond) // some wait for Redis, and some have their replies
		more()
		leave()
		Eventually(func() int { return waiting("bullmqhttp.") }, boundary).Should(BeZero())
		Expect(held()).To(BeZero())
		heal(own)
		s.acceptAgain(withKeys(3))
		Expect(s.jobs()).To(Equal(1 + 1 + 3))
	},
		Entry("is down", (*redisserver.Server).Kill, func(own *redisserver.Server) { Expect(own.Start()).To(Succeed()) }),
		Entry("is full", fill, func(own *redisserver.Server) { command(own, "CONFIG", "SET", "maxmemory", "0") }),
	)
})

var _ = Describe("A submit that finds its job after a lost reply, but can't read it", func() {
	It("is answered with 503 and the address of the job", func() {
		proxy, options := proxied(redis)
		s := start(&bullmqhttp.Options{Timeout: time.Second}, bullmqhttp.Route{}, options)
		Expect(s.submit("Idempotency-Key", "b").status).To(Equal(http.StatusAccepted)) // the script is loaded
		lost, hangs := proxy.LoseReply("EVALSHA"), proxy.HangReply("HGETALL")
		a := s.submit("Idempotency-Key", "a")
		Eventually(lost).Should(BeClosed())
		Expect(hangs).To(BeClosed())
		Expect(a.status).To(Equal(http.StatusServiceUnavailable), a.body)
		Expect(a.code()).To(Equal(bullmqhttp.CodeMaybeAdded))
		proxy.CutAll()
		Eventually(func() int { return s.get(a.header.Get("Location"), "").status }).Should(Equal(http.StatusOK))
		Expect(s.jobs()).To(Equal(2))
	})
})
