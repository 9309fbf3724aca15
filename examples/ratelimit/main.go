// Ratelimit slows a queue down to protect a service that its jobs call, in two ways: a Limiter sets how many
// jobs may start within a period over all workers of the queue, and a handler that receives "too many
// requests" stops the whole queue for the requested time.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync/atomic"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	connection, err := bullmq.Connect(ctx, os.Getenv("REDIS_URL")) // defaults to redis://127.0.0.1:6379
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	queue, err := bullmq.NewQueue(ctx, "lookups", &bullmq.QueueOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()
	const count = 8
	for range count {
		if _, err := queue.Add(ctx, "lookup", nil, nil); err != nil {
			log.Fatal(err)
		}
	}

	begun, done := time.Now(), make(chan struct{}, count)
	var calls atomic.Int64
	worker, err := bullmq.NewWorker(ctx, "lookups", func(_ context.Context, job *bullmq.Job) (any, error) {
		at := time.Since(begun).Truncate(10 * time.Millisecond)
		if calls.Add(1) == 4 { // as if the response was 429 with Retry-After: 2
			fmt.Printf("%6v  job %s sets a limit of 2 s for all jobs\n", at, job.ID)
			return nil, bullmq.RateLimit(2 * time.Second) // uses no attempt; the job runs first afterwards
		}
		fmt.Printf("%6v  job %s runs\n", at, job.ID)
		return nil, nil
	}, &bullmq.WorkerOptions{
		Connection: connection, Concurrency: 10,
		// Every worker of the queue should have the same limiter. Without one, RateLimit cannot stop the
		// queue.
		Limiter: &bullmq.Limiter{Max: 3, Duration: time.Second},
		Events:  bullmq.WorkerEvents{Completed: func(*bullmq.Job, any) { done <- struct{}{} }},
	})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = worker.Run(ctx) }()
	defer worker.Close()
	for range count {
		select {
		case <-done:
		case <-ctx.Done():
			log.Fatal(ctx.Err())
		}
	}
}
