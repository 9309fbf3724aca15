package main_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqpush"
	"github.com/17a2ac88/bullmq-go/internal/testkit/leaks"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
	"github.com/17a2ac88/bullmq-go/internal/testkit/suite"
)

var (
	program string // the compiled command
	redis   *redisserver.Server
	names   atomic.Int64
)

func TestCommand(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(20 * time.Second)
	suite.RunWhole(t, "cmd/bullmqpush")
}

var _ = BeforeSuite(func() {
	leaks.Check()
	program = filepath.Join(GinkgoT().TempDir(), "bullmqpush")
	output, err := exec.Command("go", "build", "-ldflags=-w", "-o", program, ".").CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
	redis, err = redisserver.Start(redisserver.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(redis.Close)
})

var _ = BeforeEach(leaks.Check)

// specContext returns a context that ends with the spec.
func specContext() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	DeferCleanup(cancel)
	return ctx
}

// start runs the command with variables of the environment, and without those of the test.
func start(variables []string, arguments ...string) *gexec.Session {
	GinkgoHelper()
	command := exec.Command(program, arguments...)
	command.Env = variables
	session, err := gexec.Start(command, GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { session.Kill().Wait(20 * time.Second) })
	return session
}

// sender runs the command with a key, for endpoints on this machine without TLS, and waits until its workers run.
func sender(key string, arguments ...string) *gexec.Session {
	GinkgoHelper()
	session := start([]string{"BULLMQPUSH_KEYS=" + key},
		append([]string{"-redis", redis.URL(), "-allow-http", "-allowed-networks", "127.0.0.0/8"}, arguments...)...)
	Eventually(session.Err).Should(gbytes.Say("the worker runs"))
	return session
}

// newQueue returns a queue with a name of its own.
func newQueue() *bullmq.Queue {
	GinkgoHelper()
	queue, err := bullmq.NewQueue(specContext(), fmt.Sprintf("command-%d-%d", GinkgoParallelProcess(), names.Add(1)), &bullmq.QueueOptions{URL: redis.URL()})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(queue.Close)
	return queue
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

// endpoint is an HTTP server that records its requests.
type endpoint struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*bullmqpush.Delivery
	headers  []http.Header
}

// endpointWith returns an endpoint that is not started. It refuses requests that the key has not signed.
func endpointWith(key string, handler http.HandlerFunc) *endpoint {
	e := &endpoint{}
	receiver := bullmqpush.Receiver{Keys: []string{key}}
	e.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		delivery, err := receiver.Receive(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		e.mu.Lock()
		e.requests, e.headers = append(e.requests, delivery), append(e.headers, r.Header.Clone())
		e.mu.Unlock()
		handler(w, r)
	}))
	DeferCleanup(e.Close)
	return e
}

// serve starts an endpoint without TLS.
func serve(key string, handler http.HandlerFunc) *endpoint {
	e := endpointWith(key, handler)
	e.Start()
	return e
}

func (e *endpoint) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.requests)
}

// header returns the headers of a request.
func (e *endpoint) header(n int) http.Header {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.headers[n]
}

// answering returns a handler that returns a status and a JSON body.
func answering(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// get returns the status and the body of an address.
func get(url string) (int, string) {
	GinkgoHelper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return response.StatusCode, strings.TrimSpace(string(body))
}

// listening returns the URL at which a session serves HTTP.
func listening(session *gexec.Session) string {
	GinkgoHelper()
	var found [][]byte
	Eventually(func() [][]byte {
		found = regexp.MustCompile(`serving HTTP.*listen=(\S+)`).FindSubmatch(session.Err.Contents())
		return found
	}).ShouldNot(BeNil())
	return "http://" + string(found[1])
}
