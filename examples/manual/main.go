// Manual fetches jobs one by one, for programs that have their own loop, such as a batch writer. The program
// then does what Worker.Run does otherwise: it extends the lock of each job, finishes the job, and checks for
// stalled jobs.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

const lockDuration = 30 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	fetcher, err := bullmq.NewFetcher(ctx, "orders", &bullmq.FetcherOptions{
		URL:          os.Getenv("REDIS_URL"), // defaults to redis://127.0.0.1:6379
		LockDuration: lockDuration,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer fetcher.Close()
	for ctx.Err() == nil {
		if _, err := fetcher.CheckStalled(ctx); err != nil { // contacts Redis at most once per StalledInterval
			log.Print(err)
		}
		soon, cancel := context.WithTimeout(ctx, 5*time.Second) // then the check is due again
		job, err := fetcher.Fetch(soon)
		cancel()
		for err == nil {
			job, err = finish(ctx, fetcher, job)
		}
		switch {
		case errors.Is(err, bullmq.ErrNoJob), errors.Is(err, context.DeadlineExceeded), ctx.Err() != nil:
		default:
			log.Print(err)
			time.Sleep(time.Second)
		}
	}
}

// finish runs a job, writes its outcome, and fetches the next job in the same call.
func finish(ctx context.Context, fetcher *bullmq.Fetcher, job *bullmq.Job) (*bullmq.Job, error) {
	if job.DeferredFailure != "" { // it stalled too often or a child failed: it must not run
		return fetcher.FailAndFetch(ctx, job, bullmq.Unrecoverable(errors.New(job.DeferredFailure)))
	}
	for part := 1; part <= 3; part++ {
		fmt.Printf("job %s (%s): part %d of 3\n", job.ID, job.Name, part)
		// The lock must be extended before it expires. After that another worker may run the job, and the
		// results here are discarded. With RenewLocks in the options, the Fetcher extends the locks itself.
		ours, err := job.ExtendLock(ctx, lockDuration)
		if errors.Is(err, bullmq.ErrCancelled) { // by Queue.Cancel
			return fetcher.FailAndFetch(ctx, job, err)
		}
		if err != nil || !ours {
			return nil, errors.Join(err, fmt.Errorf("job %s: the lock is lost: %t", job.ID, !ours))
		}
	}
	// The outcome is written even after Ctrl-C. No further job is fetched then.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if ctx.Err() != nil {
		return nil, errors.Join(ctx.Err(), fetcher.Complete(end, job, "done by hand"))
	}
	return fetcher.CompleteAndFetch(end, job, "done by hand")
}
