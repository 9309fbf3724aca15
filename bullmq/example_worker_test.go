package bullmq_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// The context ends with a signal. Run then fetches no more jobs and waits for those
// that run.
func ExampleWorker_Run() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	worker, err := bullmq.NewWorker(ctx, "orders", func(ctx context.Context, job *bullmq.Job) (any, error) {
		return nil, nil
	}, &bullmq.WorkerOptions{
		Concurrency:     50,
		ShutdownTimeout: 20 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	err = worker.Run(ctx)
	var unfinished *bullmq.UnfinishedError
	if errors.As(err, &unfinished) {
		log.Print(err) // names the jobs that still run; another worker will run them again
	} else if err != nil {
		log.Fatal(err)
	}
}

// runOne adds a job, runs it with a worker until it has finished, and prints its result.
func runOne(jobOptions *bullmq.JobOptions, handler bullmq.Handler, options bullmq.WorkerOptions) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	queue, connection, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()
	options.Connection = connection
	worker, err := bullmq.NewWorker(ctx, "orders", handler, &options)
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = worker.Run(ctx) }()
	job, err := queue.Add(ctx, "paint", Paint{Colour: "red"}, jobOptions)
	if err != nil {
		log.Fatal(err)
	}
	value, err := job.Wait(ctx, queue)
	_ = worker.Close() // its events are over then
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("returned %s\n", value)
}

// The waits before the second, third and fourth attempt are 1, 2 and 4 ms, less a
// random part of up to half.
func ExampleBackoff() {
	backoff := bullmq.ExponentialBackoff(time.Millisecond)
	backoff.Jitter = 0.5
	runOne(&bullmq.JobOptions{Attempts: 4, Backoff: backoff}, func(_ context.Context, job *bullmq.Job) (any, error) {
		fmt.Println("attempts made:", job.AttemptsMade)
		if job.AttemptsMade < 2 {
			return nil, errors.New("the paint is still wet")
		}
		return "painted", nil
	}, bullmq.WorkerOptions{})
	// Output:
	// attempts made: 0
	// attempts made: 1
	// attempts made: 2
	// returned "painted"
}

func ExampleBackoffStrategy() {
	strategy := func(attemptsMade int, kind string, err error, _ *bullmq.Job) time.Duration {
		fmt.Printf("%s: attempt %d failed: %v\n", kind, attemptsMade, err)
		return time.Duration(attemptsMade) * time.Millisecond // a negative wait fails the job
	}
	runOne(&bullmq.JobOptions{Attempts: 2, Backoff: bullmq.CustomBackoff("linear")},
		func(_ context.Context, job *bullmq.Job) (any, error) {
			if job.AttemptsMade == 0 {
				return nil, errors.New("no paint left")
			}
			return "painted", nil
		}, bullmq.WorkerOptions{BackoffStrategy: strategy})
	// Output:
	// linear: attempt 1 failed: no paint left
	// returned "painted"
}

// Classify decides by the error whether a job is retried, for all handlers of a worker.
func ExampleVerdict() {
	errNoSuchWall := errors.New("there is no such wall")
	runOne(&bullmq.JobOptions{Attempts: 5}, func(context.Context, *bullmq.Job) (any, error) {
		return nil, fmt.Errorf("paint: %w", errNoSuchWall)
	}, bullmq.WorkerOptions{
		Classify: func(err error, _ *bullmq.Job) bullmq.Verdict {
			switch {
			case errors.Is(err, errNoSuchWall):
				return bullmq.Permanent()
			case errors.Is(err, context.DeadlineExceeded):
				return bullmq.RetryAfter(10 * time.Second)
			}
			return bullmq.Transient() // retried as the job's options define it
		},
		Events: bullmq.WorkerEvents{Failed: func(job *bullmq.Job, _ error) {
			fmt.Println("attempts made:", job.AttemptsMade)
		}},
	})
	// Output:
	// attempts made: 1
	// bullmq: job 1 of orders failed: paint: there is no such wall
}

func ExampleUnrecoverable() {
	runOne(&bullmq.JobOptions{Attempts: 5}, func(_ context.Context, job *bullmq.Job) (any, error) {
		var wall struct{ Colour int }
		if err := job.Decode(&wall); err != nil {
			return nil, bullmq.Unrecoverable(errors.New("the colour is not a number")) // another attempt would read the same
		}
		return nil, nil
	}, bullmq.WorkerOptions{})
	// Output: bullmq: job 1 of orders failed: the colour is not a number
}

