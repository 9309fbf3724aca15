package bullmq_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

var _ = Describe("A server", func() {
	connect := func() *bullmq.Connection {
		GinkgoHelper()
		conn, err := bullmq.Connect(specContext(), redis.URL())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		return conn
	}
	start := func(server *bullmq.Server) (stop context.CancelFunc, ended <-chan error) {
		ctx, stop := context.WithCancel(context.Background())
		DeferCleanup(stop)
		result := make(chan error, 1)
		go func() { result <- server.Run(ctx) }()
		return stop, result
	}
	get := func(handler http.Handler) (int, bullmq.ServerStatus) {
		GinkgoHelper()
		reply := httptest.NewRecorder()
		handler.ServeHTTP(reply, httptest.NewRequest(http.MethodGet, "/", nil))
		var status bullmq.ServerStatus
		Expect(json.Unmarshal(reply.Body.Bytes(), &status)).To(Succeed())
		Expect(reply.Header().Get("Content-Type")).To(Equal("application/json"))
		return reply.Code, status
	}
	ready := func(server *bullmq.Server) func() int {
		return func() int { code, _ := get(server.Ready()); return code }
	}

	It("serves many queues with one worker, beside others", func() {
		var ran startLog
		wrapped := make(chan string, 100)
		server := bullmq.NewServer(connect(), &bullmq.ServerOptions{Middleware: []bullmq.Middleware{func(next bullmq.Handler) bullmq.Handler {
			return func(ctx context.Context, job *bullmq.Job) (any, error) {
				wrapped <- job.QueueName()
				return next(ctx, job)
			}
		}}})
		names := newQueueNames(4)
		server.Handle(names[0], ran.handle, nil)
		many := served(names[1:3]...)
		many[1].Handler = ran.handle
		server.HandleQueues(ran.handle, &bullmq.MultiWorkerOptions{Queues: many})
		_, ended := start(server)
		Eventually(ready(server)).Should(Equal(http.StatusOK))
		_, status := get(server.Ready())
		Expect(status.Queues).To(Equal(names[:3]))
		Expect(server.MultiWorkers()).To(HaveLen(1))
		Expect(server.MultiWorkers()[0].AddQueue(bullmq.ServedQueue{Name: names[3]})).To(Succeed())
		addMany(openQueues(names...), 2)
		Eventually(ran.count).Should(Equal(8))
		ran.once(8)
		Expect(wrapped).To(HaveLen(8))
		Expect(func() { server.HandleQueues(ran.handle, nil) }).To(PanicWith(ContainSubstring("the server runs already")))
		Expect(server.Shutdown(specContext())).To(Succeed())
		Eventually(ended).Should(Receive(BeNil()))
	})

	It("serves those of many queues that QueueNames selects", func() {
		names := newQueueNames(3)
		server := bullmq.NewServer(connect(), &bullmq.ServerOptions{QueueNames: names[1:2]})
		server.HandleQueues(doNothing, &bullmq.MultiWorkerOptions{Queues: served(names...)})
		_, ended := start(server)
		Eventually(ready(server)).Should(Equal(http.StatusOK))
		Expect(server.MultiWorkers()[0].Queues()).To(Equal(names[1:2]))
		Expect(server.Shutdown(specContext())).To(Succeed())
		Eventually(ended).Should(Receive(BeNil()))
	})

	It("does not run if a worker of many queues can't be opened", func() {
		server := bullmq.NewServer(connect(), nil)
		server.Handle(newQueueName(), doNothing, nil)
		server.HandleQueues(nil, &bullmq.MultiWorkerOptions{Queues: served("a")})
		Expect(server.Run(specContext())).To(MatchError(ContainSubstring("the handler is nil")))
	})

	It("returns its workers once they are open", func() {
		server := bullmq.NewServer(connect(), nil)
		first, second := newQueueName(), newQueueName()
		handler := func(context.Context, *bullmq.Job) (any, error) { return nil, nil }
		server.Handle(first, handler, &bullmq.WorkerOptions{Concurrency: 3})
		server.Handle(second, handler, nil)
		Expect(server.Workers()).To(BeEmpty())
		stop, ended := start(server)
		Eventually(ready(server)).Should(Equal(http.StatusOK))
		workers := server.Workers()
		Expect(workers).To(HaveLen(2))
		Expect(workers[0].QueueName()).To(Equal(first))
		Expect(workers[0].Concurrency()).To(Equal(3))
		Expect(workers[1].QueueName()).To(Equal(second))
		Eventually(func() ([]int, error) {
			return bullmq.CountWorkers(specContext(), newQueue(second, nil), newQueue(newQueueName(), nil), newQueue(first, nil))
		}).Should(Equal([]int{1, 0, 1}))
		stop()
		Eventually(ended).Should(Receive(BeNil()))
	})

	It("runs the jobs of several queues over one connection until its context ends", func() {
		first, second := newQueue(newQueueName(), nil), newQueue(newQueueName(), nil)
		server := bullmq.NewServer(connect(), &bullmq.ServerOptions{Middleware: []bullmq.Middleware{func(next bullmq.Handler) bullmq.Handler {
			return func(ctx context.Context, job *bullmq.Job) (any, error) {
				value, err := next(ctx, job)
				return []any{"wrapped", value}, err
			}
		}}})
		for _, queue := range []*bullmq.Queue{first, second} {
			server.Handle(queue.Name(), func(_ context.Context, job *bullmq.Job) (any, error) { return job.QueueName(), nil }, nil)
		}
		code, status := get(server.Ready())
		Expect(code).To(Equal(http.StatusServiceUnavailable))
		Expect(status).To(Equal(bullmq.ServerStatus{Status: "starting", Queues: []string{first.Name(), second.Name()}}))
		stop, ended := start(server)
		Eventually(ready(server)).Should(Equal(http.StatusOK))
		for _, queue := range []*bullmq.Queue{first, second} {
			job, err := queue.Add(specContext(), "a", nil, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(queue.WaitForJob(specContext(), job.ID)).To(MatchJSON(`["wrapped","` + queue.Name() + `"]`))
		}
		stop()
		Eventually(ended).Should(Receive(BeNil()))
		code, status = get(server.Live())
		Expect(code).To(Equal(http.StatusServiceUnavailable))
		Expect(status.Status).To(Equal("stopping"))
		Expect(server.Run(specContext())).To(MatchError(ContainSubstring("can be run once")))
	})

	It("lets running jobs finish after the first signal and cancels them after the second", func() {
		queue := newQueue(newQueueName(), nil)
		started, cause := make(chan struct{}), make(chan error, 1)
		server := bullmq.NewServer(connect(), &bullmq.ServerOptions{Signals: []os.Signal{syscall.SIGUSR2}})
		server.Handle(queue.Name(), func(ctx context.Context, _ *bullmq.Job) (any, error) {
			close(started)
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return nil, context.Cause(ctx)
		}, nil)
		_, ended := start(server)
		job, err := queue.Add(specContext(), "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Eventually(started).Should(BeClosed())
		Expect(syscall.Kill(os.Getpid(), syscall.SIGUSR2)).To(Succeed())
		Eventually(func() string { _, status := get(server.Live()); return status.Status }).Should(Equal("stopping"))
		Consistently(cause, "100ms").ShouldNot(Receive())
		Expect(syscall.Kill(os.Getpid(), syscall.SIGUSR2)).To(Succeed())
		Eventually(cause).Should(Receive(MatchError(bullmq.ErrShutdown)))
		Eventually(ended).Should(Receive(BeNil()))
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StateWaiting))
	})

	It("closes the queues that it has opened if another can't be opened", func() {
		queue := newQueueName()
		server := bullmq.NewServer(connect(), nil)
		server.Handle(queue, doNothing, nil)
		server.Handle(newQueueName(), doNothing, &bullmq.WorkerOptions{Concurrency: -1})
		Expect(server.Run(specContext())).To(MatchError(ContainSubstring("Concurrency -1")))
		Expect(newQueue(queue, nil).ConnectedWorkers(specContext())).To(BeEmpty())
	})

	DescribeTable("refuses to run", func(text string, prepare func(*bullmq.Server)) {
		server := bullmq.NewServer(connect(), nil)
		prepare(server)
		Expect(server.Run(specContext())).To(MatchError(ContainSubstring(text)))
	},
		Entry("without anything to run", "open one with Server.Queue, or serve HTTP with Server.HandleHTTP", func(*bullmq.Server) {}),
		Entry("a queue with a connection of its own", "use the connection of the server", func(server *bullmq.Server) {
			server.Handle("q", doNothing, &bullmq.WorkerOptions{URL: redis.URL()})
		}),
		Entry("after Shutdown", "has been run or shut down", func(server *bullmq.Server) {
			server.Handle("q", doNothing, nil)
			Expect(server.Shutdown(context.Background())).To(Succeed())
		}),
	)

	It("calls OnFailed for each failed attempt and says which one is final", func() {
		queue := newQueue(newQueueName(), nil)
		failures := make(chan bullmq.Failure, 10)
		server := bullmq.NewServer(connect(), &bullmq.ServerOptions{
			OnFailed: func(_ context.Context, f bullmq.Failure) { failures <- f },
		})
		boom := errors.New("boom")
		server.Handle(queue.Name(), func(context.Context, *bullmq.Job) (any, error) { return nil, boom }, nil)
		start(server)
		job, err := queue.Add(specContext(), "a", nil, &bullmq.JobOptions{Attempts: 2})
		Expect(err).NotTo(HaveOccurred())
		for _, final := range []bool{false, true} {
			var f bullmq.Failure
			Eventually(failures).Should(Receive(&f))
			Expect(f.Final).To(Equal(final))
			Expect(f.Err).To(MatchError(boom))
			Expect(f.Job.ID).To(Equal(job.ID))
		}
		Consistently(failures, "50ms").ShouldNot(Receive())
	})

	It("calls OnFailed with the job's logger and the values of middleware, as the last one passed them on", func() {
		type key struct{}
		var lines logLines
		seen := make(chan any, 10)
		queue := newQueue(newQueueName(), nil)
		server := bullmq.NewServer(connect(), &bullmq.ServerOptions{
			Logger: bullmq.Zerolog(zerolog.New(&lines)),
			Middleware: []bullmq.Middleware{
				func(next bullmq.Handler) bullmq.Handler {
					return func(ctx context.Context, job *bullmq.Job) (any, error) {
						return next(bullmq.ContextWithLogAttrs(context.WithValue(ctx, key{}, "acme"), slog.String("tenant", "acme")), job)
					}
				},
				func(next bullmq.Handler) bullmq.Handler {
					return func(ctx context.Context, job *bullmq.Job) (any, error) {
						if job.Name == "refused" {
							return nil, errors.New("refused")
						}
						return next(context.WithValue(ctx, key{}, "inner"), job)
					}
				},
			},
			OnFailed: func(ctx context.Context, _ bullmq.Failure) {
				bullmq.LoggerFromContext(ctx).Info("seen")
				seen <- []any{bullmq.JobFromContext(ctx).Name, ctx.Value(key{}), ctx.Err()}
			},
		})
		server.Handle(queue.Name(), func(context.Context, *bullmq.Job) (any, error) { return nil, errors.New("boom") }, nil)
		start(server)
		_, err := queue.Add(specContext(), "fails", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Eventually(seen).Should(Receive(Equal([]any{"fails", "inner", nil})))
		_, err = queue.Add(specContext(), "refused", nil, &bullmq.JobOptions{Attempts: 2})
		Expect(err).NotTo(HaveOccurred())
		Eventually(seen).Should(Receive(Equal([]any{"refused", "acme", nil})))
		Eventually(seen).Should(Receive(Equal([]any{"refused", "acme", nil})))
		var got [][]any
		for _, e := range entriesOf(lines.all()) {
			if e.fields["tenant"] == "acme" {
				got = append(got, []any{e.level, e.fields["name"], e.fields["attempt"], e.message})
			}
		}
		const retried, failed = "an attempt of a job failed; the job is retried", "a job failed; Job.Retry runs it again"
		Expect(got).To(Equal([][]any{
			{"warn", "fails", 1.0, failed}, {"info", "fails", 1.0, "seen"},
			{"info", "refused", 1.0, retried}, {"info", "refused", 1.0, "seen"},
			{"warn", "refused", 2.0, failed}, {"info", "refused", 2.0, "seen"},
		}))
	})

	It("is ready only while Redis can be reached, and tells OnHealth of one queue at a time", Label("slow"), func() {
		own := startRedis(redisserver.Options{})
		conn, err := bullmq.Connect(specContext(), own.URL())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		var running, calls, overlaps atomic.Int64
		server := bullmq.NewServer(conn, &bullmq.ServerOptions{ShutdownTimeout: 100 * time.Millisecond, OnHealth: func(bullmq.Health) {
			if running.Add(1) > 1 {
				overlaps.Add(1)
			}
			time.Sleep(20 * time.Millisecond)
			running.Add(-1)
			calls.Add(1)
		}})
		for range 3 {
			server.Handle(newQueueName(), doNothing, nil)
		}
		stop, ended := start(server)
		Eventually(ready(server)).Should(Equal(http.StatusOK))
		own.Kill()
		Eventually(ready(server), "15s").Should(Equal(http.StatusServiceUnavailable))
		_, status := get(server.Ready())
		Expect(status.Status).To(Equal("unreachable"))
		Expect(status.Error).NotTo(BeEmpty())
		Expect(server.Health().Reachable).To(BeFalse())
		Eventually(calls.Load, "15s").Should(BeNumerically(">=", 3), "for each queue")
		Expect(overlaps.Load()).To(BeZero(), "calls of OnHealth at the same time")
		code, _ := get(server.Live())
		Expect(code).To(Equal(http.StatusOK))
		stop()
		Eventually(ended).Should(Receive(BeNil()))
	})

	It("stops by Shutdown, which cancels the handlers when its context ends", func() {
		queue := newQueue(newQueueName(), nil)
		started := make(chan struct{})
		server := bullmq.NewServer(connect(), nil)
		server.Handle(queue.Name(), func(ctx context.Context, _ *bullmq.Job) (any, error) {
			close(started)
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}, nil)
		_, ended := start(server)
		_, err := queue.Add(specContext(), "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Eventually(started).Should(BeClosed())
		over, end := context.WithCancel(context.Background()) // without a deadline, handlers have a second to return
		time.AfterFunc(50*time.Millisecond, end)
		Expect(server.Shutdown(over)).To(Succeed())
		Eventually(ended).Should(Receive(BeNil()))
	})
})
