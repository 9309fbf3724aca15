module github.com/17a2ac88/bullmq-go/bullmqtest

go 1.26.0

require (
	github.com/17a2ac88/bullmq-go v0.0.0
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/redis/rueidis v1.0.79
)

require (
	github.com/google/uuid v1.6.0 // indirect
	github.com/mattn/go-colorable v0.1.14 // indirect
	github.com/mattn/go-isatty v0.0.20 // indirect
	github.com/rs/zerolog v1.35.1 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace github.com/17a2ac88/bullmq-go => ..
