module github.com/17a2ac88/bullmq-go/examples/telemetry

go 1.26.0

require (
	github.com/17a2ac88/bullmq-go v0.0.0
	github.com/17a2ac88/bullmq-go/bullmq/bullmqotel v0.0.0
	go.opentelemetry.io/otel v1.47.0
	go.opentelemetry.io/otel/sdk v1.47.0
	go.opentelemetry.io/otel/trace v1.47.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/mattn/go-colorable v0.1.14 // indirect
	github.com/mattn/go-isatty v0.0.20 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	github.com/rs/zerolog v1.35.1 // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/otel/log v1.47.0 // indirect
	go.opentelemetry.io/otel/metric v1.47.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace (
	github.com/17a2ac88/bullmq-go => ../..
	github.com/17a2ac88/bullmq-go/bullmq/bullmqotel => ../../bullmq/bullmqotel
)
