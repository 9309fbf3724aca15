package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Paint is the data of the jobs in these examples.
type Paint struct {
	Colour string `json:"colour"`
}

// redisForExample starts a Redis within this process, so that the examples run anywhere. It reports
// itself as a cluster, hence ForceSingleClient.
func redisForExample() (*bullmq.Connection, func()) {
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	server.ClockTTL(true)
	option := rueidis.ClientOption{InitAddress: []string{server.Addr()}, ForceSingleClient: true}
	connection, err := bullmq.ConnectOption(context.Background(), option)
	if err != nil {
		log.Fatal(err)
	}
	return connection, func() {
		_ = connection.Close()
		server.Close()
	}
}

func ExampleNewQueue() {
	ctx := context.Background()
	connection, stop := redisForExample() // in a service: bullmq.Connect(ctx, "redis://127.0.0.1:6379")
	defer stop()
	queue, err := bullmq.NewQueue(ctx, "orders", &bullmq.QueueOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()

	job, err := queue.Add(ctx, "paint", Paint{Colour: "red"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	state, err := job.State(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("job %s is %s with %s\n", job.ID, state, job.Data)
	// Output: job 1 is waiting with {"colour":"red"}
}

func ExampleQueue_Add() {
	ctx := context.Background()
	connection, stop := redisForExample() // in a service: bullmq.Connect(ctx, "redis://127.0.0.1:6379")
	defer stop()
	queue, err := bullmq.NewQueue(ctx, "orders", &bullmq.QueueOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()

	// The id makes the add safe to repeat, as after a network error: the second one adds nothing.
	for range 2 {
		job, err := queue.Add(ctx, "paint", Paint{Colour: "blue"}, &bullmq.JobOptions{
			JobID:    "order-17",
			Attempts: 3,
			Backoff:  bullmq.ExponentialBackoff(time.Second),
			Delay:    time.Minute,
		})
		if err != nil {
			log.Fatal(err)
		}
		count, err := queue.Count(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("job %s of %d, options %s\n", job.ID, count, job.RawOptions)
	}
	// Output:
	// job order-17 of 1, options {"attempts":3,"backoff":{"delay":1000,"type":"exponential"},"delay":60000,"jobId":"order-17"}
	// job order-17 of 1, options {"attempts":3,"backoff":{"delay":1000,"type":"exponential"},"delay":60000,"jobId":"order-17"}
}

// The error of an add reports whether the job may have been added nevertheless.
func ExampleQueue_Add_outage() {
	ctx := context.Background()
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	queue, err := bullmq.NewQueue(ctx, "orders", &bullmq.QueueOptions{
		Connection: bullmq.Options(rueidis.ClientOption{InitAddress: []string{server.Addr()}, ForceSingleClient: true}),
		AddWait:    200 * time.Millisecond, // how long an add is retried
	})
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()
	server.SetError("LOADING Redis is loading the dataset in memory") // it has just restarted

	_, err = queue.Add(ctx, "paint", Paint{Colour: "red"}, nil)
	switch {
	case err == nil:
		fmt.Println("added")
	case errors.Is(err, bullmq.ErrMaybeAdded):
		fmt.Println("added or not: add it again only with a JobID, or if two jobs do no harm")
	default:
		fmt.Println("not added")
	}
	fmt.Println("reachable:", queue.Health().Reachable)
	// Output:
	// not added
	// reachable: false
}

func ExampleNewWorker() {
	// In a service the context comes from signal.NotifyContext; here the first job ends it.
	ctx, cancel := context.WithCancel(context.Background())
	connection, stop := redisForExample() // in a service: bullmq.Connect(ctx, "redis://127.0.0.1:6379")
	defer stop()
	queue, err := bullmq.NewQueue(context.Background(), "orders", &bullmq.QueueOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()
	if _, err := queue.Add(context.Background(), "paint", Paint{Colour: "red"}, nil); err != nil {
		log.Fatal(err)
	}

	worker, err := bullmq.NewWorker(ctx, "orders", func(ctx context.Context, job *bullmq.Job) (any, error) {
		var paint Paint
		if err := job.Decode(&paint); err != nil {
			return nil, bullmq.Unrecoverable(err) // another attempt would read the same data
		}
		fmt.Printf("job %s: painting it %s\n", job.ID, paint.Colour)
		cancel()
		return map[string]bool{"painted": true}, nil
	}, &bullmq.WorkerOptions{Connection: connection, Concurrency: 10})
	if err != nil {
		log.Fatal(err)
	}
	if err := worker.Run(ctx); err != nil { // returns nil once running jobs have finished
		log.Fatal(err)
	}
	job, err := queue.Job(context.Background(), "1")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("it returned %s\n", job.ReturnValue)
	// Output:
	// job 1: painting it red
	// it returned {"painted":true}
}

func ExampleQueueEvents_All() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	connection, stop := redisForExample() // in a service: bullmq.Connect(ctx, "redis://127.0.0.1:6379")
	defer stop()
	events, err := bullmq.NewQueueEvents(ctx, "orders", &bullmq.QueueEventsOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	defer events.Close()
	queue, err := bullmq.NewQueue(ctx, "orders", &bullmq.QueueOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()
	for _, colour := range []string{"red", "blue"} {
		if _, err := queue.Add(ctx, "paint", Paint{Colour: colour}, nil); err != nil {
			log.Fatal(err)
		}
	}

	for event, err := range events.All(ctx) {
		if err != nil {
			log.Print(err) // Redis is unreachable; the loop continues when it is back
			continue
		}
		fmt.Printf("job %s: %s\n", event.JobID, event.Type)
		if event.JobID == "2" && event.Type == bullmq.EventWaiting {
			break
		}
	}
	// Output:
	// job 1: added
	// job 1: waiting
	// job 2: added
	// job 2: waiting
}

func ExampleJob_Wait() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	connection, stop := redisForExample() // in a service: bullmq.Connect(ctx, "redis://127.0.0.1:6379")
	defer stop()
	queue, err := bullmq.NewQueue(ctx, "orders", &bullmq.QueueOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()
	worker, err := bullmq.NewWorker(ctx, "orders", func(_ context.Context, job *bullmq.Job) (any, error) {
		if job.Name != "paint" {
			return nil, fmt.Errorf("nobody can %s", job.Name)
		}
		return "painted", nil
	}, &bullmq.WorkerOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = worker.Run(ctx) }()
	defer worker.Close()

	for _, name := range []string{"paint", "sand"} {
		job, err := queue.Add(ctx, name, nil, nil)
		if err != nil {
			log.Fatal(err)
		}
		value, err := job.Wait(ctx, queue)
		var failed *bullmq.JobFailedError
		if errors.As(err, &failed) {
			fmt.Println("failed:", failed.Reason)
		} else if err == nil {
			fmt.Printf("returned: %s\n", value)
		}
	}
	// Output:
	// returned: "painted"
	// failed: nobody can sand
}

func ExampleZerolog() {
	connection, stop := redisForExample()
	defer stop()
	failOneJob(connection, bullmq.Zerolog(zerolog.New(os.Stdout))) // in a service: log.Logger of zerolog/log
	// Output:
	// {"level":"info","queue":"orders","worker":"painter","concurrency":1,"message":"the worker runs"}
	// {"level":"warn","queue":"orders","worker":"painter","job":"1","name":"paint","attempt":1,"retry":false,"error":"no paint left","message":"a job failed; Job.Retry runs it again"}
	// {"level":"info","queue":"orders","worker":"painter","count":0,"message":"the worker stops; it fetches no more jobs, and waits for those that run"}
	// {"level":"info","queue":"orders","worker":"painter","message":"the worker has stopped"}
}

func ExampleSlog() {
	connection, stop := redisForExample()
	defer stop()
	withoutTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	handler := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime})
	failOneJob(connection, bullmq.Slog(slog.New(handler))) // in a service: slog.Default()
	// Output:
	// level=INFO msg="the worker runs" queue=orders worker=painter concurrency=1
	// level=WARN msg="a job failed; Job.Retry runs it again" queue=orders worker=painter job=1 name=paint attempt=1 retry=false error="no paint left"
	// level=INFO msg="the worker stops; it fetches no more jobs, and waits for those that run" queue=orders worker=painter count=0
	// level=INFO msg="the worker has stopped" queue=orders worker=painter
}

// failOneJob runs a worker until a job has failed.
func failOneJob(connection *bullmq.Connection, logger bullmq.Logger) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	queue, err := bullmq.NewQueue(ctx, "orders", &bullmq.QueueOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()
	if _, err := queue.Add(ctx, "paint", Paint{Colour: "red"}, nil); err != nil {
		log.Fatal(err)
	}
	worker, err := bullmq.NewWorker(ctx, "orders", func(context.Context, *bullmq.Job) (any, error) {
		return nil, errors.New("no paint left")
	}, &bullmq.WorkerOptions{
		Connection: connection,
		Name:       "painter",
		Logger:     logger,
		Events:     bullmq.WorkerEvents{Failed: func(*bullmq.Job, error) { stop() }},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
