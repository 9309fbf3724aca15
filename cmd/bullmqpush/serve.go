package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// serve sends jobs until the process receives SIGTERM or SIGINT.
func serve(c *config) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop() // the server handles the signals too, and a second one ends requests at once
	log := c.logger(os.Stderr)
	slog.SetDefault(log)
	defer c.client.Close()
	conn, err := bullmq.Connect(ctx, c.redis)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return fmt.Errorf("%w (-redis, BULLMQPUSH_REDIS or -redis-file sets the address)", err)
	}
	defer conn.Close()
	server := bullmq.NewServer(conn, &bullmq.ServerOptions{Prefix: c.prefix, ShutdownTimeout: c.shutdownTimeout, Logger: bullmq.Slog(log)})
	for _, e := range c.endpoints {
		log.Info("sending the jobs of a queue", "queue", e.queue, "endpoint", e.place())
		server.Handle(e.queue, e.send, c.workerOptions())
	}
	if c.listen != "" {
		server.HandleHTTP(web(c.listen, probes(server)))
	}
	if c.callbackListen != "" {
		callbacks, closeThem, err := c.callbacks(ctx, conn)
		if err != nil {
			return err
		}
		defer closeThem()
		server.HandleHTTP(web(c.callbackListen, callbacks))
	}
	if err := server.Run(ctx); err != nil {
		return err
	}
	log.Info("stopped")
	return nil
}

// web returns an HTTP server. Its clients can't hold connections for long without a request.
func web(address string, handler http.Handler) *http.Server {
	return &http.Server{
		Addr: address, Handler: handler,
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute, IdleTimeout: time.Minute,
	}
}

// workerOptions returns the options of the worker of each queue.
func (c *config) workerOptions() *bullmq.WorkerOptions {
	return &bullmq.WorkerOptions{
		Concurrency: c.concurrency,
		// Not shorter than the wait for callbacks, which the worker could cut short otherwise.
		LockDuration: max(30*time.Second, c.push.CallbackWait),
	}
}

// probes returns a handler for probes of the process.
func probes(server *bullmq.Server) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", server.Live())
	mux.Handle("GET /readyz", server.Ready())
	return mux
}

// logger returns a logger in the format and with the level of the flags.
func (c *config) logger(to *os.File) *slog.Logger {
	o := &slog.HandlerOptions{Level: c.logLevel}
	if c.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(to, o))
	}
	return slog.New(slog.NewTextHandler(to, o))
}
