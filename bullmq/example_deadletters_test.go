package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// A job that has failed for good moves to another queue. From there it is put back with
// corrected data.
func ExampleQueue_ReplayDeadLetter() {
	ctx := context.Background()
	queue, connection, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()
	dead, err := bullmq.NewQueue(ctx, "orders.dead", &bullmq.QueueOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	defer dead.Close()
	if _, err := queue.Add(ctx, "paint", Paint{Colour: "rde"}, nil); err != nil {
		log.Fatal(err)
	}

	moved := make(chan bullmq.DeadLetter, 1)
	worker, err := bullmq.NewWorker(ctx, "orders", func(context.Context, *bullmq.Job) (any, error) {
		return nil, errors.New("no such colour")
	}, &bullmq.WorkerOptions{
		Connection: connection,
		DeadLetters: &bullmq.DeadLetterOptions{
			QueueName: "orders.dead",
			OnMoved:   func(_ context.Context, letter bullmq.DeadLetter) { moved <- letter },
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = worker.Run(ctx) }()
	letter := <-moved
	_ = worker.Close()
	fmt.Printf("job %s of %s failed: %s\n", letter.JobID, letter.QueueName, letter.Reason)

	if letter, err = dead.DeadLetter(ctx, "orders", letter.JobID); err != nil { // as any program finds it
		log.Fatal(err)
	}
	if err := letter.Letter.UpdateData(ctx, Paint{Colour: "red"}); err != nil {
		log.Fatal(err)
	}
	job, err := dead.ReplayDeadLetter(ctx, letter.Letter.ID)
	if err != nil {
		log.Fatal(err)
	}
	state, err := job.State(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("job %s of %s is %s\n", job.ID, job.QueueName(), state)
	// Output:
	// job 1 of orders failed: no such colour
	// job 1 of orders is waiting
}
