package bullmq_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Email and Receipt are the data and the result of jobs of type Welcome.
type Email struct {
	To string `json:"to"`
}

type Receipt struct {
	ID string `json:"id"`
}

var Welcome = bullmq.Define[Email, Receipt]("welcome", bullmq.JobOptions{Attempts: 3})

// runEmail adds a job of type Welcome, runs it, and prints its result.
func runEmail(handler bullmq.Handler, options bullmq.WorkerOptions) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	queue, connection, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()
	options.Connection = connection
	worker, err := bullmq.NewWorker(ctx, queue.Name(), handler, &options)
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = worker.Run(ctx) }()
	defer worker.Close()
	job, err := Welcome.Add(ctx, queue, Email{To: "ada@example.org"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	receipt, err := Welcome.Wait(ctx, queue, job.ID)
	fmt.Println(receipt.ID, err)
}

// The producer and the worker share the type of a job.
func ExampleDefine() {
	ctx := context.Background()
	queue, _, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()
	job, err := Welcome.Add(ctx, queue, Email{To: "ada@example.org"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %s, attempts: %d\n", job.Name, job.Data, job.Options.Attempts)
	// Output: welcome {"to":"ada@example.org"}, attempts: 3
}

func ExampleHandle() {
	mux := bullmq.NewMux()
	bullmq.Handle(mux, Welcome, func(ctx context.Context, job *bullmq.Job, email Email) (Receipt, error) {
		fmt.Println("sending to", email.To)
		return Receipt{ID: "r-" + job.ID}, nil
	}, bullmq.HandleOptions{Timeout: 10 * time.Second})
	runEmail(mux.ServeJob, bullmq.WorkerOptions{})
	// Output:
	// sending to ada@example.org
	// r-1 <nil>
}

// The exact name is tried first, then the longest prefix, then the handler of NotFound.
func ExampleMux() {
	named := func(name string) bullmq.Handler {
		return func(context.Context, *bullmq.Job) (any, error) { return name, nil }
	}
	mux := bullmq.NewMux()
	mux.HandleFunc("report", named("report"))
	mux.HandleFunc("report.*", named("report.*"))
	mux.NotFound(named("not found"))
	for _, name := range []string{"report", "report.daily", "mail"} {
		handler, _ := mux.ServeJob(context.Background(), &bullmq.Job{Name: name})
		fmt.Println(name, "->", handler)
	}
	// Output:
	// report -> report
	// report.daily -> report.*
	// mail -> not found
}

// A server runs several queues over one connection. In a service it stops on SIGINT or
// SIGTERM; here the second job stops it.
func ExampleServer() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	connection, end := redisForExample() // in a service: bullmq.Connect(ctx, "redis://127.0.0.1:6379")
	defer end()
	mux := bullmq.NewMux()
	// A handler adds jobs to other queues over the connection of its worker.
	bullmq.Handle(mux, Welcome, func(ctx context.Context, job *bullmq.Job, email Email) (Receipt, error) {
		fmt.Println("sending to", email.To)
		reports, err := bullmq.QueueFromContext(ctx, "reports")
		if err == nil {
			_, err = reports.Add(ctx, "count", nil, &bullmq.JobOptions{JobID: "count-" + job.ID})
		}
		return Receipt{}, err
	})
	mux.HandleFunc("count", func(context.Context, *bullmq.Job) (any, error) {
		fmt.Println("counting")
		stop()
		return nil, nil
	})
	server := bullmq.NewServer(connection, nil)
	server.Handle("mail", mux.ServeJob, &bullmq.WorkerOptions{Concurrency: 50})
	server.Handle("reports", mux.ServeJob, nil)

	queue, err := server.Queue(ctx, "mail", nil) // Run closes it
	if err != nil {
		log.Fatal(err)
	}
	if _, err := Welcome.Add(ctx, queue, Email{To: "ada@example.org"}, nil); err != nil {
		log.Fatal(err)
	}
	fmt.Println(server.Run(ctx))
	// Output:
	// sending to ada@example.org
	// counting
	// <nil>
}

// The JobID makes the add safe to repeat if the handler runs again.
func ExampleQueueFromContext() {
	runEmail(func(ctx context.Context, job *bullmq.Job) (any, error) {
		queue, err := bullmq.QueueFromContext(ctx, "reports") // "" is the queue of the job
		if err != nil {
			return nil, err
		}
		added, err := queue.Add(ctx, "count", nil, &bullmq.JobOptions{JobID: "count-" + job.ID})
		if err != nil {
			return nil, err
		}
		return Receipt{ID: added.QueueName() + "/" + added.ID}, nil
	}, bullmq.WorkerOptions{})
	// Output: reports/count-1 <nil>
}

// The lines of the logger have the fields of the job. With JobLog they are also stored
// with the job.
func ExampleLoggerFromContext() {
	stable := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "count" { // which differ from run to run
			return slog.Attr{}
		}
		return a
	}
	handler := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: stable})
	runEmail(func(ctx context.Context, job *bullmq.Job) (any, error) {
		bullmq.LoggerFromContext(ctx).Info("sending", "server", "smtp-1")
		return Receipt{ID: "r-" + job.ID}, nil
	}, bullmq.WorkerOptions{
		Name:   "mailer",
		Logger: bullmq.Slog(slog.New(handler)),
		JobLog: &bullmq.JobLogOptions{MaxLines: 200},
	})
	// Output:
	// level=INFO msg="the worker runs" queue=orders worker=mailer concurrency=1
	// level=INFO msg=sending queue=orders worker=mailer job=1 name=welcome attempt=1 server=smtp-1
	// r-1 <nil>
	// level=INFO msg="the worker stops; it fetches no more jobs, and waits for those that run" queue=orders worker=mailer
	// level=INFO msg="the worker has stopped" queue=orders worker=mailer
}

// A middleware of adds counts the jobs that were added.
func ExampleNewJob_Added() {
	ctx := context.Background()
	added := 0
	count := func(next bullmq.AddFunc) bullmq.AddFunc {
		return func(ctx context.Context, jobs []*bullmq.NewJob) error {
			err := next(ctx, jobs)
			for _, job := range jobs {
				if job.Added() != nil {
					added++
				}
			}
			return err
		}
	}
	queue, _, stop := queueForExample(ctx, bullmq.QueueOptions{Middleware: []bullmq.AddMiddleware{count}})
	defer stop()
	for range 3 { // the second and third change nothing
		if _, err := queue.Add(ctx, "paint", nil, &bullmq.JobOptions{JobID: "wall-1"}); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(added, "job was added")
	// Output: 1 job was added
}
