// Manual takes jobs one by one, for programs that have a loop of their own and no use for Run: a
// batch writer, say, or a scheduler of goroutines. What Run would do is the program's then: a token
// for each lock, its renewal, the end of the job, and the check for jobs whose worker is gone.
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
	worker, err := bullmq.NewWorker(ctx, "orders", nil, &bullmq.WorkerOptions{ // no handler: Run isn't called
		Connection:   bullmq.URL(os.Getenv("REDIS_URL")), // redis://127.0.0.1:6379 when that is empty
		LockDuration: lockDuration,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer worker.Close()
	for ctx.Err() == nil {
		if _, err := worker.CheckStalled(ctx); err != nil { // asks Redis at most every StalledInterval
			log.Print(err)
		}
		token := uuid.NewString() // never the same for two jobs at a time
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

// finish runs a job, writes how it ended, and takes the next one under the same token in that call.
func finish(ctx context.Context, worker *bullmq.Worker, job *bullmq.Job, token string) (*bullmq.Job, error) {
	if job.DeferredFailure != "" { // it stalled too often, or a child failed: not to be run
		return worker.Fail(ctx, job, token, bullmq.Unrecoverable(errors.New(job.DeferredFailure)), true)
	}
	for part := 1; part <= 3; part++ {
		fmt.Printf("job %s (%s): part %d of 3\n", job.ID, job.Name, part)
		// The lock must be renewed before it expires. When it isn't ours any more, another worker
		// may have the job, and nothing that we did counts.
		if ours, err := job.ExtendLock(ctx, token, lockDuration); err != nil || !ours {
			return nil, errors.Join(err, fmt.Errorf("job %s: the lock is lost: %t", job.ID, !ours))
		}
	}
	// The end is written even when Ctrl-C has come meanwhile; then no next job is taken.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return worker.Complete(end, job, token, "done by hand", ctx.Err() == nil)
}
