package bullmqprom

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Options configures [New]. A nil pointer and the zero value select the defaults.
type Options struct {
	// KnownName reports whether a job's name may be a value of the label "name". All other
	// names are exported as "other". [bullmq.Mux.Handles] can be used here.
	// Defaults to a function that accepts every name.
	KnownName func(name string) bool
	// MaxNames is the maximum number of distinct names that are exported, for all queues
	// together. Further names are exported as "other". So the number of time series is
	// bounded even if a program puts ids into names.
	// Defaults to 100.
	MaxNames int
	// Buckets are the upper bounds of the classic histograms, in seconds. Prometheus uses
	// the native histograms instead if it is configured to scrape them.
	// Defaults to 5 ms to 1 hour.
	Buckets []float64
	// ConstLabels are added to each sample. Set prefix if the queues have a Prefix other
	// than [bullmq.DefaultPrefix].
	// Defaults to none.
	ConstLabels prometheus.Labels
}

// OtherName is the value of the label "name" for names that are not exported.
const OtherName = "other"

// Metrics is a [prometheus.Collector] of what the workers and producers of this process do.
// Its methods are safe for concurrent use.
type Metrics struct {
	names names

	jobs     *prometheus.CounterVec
	duration *prometheus.HistogramVec
	wait     *prometheus.HistogramVec
	inFlight *prometheus.GaugeVec
	lost     *prometheus.CounterVec
	stalled  *prometheus.CounterVec
	added    *prometheus.CounterVec

	concurrency, redisUp *prometheus.Desc

	mu      sync.Mutex
	workers []func() []*bullmq.Worker
}

// New returns Metrics. Register it with Prometheus, or pass it to [Handler]. options may be
// nil.
//
// A server made by [Metrics.NewServer] needs nothing else. Workers without such a server need
// [Metrics.Telemetry] and [Metrics.Middleware] in their options. Queues and flow producers need
// [Metrics.AddMiddleware].
func New(options *Options) *Metrics {
	var o Options
	if options != nil {
		o = *options
	}
	if o.MaxNames <= 0 {
		o.MaxNames = 100
	}
	if o.Buckets == nil {
		o.Buckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: o.ConstLabels}, labels)
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, ConstLabels: o.ConstLabels, Buckets: o.Buckets,
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
		}, labels)
	}
	return &Metrics{
		names:    names{accept: o.KnownName, left: o.MaxNames, known: map[string]bool{}},
		jobs:     counter("bullmq_worker_jobs_total", "Attempts of jobs that ended in this process, by their outcome.", "queue", "name", "outcome"),
		duration: histogram("bullmq_worker_job_duration_seconds", "How long handlers ran.", "queue", "name", "outcome"),
		wait:     histogram("bullmq_worker_job_wait_seconds", "How long jobs were ready before their first attempt started.", "queue", "name"),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "bullmq_worker_jobs_in_flight", Help: "Jobs that run in this process.", ConstLabels: o.ConstLabels,
		}, []string{"queue"}),
		lost:        counter("bullmq_worker_locks_lost_total", "Locks that were lost while their jobs ran in this process.", "queue"),
		stalled:     counter("bullmq_worker_stalled_jobs_total", "Stalled jobs that the checks of this process found.", "queue"),
		added:       counter("bullmq_jobs_added_total", "Jobs that this process added.", "queue", "name"),
		concurrency: prometheus.NewDesc("bullmq_worker_concurrency", "Number of jobs that the workers of this process run at the same time.", []string{"queue"}, o.ConstLabels),
		redisUp:     prometheus.NewDesc("bullmq_worker_redis_up", "Whether the workers of this process can reach Redis.", []string{"queue"}, o.ConstLabels),
	}
}

