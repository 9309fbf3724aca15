package bullmqhttp_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
)

// A service replies 202 to POST /reports/{id}, and the same process makes the reports later.
func Example() {
	makeReport := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := bullmq.UpdateProgress(r.Context(), 50); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError) // the job is retried
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintf(w, "report %s for %s\n", r.PathValue("id"), bullmqhttp.RequestFromContext(r.Context()).Owner)
	})

	ctx := context.Background()
	queue, err := bullmq.NewQueue(ctx, "reports", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()

	jobs := bullmqhttp.New(queue, &bullmqhttp.Options{
		MaxWaiting: 10_000,
		Owner: func(r *http.Request) (string, error) {
			user, _, ok := r.BasicAuth() // a real service checks the password
			if !ok {
				return "", &bullmqhttp.Problem{Status: http.StatusUnauthorized}
			}
			return user, nil
		},
	})
	mux := http.NewServeMux()
	mux.Handle("POST /reports/{id}", jobs.Async("report", bullmqhttp.Route{
		Job:  bullmq.JobOptions{Attempts: 3, Backoff: bullmq.ExponentialBackoff(time.Second)},
		Wait: time.Second,
	}))
	mux.Handle("/jobs/", jobs)
	web := &http.Server{Addr: "localhost:8080", Handler: mux}
	web.RegisterOnShutdown(jobs.Close)

	worker, err := bullmq.NewWorker(ctx, "reports", bullmqhttp.Serve(makeReport), &bullmq.WorkerOptions{
		Concurrency: 10, Classify: bullmqhttp.Classify,
	})
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		if err := worker.Run(ctx); err != nil {
			log.Print(err)
		}
	}()
	if err := web.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}
