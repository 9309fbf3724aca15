// Package bullmqprom exports metrics of package bullmq to Prometheus.
//
//   - [Queues] reads queues from Redis when Prometheus scrapes it. One process exports
//     each queue.
//   - [Metrics] counts what the workers and producers of a process do. Each process
//     exports its own.
//
// A worker process needs these lines:
//
//	metrics := bullmqprom.New(&bullmqprom.Options{KnownName: mux.Handles})
//	prometheus.MustRegister(metrics)
//	server := bullmq.NewServer(connection, &bullmq.ServerOptions{
//		Telemetry:  metrics.Telemetry(nil),
//		Middleware: []bullmq.Middleware{metrics.Middleware},
//	})
//	server.Handle("orders", mux.ServeJob, nil)
//	metrics.AddServer(server)
//	http.Handle("/metrics", promhttp.Handler())
package bullmqprom
