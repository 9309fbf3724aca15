// Results waits for what jobs return, as BullMQ's job.waitUntilFinished does. The worker here could
// as well be a Node one; that it is in the same program is only so that this runs by itself.
//
// A queue isn't made for asking and waiting: where many callers wait for many jobs, the tail of the
// events (examples/tail) costs less.
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
	connection := bullmq.URL(os.Getenv("REDIS_URL")) // redis://127.0.0.1:6379 when that is empty
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
		job, err := queue.Add(ctx, "divide", sum, &bullmq.JobOptions{RemoveOnComplete: bullmq.RemoveAll()})
		if err != nil {
			log.Fatal(err)
		}
		var failed *bullmq.JobFailedError
		result, err := job.Wait(ctx, queue) // safe even if the job has ended, and is removed, by now
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
			fmt.Println("somebody has removed the job")
		default:
			log.Fatal(err) // ctx has ended, or Redis is out of reach: the job may still run
		}
	}
}

func divide(_ context.Context, job *bullmq.Job) (any, error) {
	var n numbers
	if err := job.Decode(&n); err != nil {
		return nil, err
	}
	return n.A / n.B, nil // by zero it panics: the job fails with that reason, the worker lives on
}
