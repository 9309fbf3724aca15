// Package bullmqprom exports metrics of package bullmq to Prometheus.
//
//   - [Queues] reads queues from Redis when Prometheus scrapes it. Export each queue from
//     one process only.
//   - [Metrics] counts what the workers and producers of a process do. Export it from every
//     process.
//
// A worker process needs these lines:
//
//	metrics := bullmqprom.New(&bullmqprom.Options{KnownName: mux.Handles})
//	server := metrics.NewServer(connection, nil)
//	server.Handle("orders", mux.ServeJob, nil)
//	http.Handle("/metrics", bullmqprom.Handler(metrics))
//	server.HandleHTTP(&http.Server{Addr: "localhost:9100"})
package bullmqprom
