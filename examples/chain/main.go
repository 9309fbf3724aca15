// Chain runs steps one after the other, each with the result of the previous one: it fetches a text, counts
// its words, and publishes the count. Two texts are processed concurrently, and the last step joins them. A
// chain is a flow, so any step may run in Node.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
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
	mux := bullmq.NewMux()
	bullmq.Handle(mux, fetchText, fetch)
	mux.HandleFunc("count", count)
	mux.HandleFunc("publish", publish)
	worker, err := bullmq.NewWorker(ctx, "texts", mux.ServeJob, &bullmq.WorkerOptions{Connection: connection, Concurrency: 4})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = worker.Run(ctx) }()
	defer worker.Close()
	flows, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	defer flows.Close()
	queue, err := bullmq.NewQueue(ctx, "texts", &bullmq.QueueOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()

	// If a step fails permanently, the steps after it fail too.
	stop := &bullmq.JobOptions{Attempts: 3, Backoff: bullmq.FixedBackoff(time.Second), OnFailure: bullmq.FailParent}
	counted := func(title string) bullmq.Flow {
		return bullmq.Chain(
			fetchText.Flow("texts", title, stop),
			bullmq.Flow{Name: "count", QueueName: "texts", Options: stop},
		)
	}
	flow := bullmq.FanOut(bullmq.Flow{Name: "publish", QueueName: "texts"}, counted("a rose"), counted("a haiku"))
	published, err := flows.Add(ctx, flow)
	if err != nil {
		log.Fatal(err)
	}
	result, err := published.Job.Wait(ctx, queue)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("published: %s words in all\n", result)
}

var library = map[string]string{
	"a rose":  "a rose is a rose is a rose",
	"a haiku": "an old silent pond",
}

// fetchText is the first step. Its data is the title and its result the text.
var fetchText = bullmq.Define[string, string]("fetch")

func fetch(_ context.Context, _ *bullmq.Job, title string) (string, error) {
	return library[title], nil
}

// count returns how many words the text of the step before it has.
func count(ctx context.Context, job *bullmq.Job) (any, error) {
	text, err := bullmq.ChildValue[string](ctx, job)
	if err != nil {
		return nil, err
	}
	words := len(strings.Fields(text))
	fmt.Printf("%d words: %s\n", words, text)
	return words, nil
}

// publish runs when all counts have completed.
func publish(ctx context.Context, job *bullmq.Job) (any, error) {
	counts, err := bullmq.Children[int](ctx, job)
	total := 0
	for _, count := range counts {
		total += count.Value
	}
	return total, err
}
