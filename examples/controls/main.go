// Controls steers a worker while it runs: more jobs at once, a pause in which nothing is taken, one
// job cancelled for good, and at the end all others given back, so that they run later with no attempt
// used. What happens is read from a channel. docs/workers.md explains it.
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
	connection := bullmq.URL(os.Getenv("REDIS_URL")) // redis://127.0.0.1:6379 when that is empty
	queue, err := bullmq.NewQueue(ctx, "renders", &bullmq.QueueOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()
	worker, err := bullmq.NewWorker(ctx, "renders", render, &bullmq.WorkerOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	active, told := make(chan string, 10), make(chan struct{})
	go follow(worker.Events(ctx, 100), active, told)
	run, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(run) }()

	for range 4 {
		if _, err := queue.Add(ctx, "film", nil, &bullmq.JobOptions{Attempts: 3}); err != nil {
			log.Fatal(err)
		}
	}
	first := <-active // one at a time
	if err := worker.SetConcurrency(3); err != nil {
		log.Fatal(err)
	}
	_, _ = <-active, <-active // two more at once

	if err := worker.PauseNow(ctx); err != nil { // Pause would wait for the three films
		log.Fatal(err)
	}
	if worker.CancelJob(first, "the customer is gone") {
		fmt.Println("job", first, "is told to stop; the fourth waits for the end of the pause")
	}
	worker.Resume()
	<-active

	// A deployment: take no new job, and don't wait for those that run.
	stop()
	fmt.Println(worker.CancelAllJobs("deployment"), "jobs are told to stop")
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	<-told
}

// render works for a minute, and heeds why it should stop before.
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
		return nil, bullmq.Snooze(time.Second) // again in a second, here or elsewhere, with no attempt used
	default:
		return nil, bullmq.Unrecoverable(cause) // without it the job would be tried again
	}
}

// follow prints what happens, and tells which jobs start.
func follow(events <-chan bullmq.WorkerEvent, active chan<- string, told chan<- struct{}) {
	defer close(told)
	for event := range events {
		if event.Missed > 0 {
			log.Printf("%d events were too fast for this reader", event.Missed)
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
