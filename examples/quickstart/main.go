// Quickstart is a complete queue in one program: a producer adds jobs, a worker runs them, and a reader of
// the events reports what happens. It starts an in-process Redis, so it needs nothing but Go:
//
//	go run ./examples/quickstart
//
// With a real Redis, a Node service could take over any of the three parts.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Dish is the data of a job. Redis stores it as {"dish":"soup","minutes":3}.
type Dish struct {
	Dish    string `json:"dish"`
	Minutes int    `json:"minutes"`
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	redis, err := miniredis.Run()
	check(err)
	defer redis.Close()
	redis.ClockTTL(true) // keys expire by themselves, as in a real Redis
	// For a real Redis use bullmq.Connect(ctx, "redis://127.0.0.1:6379"). This one wrongly reports that it is a
	// cluster.
	connection, err := bullmq.ConnectOption(ctx, rueidis.ClientOption{InitAddress: []string{redis.Addr()}, ForceSingleClient: true})
	check(err)
	defer connection.Close()

	// Start the event reader first: by default it reads only new events.
	events, err := bullmq.NewQueueEvents(ctx, "kitchen", &bullmq.QueueEventsOptions{Connection: connection})
	check(err)
	defer events.Close()

	// The worker calls cook for each job, two at a time. Run returns when its context ends.
	worker, err := bullmq.NewWorker(ctx, "kitchen", cook, &bullmq.WorkerOptions{Connection: connection, Concurrency: 2})
	check(err)
	working, stop := context.WithCancel(ctx)
	done := make(chan error)
	go func() { done <- worker.Run(working) }()

	// Data is anything that encoding/json can encode. Options may be nil.
	queue, err := bullmq.NewQueue(ctx, "kitchen", &bullmq.QueueOptions{Connection: connection})
	check(err)
	defer queue.Close()
	add(ctx, queue, Dish{"soup", 3}, nil)
	add(ctx, queue, Dish{"bread", 8}, nil)
	add(ctx, queue, Dish{"ice cream", 1}, &bullmq.JobOptions{Delay: 1500 * time.Millisecond})
	add(ctx, queue, Dish{"soufflé", 5}, &bullmq.JobOptions{Attempts: 2, Backoff: bullmq.FixedBackoff(500 * time.Millisecond)})

	completed := 0
	for event, err := range events.All(ctx) {
		check(err)
		show("event", event.JobID, describe(event))
		if event.Type == bullmq.EventCompleted {
			completed++
		}
		if completed == 4 {
			break
		}
	}
	check(ctx.Err())
	stop() // fetch no new job and finish the running ones
	check(<-done)
	fmt.Println("all four dishes are served")
}

// cook is the handler. Its result is the job's return value. An error makes the job fail.
func cook(_ context.Context, job *bullmq.Job) (any, error) {
	var dish Dish
	if err := job.Decode(&dish); err != nil {
		return nil, err
	}
	show("worker", job.ID, fmt.Sprintf("cooks %s, attempt %d", dish.Dish, job.AttemptsMade+1))
	time.Sleep(time.Duration(dish.Minutes) * 50 * time.Millisecond) // a minute in this kitchen is short
	if dish.Dish == "soufflé" && job.AttemptsMade == 0 {
		return nil, errors.New("it has collapsed")
	}
	return map[string]string{"served": dish.Dish}, nil
}

func add(ctx context.Context, queue *bullmq.Queue, dish Dish, options *bullmq.JobOptions) {
	job, err := queue.Add(ctx, "cook", dish, options)
	check(err)
	show("producer", job.ID, "added "+string(job.Data))
}
