// Shop is a service with an HTTP API whose work is done by jobs of three queues. See
// README.md.
//
//	REDIS_URL=redis://127.0.0.1:6379 go run ./examples/shop -listen localhost:8080
package main

import (
	"context"
	"crypto/rand"
	"flag"
	"log"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmq/middleware"
	"github.com/17a2ac88/bullmq-go/bullmqprom"
)

func main() {
	listen := flag.String("listen", "localhost:8080", "address of the HTTP API")
	queues := flag.String("queues", ordersQueue+","+mailQueue+","+reportsQueue, "queues whose jobs this process runs")
	flag.Parse()
	ctx := context.Background()
	conn, err := bullmq.Connect(ctx, os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	s := &shop{logger: slog.Default(), stepTime: time.Second}
	if err := s.open(ctx, conn, bullmq.ServerOptions{QueueNames: strings.Split(*queues, ",")}); err != nil {
		log.Fatal(err)
	}
	s.server.HandleHTTP(&http.Server{Addr: *listen, Handler: s.web, ReadHeaderTimeout: 10 * time.Second})
	if err := s.server.Run(ctx); err != nil { // until a signal
		log.Fatal(err)
	}
}

// requestID carries the id of an HTTP request to the jobs that it adds, and to those that
// their handlers add. Node reads it as job.opts.requestId.
var requestID = middleware.RequestID()

// shop is the service.
type shop struct {
	logger   *slog.Logger
	stepTime time.Duration // of a step of processOrder

	server                      *bullmq.Server
	orders, mail, reports, dead *bullmq.Queue
	flows                       *bullmq.FlowProducer
	web                         http.Handler
}

// open connects the parts of the service. Running the server closes them.
func (s *shop) open(ctx context.Context, conn *bullmq.Connection, options bullmq.ServerOptions) (err error) {
	mux := bullmq.NewMux()
	s.handleJobs(mux)
	metrics := bullmqprom.New(&bullmqprom.Options{KnownName: mux.Handles})
	options.Logger = bullmq.Slog(s.logger)
	options.Middleware = []bullmq.Middleware{requestID.Handle, middleware.Log(slog.LevelInfo)}
	options.AddMiddleware = []bullmq.AddMiddleware{requestID.Add}
	options.QueueOptions = &bullmq.QueueOptions{AddWait: 5 * time.Second}
	s.server = metrics.NewServer(conn, &options)
	for name, queue := range map[string]**bullmq.Queue{ordersQueue: &s.orders, mailQueue: &s.mail, reportsQueue: &s.reports, deadQueue: &s.dead} {
		if *queue, err = s.server.Queue(ctx, name, nil); err != nil {
			return err
		}
	}
	if s.flows, err = s.server.FlowProducer(ctx, nil); err != nil {
		return err
	}
	s.handleQueues(mux)
	web := http.NewServeMux()
	s.handleRequests(web)
	web.Handle("GET /livez", s.server.Live())
	web.Handle("GET /readyz", s.server.Ready())
	web.Handle("GET /metrics", bullmqprom.Handler(metrics, bullmqprom.NewQueues(nil, s.orders, s.mail, s.reports, s.dead)))
	s.web = requestID.HTTP("X-Request-Id", rand.Text)(web)
	return s.schedule(ctx)
}
