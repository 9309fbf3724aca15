package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// A program with a loop of its own fetches and finishes jobs itself. This loop ends when
// no job is ready; Fetch waits for one instead.
func ExampleFetcher() {
	ctx := context.Background()
	queue, connection, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()
	for _, colour := range []string{"red", "plaid"} {
		if _, err := queue.Add(ctx, "paint", Paint{Colour: colour}, nil); err != nil {
			log.Fatal(err)
		}
	}
	fetcher, err := bullmq.NewFetcher(ctx, "orders", &bullmq.FetcherOptions{Connection: connection, RenewLocks: true})
	if err != nil {
		log.Fatal(err)
	}
	defer fetcher.Close()

	for {
		if _, err := fetcher.CheckStalled(ctx); err != nil { // calls Redis once per StalledInterval
			log.Fatal(err)
		}
		job, err := fetcher.TryFetch(ctx)
		if errors.Is(err, bullmq.ErrNoJob) {
			break
		} else if err != nil {
			log.Fatal(err)
		}
		var paint Paint
		err = job.Decode(&paint)
		switch {
		case job.DeferredFailure != "": // it stalled too often, or a child failed
			err = fetcher.Fail(ctx, job, bullmq.Unrecoverable(errors.New(job.DeferredFailure)))
		case err != nil:
			err = fetcher.Fail(ctx, job, bullmq.Unrecoverable(err))
		case paint.Colour == "plaid":
			err = fetcher.Fail(ctx, job, errors.New("plaid is not a colour"))
		default:
			err = fetcher.Complete(ctx, job, "painted")
		}
		if err != nil {
			log.Fatal(err)
		}
		state, err := job.State(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(paint.Colour, "is", state)
	}
	// Output:
	// red is completed
	// plaid is failed
}

// A program that has fetched a job learns that it is cancelled when it extends the lock.
func ExampleJob_ExtendLock() {
	ctx := context.Background()
	queue, connection, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()
	if _, err := queue.Add(ctx, "paint", Paint{Colour: "red"}, nil); err != nil {
		log.Fatal(err)
	}
	fetcher, err := bullmq.NewFetcher(ctx, "orders", &bullmq.FetcherOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	defer fetcher.Close()
	job, err := fetcher.TryFetch(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := queue.Cancel(ctx, job.ID, "the wall is gone"); err != nil { // usually in another process
		log.Fatal(err)
	}

	_, err = job.ExtendLock(ctx, 30*time.Second) // before LockDuration is over
	if errors.Is(err, bullmq.ErrCancelled) {
		err = fetcher.Fail(ctx, job, err)
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(job.FailedReason)
	// Output: cancelled: the wall is gone
}
