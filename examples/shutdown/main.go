// Shutdown stops a worker without losing a job, as a deployment needs it. Start it and press Ctrl-C while
// jobs run:
//
//  1. No new job is fetched. Running jobs continue and keep their locks.
//  2. After most of ShutdownTimeout the handlers' contexts end with the cause ErrShutdown. If a handler
//     then returns an error, its job is requeued without using an attempt.
//  3. Jobs that still run at the end of ShutdownTimeout are abandoned. Run returns their ids. Once their
//     locks have expired, the stalled check of another worker, Go or Node, recovers them.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	connection, err := bullmq.Connect(ctx, os.Getenv("REDIS_URL")) // defaults to redis://127.0.0.1:6379
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	queue, err := bullmq.NewQueue(ctx, "naps", &bullmq.QueueOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()
	for _, nap := range []time.Duration{time.Second, 3 * time.Second, time.Minute} {
		if _, err := queue.Add(ctx, nap.String(), nap, nil); err != nil {
			log.Fatal(err)
		}
	}
	worker, err := bullmq.NewWorker(ctx, "naps", sleep, &bullmq.WorkerOptions{
		Connection: connection, Concurrency: 3,
		ShutdownTimeout: 5 * time.Second, // less than the 10 s or 30 s after which Docker or Kubernetes kill
	})
	if err != nil {
		log.Fatal(err)
	}

	err = worker.Run(ctx)
	var unfinished *bullmq.UnfinishedError
	switch {
	case errors.As(err, &unfinished):
		log.Fatalf("abandoned: %v still running, %v finished but not written", unfinished.JobIDs, unfinished.Unwritten)
	case err != nil:
		log.Fatal(err)
	}
	fmt.Println("every job is done or back in the queue")
}

// sleep observes its context, as a handler should: it always waits for ctx.Done, too.
func sleep(ctx context.Context, job *bullmq.Job) (any, error) {
	var nap time.Duration
	if err := job.Decode(&nap); err != nil {
		return nil, err
	}
	fmt.Printf("job %s sleeps for %v\n", job.ID, nap)
	select {
	case <-time.After(nap):
		fmt.Printf("job %s is done\n", job.ID)
		return nil, nil
	case <-ctx.Done():
		// The cause is ErrShutdown, or ErrLockLost if another worker may run the job by now.
		fmt.Printf("job %s stops: %v\n", job.ID, context.Cause(ctx))
		return nil, context.Cause(ctx)
	}
}
