package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Each instance of a program can upsert the same scheduler when it starts.
func ExampleQueue_UpsertScheduler() {
	ctx := context.Background()
	queue, _, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()

	next, err := queue.UpsertScheduler(ctx, "nightly", bullmq.Repeat{
		Pattern:  "30 3 * * *",
		TimeZone: "Europe/Berlin",
	}, &bullmq.JobTemplate{
		Name:    "paint",
		Data:    Paint{Colour: "white"},
		Options: &bullmq.JobOptions{Attempts: 3},
	})
	if err != nil {
		log.Fatal(err)
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		log.Fatal(err)
	}
	at := next.Timestamp.Add(next.Delay).In(berlin)
	fmt.Printf("the next job is %s, at %s\n", next.Name, at.Format("15:04"))
	// Output: the next job is paint, at 03:30
}

// An interval of ten minutes, at most six times.
func ExampleRepeat() {
	ctx := context.Background()
	queue, _, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()
	if _, err := queue.UpsertScheduler(ctx, "drying", bullmq.Repeat{Every: 10 * time.Minute, Limit: 6}, nil); err != nil {
		log.Fatal(err)
	}
	schedulers, err := queue.Schedulers(ctx, bullmq.AllEntries())
	if err != nil {
		log.Fatal(err)
	}
	for _, scheduler := range schedulers {
		fmt.Printf("%s: every %s, %d of %d jobs\n",
			scheduler.ID, scheduler.Repeat.Every, scheduler.Iterations, scheduler.Repeat.Limit)
	}
	// Output: drying: every 10m0s, 1 of 6 jobs
}

// Removing a scheduler removes its next job too.
func ExampleQueue_RemoveScheduler() {
	ctx := context.Background()
	queue, _, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()
	if _, err := queue.UpsertScheduler(ctx, "drying", bullmq.Repeat{Every: time.Minute}, nil); err != nil {
		log.Fatal(err)
	}
	if err := queue.RemoveScheduler(ctx, "drying"); err != nil {
		log.Fatal(err)
	}
	_, err := queue.Scheduler(ctx, "drying")
	fmt.Println(errors.Is(err, bullmq.ErrSchedulerNotFound))
	// Output: true
}
