// Shutdown ends a worker without losing a job, as a deployment wants it. Start it, and press Ctrl-C
// while jobs run:
//
//  1. At once no new job is taken. Running ones go on and keep their locks.
//  2. After most of ShutdownTimeout the handlers' contexts end with the cause ErrShutdown. A handler
//     that then returns an error gives its job back, with no attempt used.
//  3. What runs at the end of ShutdownTimeout is left behind. Run names those jobs, and once their locks
//     have expired the stalled check of another worker, Go or Node, takes them up.
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
	connection := bullmq.URL(os.Getenv("REDIS_URL")) // redis://127.0.0.1:6379 when that is empty
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
		log.Fatalf("left behind: %v still running, %v finished but not written", unfinished.JobIDs, unfinished.Unwritten)
	case err != nil:
		log.Fatal(err)
	}
	fmt.Println("every job is done or back in the queue")
}

// sleep heeds its context, as a handler should: whatever it waits for, ctx.Done is waited for too.
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
		// ErrShutdown, or ErrLockLost when another worker may have the job by now.
		fmt.Printf("job %s stops: %v\n", job.ID, context.Cause(ctx))
		return nil, context.Cause(ctx)
	}
}
