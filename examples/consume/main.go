// Consume runs jobs that a Node service adds:
//
//	import { Queue } from 'bullmq';
//	await new Queue('orders').add('paint', { colour: 'red', coats: 2 });
//
// It runs until Ctrl-C. Any number of Go and Node workers may share the queue: each job goes to one of them.
// REDIS_URL is the address of Redis.
package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Paint is the data of a job named paint. The tags are the names that Node uses.
type Paint struct {
	Colour string `json:"colour"`
	Coats  int    `json:"coats"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	worker, err := bullmq.NewWorker(ctx, "orders", handle, &bullmq.WorkerOptions{
		URL:         os.Getenv("REDIS_URL"),      // defaults to redis://127.0.0.1:6379
		Concurrency: 50,                          // concurrent handlers, each on a goroutine
		Name:        "painter",                   // for dashboards; optional
		Logger:      bullmq.Slog(slog.Default()), // or bullmq.Zerolog; without it the worker logs nothing
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("waiting for jobs")
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// handle is called for each job of the queue, regardless of its name.
func handle(ctx context.Context, job *bullmq.Job) (any, error) {
	if job.Name != "paint" {
		return nil, bullmq.Unrecoverable(fmt.Errorf("no handler for %s", job.Name)) // not retried
	}
	var paint Paint
	if err := job.Decode(&paint); err != nil {
		return nil, bullmq.Unrecoverable(err)
	}
	for coat := 1; coat <= paint.Coats; coat++ {
		if err := job.UpdateProgress(ctx, 100*coat/paint.Coats); err != nil { // Node: queueEvents.on('progress')
			return nil, err
		}
	}
	fmt.Printf("job %s: %d coats of %s\n", job.ID, paint.Coats, paint.Colour)
	return map[string]any{"painted": paint.Colour}, nil // Node: job.returnvalue
}