// NewServer returns a [bullmq.Server] with metrics of its workers and adds. It replaces
// Telemetry of the options by a Telemetry of m that passes all calls on to it. It puts the
// middleware of m outside of Middleware and AddMiddleware. options may be nil.
func (m *Metrics) NewServer(conn *bullmq.Connection, options *bullmq.ServerOptions) *bullmq.Server {
	var o bullmq.ServerOptions
	if options != nil {
		o = *options
	}
	o.Telemetry = m.Telemetry(o.Telemetry)
	o.Middleware = slices.Concat([]bullmq.Middleware{m.Middleware}, o.Middleware)
	o.AddMiddleware = slices.Concat([]bullmq.AddMiddleware{m.AddMiddleware}, o.AddMiddleware)
	server := bullmq.NewServer(conn, &o)
	m.AddServer(server)
	return server
}

// Handler returns an HTTP handler that exports only the given collectors, such as [Metrics]
// and [Queues]. A program with a [prometheus.Registry] registers the collectors there instead.
// Handler panics if two collectors have a metric in common.
func Handler(collectors ...prometheus.Collector) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors...)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// AddWorker exports the concurrency and the health of a worker while it runs.
func (m *Metrics) AddWorker(worker *bullmq.Worker) {
	m.addWorkers(func() []*bullmq.Worker { return []*bullmq.Worker{worker} })
}

// AddServer exports the concurrency and the health of the server's workers while they run.
func (m *Metrics) AddServer(server *bullmq.Server) { m.addWorkers(server.Workers) }

func (m *Metrics) addWorkers(workers func() []*bullmq.Worker) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.workers = append(m.workers, workers)
}

// start creates the series of a queue's worker with the value 0. Otherwise Prometheus would
// not see their first increase.
func (m *Metrics) start(queue string) {
	m.lost.WithLabelValues(queue)
	m.stalled.WithLabelValues(queue)
	m.inFlight.WithLabelValues(queue)
}

// vectors returns the metrics that hold their values themselves.
func (m *Metrics) vectors() []prometheus.Collector {
	return []prometheus.Collector{m.jobs, m.duration, m.wait, m.inFlight, m.lost, m.stalled, m.added}
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, v := range m.vectors() {
		v.Describe(ch)
	}
	ch <- m.concurrency
	ch <- m.redisUp
}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	sources := m.workers
	m.mu.Unlock()
	concurrency, up := map[string]float64{}, map[string]float64{}
	for _, workers := range sources {
		for _, worker := range workers() {
			if !worker.IsRunning() {
				continue
			}
			queue, reachable := worker.QueueName(), 0.0
			if worker.Health().Reachable {
				reachable = 1
			}
			if _, seen := up[queue]; !seen {
				m.start(queue)
				up[queue] = 1
			}
			concurrency[queue] += float64(worker.Concurrency())
			up[queue] = min(up[queue], reachable)
		}
	}
	for queue := range up {
		ch <- prometheus.MustNewConstMetric(m.concurrency, prometheus.GaugeValue, concurrency[queue], queue)
		ch <- prometheus.MustNewConstMetric(m.redisUp, prometheus.GaugeValue, up[queue], queue)
	}
	for _, v := range m.vectors() {
		v.Collect(ch)
	}
}

// AddMiddleware counts added jobs. It is a [bullmq.AddMiddleware] for QueueOptions.Middleware
// and FlowProducerOptions.Middleware. A job counts if [bullmq.NewJob.Added] returns it. So
// deduplicated jobs and the jobs of schedulers do not count.
func (m *Metrics) AddMiddleware(next bullmq.AddFunc) bullmq.AddFunc {
	return func(ctx context.Context, jobs []*bullmq.NewJob) error {
		err := next(ctx, jobs)
		for _, job := range jobs {
			if job.Added() != nil {
				m.added.WithLabelValues(job.QueueName, m.names.label(job.Name)).Inc()
			}
		}
		return err
	}
}

// names bounds the values of the label "name".
type names struct {
	accept func(string) bool

	mu    sync.Mutex
	left  int
	known map[string]bool
}

func (n *names) label(name string) string {
	n.mu.Lock()
	known := n.known[name]
	n.mu.Unlock()
	if known {
		return name
	}
	if n.accept != nil && !n.accept(name) {
		return OtherName
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.known[name] {
		if n.left == 0 {
			return OtherName
		}
		n.left--
		n.known[name] = true
	}
	return name
}
