package main_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqpush"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// write writes a file with a content, and returns its path.
func write(name, content string) string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), name)
	Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	return path
}

var _ = Describe("The command", func() {
	It("sends the jobs of each queue to its endpoint, signed by both keys, and the answers end them", func() {
		older, newer := bullmqpush.NewKey(), bullmqpush.NewKey()
		bills, letters := newQueue(), newQueue()
		billing := serve(older, answering(200, `{"bill":17}`))
		mail := serve(newer, answering(422, `"no address"`))
		session := sender(older+" "+newer, "-queue", bills.Name()+"="+billing.URL+"/jobs?tenant=7", "-queue", letters.Name()+"="+mail.URL+"/jobs")

		job := inState(bills, add(bills, nil).ID, bullmq.StateCompleted)
		Expect(string(job.ReturnValue)).To(Equal(`{"bill":17}`))
		job = inState(letters, add(letters, &bullmq.JobOptions{Attempts: 5}).ID, bullmq.StateFailed)
		Expect(job.FailedReason).To(ContainSubstring("the endpoint returned 422"))
		Expect(job.AttemptsMade).To(Equal(1))
		Expect(billing.requests[0].Queue).To(Equal(bills.Name()))
		Expect(billing.requests[0].Data).To(Equal(json.RawMessage(`{"id":17}`)))
		Expect(mail.requests[0].Queue).To(Equal(letters.Name()))
		Eventually(session.Terminate()).Should(gexec.Exit(0))
		Expect(string(session.Err.Contents())).NotTo(Or(ContainSubstring(older), ContainSubstring(newer), ContainSubstring("tenant")))
	})

	It("takes everything from variables of the environment, and flags take precedence over them", func() {
		key := bullmqpush.NewKey()
		first, second := newQueue(), newQueue()
		to := serve(key, answering(200, ""))
		session := start([]string{
			"BULLMQPUSH_REDIS=" + redis.URL(), "BULLMQPUSH_KEYS=" + key, "BULLMQPUSH_ALLOW_HTTP=true", "BULLMQPUSH_ALLOWED_NETWORKS=10.0.0.0/8 127.0.0.1",
			"BULLMQPUSH_QUEUE=" + first.Name() + "=" + to.URL + "/first " + second.Name() + "=" + to.URL + "/second",
			"BULLMQPUSH_HEADERS=Authorization: Bearer t\nX-Tenant: 7\n", "BULLMQPUSH_TIMEOUT=1m", "BULLMQPUSH_LOG_FORMAT=text",
		}, "-log-format", "json", "-log-level", "debug")
		inState(first, add(first, nil).ID, bullmq.StateCompleted)
		inState(second, add(second, nil).ID, bullmq.StateCompleted)
		Expect(to.header(0).Get("Authorization")).To(Equal("Bearer t"))
		Expect(to.header(1).Get("X-Tenant")).To(Equal("7"))
		Expect(to.requests[0].Deadline).To(BeTemporally("~", time.Now().Add(time.Minute), 25*time.Second))
		Eventually(session.Terminate()).Should(gexec.Exit(0))
		lines := strings.Split(strings.TrimSpace(string(session.Err.Contents())), "\n")
		Expect(len(lines)).To(BeNumerically(">", 4))
		for _, line := range lines {
			Expect(json.Valid([]byte(line))).To(BeTrue(), line)
		}
		Expect(session.Err.Contents()).NotTo(ContainSubstring("Bearer"))
	})

	It("reads the keys, the headers and the address of Redis from files", func() {
		key := bullmqpush.NewKey()
		server, err := redisserver.Start(redisserver.Options{Password: "secret"})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(server.Close)
		queue, err := bullmq.NewQueue(specContext(), "orders", &bullmq.QueueOptions{URL: server.URL(), Prefix: "shop"})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(queue.Close)
		to := serve(key, answering(200, ""))
		session := start(nil, "-redis-file", write("redis", server.URL()+"\n"), "-keys-file", write("keys", bullmqpush.NewKey()+"\n"+key+"\n"),
			"-headers-file", write("headers", "Authorization: Bearer t\n"), "-prefix", "shop", "-queue", "orders="+to.URL, "-allow-http", "-allowed-networks", "127.0.0.1")
		inState(queue, add(queue, nil).ID, bullmq.StateCompleted)
		Expect(to.header(0).Get("Authorization")).To(Equal("Bearer t"))
		Eventually(session.Terminate()).Should(gexec.Exit(0))
		Expect(session.Err.Contents()).NotTo(ContainSubstring("secret"))
	})

	It("sends nothing to private addresses that are not allowed, in whatever form, nor through a proxy of the environment", func() {
		key := bullmqpush.NewKey()
		to, proxy := serve(key, answering(200, "")), serve(key, answering(200, ""))
		port := to.Listener.Addr().String()[strings.LastIndex(to.Listener.Addr().String(), ":"):]
		queues := map[string]*bullmq.Queue{}
		arguments := []string{"-redis", redis.URL(), "-allow-http", "-timeout", "10s"}
		for _, host := range []string{"127.0.0.1", "localhost", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "[::ffff:127.0.0.1]", "0.0.0.0"} {
			queues[host] = newQueue()
			arguments = append(arguments, "-queue", queues[host].Name()+"=http://"+host+port)
		}
		// The C library, if the command is linked with it, understands all of these forms.
		start([]string{"BULLMQPUSH_KEYS=" + key, "GODEBUG=netdns=cgo", "HTTP_PROXY=" + proxy.URL, "ALL_PROXY=" + proxy.URL}, arguments...)
		ids := map[string]string{}
		for host, queue := range queues {
			ids[host] = add(queue, nil).ID
		}
		for host, queue := range queues {
			reason := inState(queue, ids[host], bullmq.StateFailed).FailedReason
			Expect(reason).To(Or(ContainSubstring("the address is not public"), ContainSubstring("no such host"), ContainSubstring("no answer in time")), host)
		}
		Expect(to.count() + proxy.count()).To(BeZero())
	})

	It("limits the requests to a host, and pauses a host that fails", func() {
		key := bullmqpush.NewKey()
		queue, failing := newQueue(), newQueue()
		var running, most atomic.Int32
		to := serve(key, func(http.ResponseWriter, *http.Request) {
			now := running.Add(1)
			for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
			}
			time.Sleep(5 * time.Millisecond)
			running.Add(-1)
		})
		broken := serve(key, answering(500, ""))
		sender(key, "-queue", queue.Name()+"="+to.URL, "-queue", failing.Name()+"="+broken.URL,
			"-concurrency", "8", "-host-concurrency", "2", "-breaker-failures", "3", "-breaker-pause", "1h")
		var ids []string
		for range 20 {
			ids = append(ids, add(queue, nil).ID)
		}
		for _, id := range ids {
			inState(queue, id, bullmq.StateCompleted)
		}
		Expect(most.Load()).To(BeNumerically("<=", 2))
		Expect(inState(failing, add(failing, &bullmq.JobOptions{Attempts: 20}).ID, bullmq.StateDelayed).AttemptsMade).To(Equal(3))
		Expect(broken.count()).To(Equal(3))
	})
})

