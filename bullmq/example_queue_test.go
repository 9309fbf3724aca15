package bullmq_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Several queues and workers share a connection, which its creator closes.
func ExampleConnect() {
	ctx := context.Background()
	connection, err := bullmq.Connect(ctx, "rediss://user:password@redis.example.org:6379/0")
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	orders, err := bullmq.NewQueue(ctx, "orders", &bullmq.QueueOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	defer orders.Close() // leaves the connection open
	mail, err := bullmq.NewQueue(ctx, "mail", &bullmq.QueueOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	defer mail.Close()
}

// With Sentinel, the master is looked up by its name.
func ExampleConnectOption() {
	connection, err := bullmq.ConnectOption(context.Background(), rueidis.ClientOption{
		InitAddress: []string{"sentinel-1:26379", "sentinel-2:26379", "sentinel-3:26379"},
		Sentinel:    rueidis.SentinelOption{MasterSet: "mymaster"},
		Username:    "app",
		Password:    "secret",
	})
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
}

// OnHealth is called when Redis becomes unreachable and when it is back. Health, for a
// readiness check, makes no call.
func ExampleQueue_Health() {
	ctx := context.Background()
	queue, _, stop := queueForExample(ctx, bullmq.QueueOptions{
		OnHealth: func(health bullmq.Health) { log.Print(health) },
	})
	defer stop()

	if health := queue.Health(); !health.Reachable {
		log.Printf("Redis is unreachable since %s: %v", health.Since, health.Err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	fmt.Println("ping:", queue.Ping(ctx))
	// Output: ping: <nil>
}

// A paused queue accepts jobs, and no worker fetches them.
func ExampleQueue_Pause() {
	ctx := context.Background()
	queue, _, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()
	if err := queue.Pause(ctx); err != nil {
		log.Fatal(err)
	}
	if _, err := queue.Add(ctx, "paint", nil, nil); err != nil {
		log.Fatal(err)
	}
	paused, err := queue.IsPaused(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("paused:", paused)
	if err := queue.Resume(ctx); err != nil {
		log.Fatal(err)
	}
	counts, err := queue.Counts(ctx, bullmq.StateWaiting)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("waiting:", counts[bullmq.StateWaiting])
	// Output:
	// paused: true
	// waiting: 1
}

// The limits are stored in Redis and apply to all workers of the queue.
func ExampleQueue_SetGlobalRateLimit() {
	ctx := context.Background()
	queue, _, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()
	if err := queue.SetGlobalConcurrency(ctx, 20); err != nil { // running at the same time
		log.Fatal(err)
	}
	if err := queue.SetGlobalRateLimit(ctx, bullmq.Limiter{Max: 100, Duration: time.Minute}); err != nil {
		log.Fatal(err)
	}
	meta, err := queue.Meta(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d at a time, %d per %s\n", *meta.Concurrency, meta.RateLimit.Max, meta.RateLimit.Duration)
	// Output: 20 at a time, 100 per 1m0s
}

// The jobs of a state are read in pages, newest first.
func ExampleQueue_Jobs() {
	ctx := context.Background()
	queue, _, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()
	for _, colour := range []string{"red", "green", "blue"} {
		if _, err := queue.Add(ctx, "paint", Paint{Colour: colour}, nil); err != nil {
			log.Fatal(err)
		}
	}

	jobs, err := queue.Jobs(ctx, bullmq.Page{Limit: 2}, bullmq.StateWaiting)
	if err != nil {
		log.Fatal(err)
	}
	for _, job := range jobs {
		fmt.Printf("%s %s\n", job.ID, job.Data)
	}
	// Output:
	// 3 {"colour":"blue"}
	// 2 {"colour":"green"}
}

// Clean removes old jobs of a state, up to 1,000 here.
func ExampleQueue_Clean() {
	ctx := context.Background()
	queue, _, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()
	removed, err := queue.Clean(ctx, &bullmq.CleanOptions{
		State: bullmq.StateFailed,
		Grace: 7 * 24 * time.Hour,
		Limit: 1000,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("removed:", len(removed))
	// Output: removed: 0
}

// RetryJobs runs all failed jobs again, for instance after a bug was fixed.
func ExampleQueue_RetryJobs() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	queue, connection, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()
	worker, err := bullmq.NewWorker(ctx, "orders", func(_ context.Context, job *bullmq.Job) (any, error) {
		if job.AttemptsMade == 0 {
			return nil, errors.New("a bug")
		}
		return "painted", nil
	}, &bullmq.WorkerOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = worker.Run(ctx) }()
	defer worker.Close()
	job, err := queue.Add(ctx, "paint", nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	_, err = queue.WaitForJob(ctx, job.ID)
	fmt.Println(err)

	if err := queue.RetryJobs(ctx, nil); err != nil {
		log.Fatal(err)
	}
	value, err := queue.WaitForJob(ctx, job.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("returned %s\n", value)
	// Output:
	// bullmq: job 1 of orders failed: a bug
	// returned "painted"
}

// Any goroutine or process can wait for a job by its id. The job continues if the wait is
// given up.
func ExampleQueue_WaitForJob() {
	ctx := context.Background()
	queue, _, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()
	job, err := queue.Add(ctx, "paint", nil, nil)
	if err != nil {
		log.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, err = queue.WaitForJob(ctx, job.ID)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}

// Publish writes events of the program's own to the queue's stream.
func ExampleQueue_Publish() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	queue, connection, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()
	events, err := bullmq.NewQueueEvents(ctx, "orders", &bullmq.QueueEventsOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	defer events.Close()
	if _, err := queue.Publish(ctx, "wall-sold", nil, "wall", "3"); err != nil {
		log.Fatal(err)
	}

	for event, err := range events.All(ctx) {
		if err != nil {
			log.Print(err)
			continue
		}
		fmt.Println(event.Type, event.Field("wall"))
		break
	}
	// Output: wall-sold 3
}

func ExampleQueue_PrometheusMetrics() {
	ctx := context.Background()
	queue, _, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()
	text, err := queue.PrometheusMetrics(ctx, map[string]string{"environment": "test"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(text[:len("# HELP bullmq_job_count")])
	// Output: # HELP bullmq_job_count
}

// The events of a job are sent to a browser as server-sent events.
func ExampleQueue_WatchJob() {
	ctx := context.Background()
	queue, connection, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()

	events := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for event, err := range queue.WatchJob(r.Context(), r.PathValue("id")) {
			if err != nil {
				fmt.Fprint(w, "event: gone\ndata: {}\n\n") // there is no such job, or the queue is closed
				return
			}
			data, _ := json.Marshal(map[string]any{"progress": event.Progress, "result": event.ReturnValue, "reason": event.FailedReason})
			fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event.Type, data)
			_ = http.NewResponseController(w).Flush()
		}
	}

	job, err := queue.Add(ctx, "paint", Paint{Colour: "red"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	worker, err := bullmq.NewWorker(ctx, "orders", func(context.Context, *bullmq.Job) (any, error) {
		return "painted", nil
	}, &bullmq.WorkerOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = worker.Run(ctx) }()
	defer worker.Close()
	if _, err := job.Wait(ctx, queue); err != nil {
		log.Fatal(err)
	}

	request := httptest.NewRequest("GET", "/jobs/"+job.ID+"/events", nil)
	request.SetPathValue("id", job.ID)
	response := httptest.NewRecorder()
	events(response, request)
	fmt.Print(response.Body)
	// Output:
	// event: completed
	// data: {"progress":null,"reason":"","result":"painted"}
}

// EachMatch handles all jobs that a search finds. Without a function it counts them.
func ExampleQueue_EachMatch() {
	ctx := context.Background()
	queue, _, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()
	for _, color := range []string{"red", "green", "red"} {
		if _, err := queue.Add(ctx, "paint", map[string]string{"color": color}, nil); err != nil {
			log.Fatal(err)
		}
	}

	search := bullmq.JobSearch{States: []bullmq.State{bullmq.StateWaiting}, Data: "red"}
	count, err := queue.EachMatch(ctx, search, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(count.Matched, "jobs match")
	result, err := queue.EachMatch(ctx, search, func(ctx context.Context, job *bullmq.Job) error { return job.Remove(ctx) })
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Done, "are removed")
	// Output:
	// 2 jobs match
	// 2 are removed
}

// ListQueues finds the queues of a server.
func ExampleListQueues() {
	ctx := context.Background()
	_, connection, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()
	for name, err := range bullmq.ListQueues(ctx, connection, "") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(name)
	}
	// Output: orders
}
