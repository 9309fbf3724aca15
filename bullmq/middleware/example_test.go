package middleware_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmq/middleware"
)

// redisForExample starts a Redis within this process, so that the examples run anywhere.
func redisForExample(ctx context.Context) (*bullmq.Connection, func()) {
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	server.ClockTTL(true)
	connection, err := bullmq.ConnectOption(ctx, rueidis.ClientOption{InitAddress: []string{server.Addr()}, ForceSingleClient: true})
	if err != nil {
		log.Fatal(err)
	}
	return connection, func() {
		_ = connection.Close()
		server.Close()
	}
}

// runExample adds a job with the middleware of adds, runs it with that of handlers, and
// returns it as it is stored.
func runExample(ctx context.Context, add bullmq.AddMiddleware, handle bullmq.Middleware, handler bullmq.Handler) *bullmq.Job {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	connection, stop := redisForExample(ctx) // in a service: bullmq.Connect(ctx, "redis://127.0.0.1:6379")
	defer stop()
	queue, err := bullmq.NewQueue(ctx, "mail", &bullmq.QueueOptions{Connection: connection, Middleware: []bullmq.AddMiddleware{add}})
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()
	job, err := queue.Add(ctx, "welcome", map[string]string{"to": "ada"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	mux := bullmq.NewMux()
	mux.Use(handle)
	mux.HandleFunc("welcome", handler)
	worker, err := bullmq.NewWorker(ctx, "mail", mux.ServeJob, &bullmq.WorkerOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = worker.Run(ctx) }()
	defer worker.Close()
	if _, err := job.Wait(ctx, queue); err != nil {
		log.Fatal(err)
	}
	return job
}

// The request id of the context of an add is in the context of the handler.
func ExampleRequestID() {
	requestID := middleware.RequestID()
	ctx := requestID.With(context.Background(), "r-17") // in a service: by the middleware of the HTTP server
	job := runExample(ctx, requestID.Add, requestID.Handle, func(ctx context.Context, _ *bullmq.Job) (any, error) {
		fmt.Println("request", requestID.From(ctx))
		return nil, nil
	})
	fmt.Printf("%s\n", job.RawOptions)
	// Output:
	// request r-17
	// {"attempts":0,"requestId":"r-17"}
}

// Redis has the encrypted data. The handler reads the decrypted data.
func ExampleEncryption() {
	key := []byte("0123456789abcdef0123456789abcdef") // in a service: a random key from a secret store
	encryption, err := middleware.NewEncryption("2026-11", map[string][]byte{"2026-11": key})
	if err != nil {
		log.Fatal(err)
	}
	job := runExample(context.Background(), encryption.Add, encryption.Handle, func(_ context.Context, job *bullmq.Job) (any, error) {
		fmt.Printf("%s\n", job.Data)
		return nil, nil
	})
	fmt.Printf("%s…\n", job.Data[:23])
	// Output:
	// {"to":"ada"}
	// {"enc":1,"kid":"2026-11…
}

// Timing reports how long each run took to a function of the program.
func ExampleTiming() {
	timing := middleware.Timing(func(_ context.Context, run middleware.Run) {
		fmt.Println(run.Job.Name, run.Duration < time.Minute, run.Err)
	})
	handler := bullmq.Wrap(func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, timing)
	_, _ = handler(context.Background(), &bullmq.Job{Name: "welcome"})
	// Output: welcome true <nil>
}