// A snooze consumes no attempt.
func ExampleSnooze() {
	runOne(nil, func(_ context.Context, job *bullmq.Job) (any, error) {
		if job.AttemptsStarted == 1 {
			return nil, bullmq.Snooze(5 * time.Millisecond) // the other service isn't ready yet
		}
		return fmt.Sprintf("run %d, attempts made: %d", job.AttemptsStarted, job.AttemptsMade), nil
	}, bullmq.WorkerOptions{})
	// Output: returned "run 2, attempts made: 0"
}

// A handler stops the whole queue after the reply "too many requests" of a service.
func ExampleRateLimit() {
	runOne(nil, func(_ context.Context, job *bullmq.Job) (any, error) {
		if job.AttemptsStarted == 1 {
			return nil, bullmq.RateLimit(20 * time.Millisecond) // Retry-After
		}
		return "painted", nil
	}, bullmq.WorkerOptions{
		Limiter: &bullmq.Limiter{Max: 100, Duration: time.Second}, // 100 jobs per second, over all workers
	})
	// Output: returned "painted"
}

// CancelJob cancels the context of a handler.
func ExampleWorker_CancelJob() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	queue, connection, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()
	started := make(chan string)
	worker, err := bullmq.NewWorker(ctx, "orders", func(ctx context.Context, job *bullmq.Job) (any, error) {
		started <- job.ID
		<-ctx.Done()
		err := context.Cause(ctx)
		if errors.Is(err, bullmq.ErrCancelled) {
			return nil, bullmq.Unrecoverable(err)
		}
		return nil, err // ErrLockLost or ErrShutdown
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

	fmt.Println("cancelled:", worker.CancelJob(<-started, "the wall is sold"))
	_, err = job.Wait(ctx, queue)
	fmt.Println(err)
	// Output:
	// cancelled: true
	// bullmq: job 1 of orders failed: bullmq: the job is cancelled: the wall is sold
}

// A paused worker fetches no jobs. Pause waits for those that run, PauseNow does not.
// Other workers of the queue continue; Queue.Pause stops them all.
func ExampleWorker_Pause() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	queue, connection, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()
	worker, err := bullmq.NewWorker(ctx, "orders", func(context.Context, *bullmq.Job) (any, error) {
		return "painted", nil
	}, &bullmq.WorkerOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	if err := worker.Pause(ctx); err != nil {
		log.Fatal(err)
	}
	go func() { _ = worker.Run(ctx) }()
	defer worker.Close()
	job, err := queue.Add(ctx, "paint", nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("paused:", worker.IsPaused())

	worker.Resume()
	value, err := job.Wait(ctx, queue)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("returned %s\n", value)
	// Output:
	// paused: true
	// returned "painted"
}

// WorkerEvents are called for the jobs of this worker only, without a call to Redis.
func ExampleWorkerEvents() {
	runOne(nil, func(ctx context.Context, job *bullmq.Job) (any, error) {
		return "painted", job.UpdateProgress(ctx, 50)
	}, bullmq.WorkerOptions{
		Events: bullmq.WorkerEvents{
			Active:    func(job *bullmq.Job) { fmt.Println("active:", job.ID) },
			Progress:  func(job *bullmq.Job, progress any) { fmt.Println("progress:", progress) },
			Completed: func(job *bullmq.Job, value any) { fmt.Println("completed:", value) },
			Error:     func(err error) { log.Print(err) },
		},
	})
	// Output:
	// active: 1
	// progress: 50
	// completed: painted
	// returned "painted"
}

// Events delivers the same events on a channel. It never delays the worker: events that
// do not fit into the buffer are dropped and counted.
func ExampleWorker_Events() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	queue, connection, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()
	worker, err := bullmq.NewWorker(ctx, "orders", func(context.Context, *bullmq.Job) (any, error) {
		return "painted", nil
	}, &bullmq.WorkerOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	events := worker.Events(ctx, 100)
	go func() { _ = worker.Run(ctx) }()
	defer worker.Close()
	if _, err := queue.Add(ctx, "paint", nil, nil); err != nil {
		log.Fatal(err)
	}

	for event := range events {
		if event.Type == bullmq.EventCompleted {
			fmt.Printf("job %s returned %v; events missed: %d\n", event.Job.ID, event.Value, event.Missed)
			break
		}
	}
	// Output: job 1 returned painted; events missed: 0
}

// A registered worker tells what it is and how busy it is. Workers of BullMQ are listed by
// their connection only.
func ExampleListWorkers() {
	ctx := context.Background()
	connection, err := bullmq.Connect(ctx, os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	workers, err := bullmq.ListWorkers(ctx, connection, "", "orders", "mails")
	if err != nil {
		log.Fatal(err)
	}
	for _, worker := range workers {
		if worker.IsRegistered() {
			fmt.Println(worker.Host, worker.PID, worker.Queues, worker.Running, "of", worker.Concurrency)
		} else {
			fmt.Println(worker.Name, worker.Queues)
		}
	}
}
