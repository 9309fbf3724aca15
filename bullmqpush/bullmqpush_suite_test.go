package bullmqpush_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqpush"
	"github.com/17a2ac88/bullmq-go/internal/testkit/leaks"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
	"github.com/17a2ac88/bullmq-go/internal/testkit/suite"
)

var (
	redis  *redisserver.Server
	queues atomic.Int64

	loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
)

func TestBullMQPush(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultEventuallyPollingInterval(5 * time.Millisecond)
	suite.Run(t, "bullmqpush")
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

// specContext returns a context that ends with the spec.
func specContext() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	DeferCleanup(cancel)
	return ctx
}

// received is a request as an endpoint has received it.
type received struct {
	header http.Header
	body   string
	at     time.Time
	path   string
}

// endpoint is an HTTP server that records its requests.
type endpoint struct {
	*httptest.Server
	mu       sync.Mutex
	requests []received
}

func (e *endpoint) received() []received {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]received(nil), e.requests...)
}

func (e *endpoint) count() int { return len(e.received()) }

// record is the endpoint's handler around the one of a spec.
func (e *endpoint) record(handler http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		e.mu.Lock()
		e.requests = append(e.requests, received{r.Header.Clone(), string(body), time.Now(), r.URL.Path})
		e.mu.Unlock()
		handler(w, r)
	})
}

// serve starts an endpoint without TLS.
func serve(handler http.HandlerFunc) *endpoint {
	e := &endpoint{}
	e.Server = httptest.NewServer(e.record(handler))
	DeferCleanup(e.Close)
	return e
}

// answering returns a handler that returns a status, headers in pairs of name and value, and a
// body.
func answering(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// local completes options for endpoints on this machine without TLS.
func local(o bullmqpush.Options) *bullmqpush.Options {
	if o.Keys == nil {
		o.Keys = []string{bullmqpush.NewKey()}
	}
	if o.AllowedNetworks == nil {
		o.AllowedNetworks = loopback
	}
	o.AllowHTTP = true
	return &o
}

func newClient(o *bullmqpush.Options) *bullmqpush.Client {
	GinkgoHelper()
	client, err := bullmqpush.NewClient(o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(client.Close)
	return client
}

// work runs the jobs of a new queue by sending them to a URL, and returns the queue.
func work(url string, o *bullmqpush.Options) *bullmq.Queue {
	GinkgoHelper()
	handler, err := newClient(o).Handler(url)
	Expect(err).NotTo(HaveOccurred())
	return workBy(handler, bullmq.WorkerOptions{Concurrency: 10})
}

// workBy runs the jobs of a new queue by a handler.
func workBy(handler bullmq.Handler, o bullmq.WorkerOptions) *bullmq.Queue {
	GinkgoHelper()
	return workOn(redis, handler, o)
}

// workOn runs the jobs of a new queue on a server by a handler.
func workOn(server *redisserver.Server, handler bullmq.Handler, o bullmq.WorkerOptions) *bullmq.Queue {
	GinkgoHelper()
	queue, run := prepare(server, fmt.Sprintf("push-%d-%d", GinkgoParallelProcess(), queues.Add(1)), handler, o)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	DeferCleanup(func() {
		stop()
		Eventually(ended).Should(Receive(BeNil()))
	})
	return queue
}

// prepare returns a queue on a server and the Run of its worker.
func prepare(server *redisserver.Server, name string, handler bullmq.Handler, o bullmq.WorkerOptions) (*bullmq.Queue, func(context.Context) error) {
	GinkgoHelper()
	connection, err := bullmq.Connect(specContext(), server.URL())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(connection.Close)
	queue, err := bullmq.NewQueue(specContext(), name, &bullmq.QueueOptions{Connection: connection})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(queue.Close)
	o.Connection = connection
	worker, err := bullmq.NewWorker(specContext(), name, handler, &o)
	Expect(err).NotTo(HaveOccurred())
	return queue, worker.Run
}

func add(queue *bullmq.Queue, o *bullmq.JobOptions) *bullmq.Job {
	GinkgoHelper()
	job, err := queue.Add(specContext(), "order", map[string]int{"id": 17}, o)
	Expect(err).NotTo(HaveOccurred())
	return job
}

// inState waits until a job is in a state, and returns it.
func inState(queue *bullmq.Queue, id string, want bullmq.State) *bullmq.Job {
	GinkgoHelper()
	var job *bullmq.Job
	Eventually(func() (state bullmq.State, err error) {
		job, state, err = queue.JobAndState(context.Background(), id)
		return state, err
	}).Should(Equal(want))
	return job
}
