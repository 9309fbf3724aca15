package bullmqprom_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqprom"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// runWorker runs a worker until the spec ends.
func runWorker(queue string, handler bullmq.Handler, o bullmq.WorkerOptions) *bullmq.Worker {
	GinkgoHelper()
	worker, err := bullmq.NewWorker(specContext(), queue, handler, &o)
	Expect(err).NotTo(HaveOccurred())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(context.Background()) }()
	DeferCleanup(func() {
		Expect(worker.Close()).To(Succeed())
		Eventually(ended).Should(Receive())
	})
	return worker
}

var _ = Describe("The metrics of a process", func() {
	var (
		ctx        context.Context
		server     *redisserver.Server
		connection *bullmq.Connection
		metrics    *bullmqprom.Metrics
		queue      *bullmq.Queue
	)
	setUp := func(o *bullmqprom.Options) {
		ctx = specContext()
		server, connection = startRedis()
		metrics = bullmqprom.New(o)
		queue = newQueue("orders", bullmq.QueueOptions{Connection: connection, Middleware: []bullmq.AddMiddleware{metrics.AddMiddleware}})
	}
	work := func(handler bullmq.Handler, o bullmq.WorkerOptions) *bullmq.Worker {
		GinkgoHelper()
		o.Connection, o.Telemetry = connection, metrics.Telemetry(o.Telemetry)
		worker := runWorker("orders", bullmq.Wrap(handler, metrics.Middleware), o)
		metrics.AddWorker(worker)
		return worker
	}
	add := func(name string, o *bullmq.JobOptions) {
		GinkgoHelper()
		_, err := queue.Add(ctx, name, nil, o)
		Expect(err).NotTo(HaveOccurred())
	}
	values := func() map[string]float64 { return gathered(metrics) }

	DescribeTable("count the outcome of an attempt:", func(outcome string, handle func(job *bullmq.Job) error) {
		setUp(nil)
		var ran atomic.Bool
		work(func(ctx context.Context, job *bullmq.Job) (any, error) {
			if ran.Swap(true) {
				return nil, nil
			}
			return nil, handle(job)
		}, bullmq.WorkerOptions{})
		add("pack", &bullmq.JobOptions{Attempts: 2, Backoff: bullmq.FixedBackoff(20 * time.Millisecond)})
		Eventually(values).Should(And(
			HaveKeyWithValue("bullmq_worker_jobs_total{pack,"+outcome+",orders}", 1.0),
			HaveKeyWithValue("bullmq_worker_job_duration_seconds{pack,"+outcome+",orders}", 1.0),
		))
		if outcome != bullmqprom.OutcomeCompleted && outcome != bullmqprom.OutcomeFailed {
			Eventually(values).Should(HaveKeyWithValue("bullmq_worker_jobs_total{pack,completed,orders}", 1.0))
		}
		Eventually(values).Should(HaveKeyWithValue("bullmq_worker_jobs_in_flight{orders}", 0.0))
		Expect(values()).To(HaveKeyWithValue("bullmq_worker_job_wait_seconds{pack,orders}", 1.0), "only the first start")
	},
		Entry("completed", "completed", func(*bullmq.Job) error { return nil }),
		Entry("failed for good", "failed", func(*bullmq.Job) error { return bullmq.Unrecoverable(errors.New("no")) }),
		Entry("retried", "retried", func(*bullmq.Job) error { return errors.New("not yet") }),
		Entry("a panic, retried", "retried", func(*bullmq.Job) error { panic("oops") }),
		Entry("snoozed", "snoozed", func(*bullmq.Job) error { return bullmq.Snooze(20 * time.Millisecond) }),
		Entry("rate limited", "rate_limited", func(*bullmq.Job) error { return bullmq.RateLimit(20 * time.Millisecond) }),
		Entry("moved by the handler", "moved", func(job *bullmq.Job) error {
			if err := job.MoveToDelayed(context.Background(), time.Now().Add(20*time.Millisecond)); err != nil {
				return err
			}
			return bullmq.ErrMovedToDelayed
		}),
	)

	It("count an attempt that the handler hands over", func() {
		setUp(nil)
		work(func(context.Context, *bullmq.Job) (any, error) { return nil, bullmq.ErrHandedOver }, bullmq.WorkerOptions{})
		add("pack", nil)
		Eventually(values).Should(And(
			HaveKeyWithValue("bullmq_worker_jobs_total{pack,handed_over,orders}", 1.0),
			HaveKeyWithValue("bullmq_worker_job_duration_seconds{pack,handed_over,orders}", 1.0),
			HaveKeyWithValue("bullmq_worker_jobs_in_flight{orders}", 0.0),
		))
	})

	It("count a lost lock and the lost attempt", func() {
		setUp(nil)
		entered := make(chan *bullmq.Job, 1)
		work(func(ctx context.Context, job *bullmq.Job) (any, error) {
			if job.AttemptsStarted > 1 {
				return nil, nil
			}
			entered <- job
			<-ctx.Done()
			return nil, ctx.Err()
		}, bullmq.WorkerOptions{LockDuration: 6 * time.Second, LockRenewTime: 200 * time.Millisecond, StalledInterval: 200 * time.Millisecond})
		add("pack", nil)
		var job *bullmq.Job
		Eventually(entered).Should(Receive(&job))
		Expect(values()).To(HaveKeyWithValue("bullmq_worker_locks_lost_total{orders}", 0.0), "exists before the first loss")
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true, ForceSingleClient: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(client.Close)
		Expect(client.Do(ctx, client.B().Del().Key(job.Key()+":lock").Build()).Error()).To(Succeed())
		Eventually(values).Should(And(
			HaveKeyWithValue("bullmq_worker_locks_lost_total{orders}", 1.0),
			HaveKeyWithValue("bullmq_worker_jobs_total{pack,lost,orders}", 1.0),
			HaveKeyWithValue("bullmq_worker_stalled_jobs_total{orders}", BeNumerically(">=", 1)),
		))
	})

	It("count a job that a stopping worker returns to the queue, and one that never ran", func() {
		setUp(nil)
		entered := make(chan struct{})
		worker := work(func(ctx context.Context, job *bullmq.Job) (any, error) {
			close(entered)
			<-ctx.Done()
			return nil, ctx.Err()
		}, bullmq.WorkerOptions{MaxStartedAttempts: 1})
		add("pack", nil)
		Eventually(entered).Should(BeClosed())
		Expect(values()).To(HaveKeyWithValue("bullmq_worker_jobs_in_flight{orders}", 1.0))
		over, end := context.WithCancel(ctx)
		end() // the handler has a second to return
		Expect(worker.Shutdown(over)).To(Succeed())
		Eventually(values).Should(And(
			HaveKeyWithValue("bullmq_worker_jobs_total{pack,returned,orders}", 1.0),
			HaveKeyWithValue("bullmq_worker_jobs_in_flight{orders}", 0.0),
		))
		work(func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, bullmq.WorkerOptions{MaxStartedAttempts: 1})
		Eventually(values).Should(HaveKeyWithValue("bullmq_worker_jobs_total{pack,failed,orders}", 1.0))
		Expect(values()).NotTo(HaveKey("bullmq_worker_job_duration_seconds{pack,failed,orders}"))
	})

	It("measure the wait from the end of a job's delay", func() {
		setUp(&bullmqprom.Options{Buckets: []float64{2.5}})
		work(func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, bullmq.WorkerOptions{})
		add("late", &bullmq.JobOptions{Delay: 3 * time.Second})
		Eventually(values).Should(HaveKeyWithValue("bullmq_worker_job_wait_seconds{late,orders}", 1.0))
		registry := prometheus.NewPedanticRegistry()
		Expect(registry.Register(metrics)).To(Succeed())
		families, err := registry.Gather()
		Expect(err).NotTo(HaveOccurred())
		for _, family := range families {
			if family.GetName() == "bullmq_worker_job_wait_seconds" {
				h := family.GetMetric()[0].GetHistogram()
				Expect(h.GetSampleSum()).To(BeNumerically("<", 2.5))
				Expect(h.GetBucket()).To(HaveLen(1), "classic")
				Expect(h.Schema).NotTo(BeNil(), "native")
			}
		}
	})

	It("export the concurrency and the health of running workers, and no others", func() {
		setUp(nil)
		worker := work(func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, bullmq.WorkerOptions{Concurrency: 3})
		Eventually(values).Should(And(HaveKeyWithValue("bullmq_worker_concurrency{orders}", 3.0), HaveKeyWithValue("bullmq_worker_redis_up{orders}", 1.0)))
		Expect(worker.SetConcurrency(5)).To(Succeed())
		Expect(values()).To(HaveKeyWithValue("bullmq_worker_concurrency{orders}", 5.0))
		Expect(worker.Close()).To(Succeed())
		Eventually(values).ShouldNot(HaveKey("bullmq_worker_concurrency{orders}"))
	})

	It("count added jobs, but no scheduler and no refused add", func() {
		setUp(nil)
		add("pack", nil)
		_, err := queue.AddBulk(ctx, []bullmq.BulkJob{{Name: "pack"}, {Name: "ship"}})
		Expect(err).NotTo(HaveOccurred())
		_, err = queue.UpsertScheduler(ctx, "daily", bullmq.Repeat{Every: time.Hour}, &bullmq.JobTemplate{Name: "tidy"})
		Expect(err).NotTo(HaveOccurred())
		_, err = queue.Add(ctx, "pack", nil, &bullmq.JobOptions{Priority: -1})
		Expect(err).To(HaveOccurred())
		Expect(values()).To(Equal(map[string]float64{"bullmq_jobs_added_total{pack,orders}": 2, "bullmq_jobs_added_total{ship,orders}": 1}))
	})

	It("count only jobs that were added: neither deduplicated and existing ones, nor the failed part of a bulk", func() {
		setUp(nil)
		for range 3 {
			add("pack", &bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "d"}})
			add("ship", &bullmq.JobOptions{JobID: "ship-1"})
		}
		jobs, err := queue.AddBulk(ctx, []bullmq.BulkJob{
			{Name: "pack"}, {Name: "child", Options: &bullmq.JobOptions{Parent: &bullmq.ParentRef{ID: "nobody", QueueKey: "bull:orders"}}}, {Name: "pack"},
		})
		Expect(err).To(MatchError(bullmq.ErrParentNotFound))
		Expect(jobs).To(HaveLen(3))
		flows, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: connection, Middleware: []bullmq.AddMiddleware{metrics.AddMiddleware}})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(flows.Close)
		for range 2 {
			_, err = flows.Add(ctx, bullmq.Flow{
				Name: "order", QueueName: "orders", Options: &bullmq.JobOptions{JobID: "order-1"}, Children: []bullmq.Flow{{Name: "part", QueueName: "parts"}},
			})
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(values()).To(Equal(map[string]float64{
			"bullmq_jobs_added_total{pack,orders}": 3, "bullmq_jobs_added_total{ship,orders}": 1,
			"bullmq_jobs_added_total{order,orders}": 1, "bullmq_jobs_added_total{part,parts}": 2,
		}))
	})

	It("export unknown names, and names beyond the limit, as other", func() {
		setUp(&bullmqprom.Options{MaxNames: 2, KnownName: func(name string) bool { return name != "unknown" }})
		for i := range 5 {
			add(fmt.Sprint("delete-", i), nil)
		}
		add("unknown", nil)
		Expect(values()).To(Equal(map[string]float64{
			"bullmq_jobs_added_total{delete-0,orders}": 1, "bullmq_jobs_added_total{delete-1,orders}": 1, "bullmq_jobs_added_total{other,orders}": 4,
		}))
	})

	It("pass all calls to another Telemetry", func() {
		setUp(nil)
		next := &countingTelemetry{}
		work(func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, bullmq.WorkerOptions{Telemetry: next})
		add("pack", nil)
		Eventually(values).Should(HaveKeyWithValue("bullmq_worker_jobs_total{pack,completed,orders}", 1.0))
		Expect(next.spans.Load()).To(BeNumerically(">", 0))
		Eventually(next.records.Load).Should(BeNumerically(">", 0))
	})

	It("follow the conventions of Prometheus", func() {
		setUp(nil)
		work(func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, bullmq.WorkerOptions{})
		add("pack", nil)
		Eventually(values).Should(HaveKey("bullmq_worker_job_duration_seconds{pack,completed,orders}"))
		Expect(testutil.CollectAndLint(metrics)).To(BeEmpty())
	})

	It("are complete with a server, by its options", func() {
		setUp(nil)
		server := bullmq.NewServer(connection, &bullmq.ServerOptions{
			Telemetry: metrics.Telemetry(nil), Middleware: []bullmq.Middleware{metrics.Middleware},
		})
		server.Handle("orders", func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, nil)
		metrics.AddServer(server)
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- server.Run(running) }()
		add("pack", nil)
		Eventually(values).Should(And(
			HaveKeyWithValue("bullmq_worker_jobs_total{pack,completed,orders}", 1.0),
			HaveKeyWithValue("bullmq_worker_concurrency{orders}", 1.0),
			HaveKeyWithValue("bullmq_worker_redis_up{orders}", 1.0),
		))
		stop()
		Eventually(ended).Should(Receive(BeNil()))
	})

	It("are complete with a server of NewServer, also for its queues, and keep the middleware of the options", func() {
		setUp(nil)
		next := &countingTelemetry{}
		var adds, runs atomic.Int64
		server := metrics.NewServer(connection, &bullmq.ServerOptions{
			Telemetry: next,
			Middleware: []bullmq.Middleware{func(next bullmq.Handler) bullmq.Handler {
				return func(ctx context.Context, job *bullmq.Job) (any, error) { runs.Add(1); return next(ctx, job) }
			}},
			AddMiddleware: []bullmq.AddMiddleware{func(next bullmq.AddFunc) bullmq.AddFunc {
				return func(ctx context.Context, jobs []*bullmq.NewJob) error { adds.Add(1); return next(ctx, jobs) }
			}},
		})
		server.Handle("orders", func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, nil)
		queue, err := server.Queue(ctx, "orders", nil)
		Expect(err).NotTo(HaveOccurred())
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- server.Run(running) }()
		_, err = queue.Add(ctx, "pack", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Eventually(values, "5s").Should(And(
			HaveKeyWithValue("bullmq_jobs_added_total{pack,orders}", 1.0),
			HaveKeyWithValue("bullmq_worker_jobs_total{pack,completed,orders}", 1.0),
			HaveKeyWithValue("bullmq_worker_concurrency{orders}", 1.0),
		))
		Expect([]int64{adds.Load(), runs.Load()}).To(Equal([]int64{1, 1}))
		Expect(next.spans.Load()).To(BeNumerically(">", 0))
		stop()
		Eventually(ended, "10s").Should(Receive(BeNil()))
	})

	It("are served over HTTP with other collectors", func() {
		setUp(nil)
		add("pack", nil)
		reply := httptest.NewRecorder()
		bullmqprom.Handler(metrics, bullmqprom.NewQueues(nil, queue)).ServeHTTP(reply, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		Expect(reply.Body.String()).To(And(
			ContainSubstring(`bullmq_jobs_added_total{name="pack",queue="orders"} 1`), ContainSubstring(`bullmq_up{queue="orders"} 1`)))
	})
})

// countingTelemetry counts calls.
type countingTelemetry struct{ spans, records atomic.Int64 }

func (c *countingTelemetry) StartSpan(ctx context.Context, _ string, _ bullmq.SpanKind) (context.Context, bullmq.Span) {
	c.spans.Add(1)
	return ctx, countingSpan{}
}
func (c *countingTelemetry) Inject(context.Context) string                         { return "" }
func (c *countingTelemetry) Extract(ctx context.Context, _ string) context.Context { return ctx }
func (c *countingTelemetry) Record(context.Context, bullmq.Instrument, float64, ...bullmq.Attribute) {
	c.records.Add(1)
}

type countingSpan struct{}

func (countingSpan) SetAttributes(...bullmq.Attribute)    {}
func (countingSpan) AddEvent(string, ...bullmq.Attribute) {}
func (countingSpan) RecordError(error)                    {}
func (countingSpan) End()                                 {}
