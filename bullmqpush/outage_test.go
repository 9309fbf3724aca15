package bullmqpush_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqpush"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// serveRaw starts a server that serves each connection by a function, and returns its URL. The
// channel is closed when the spec ends.
func serveRaw(serve func(connection net.Conn, end <-chan struct{})) string {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			serve(connection, end)
			_ = connection.Close()
		}
	}()
	DeferCleanup(func() {
		close(end)
		Expect(listener.Close()).To(Succeed())
		Eventually(ended, 20*time.Second).Should(BeClosed())
	})
	return "http://" + listener.Addr().String()
}

// drip reads a request, writes a text, and then another one again and again until the client has
// closed the connection.
func drip(connection net.Conn, begin, next string) {
	_, _ = connection.Read(make([]byte, 1<<16))
	_, err := io.WriteString(connection, begin)
	for err == nil {
		time.Sleep(5 * time.Millisecond)
		_, err = io.WriteString(connection, next)
	}
}

var _ = Describe("A receiver that fails", func() {
	It("gets the job again when it is back, with the same id", func() {
		port, err := redisserver.FreePort()
		Expect(err).NotTo(HaveOccurred())
		address := fmt.Sprintf("127.0.0.1:%d", port)
		queue := work("http://"+address+"/jobs", local(bullmqpush.Options{BreakerFailures: 2, BreakerPause: 200 * time.Millisecond}))
		job := add(queue, &bullmq.JobOptions{Attempts: 1000, Backoff: bullmq.FixedBackoff(10 * time.Millisecond)})
		Eventually(func() (int, error) {
			stored, err := queue.Job(context.Background(), job.ID)
			return stored.AttemptsMade, err
		}, 20*time.Second).Should(BeNumerically(">=", 3)) // also after a pause

		listener, err := net.Listen("tcp", address)
		Expect(err).NotTo(HaveOccurred())
		to := &endpoint{Server: &httptest.Server{Listener: listener, Config: &http.Server{}}}
		to.Config.Handler = to.record(answering(200, ""))
		to.Start()
		DeferCleanup(to.Close)
		Eventually(to.count, 20*time.Second).Should(Equal(1))
		done := inState(queue, job.ID, bullmq.StateCompleted)
		header := to.received()[0].header
		Expect(header.Get(bullmqpush.HeaderID)).To(Equal(queue.Name() + "/" + job.ID))
		Expect(header.Get(bullmqpush.HeaderAttempt)).To(Equal(fmt.Sprint(done.AttemptsMade)))
	})

	DescribeTable("costs a job no more than Timeout:", func(serve func(net.Conn, <-chan struct{}), size int) {
		send := bullmqpush.Handler(serveRaw(serve), local(bullmqpush.Options{Timeout: 300 * time.Millisecond}))
		data := json.RawMessage(`"` + strings.Repeat("a", size) + `"`)
		begin := time.Now()
		_, err := send(specContext(), &bullmq.Job{ID: "1", Name: "order", Data: data})
		Expect(err).To(MatchError(ContainSubstring("no answer in time: Timeout is 300ms")))
		Expect(time.Since(begin)).To(BeNumerically("<", 20*time.Second))
	},
		Entry("it reads nothing", func(_ net.Conn, end <-chan struct{}) { <-end }, 8<<20),
		Entry("it answers nothing", func(c net.Conn, _ <-chan struct{}) { _, _ = io.Copy(io.Discard, c) }, 1),
		Entry("its status arrives byte by byte", func(c net.Conn, _ <-chan struct{}) { drip(c, "HTTP/1.1 200 O", "K") }, 1),
		Entry("its headers arrive byte by byte", func(c net.Conn, _ <-chan struct{}) { drip(c, "HTTP/1.1 200 OK\r\nX-Slow: ", "a") }, 1),
		Entry("its body arrives byte by byte", func(c net.Conn, _ <-chan struct{}) { drip(c, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", "a") }, 1),
		Entry("its chunks arrive one by one", func(c net.Conn, _ <-chan struct{}) {
			drip(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\na\r\n")
		}, 1),
	)

	It("with an endless body fails the job without a retry, since it has done the work", func() {
		to := serve(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		})
		queue := work(to.URL, local(bullmqpush.Options{}))
		job := inState(queue, add(queue, &bullmq.JobOptions{Attempts: 3}).ID, bullmq.StateFailed)
		Expect(job.FailedReason).To(ContainSubstring("more than MaxAnswer, 1048576 bytes"))
		Expect(job.AttemptsMade).To(Equal(1))
		Expect(to.count()).To(Equal(1))
	})

	DescribeTable("by what it answers is a failed attempt:", func(answer string) {
		send := bullmqpush.Handler(serveRaw(func(c net.Conn, _ <-chan struct{}) {
			_, _ = c.Read(make([]byte, 1<<16))
			_, _ = io.WriteString(c, answer)
		}), local(bullmqpush.Options{}))
		_, err := send(specContext(), &bullmq.Job{ID: "1", Name: "order", Data: json.RawMessage("{}")})
		Expect(err).To(HaveOccurred())
		Expect(err).NotTo(MatchError(bullmq.ErrUnrecoverable))
	},
		Entry("nothing", ""),
		Entry("another protocol", "SSH-2.0-OpenSSH_9.9\r\n"),
		Entry("a part of the headers", "HTTP/1.1 200 OK\r\nContent-Le"),
		Entry("a part of the body", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{"),
		Entry("a chunk of an invalid size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
		Entry("two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}"),
		Entry("provisional answers only", strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 100)),
		Entry("a status that is none", "HTTP/1.1 20 OK\r\n\r\n"),
	)
})

// serveTLS starts an endpoint with a TLS configuration.
func serveTLS(configuration *tls.Config) *endpoint {
	to := &endpoint{}
	to.Server = httptest.NewUnstartedServer(to.record(answering(200, "")))
	to.TLS, to.Config.ErrorLog = configuration, log.New(GinkgoWriter, "", 0)
	to.StartTLS()
	DeferCleanup(to.Close)
	return to
}

// trusting returns a pool with certificates.
func trusting(certificates ...*x509.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, certificate := range certificates {
		pool.AddCert(certificate)
	}
	return pool
}

var _ = Describe("An endpoint whose certificate is broken", func() {
	It("gets no job, if it has expired, is of another host or of an unknown authority, or if there is no TLS", func() {
		valid, parsed := selfSigned()
		expired, parsedExpired := signedUntil(time.Now().Add(-time.Minute))
		client := newClient(local(bullmqpush.Options{TLS: &tls.Config{RootCAs: trusting(parsed, parsedExpired)}}))

		to := serveTLS(&tls.Config{Certificates: []tls.Certificate{valid}})
		Expect(attempt(client, to.URL)).To(Succeed())
		Expect(attempt(client, onName(to.URL, "localhost"))).To(MatchError(ContainSubstring("x509: certificate is not valid for any names")))
		Expect(attempt(newClient(local(bullmqpush.Options{})), to.URL)).To(MatchError(ContainSubstring("x509: certificate signed by unknown authority")))
		Expect(to.count()).To(Equal(1))

		to = serveTLS(&tls.Config{Certificates: []tls.Certificate{expired}})
		Expect(attempt(client, to.URL)).To(MatchError(ContainSubstring("x509: certificate has expired or is not yet valid")))
		Expect(to.count()).To(BeZero())

		to = serve(answering(200, ""))
		Expect(attempt(client, strings.Replace(to.URL, "http://", "https://", 1))).To(MatchError(ContainSubstring("does not look like a TLS handshake")))
		Expect(to.count()).To(BeZero())
	})

	It("gets the job when the certificate is replaced", func() {
		current := atomic.Pointer[tls.Certificate]{}
		expired, parsedExpired := signedUntil(time.Now().Add(-time.Minute))
		valid, parsed := selfSigned()
		current.Store(&expired)
		to := serveTLS(&tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return &tls.Config{Certificates: []tls.Certificate{*current.Load()}}, nil
		}})
		queue := work(to.URL, local(bullmqpush.Options{BreakerFailures: -1, TLS: &tls.Config{RootCAs: trusting(parsed, parsedExpired)}}))
		job := add(queue, &bullmq.JobOptions{Attempts: 1000, Backoff: bullmq.FixedBackoff(20 * time.Millisecond)})
		Eventually(func() (string, error) {
			stored, err := queue.Job(context.Background(), job.ID)
			return stored.FailedReason, err
		}, 20*time.Second).Should(ContainSubstring("certificate has expired"))
		current.Store(&valid)
		inState(queue, job.ID, bullmq.StateCompleted)
		Expect(to.count()).To(Equal(1))
	})
})

var _ = It("A client certificate that has expired is refused by the endpoint, which is a failed attempt", func() {
	valid, parsed := selfSigned()
	expired, parsedExpired := signedUntil(time.Now().Add(-time.Minute))
	to := serveTLS(&tls.Config{
		Certificates: []tls.Certificate{valid}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusting(parsed, parsedExpired),
	})
	with := func(certificate tls.Certificate) *bullmqpush.Client {
		return newClient(local(bullmqpush.Options{TLS: &tls.Config{RootCAs: trusting(parsed), Certificates: []tls.Certificate{certificate}}}))
	}
	Expect(attempt(with(valid), to.URL)).To(Succeed())
	err := attempt(with(expired), to.URL)
	Expect(err).To(MatchError(ContainSubstring("certificate")))
	Expect(err).NotTo(MatchError(bullmq.ErrUnrecoverable))
	Expect(to.count()).To(Equal(1))
})

var _ = Describe("Redis that fails after an endpoint has returned 200", func() {
	// outage runs a job whose first answer is sent after Redis has stopped, and starts Redis again
	// after a time. It returns the endpoint.
	outage := func(lock, length time.Duration) *endpoint {
		GinkgoHelper()
		server, err := redisserver.Start(redisserver.Options{AppendOnly: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(server.Close)
		stopped := make(chan struct{})
		var calls atomic.Int32
		to := serve(func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1) == 1 {
				server.Stop()
				close(stopped)
			}
			answering(200, `"done"`, "Content-Type", "application/json")(w, r)
		})
		handler, err := newClient(local(bullmqpush.Options{})).Handler(to.URL)
		Expect(err).NotTo(HaveOccurred())
		queue := workOn(server, handler, bullmq.WorkerOptions{LockDuration: lock, StalledInterval: 300 * time.Millisecond, MaxStalledCount: 10})
		job := add(queue, nil)
		Eventually(stopped, 20*time.Second).Should(BeClosed())
		at := time.Now()
		Eventually(func() time.Duration { return time.Since(at) }, 20*time.Second).Should(BeNumerically(">", length))
		Expect(server.Start()).To(Succeed())
		var done *bullmq.Job
		Eventually(func() (state bullmq.State, err error) {
			done, state, err = queue.JobAndState(context.Background(), job.ID)
			return state, err
		}, 20*time.Second).Should(Equal(bullmq.StateCompleted))
		Expect(string(done.ReturnValue)).To(Equal(`"done"`))
		Expect(done.AttemptsMade).To(Equal(1))
		return to
	}

	It("completes the job when it is back, without another request, if the lock of the job still holds", func() {
		Expect(outage(time.Minute, 200*time.Millisecond).count()).To(Equal(1))
	})

	It("delivers the job again with the same webhook-id if the lock has expired", func() {
		requests := outage(time.Second, 1500*time.Millisecond).received()
		Expect(len(requests)).To(BeNumerically(">=", 2))
		for _, request := range requests {
			Expect(request.header.Get(bullmqpush.HeaderID)).To(Equal(requests[0].header.Get(bullmqpush.HeaderID)))
			Expect(request.header.Get(bullmqpush.HeaderAttempt)).To(Equal("1"))
			Expect(request.body).To(Equal(requests[0].body))
		}
	})
})
