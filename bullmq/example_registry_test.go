package bullmq_test

import (
	"context"
	"fmt"
	"log"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Each tenant has a queue, which enters the registry when it is first used.
func ExampleRegistry() {
	ctx := context.Background()
	connection, stop := redisForExample() // in a service: bullmq.Connect(ctx, "redis://127.0.0.1:6379")
	defer stop()
	tenants, err := bullmq.NewRegistry(ctx, "tenants", &bullmq.RegistryOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	defer tenants.Close()

	for _, tenant := range []string{"tenant-17", "tenant-4"} {
		queue, err := tenants.Queue(ctx, tenant)
		if err != nil {
			log.Fatal(err)
		}
		if _, err := queue.Add(ctx, "send-invoice", nil, nil); err != nil {
			log.Fatal(err)
		}
	}
	names, err := tenants.Queues(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(names)
	// Output: [tenant-17 tenant-4]
}
