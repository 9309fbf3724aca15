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

// Painted is the result, job.returnvalue in Node.
type Painted struct {
	Painted string `json:"painted"`
}

var paintJobs = bullmq.Define[Paint, Painted]("paint")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	mux := bullmq.NewMux() // jobs of other names fail without a retry
	bullmq.Handle(mux, paintJobs, paint)
	worker, err := bullmq.NewWorker(ctx, "orders", mux.ServeJob, &bullmq.WorkerOptions{
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

// paint is called for each job named paint. A job whose data is no Paint fails without a retry.
func paint(ctx context.Context, job *bullmq.Job, paint Paint) (Painted, error) {
	for coat := 1; coat <= paint.Coats; coat++ {
		if err := job.UpdateProgress(ctx, 100*coat/paint.Coats); err != nil { // Node: queueEvents.on('progress')
			return Painted{}, err
		}
	}
	fmt.Printf("job %s: %d coats of %s\n", job.ID, paint.Coats, paint.Colour)
	return Painted{Painted: paint.Colour}, nil
}
