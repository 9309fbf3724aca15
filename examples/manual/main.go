// Manual fetches jobs one by one, for programs that have their own loop, such as a batch writer. The program
// then does the work of Run: it chooses a token for each lock, renews the lock, finishes the job, and checks
// for stalled jobs.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/google/uuid"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

const lockDuration = 30 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	worker, err := bullmq.NewWorker(ctx, "orders", nil, &bullmq.WorkerOptions{ // no handler: Run is not called
		URL:          os.Getenv("REDIS_URL"), // defaults to redis://127.0.0.1:6379
		LockDuration: lockDuration,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer worker.Close()
	for ctx.Err() == nil {
		if _, err := worker.CheckStalled(ctx); err != nil { // contacts Redis at most once per StalledInterval
			log.Print(err)
		}
		token := uuid.NewString() // unique among the jobs that run at the same time
		job, err := worker.GetNextJob(ctx, token, 5*time.Second)
		for job != nil && err == nil {
			job, err = finish(ctx, worker, job, token)
		}
		if err != nil && ctx.Err() == nil {
			log.Print(err)
			time.Sleep(time.Second)
		}
	}
}

// finish runs a job, writes its outcome, and fetches the next job under the same token in the same call.
func finish(ctx context.Context, worker *bullmq.Worker, job *bullmq.Job, token string) (*bullmq.Job, error) {
	if job.DeferredFailure != "" { // it stalled too often or a child failed: it must not run
		return worker.Fail(ctx, job, token, bullmq.Unrecoverable(errors.New(job.DeferredFailure)), true)
	}
	for part := 1; part <= 3; part++ {
		fmt.Printf("job %s (%s): part %d of 3\n", job.ID, job.Name, part)
		// The lock must be renewed before it expires. After that another worker may run the job, and the
		// results here are discarded.
		if ours, err := job.ExtendLock(ctx, lockDuration); err != nil || !ours {
			return nil, errors.Join(err, fmt.Errorf("job %s: the lock is lost: %t", job.ID, !ours))
		}
	}
	// The outcome is written even after Ctrl-C. No further job is fetched then.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return worker.Complete(end, job, token, "done by hand", ctx.Err() == nil)
}
