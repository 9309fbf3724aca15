package middleware_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmq/middleware"
)

var _ = Describe("A carrier", func() {
	It("carries a text from an add to the handler, and to the jobs that the handler adds", func(ctx context.Context) {
		requestID, tenant := middleware.RequestID(), middleware.Tenant()
		adds := []bullmq.AddMiddleware{requestID.Add, tenant.Add}
		queue := newQueue(adds...)
		seen := make(chan [3]string, 4)
		run(queue, bullmq.Wrap(func(ctx context.Context, job *bullmq.Job) (any, error) {
			seen <- [3]string{job.Name, requestID.From(ctx), tenant.From(ctx)}
			if job.Name == "first" {
				queue, err := bullmq.QueueFromContext(ctx, "")
				if err != nil {
					return nil, err
				}
				_, err = queue.Add(ctx, "second", nil, nil)
				return nil, err
			}
			return nil, nil
		}, requestID.Handle, tenant.Handle), bullmq.WorkerOptions{QueueOptions: &bullmq.QueueOptions{Middleware: adds}})
		job, err := queue.Add(tenant.With(requestID.With(ctx, "r-17"), "acme"), "first", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Eventually(seen).Should(Receive(Equal([3]string{"first", "r-17", "acme"})))
		Eventually(seen).Should(Receive(Equal([3]string{"second", "r-17", "acme"})))
		Expect(job.RawOptions).To(ContainSubstring(`"requestId":"r-17"`))

		_, err = queue.AddBulk(requestID.With(ctx, "r-18"), []bullmq.BulkJob{
			{Name: "a"}, {Name: "b", Options: &bullmq.JobOptions{Extra: map[string]json.RawMessage{"requestId": json.RawMessage(`"own"`)}}},
		})
		Expect(err).NotTo(HaveOccurred())
		Eventually(seen).Should(Receive(Equal([3]string{"a", "r-18", ""})))
		Eventually(seen).Should(Receive(Equal([3]string{"b", "own", ""})))
	})

	It("returns the text of a job, and adds it to the worker's line about a failure", func(ctx context.Context) {
		var lines syncBuffer
		requestID := middleware.RequestID()
		queue := newQueue(requestID.Add)
		run(queue, bullmq.Wrap(func(context.Context, *bullmq.Job) (any, error) { return nil, errors.New("no address") }, requestID.Handle),
			bullmq.WorkerOptions{Logger: bullmq.Slog(slog.New(slog.NewTextHandler(&lines, nil)))})
		job, err := queue.Add(requestID.With(ctx, "r-17"), "bill", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(requestID.Of(job)).To(Equal("r-17"))
		Expect(middleware.Tenant().Of(job)).To(BeEmpty())
		read, err := queue.Job(ctx, job.ID)
		Expect(err).NotTo(HaveOccurred())
		Expect(requestID.Of(read)).To(Equal("r-17"))
		Eventually(lines.String).Should(MatchRegexp(`level=WARN msg="a job failed; .* requestId=r-17 .*error="no address"`))
	})

	It("is installed into a server by one call", func(ctx context.Context) {
		requestID, seen := middleware.RequestID(), make(chan string, 1)
		options := &bullmq.ServerOptions{}
		requestID.Install(options)
		conn, err := bullmq.Connect(ctx, redis.URL())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		server := bullmq.NewServer(conn, options)
		server.Handle("installed", func(ctx context.Context, _ *bullmq.Job) (any, error) {
			seen <- requestID.From(ctx)
			return nil, nil
		}, nil)
		queue, err := server.Queue(ctx, "installed", nil)
		Expect(err).NotTo(HaveOccurred())
		running, ended := make(chan struct{}), make(chan error, 1)
		go func() { close(running); ended <- server.Run(context.Background()) }()
		<-running
		_, err = queue.Add(requestID.With(ctx, "r-17"), "bill", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Eventually(seen, "10s").Should(Receive(Equal("r-17")))
		Expect(server.Shutdown(context.Background())).To(Succeed())
		Eventually(ended, "10s").Should(Receive(BeNil()))
	})

	It("adds a field to each line of the handler's logger, also to those of Log", func(ctx context.Context) {
		var lines syncBuffer
		requestID, tenant := middleware.RequestID(), middleware.Tenant()
		queue := newQueue(requestID.Add, tenant.Add)
		run(queue, bullmq.Wrap(func(ctx context.Context, _ *bullmq.Job) (any, error) {
			bullmq.LoggerFromContext(ctx).Info("billed", "order", 17)
			return nil, nil
		}, requestID.Handle, tenant.Handle, middleware.Log(slog.LevelInfo)),
			bullmq.WorkerOptions{Logger: bullmq.Slog(slog.New(slog.NewTextHandler(&lines, nil)))})
		_, err := queue.Add(tenant.With(requestID.With(ctx, "r-17"), "acme"), "bill", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Eventually(lines.String).Should(And(
			ContainSubstring(`attempt=1 requestId=r-17 tenant=acme order=17`), MatchRegexp(`msg="the handler succeeded" .* attempt=1 requestId=r-17 tenant=acme duration_ms=`),
		))
	})

	It("gives its text to the logger of the context, outside of handlers too, in one field", func(ctx context.Context) {
		var lines syncBuffer
		previous := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&lines, nil)))
		DeferCleanup(func() { slog.SetDefault(previous) })
		requestID := middleware.RequestID()
		handler := requestID.HTTP("X-Request-Id", nil)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			bullmq.LoggerFromContext(r.Context()).Error("the request failed")
			bullmq.LoggerFromContext(requestID.With(r.Context(), "r-18")).Error("the inner call failed")
		}))
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		request.Header.Set("X-Request-Id", "r-17")
		handler.ServeHTTP(httptest.NewRecorder(), request)
		Expect(lines.String()).To(And(
			ContainSubstring("msg=\"the request failed\" requestId=r-17\n"), ContainSubstring("msg=\"the inner call failed\" requestId=r-18\n")))

		kept := middleware.CarrierOf("user", func(context.Context) string { return "" }, func(ctx context.Context, _ string) context.Context { return ctx })
		bullmq.LoggerFromContext(kept.With(ctx, "ada")).Info("own context")
		bullmq.LoggerFromContext(kept.With(ctx, "")).Info("no text")
		Expect(lines.String()).To(And(ContainSubstring("msg=\"own context\" user=ada\n"), ContainSubstring("msg=\"no text\"\n")))
	})

	It("adds its field once to a handler's line, even if the context has an earlier text", func(ctx context.Context) {
		var lines syncBuffer
		requestID := middleware.RequestID()
		queue := newQueue(requestID.Add)
		run(queue, bullmq.Wrap(func(ctx context.Context, _ *bullmq.Job) (any, error) {
			bullmq.LoggerFromContext(ctx).Info("billed")
			bullmq.LoggerFromContext(requestID.With(ctx, "r-18")).Info("sent")
			return nil, nil
		}, func(next bullmq.Handler) bullmq.Handler {
			return func(ctx context.Context, job *bullmq.Job) (any, error) {
				return next(requestID.With(ctx, "process"), job)
			}
		}, requestID.Handle), bullmq.WorkerOptions{Logger: bullmq.Slog(slog.New(slog.NewTextHandler(&lines, nil)))})
		_, err := queue.Add(requestID.With(ctx, "r-17"), "bill", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Eventually(lines.String).Should(And(
			MatchRegexp(`msg=billed .* attempt=1 requestId=r-17\n`), MatchRegexp(`msg=sent .* attempt=1 requestId=r-18\n`)))
	})

	It("changes nothing without a text", func(ctx context.Context) {
		queue := newQueue(middleware.RequestID().Add)
		job, err := queue.Add(ctx, "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(job.RawOptions).NotTo(ContainSubstring("requestId"))
	})

	It("reaches each job of a flow and the jobs of a scheduler, and leaves the caller's options alone", func(ctx context.Context) {
		requestID := middleware.RequestID()
		queue := newQueue(requestID.Add)
		flows, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{URL: redis.URL(), Middleware: []bullmq.AddMiddleware{requestID.Add}})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(flows.Close)
		own := &bullmq.JobOptions{Attempts: 2, Extra: map[string]json.RawMessage{"x": json.RawMessage("1")}}
		flow, err := flows.Add(requestID.With(ctx, "r-1"), bullmq.Flow{
			Name: "root", QueueName: queue.Name(), Options: own, Children: []bullmq.Flow{{Name: "child", QueueName: queue.Name()}},
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(flow.Job.RawOptions).To(And(ContainSubstring(`"requestId":"r-1"`), ContainSubstring(`"x":1`), ContainSubstring(`"attempts":2`)))
		Expect(flow.Children[0].Job.RawOptions).To(ContainSubstring(`"requestId":"r-1"`))
		Expect(own.Extra).To(HaveLen(1))

		job, err := queue.UpsertScheduler(requestID.With(ctx, "r-2"), "nightly", bullmq.Repeat{Every: time.Hour}, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(job.RawOptions).To(ContainSubstring(`"requestId":"r-2"`))
	})

	DescribeTable("takes its text from a header of HTTP", func(header string, missing func() string, text string) {
		tenant := middleware.Tenant()
		var seen string
		handler := tenant.HTTP("X-Tenant", missing)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = tenant.From(r.Context()) }))
		request, reply := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
		if header != "" {
			request.Header.Set("x-tenant", header)
		}
		handler.ServeHTTP(reply, request)
		Expect(seen).To(Equal(text))
		Expect(reply.Header().Get("X-Tenant")).To(Equal(text))
	},
		Entry("that the request has", "acme", func() string { return "made" }, "acme"),
		Entry("or makes one if it is missing", "", func() string { return "made" }, "made"),
		Entry("or if it is too long", strings.Repeat("a", 201), func() string { return "made" }, "made"),
		Entry("or has none", "", nil, ""),
	)
})
