package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// queueForExample returns the queue "orders" on a new Redis.
func queueForExample(ctx context.Context, options bullmq.QueueOptions) (*bullmq.Queue, *bullmq.Connection, func()) {
	connection, stop := redisForExample()
	options.Connection = connection
	queue, err := bullmq.NewQueue(ctx, "orders", &options)
	if err != nil {
		log.Fatal(err)
	}
	return queue, connection, func() {
		_ = queue.Close()
		stop()
	}
}

func ExampleQueue_AddBulk() {
	ctx := context.Background()
	queue, _, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()

	jobs, err := queue.AddBulk(ctx, []bullmq.BulkJob{
		{Name: "paint", Data: Paint{Colour: "red"}},
		{Name: "paint", Data: Paint{Colour: "blue"}, Options: &bullmq.JobOptions{Priority: 1}},
		{Name: "paint", Data: Paint{Colour: "green"}, Options: &bullmq.JobOptions{Delay: time.Hour}},
	})
	var partly *bullmq.BulkError
	if errors.As(err, &partly) {
		log.Fatal("the first job was not added: ", partly.Of(0)) // nil for a job that was added
	} else if err != nil {
		log.Fatal(err) // no job was added
	}
	for _, job := range jobs {
		state, err := job.State(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("job %s is %s\n", job.ID, state)
	}
	// Output:
	// job 1 is waiting
	// job 2 is prioritized
	// job 3 is delayed
}

// While a job owns a deduplication id, adds with the same id add nothing.
func ExampleDeduplication() {
	ctx := context.Background()
	queue, _, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()

	for range 2 {
		job, err := queue.Add(ctx, "paint", Paint{Colour: "red"}, &bullmq.JobOptions{
			Deduplication: &bullmq.Deduplication{ID: "wall-3", TTL: time.Minute},
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(job.ID, job.AddOutcome())
	}
	// Output:
	// 1 added
	// 1 deduplicated
}

// A default applies unless a job sets the option itself.
func ExampleQueueOptions_defaultJobOptions() {
	ctx := context.Background()
	queue, _, stop := queueForExample(ctx, bullmq.QueueOptions{
		DefaultJobOptions: &bullmq.JobOptions{
			Attempts:      3,
			KeepCompleted: bullmq.KeepLast(1000),
			KeepFailed:    bullmq.KeepWithin(bullmq.RetentionLimits{Age: 24 * time.Hour, Count: 5000}),
		},
	})
	defer stop()

	job, err := queue.Add(ctx, "paint", nil, &bullmq.JobOptions{Attempts: 5})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("attempts:", job.Options.Attempts)
	fmt.Println("completed jobs kept:", job.Options.KeepCompleted)
	fmt.Println("failed jobs kept:", job.Options.KeepFailed)
	// Output:
	// attempts: 5
	// completed jobs kept: 1000
	// failed jobs kept: {"age":86400,"count":5000}
}

// Jobs without a priority run first, then those with the lowest numbers. A job added
// with LIFO runs before other jobs without a priority.
func ExampleJobOptions_priority() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	queue, connection, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()
	for name, options := range map[string]*bullmq.JobOptions{
		"later": {Priority: 10},
		"soon":  {Priority: 2},
		"now":   nil,
	} {
		if _, err := queue.Add(ctx, name, nil, options); err != nil {
			log.Fatal(err)
		}
	}

	worker, err := bullmq.NewWorker(ctx, "orders", func(_ context.Context, job *bullmq.Job) (any, error) {
		fmt.Println(job.Name)
		return nil, nil
	}, &bullmq.WorkerOptions{Connection: connection, Events: bullmq.WorkerEvents{Drained: cancel}})
	if err != nil {
		log.Fatal(err)
	}
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// now
	// soon
	// later
}

// A delayed job runs once its time has come, or earlier if it is promoted.
func ExampleJob_Promote() {
	ctx := context.Background()
	queue, _, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()

	tomorrow := time.Now().AddDate(0, 0, 1)
	job, err := queue.Add(ctx, "paint", nil, &bullmq.JobOptions{
		Delay: time.Until(tomorrow).Round(time.Millisecond),
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := job.ChangeDelay(ctx, time.Hour); err != nil { // counted from now
		log.Fatal(err)
	}
	if err := job.Promote(ctx); err != nil {
		log.Fatal(err)
	}
	state, err := job.State(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(state)
	// Output: waiting
}

// A handler reports progress and writes log rows. Other programs read them.
func ExampleJob_UpdateProgress() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	queue, connection, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()
	worker, err := bullmq.NewWorker(ctx, "orders", func(ctx context.Context, job *bullmq.Job) (any, error) {
		if _, err := job.Log(ctx, "the wall is dry"); err != nil {
			return nil, err
		}
		return nil, job.UpdateProgress(ctx, map[string]int{"walls": 3})
	}, &bullmq.WorkerOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = worker.Run(ctx) }()
	defer worker.Close()

	added, err := queue.Add(ctx, "paint", nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := added.Wait(ctx, queue); err != nil {
		log.Fatal(err)
	}
	job, err := queue.Job(ctx, added.ID)
	if err != nil {
		log.Fatal(err)
	}
	rows, count, err := queue.JobLogs(ctx, added.ID, bullmq.AllEntries())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("progress %s, %d log row: %s\n", job.Progress, count, rows[0])
	// Output: progress {"walls":3}, 1 log row: the wall is dry
}

// JobRef calls a job's methods by its id, without reading the job.
func ExampleQueue_JobRef() {
	ctx := context.Background()
	queue, _, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()

	err := queue.JobRef("17").UpdateData(ctx, Paint{Colour: "blue"})
	fmt.Println(errors.Is(err, bullmq.ErrJobNotFound))
	// Output: true
}

// Finished jobs stay in Redis unless the job or the worker sets a Retention.
func ExampleRetention() {
	for _, retention := range []bullmq.Retention{
		bullmq.KeepNone(),
		bullmq.KeepLast(100),
		bullmq.KeepFor(time.Hour),
		bullmq.KeepWithin(bullmq.RetentionLimits{Age: time.Hour, Count: 100}),
	} {
		fmt.Println(retention) // as BullMQ stores it: removeOnComplete, removeOnFail
	}
	// Output:
	// true
	// 100
	// {"age":3600}
	// {"age":3600,"count":100}
}

// A job is cancelled by any process, while it waits or runs.
func ExampleQueue_Cancel() {
	ctx := context.Background()
	queue, connection, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()
	waiting, err := queue.Add(ctx, "paint", Paint{Colour: "red"}, &bullmq.JobOptions{Delay: time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	outcome, err := queue.Cancel(ctx, waiting.ID, "the order is void")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("found the job", outcome)

	worker, err := bullmq.NewWorker(ctx, "orders", func(ctx context.Context, _ *bullmq.Job) (any, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}, &bullmq.WorkerOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = worker.Run(ctx) }()
	defer worker.Close()
	_, err = waiting.Wait(ctx, queue)
	fmt.Println(err)
	// Output:
	// found the job queued
	// bullmq: job 1 of orders failed: cancelled: the order is void
}
