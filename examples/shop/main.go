// Shop is a service with an HTTP API whose work is done by jobs of three queues. See
// README.md.
//
//	REDIS_URL=redis://127.0.0.1:6379 go run ./examples/shop -listen localhost:8080
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmq/middleware"
	"github.com/17a2ac88/bullmq-go/bullmqprom"
)

func main() {
	listen := flag.String("listen", "localhost:8080", "address of the HTTP API")
	queues := flag.String("queues", ordersQueue+","+mailQueue+","+reportsQueue, "queues whose jobs this process runs")
	flag.Parse()
	logger := slog.New(withRequestID{slog.NewTextHandler(os.Stderr, nil)})
	c := config{queues: strings.Split(*queues, ","), logger: logger, stepTime: time.Second, alert: alertTo(logger)}
	if err := run(*listen, c); err != nil {
		log.Fatal(err)
	}
}

func run(listen string, c config) error {
	ctx := context.Background()
	var err error
	if c.connection, err = bullmq.Connect(ctx, os.Getenv("REDIS_URL")); err != nil {
		return err
	}
	defer c.connection.Close()
	s, err := newShop(ctx, c)
	if err != nil {
		return err
	}
	defer s.close()
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	web := &http.Server{Handler: s.web, ReadHeaderTimeout: 10 * time.Second}
	web.RegisterOnShutdown(s.endStreams)
	go func() { _ = web.Serve(listener) }()
	c.logger.Info("listening", "address", listener.Addr().String())
	err = s.server.Run(ctx) // until a signal
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return errors.Join(err, web.Shutdown(ctx))
}

// config is what newShop needs. Tests set prefix and now.
type config struct {
	connection *bullmq.Connection
	prefix     string
	now        func() time.Time
	queues     []string
	logger     *slog.Logger
	stepTime   time.Duration                                 // of a step of processOrder
	alert      func(ctx context.Context, letter *bullmq.Job) // is called once for each dead letter
}

// shop is the service.
type shop struct {
	orders, mail, reports, dead *bullmq.Queue
	flows                       *bullmq.FlowProducer
	server                      *bullmq.Server
	web                         http.Handler
	logger                      *slog.Logger
	stepTime                    time.Duration
	streams                     context.Context // of the streams of events
	endStreams                  func()
}

func newShop(ctx context.Context, c config) (*shop, error) {
	s := &shop{logger: c.logger, stepTime: c.stepTime}
	s.streams, s.endStreams = context.WithCancel(ctx)
	mux := s.handlers()
	metrics := bullmqprom.New(&bullmqprom.Options{KnownName: mux.Handles})
	add := []bullmq.AddMiddleware{requestID.Add, metrics.AddMiddleware}
	options := bullmq.QueueOptions{
		Connection: c.connection, Prefix: c.prefix, Now: c.now, Logger: bullmq.Slog(c.logger), Middleware: add, AddWait: 5 * time.Second,
	}
	var err error
	for name, queue := range map[string]**bullmq.Queue{ordersQueue: &s.orders, mailQueue: &s.mail, reportsQueue: &s.reports, deadQueue: &s.dead} {
		if *queue, err = bullmq.NewQueue(ctx, name, &options); err != nil {
			return nil, err
		}
	}
	s.flows, err = bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{
		Connection: c.connection, Prefix: c.prefix, Now: c.now, Logger: bullmq.Slog(c.logger), Middleware: add,
	})
	if err != nil {
		return nil, err
	}
	_, err = s.reports.UpsertScheduler(ctx, "nightly", bullmq.Repeat{Pattern: "0 3 * * *", TimeZone: "UTC"}, new(NightlyReport.Template(struct{}{}, nil)))
	if err != nil {
		return nil, err
	}

	s.server = bullmq.NewServer(c.connection, &bullmq.ServerOptions{
		Prefix: c.prefix, Now: c.now, Logger: bullmq.Slog(c.logger), Telemetry: metrics.Telemetry(nil),
		Middleware: []bullmq.Middleware{metrics.Middleware, requestID.Handle, middleware.Log(slog.LevelInfo)},
	})
	dead := &bullmq.DeadLetterOptions{QueueName: deadQueue, OnMoved: c.alert}
	keep := bullmq.KeepFor(48 * time.Hour)
	workers := map[string]*bullmq.WorkerOptions{
		ordersQueue:  {Concurrency: 20, KeepCompleted: keep},
		mailQueue:    {Concurrency: 10, KeepCompleted: keep, DeadLetters: dead, Limiter: &bullmq.Limiter{Max: 10, Duration: time.Second}},
		reportsQueue: {Concurrency: 5, KeepCompleted: keep, DeadLetters: dead},
	}
	for _, name := range c.queues {
		if workers[name] == nil {
			return nil, fmt.Errorf("there is no queue %q", name)
		}
		s.server.Handle(name, mux.ServeJob, workers[name])
	}
	metrics.AddServer(s.server)

	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics, bullmqprom.NewQueues(nil, s.orders, s.mail, s.reports, s.dead))
	web := http.NewServeMux()
	web.Handle("/", s.api())
	web.Handle("GET /livez", s.server.Live())
	web.Handle("GET /readyz", s.server.Ready())
	web.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	s.web = web
	return s, nil
}

// close closes the queues. They are closed before their connection.
func (s *shop) close() {
	for _, closer := range []io.Closer{s.orders, s.mail, s.reports, s.dead, s.flows} {
		_ = closer.Close()
	}
}

// alertTo returns an alert that logs a line.
func alertTo(logger *slog.Logger) func(context.Context, *bullmq.Job) {
	return func(ctx context.Context, letter *bullmq.Job) {
		was, _ := letter.DeadLetter()
		logger.ErrorContext(ctx, "a job has failed for good", "queue", was.QueueName, "job", was.JobID, "name", letter.Name, "reason", was.Reason)
	}
}

// withRequestID adds the request id of a line's context.
type withRequestID struct{ slog.Handler }

func (h withRequestID) Handle(ctx context.Context, record slog.Record) error {
	if id := requestID.From(ctx); id != "" {
		record.AddAttrs(slog.String("request", id))
	}
	return h.Handler.Handle(ctx, record)
}

func (h withRequestID) WithAttrs(attrs []slog.Attr) slog.Handler {
	return withRequestID{h.Handler.WithAttrs(attrs)}
}

func (h withRequestID) WithGroup(name string) slog.Handler {
	return withRequestID{h.Handler.WithGroup(name)}
}
