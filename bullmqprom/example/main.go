// Example runs the jobs of a queue and serves their metrics to Prometheus at /metrics.
//
//	REDIS_URL=redis://localhost:6379 go run ./bullmqprom/example -listen localhost:9100
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqprom"
)

func main() {
	listen := flag.String("listen", "localhost:9100", "address of /metrics")
	flag.Parse()
	if err := run(*listen); err != nil {
		log.Fatal(err)
	}
}

func run(listen string) error {
	ctx := context.Background()
	connection, err := bullmq.Connect(ctx, os.Getenv("REDIS_URL"))
	if err != nil {
		return err
	}
	defer connection.Close()

	mux := bullmq.NewMux()
	mux.HandleFunc("pack", pack)
	metrics := bullmqprom.New(&bullmqprom.Options{KnownName: mux.Handles})
	server := metrics.NewServer(connection, &bullmq.ServerOptions{Logger: bullmq.Slog(slog.Default())})
	server.Handle("orders", mux.ServeJob, &bullmq.WorkerOptions{MetricsPoints: 60})
	queue, err := server.Queue(ctx, "orders", nil)
	if err != nil {
		return err
	}
	http.Handle("/metrics", bullmqprom.Handler(metrics, bullmqprom.NewQueues(nil, queue)))
	server.HandleHTTP(&http.Server{Addr: listen})

	for _, fails := range []bool{false, true, true} {
		if _, err := queue.Add(ctx, "pack", map[string]bool{"fails": fails}, nil); err != nil {
			return err
		}
	}
	return server.Run(ctx)
}

func pack(_ context.Context, job *bullmq.Job) (any, error) {
	time.Sleep(10 * time.Millisecond)
	var order struct{ Fails bool }
	if err := job.Decode(&order); err != nil {
		return nil, bullmq.Unrecoverable(err)
	}
	if order.Fails {
		return nil, errors.New("nothing in stock")
	}
	return "packed", nil
}
