package bullmq_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// One process runs the jobs of all tenants, whose queues appear and disappear.
func ExampleMultiWorker() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	handler := func(_ context.Context, job *bullmq.Job) (any, error) {
		fmt.Println(job.QueueName(), job.Name)
		return nil, nil
	}
	worker, err := bullmq.NewMultiWorker(ctx, handler, &bullmq.MultiWorkerOptions{
		Queues: []bullmq.ServedQueue{
			{Name: "tenant-acme", Weight: 3}, // starts three times as many jobs as the others, if it has as many
			{Name: "tenant-globex", Concurrency: 5},
		},
		Worker: bullmq.WorkerOptions{URL: "redis://localhost:6379", Concurrency: 50},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := worker.AddQueue(bullmq.ServedQueue{Name: "tenant-initech"}); err != nil { // also while it runs
		fmt.Println(err)
		return
	}
	if err := worker.Run(ctx); err != nil {
		fmt.Println(err)
	}
}