var _ = Describe("After SIGTERM the command", func() {
	It("waits for the answers to its requests and exits with 0", func() {
		key := bullmqpush.NewKey()
		queue := newQueue()
		release := make(chan struct{})
		to := serve(key, func(w http.ResponseWriter, r *http.Request) {
			<-release
			answering(200, `"done"`)(w, r)
		})
		session := sender(key, "-queue", queue.Name()+"="+to.URL, "-concurrency", "1", "-shutdown-timeout", "1m")
		running := add(queue, nil)
		Eventually(to.count).Should(Equal(1))
		waiting := add(queue, nil)
		session.Terminate()
		Eventually(session.Err).Should(gbytes.Say("the worker stops"))
		close(release)
		Eventually(session).Should(gexec.Exit(0))
		Expect(string(inState(queue, running.ID, bullmq.StateCompleted).ReturnValue)).To(Equal(`"done"`))
		inState(queue, waiting.ID, bullmq.StateWaiting)
		Expect(to.count()).To(Equal(1))
	})

	DescribeTable("returns the jobs that are not answered, without using an attempt, and exits with 0", func(timeout string, signals int) {
		key := bullmqpush.NewKey()
		queue := newQueue()
		ended := make(chan struct{})
		to := serve(key, func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			close(ended)
		})
		session := sender(key, "-queue", queue.Name()+"="+to.URL, "-shutdown-timeout", timeout)
		job := add(queue, nil)
		Eventually(to.count).Should(Equal(1))
		session.Terminate()
		if signals > 1 {
			Eventually(session.Err).Should(gbytes.Say("the worker stops"))
			session.Terminate()
		}
		Eventually(session).Should(gexec.Exit(0))
		Eventually(ended).Should(BeClosed())
		Expect(inState(queue, job.ID, bullmq.StateWaiting).AttemptsMade).To(BeZero())
	},
		Entry("after shutdown-timeout", "4s", 1),
		Entry("at a second signal", "10m", 2),
	)
})

var _ = It("The command serves probes, which report an outage of Redis without failing the liveness", func() {
	key := bullmqpush.NewKey()
	server, err := redisserver.Start(redisserver.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(server.Close)
	session := start([]string{"BULLMQPUSH_KEYS=" + key}, "-redis", server.URL(), "-queue", "orders=https://api.example.com", "-listen", "127.0.0.1:0")
	web := listening(session)
	ready := func() int {
		status, _ := get(web + "/readyz")
		return status
	}
	Eventually(ready).Should(Equal(200))
	status, body := get(web + "/healthz")
	Expect(status).To(Equal(200))
	Expect(body).To(MatchJSON(`{"status":"running","queues":["orders"]}`))
	status, _ = get(web + "/")
	Expect(status).To(Equal(404))

	server.Stop()
	Eventually(ready).Should(Equal(503))
	status, body = get(web + "/healthz")
	Expect(status).To(Equal(200))
	Expect(body).To(ContainSubstring(`"status":"unreachable"`))
	Expect(server.Start()).To(Succeed())
	Eventually(ready).Should(Equal(200))
	Eventually(session.Terminate()).Should(gexec.Exit(0))
})
