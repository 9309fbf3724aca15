// Results waits for the return values of jobs, as BullMQ's job.waitUntilFinished does. The worker is in the
// same program only so that the example runs by itself. It could be a Node worker.
//
// A queue is not designed for requests and replies. If many callers wait for many jobs, reading the events
// (examples/tail) is cheaper.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

type numbers struct{ A, B int }

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	connection, err := bullmq.Connect(ctx, os.Getenv("REDIS_URL")) // defaults to redis://127.0.0.1:6379
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	worker, err := bullmq.NewWorker(ctx, "sums", divide, &bullmq.WorkerOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		if err := worker.Run(ctx); err != nil {
			log.Print(err)
		}
	}()
	defer worker.Close()
	queue, err := bullmq.NewQueue(ctx, "sums", &bullmq.QueueOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()

	for _, sum := range []numbers{{A: 84, B: 2}, {A: 1, B: 0}} {
		job, err := queue.Add(ctx, "divide", sum, &bullmq.JobOptions{KeepCompleted: bullmq.KeepNone()})
		if err != nil {
			log.Fatal(err)
		}
		var failed *bullmq.JobFailedError
		result, err := job.Wait(ctx, queue) // works even if the job has already finished and was removed
		switch {
		case err == nil:
			var quotient int
			if err := json.Unmarshal(result, &quotient); err != nil {
				log.Fatal(err)
			}
			fmt.Printf("%d / %d = %d\n", sum.A, sum.B, quotient)
		case errors.As(err, &failed):
			fmt.Printf("%d / %d fails: %s\n", sum.A, sum.B, failed.Reason)
		case errors.Is(err, bullmq.ErrJobNotFound):
			fmt.Println("the job was removed")
		default:
			log.Fatal(err) // ctx has ended or Redis is unreachable: the job may still run
		}
	}
}

func divide(_ context.Context, job *bullmq.Job) (any, error) {
	var n numbers
	if err := job.Decode(&n); err != nil {
		return nil, err
	}
	return n.A / n.B, nil // division by zero panics: the job fails with that reason, and the worker continues
}
