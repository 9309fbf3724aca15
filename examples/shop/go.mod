module github.com/17a2ac88/bullmq-go/examples/shop

go 1.26.0

require (
	github.com/17a2ac88/bullmq-go v0.0.0
	github.com/17a2ac88/bullmq-go/bullmqprom v0.0.0
	github.com/17a2ac88/bullmq-go/bullmqtest v0.0.0-00010101000000-000000000000
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/mattn/go-colorable v0.1.14 // indirect
	github.com/mattn/go-isatty v0.0.20 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/prometheus/client_golang v1.25.0 // indirect
	github.com/prometheus/client_model v0.6.3 // indirect
	github.com/prometheus/common v0.72.0 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	github.com/rs/zerolog v1.35.1 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	golang.org/x/sys v0.48.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace (
	github.com/17a2ac88/bullmq-go => ../..
	github.com/17a2ac88/bullmq-go/bullmqprom => ../../bullmqprom
	github.com/17a2ac88/bullmq-go/bullmqtest => ../../bullmqtest
)
