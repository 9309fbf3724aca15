// Retries shows who decides whether and when a failed job is retried:
//
//   - the job, by the Attempts and Backoff that its producer set;
//   - the handler, by the error that it returns: Unrecoverable fails the job even if attempts are left;
//   - the worker, by Classify, which evaluates errors of libraries that know nothing about jobs.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// httpError represents an error of an HTTP client.
type httpError struct{ status int }

func (e httpError) Error() string { return http.StatusText(e.status) }

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	connection, err := bullmq.Connect(ctx, os.Getenv("REDIS_URL")) // defaults to redis://127.0.0.1:6379
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	worker, err := bullmq.NewWorker(ctx, "calls", call, &bullmq.WorkerOptions{
		Connection: connection, Concurrency: 4, Classify: classify,
		Events: bullmq.WorkerEvents{Failed: func(job *bullmq.Job, err error) {
			fmt.Printf("%-12s attempt %d of %d: %v\n", job.Name, job.AttemptsMade, job.Options.Attempts, err)
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = worker.Run(ctx) }()
	defer worker.Close()
	queue, err := bullmq.NewQueue(ctx, "calls", &bullmq.QueueOptions{
		Connection: connection,
		DefaultJobOptions: &bullmq.JobOptions{
			Attempts: 3, // includes the first one
			// 100 ms, then 200 ms; half of it random, so that jobs that fail together are not retried together
			Backoff: &bullmq.Backoff{Type: "exponential", Delay: 100 * time.Millisecond, Jitter: 0.5},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()

	for _, name := range []string{"flaky", "hopeless", "not-found", "overloaded"} {
		job, err := queue.Add(ctx, name, nil, nil)
		if err != nil {
			log.Fatal(err)
		}
		value, err := job.Wait(ctx, queue)
		fmt.Printf("%-12s ends with %s, %v\n\n", name, value, err)
	}
}

func call(_ context.Context, job *bullmq.Job) (any, error) {
	switch {
	case job.Name == "hopeless":
		return nil, bullmq.Unrecoverable(errors.New("the customer is gone"))
	case job.Name == "not-found":
		return nil, httpError{http.StatusNotFound}
	case job.Name == "overloaded" && job.AttemptsMade == 0:
		return nil, httpError{http.StatusServiceUnavailable}
	case job.AttemptsMade < 2:
		return nil, errors.New("connection reset")
	}
	return "ok", nil
}

// classify evaluates the handler's error. Transient, the zero Verdict, applies the job's options.
func classify(err error, _ *bullmq.Job) bullmq.Verdict {
	var response httpError
	switch {
	case !errors.As(err, &response):
		return bullmq.Transient()
	case response.status == http.StatusServiceUnavailable:
		return bullmq.RetryAfter(time.Second) // as long as the server requested
	case response.status >= 400 && response.status < 500:
		return bullmq.Permanent()
	}
	return bullmq.Transient()
}
