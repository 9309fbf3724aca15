// Controls changes a running worker: it raises the concurrency, pauses it, cancels a job permanently, and at the
// end returns all other jobs to the queue without using an attempt. A channel reports the worker's events.
// See docs/workers.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
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
	queue, err := bullmq.NewQueue(ctx, "renders", &bullmq.QueueOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()
	worker, err := bullmq.NewWorker(ctx, "renders", render, &bullmq.WorkerOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	active, followed := make(chan string, 10), make(chan struct{})
	go follow(worker.Events(ctx, 100), active, followed)
	run, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(run) }()

	for range 4 {
		if _, err := queue.Add(ctx, "film", nil, &bullmq.JobOptions{Attempts: 3}); err != nil {
			log.Fatal(err)
		}
	}
	first := <-active // one job at a time
	if err := worker.SetConcurrency(3); err != nil {
		log.Fatal(err)
	}
	_, _ = <-active, <-active // two more concurrently

	var workers []bullmq.WorkerInfo
	for len(workers) == 0 { // the worker may run a job before it is listed
		if workers, err = bullmq.ListWorkers(ctx, connection, "", "renders", "mails"); err != nil {
			log.Fatal(err)
		}
	}
	for _, w := range workers {
		fmt.Println("worker", w.Name, "on", w.Host, "serves", w.Queues, "and runs", w.Running, "of", w.Concurrency, "jobs")
	}

	if err := worker.PauseNow(ctx); err != nil { // Pause would wait for the three jobs
		log.Fatal(err)
	}
	if worker.CancelJob(first, "the customer is gone") {
		fmt.Println("job", first, "is cancelled; the fourth waits for the end of the pause")
	}
	worker.Resume()
	<-active

	// During a deployment: fetch no new job, and do not wait for the running ones.
	stop()
	fmt.Println(worker.CancelAllJobs("deployment"), "jobs are cancelled")
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	<-followed
}

// render takes a minute. It returns earlier, depending on the cause, if its context ends.
func render(ctx context.Context, _ *bullmq.Job) (any, error) {
	select {
	case <-time.After(time.Minute):
		return "a film", nil
	case <-ctx.Done():
	}
	cause := context.Cause(ctx)
	var cancelled *bullmq.CancelledError
	switch {
	case !errors.As(cause, &cancelled):
		return nil, cause // ErrLockLost or ErrShutdown
	case cancelled.Reason == "deployment":
		return nil, bullmq.Snooze(time.Second) // run again in a second, by any worker, without using an attempt
	default:
		return nil, bullmq.Unrecoverable(cause) // another error would be retried
	}
}

// follow prints the events and sends the ids of started jobs to active.
func follow(events <-chan bullmq.WorkerEvent, active chan<- string, followed chan<- struct{}) {
	defer close(followed)
	for event := range events {
		if event.Missed > 0 {
			log.Printf("%d events were dropped because this reader was too slow", event.Missed)
		}
		switch event.Type {
		case bullmq.EventActive:
			fmt.Println("active: job", event.Job.ID)
			active <- event.Job.ID
		case bullmq.EventFailed:
			fmt.Println("failed: job", event.Job.ID, event.Err)
		case bullmq.EventError:
			log.Print(event.Err)
		default:
			fmt.Println(event.Type)
		}
	}
}
