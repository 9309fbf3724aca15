// Flow adds a parent with children: an order that is packed once all its articles are picked. Node could add
// or run any of these jobs.
//
// An article fails permanently once its attempts are used up. This order then continues without it, and its
// handler reads the reason. docs/flows.md describes the other failure policies.
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
	connection, err := bullmq.Connect(ctx, os.Getenv("REDIS_URL")) // defaults to redis://127.0.0.1:6379
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	for queue, handler := range map[string]bullmq.Handler{"articles": pick, "parcels": pack} {
		worker, err := bullmq.NewWorker(ctx, queue, handler, &bullmq.WorkerOptions{Connection: connection})
		if err != nil {
			log.Fatal(err)
		}
		go func() { _ = worker.Run(ctx) }()
		defer worker.Close()
	}
	flows, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: connection})
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
			Name: "pick", QueueName: "articles", Data: article{name},
			Options: &bullmq.JobOptions{Attempts: 2, OnFailure: bullmq.IgnoreDependency},
		})
	}
	// Add adds all four jobs or none.
	order, err := flows.Add(ctx, bullmq.FanOut(bullmq.Flow{Name: "pack", QueueName: "parcels"}, articles...))
	if err != nil {
		log.Fatal(err)
	}
	parcel, err := order.Job.Wait(ctx, parcels)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("the parcel weighs %s g\n", parcel)
}

// pick returns the weight of an article.
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

// pack runs when no article is pending.
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
		total += article.Value // 0 if the child failed
	}
	return total, nil
}
