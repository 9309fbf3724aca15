package bullmqpush_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqpush"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// accepting is a queue whose jobs are sent to an endpoint that accepts them with 202, and a
// server of callbacks.
type accepting struct {
	*endpoint // unless setup.url is set
	queue     *bullmq.Queue
	callbacks *httptest.Server
	key       string // of the callbacks
	stop      func() // stops the worker
}

// setup changes what accept starts.
type setup struct {
	url        string           // of the endpoint, if it is not one of the spec
	keys       []string         // that sign the requests
	answer     http.HandlerFunc // of the endpoint; 202 by default
	worker     bullmq.WorkerOptions
	fetcher    bullmq.FetcherOptions
	callbacks  bullmqpush.CallbacksOptions
	acceptWait time.Duration // CallbackWait; an hour by default
	dialect    bullmq.Dialect
}

// accept starts a worker that sends jobs to an endpoint, and a server of callbacks. Both have a
// connection of their own.
func accept(s setup) *accepting {
	GinkgoHelper()
	a := &accepting{key: bullmqpush.NewKey()}
	if s.url == "" {
		if s.answer == nil {
			s.answer = answering(202, "")
		}
		a.endpoint = serve(s.answer)
		s.url = a.URL
	}
	name := fmt.Sprintf("push-%d-%d", GinkgoParallelProcess(), queues.Add(1))
	var err error
	a.queue, err = bullmq.NewQueue(specContext(), name, &bullmq.QueueOptions{URL: redis.URL(), Dialect: s.dialect})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(a.queue.Close)

	s.callbacks.Keys = []string{bullmqpush.NewKey(), a.key}
	s.callbacks.Wait = cmp.Or(s.callbacks.Wait, time.Hour)
	a.callbacks = httptest.NewServer(newCallbacks(s.callbacks, name, s.fetcher, s.dialect))
	DeferCleanup(a.callbacks.Close)

	handler, err := newClient(local(bullmqpush.Options{
		Keys: s.keys, CallbackURL: a.callbacks.URL + "/jobs/", CallbackKeys: []string{a.key}, CallbackWait: cmp.Or(s.acceptWait, time.Hour), HostConcurrency: 1,
	})).Handler(s.url)
	Expect(err).NotTo(HaveOccurred())
	s.worker.URL, s.worker.Dialect = cmp.Or(s.worker.URL, redis.URL()), s.dialect
	worker, err := bullmq.NewWorker(specContext(), name, handler, &s.worker)
	Expect(err).NotTo(HaveOccurred())
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	a.stop = func() {
		stop()
		Eventually(ended).Should(Receive(BeNil()))
		ended <- nil
	}
	DeferCleanup(a.stop)
	return a
}

// newCallbacks returns the callbacks of a queue.
func newCallbacks(o bullmqpush.CallbacksOptions, queue string, f bullmq.FetcherOptions, dialect bullmq.Dialect) *bullmqpush.Callbacks {
	GinkgoHelper()
	f.URL, f.Dialect = cmp.Or(f.URL, redis.URL()), dialect
	fetcher, err := bullmq.NewFetcher(specContext(), queue, &f)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(fetcher.Close)
	callbacks, err := bullmqpush.NewCallbacks(&o, fetcher)
	Expect(err).NotTo(HaveOccurred())
	return callbacks
}

// add adds a job, and waits until the endpoint has its request.
func (a *accepting) add(o *bullmq.JobOptions) *bullmq.Job {
	GinkgoHelper()
	before := a.count()
	job := add(a.queue, o)
	Eventually(a.count).Should(Equal(before + 1))
	return job
}

// address returns the address for the callbacks of the request with an index.
func (a *accepting) address(index int) string {
	return a.received()[index].header.Get(bullmqpush.HeaderCallback)
}

// call makes a callback for the request with an index.
func (a *accepting) call(index int, name, body string) reply {
	GinkgoHelper()
	return callBack(a.address(index)+"/"+name, body)
}

// reply is the answer to a callback.
type reply struct {
	Status int
	Code   string // of the problem, if it is one
	Detail string
	Header http.Header
	Body   string
}

var caller = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func callBack(url, body string) reply {
	GinkgoHelper()
	response, err := caller.Post(url, "application/json", strings.NewReader(body))
	Expect(err).NotTo(HaveOccurred())
	return readReply(response)
}

// readReply returns a response, and checks that it is a problem unless its status is 204.
func readReply(response *http.Response) reply {
	GinkgoHelper()
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	r := reply{Status: response.StatusCode, Header: response.Header, Body: string(text)}
	if r.Status == http.StatusNoContent {
		Expect(r.Body).To(BeEmpty())
		return r
	}
	Expect(r.Header.Get("Content-Type")).To(Equal("application/problem+json"), r.Body)
	Expect(r.Header.Get("Cache-Control")).To(Equal("no-store"))
	var problem struct {
		Status              int
		Title, Detail, Code string
	}
	Expect(json.Unmarshal(text, &problem)).To(Succeed())
	Expect(problem.Status).To(Equal(r.Status))
	Expect(problem.Title).To(Equal(http.StatusText(r.Status)))
	Expect(problem.Detail).NotTo(BeEmpty())
	r.Code, r.Detail = problem.Code, problem.Detail
	return r
}

// beMade matches the answer to a callback that was made.
func beMade() OmegaMatcher { return HaveField("Status", http.StatusNoContent) }

// beRefused matches the answer to a callback that was refused with a code.
func beRefused(status int, code string) OmegaMatcher {
	return And(HaveField("Status", status), HaveField("Code", code))
}

// beOver matches the answer to a callback for an attempt that has ended.
func beOver() OmegaMatcher { return beRefused(http.StatusConflict, bullmqpush.CodeAttemptEnded) }

// command sends one command to a server and returns its reply as text.
func command(to *redisserver.Server, words ...string) string {
	GinkgoHelper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{to.Addr()}, DisableCache: true, ForceSingleClient: true})
	Expect(err).NotTo(HaveOccurred())
	defer client.Close()
	value, err := client.Do(context.Background(), client.B().Arbitrary(words...).Build()).ToAny()
	Expect(err).NotTo(HaveOccurred())
	return fmt.Sprint(value)
}

// expire removes the lock of a job, as if it had expired.
func expire(job *bullmq.Job) {
	GinkgoHelper()
	Expect(command(redis, "DEL", job.Key()+":lock")).To(Equal("1"))
}

// lockEnd returns in how long the lock of a job expires.
func lockEnd(job *bullmq.Job) time.Duration {
	GinkgoHelper()
	var left int64
	_, err := fmt.Sscan(command(redis, "PTTL", job.Key()+":lock"), &left)
	Expect(err).NotTo(HaveOccurred())
	return time.Duration(left) * time.Millisecond
}

// emitted returns how many events of a kind the queue has emitted.
func (a *accepting) emitted(event string) int {
	GinkgoHelper()
	return strings.Count(command(redis, "XRANGE", "bull:"+a.queue.Name()+":events", "-", "+"), "[event "+event+" ")
}

var allCalls = []string{"complete", "fail", "progress", "extend"}

// logLines is a log as text.
type logLines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logLines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logLines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
