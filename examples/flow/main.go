// Flow adds a parent with children: an order that is packed once all its articles are picked. Each
// of these jobs could as well be added, or run, by Node.
//
// An article that can't be picked has failed for good when its attempts are used up. This order
// goes on without it, and its handler reads why; docs/flows.md has the other three ways.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

type article struct{ Name string }

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	connection := bullmq.URL(os.Getenv("REDIS_URL")) // redis://127.0.0.1:6379 when that is empty
	for queue, handler := range map[string]bullmq.Handler{"articles": pick, "parcels": pack} {
		worker, err := bullmq.NewWorker(ctx, queue, handler, &bullmq.WorkerOptions{Connection: connection})
		if err != nil {
			log.Fatal(err)
		}
		go func() { _ = worker.Run(ctx) }()
		defer worker.Close()
	}
	flows, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	defer flows.Close()
	parcels, err := bullmq.NewQueue(ctx, "parcels", &bullmq.QueueOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	defer parcels.Close()

	var articles []bullmq.Flow
	for _, name := range []string{"tea", "cup", "unicorn"} {
		articles = append(articles, bullmq.Flow{
			Name: "pick", Queue: "articles", Data: article{name},
			Options: &bullmq.JobOptions{Attempts: 2, IgnoreDependencyOnFailure: true},
		})
	}
	// All four jobs are there afterwards, or none.
	order, err := flows.Add(ctx, bullmq.FanOut(bullmq.Flow{Name: "pack", Queue: "parcels"}, articles...))
	if err != nil {
		log.Fatal(err)
	}
	parcel, err := order.Job.Wait(ctx, parcels)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("the parcel weighs %s g\n", parcel)
}

// pick answers an article's weight.
func pick(_ context.Context, job *bullmq.Job) (any, error) {
	var wanted article
	if err := job.Decode(&wanted); err != nil {
		return nil, bullmq.Unrecoverable(err)
	}
	grams := map[string]int{"tea": 100, "cup": 250}[wanted.Name]
	if grams == 0 {
		return nil, fmt.Errorf("there is no %s", wanted.Name)
	}
	return grams, nil
}

// pack runs when no article is pending any more.
func pack(ctx context.Context, job *bullmq.Job) (any, error) {
	weights, err := bullmq.Children[int](ctx, job)
	if err != nil {
		return nil, err
	}
	total := 0
	for _, article := range weights {
		var failed *bullmq.JobFailedError
		if errors.As(article.Err, &failed) {
			fmt.Println("left out:", failed.Reason)
		}
		total += article.Value // 0 of one that failed
	}
	return total, nil
}
