// Scheduler creates jobs at set times. Every instance of a service may run this code at its start: there is
// still one scheduler, and each of its jobs is run by one worker, in Go or in Node.
package main

import (
	"context"
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
	queue, err := bullmq.NewQueue(ctx, "chores", &bullmq.QueueOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()

	first, err := queue.UpsertScheduler(ctx, "report", // at 9 o'clock in Rome on weekdays, in summer and winter
		bullmq.Repeat{Pattern: "0 9 * * 1-5", TimeZone: "Europe/Rome"}, &bullmq.JobTemplate{Data: map[string]string{"to": "ada"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the first report is due at", first.Timestamp.Add(first.Delay))
	for range 3 { // as three instances would
		if _, err := queue.UpsertScheduler(ctx, "beat", bullmq.Repeat{Every: 200 * time.Millisecond, Limit: 5}, nil); err != nil {
			log.Fatal(err)
		}
	}

	beats := make(chan string, 5)
	worker, err := bullmq.NewWorker(ctx, "chores", func(_ context.Context, job *bullmq.Job) (any, error) {
		beats <- job.ID // repeat:beat:<due time in milliseconds>
		return nil, nil
	}, &bullmq.WorkerOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = worker.Run(ctx) }()
	defer worker.Close()
	for range 5 {
		select {
		case id := <-beats:
			fmt.Println("ran", id)
		case <-ctx.Done():
			log.Fatal(ctx.Err())
		}
	}

	for _, id := range []string{"beat", "report"} { // a finished scheduler remains until it is removed
		if err := queue.RemoveScheduler(ctx, id); err != nil {
			log.Fatal(err)
		}
		fmt.Println("removed", id)
	}
}
