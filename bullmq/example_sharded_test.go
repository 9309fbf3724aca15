package bullmq_test

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// A queue is spread over two servers. Jobs of one customer stay in order.
func ExampleNewShardedQueue() {
	ctx := context.Background()
	var servers []*bullmq.Connection
	for _, url := range []string{"redis://redis-1:6379", "redis://redis-2:6379"} {
		connection, err := bullmq.Connect(ctx, url)
		if err != nil {
			log.Fatal(err)
		}
		defer connection.Close()
		servers = append(servers, connection)
	}
	type order struct{ Customer string }
	orders, err := bullmq.NewShardedQueue(ctx, "orders", 8, &bullmq.ShardedQueueOptions{
		Connections: servers,
		ShardKey: func(job *bullmq.NewJob) string {
			o, _ := job.Data.(order)
			return o.Customer
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer orders.Close()

	job, err := orders.Add(ctx, "place", order{Customer: "ada"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("job %s of %s", job.ID, job.QueueName())

	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err = orders.Pause(ctx)
	var failed *bullmq.ShardError
	if errors.As(err, &failed) {
		log.Printf("not paused: %v", failed.QueueNames())
	}
}

// An hour after the number of shards has changed, the older shards are removed as soon as they have no jobs.
func ExampleShardedQueue_Retire() {
	ctx := context.Background()
	orders, err := bullmq.NewShardedQueue(ctx, "orders", 8, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer orders.Close()

	if err := orders.Resize(ctx, 16); err != nil {
		log.Fatal(err)
	}
	removed, err := orders.Retire(ctx, &bullmq.RetireOptions{RemoveFinished: true}) // in a cron job, such as once a day
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("removed: %v", removed)
}
