package bullmqhttp_test

// The suite runs one redis-server for all specs. Each spec has a queue of its own, a real HTTP server on loopback and
// a real client. After each spec none of its goroutines and connections may be left.

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
	"github.com/17a2ac88/bullmq-go/internal/testkit/leaks"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
	"github.com/17a2ac88/bullmq-go/internal/testkit/suite"
)

var (
	redis  *redisserver.Server
	queues atomic.Int64
)

func TestBullMQHTTP(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(15 * time.Second)
	SetDefaultEventuallyPollingInterval(10 * time.Millisecond)
	suite.Run(t, "bullmqhttp")
}

var _ = BeforeSuite(func() {
	leaks.Check()
	var err error
	redis, err = redisserver.Start(redisserver.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(redis.Close)
})

var (
	_ = BeforeEach(suite.Select)
	_ = BeforeEach(leaks.Check)
)

// service is a Server with one route, "POST /reports/{id}", its queue, and a client.
type service struct {
	queue  *bullmq.Queue
	server *bullmqhttp.Server
	url    string
	client *http.Client
}

// start starts a service. queueOptions may be nil.
func start(o *bullmqhttp.Options, route bullmqhttp.Route, queueOptions *bullmq.QueueOptions) *service {
	GinkgoHelper()
	if queueOptions == nil {
		queueOptions = &bullmq.QueueOptions{URL: redis.URL()}
	}
	queue, err := bullmq.NewQueue(context.Background(), fmt.Sprint("http-", queues.Add(1)), queueOptions)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(queue.Close)
	server := bullmqhttp.New(queue, o)
	mux := http.NewServeMux()
	mux.Handle("POST /reports/{id}", server.Async("report", route))
	base := "/jobs/"
	if o != nil && o.Base != "" {
		base = o.Base + "/"
	}
	mux.Handle(base, server)
	web := httptest.NewServer(mux)
	DeferCleanup(web.Close)
	DeferCleanup(server.Close) // before, so that no request is held
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	DeferCleanup(transport.CloseIdleConnections)
	return &service{queue, server, web.URL, &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}}
}

// work runs a worker with an http.Handler until the spec ends.
func (s *service) work(handler http.HandlerFunc, options ...bullmqhttp.ServeOptions) {
	GinkgoHelper()
	s.workWith(bullmqhttp.Serve(handler, options...), &bullmq.WorkerOptions{Concurrency: 10, Classify: bullmqhttp.Classify})
}

func (s *service) workWith(handler bullmq.Handler, o *bullmq.WorkerOptions) *bullmq.Worker {
	GinkgoHelper()
	if o.URL == "" {
		o.URL = redis.URL()
	}
	worker, err := bullmq.NewWorker(context.Background(), s.queue.Name(), handler, o)
	Expect(err).NotTo(HaveOccurred())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(context.Background()) }()
	DeferCleanup(func() {
		Expect(worker.Close()).To(Succeed())
		Eventually(ended).Should(Receive())
	})
	return worker
}

// answer is a reply, read to its end.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) decode(into any) {
	GinkgoHelper()
	Expect(json.Unmarshal([]byte(a.body), into)).To(Succeed(), a.body)
}

// code returns the code of a problem.
func (a answer) code() string {
	GinkgoHelper()
	Expect(a.header.Get("Content-Type")).To(Equal("application/problem+json"), a.body)
	var p bullmqhttp.Problem
	a.decode(&p)
	Expect(p.Status).To(Equal(a.status))
	Expect(p.Title).NotTo(BeEmpty())
	return p.Code
}

func (a answer) job() bullmqhttp.Status {
	GinkgoHelper()
	var status bullmqhttp.Status
	a.decode(&status)
	return status
}

// do sends a request. headers alternate names and values.
func (s *service) do(method, path, body string, headers ...string) answer {
	GinkgoHelper()
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	Expect(err).NotTo(HaveOccurred())
	return s.send(r, headers...)
}

func (s *service) send(r *http.Request, headers ...string) answer {
	GinkgoHelper()
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	reply, err := s.client.Do(r)
	Expect(err).NotTo(HaveOccurred())
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	Expect(err).NotTo(HaveOccurred())
	return answer{reply.StatusCode, reply.Header, string(text)}
}

// submit posts a report in JSON.
func (s *service) submit(headers ...string) answer {
	GinkgoHelper()
	return s.do("POST", "/reports/7", `{"year":2026}`, append([]string{"Content-Type", "application/json"}, headers...)...)
}

// get gets a path below Location of a reply.
func (s *service) get(location, part string, headers ...string) answer {
	GinkgoHelper()
	return s.do("GET", location+part, "", headers...)
}

// ended waits until a job has ended, and returns its status.
func (s *service) ended(location string) (status bullmqhttp.Status) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		status = s.get(location, "?wait=5").job()
		g.Expect(status.State.Ended()).To(BeTrue())
	}).Should(Succeed())
	return status
}

// jobs returns how many jobs the queue has, in all states.
func (s *service) jobs() int {
	GinkgoHelper()
	var counts map[bullmq.State]int
	Eventually(func() (err error) { // the connection may have been cut
		counts, err = s.queue.Counts(context.Background())
		return err
	}).Should(Succeed())
	total := 0
	for _, n := range counts {
		total += n
	}
	return total
}
