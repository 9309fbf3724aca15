// Routing runs the jobs that need a GPU, of a queue whose producer and other worker are Node programs:
//
//	cd examples/routing
//	npm install --no-save bullmq ioredis
//	node worker.mjs     # runs the jobs without a target
//	node producer.mjs   # adds jobs of both kinds
//	go run .            # runs the jobs that need a GPU, until Ctrl-C
//
// Each runs in a terminal of its own. They connect to Redis at 127.0.0.1:6379. For other addresses set REDIS_URL for Go, and
// REDIS_HOST and REDIS_PORT for Node.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	worker, err := bullmq.NewRoutedWorker(ctx, "images", render, &bullmq.RoutedWorkerOptions{
		Worker: bullmq.WorkerOptions{
			URL:          os.Getenv("REDIS_URL"), // defaults to redis://127.0.0.1:6379
			Concurrency:  4,
			Registration: &bullmq.RegistrationOptions{Capabilities: []string{"gpu"}}, // what this machine has
		},
		RoutesOnly: true, // leaves jobs without a target to the Node worker
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("waiting for jobs that need a GPU")
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

func render(_ context.Context, job *bullmq.Job) (any, error) {
	var image struct{ File string }
	if err := job.Decode(&image); err != nil {
		return nil, err
	}
	fmt.Printf("%s of %s: rendered %s\n", job.Name, job.QueueName(), image.File)
	return "rendered", nil
}
