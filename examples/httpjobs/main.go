// Httpjobs serves two endpoints synchronously, and then asynchronously by one changed line for each. A worker in this program runs
// the requests of the first one with the same http.Handler as before. The second one is taken over by a worker in Node:
//
//	cd examples/httpjobs
//	npm install --no-save bullmq
//	node worker.mjs   # in a terminal of its own
//	go run .          # prints what a client sees, and ends
//
// They connect to Redis at 127.0.0.1:6379. For other addresses set REDIS_URL for Go, and REDIS_HOST and REDIS_PORT for Node.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	web := http.NewServeMux()
	web.Handle("POST /reports/{id}", http.HandlerFunc(report))
	web.Handle("POST /charts/{id}", http.HandlerFunc(chart))
	fmt.Println("synchronous:")
	if err := visit(web, func(c *client) error {
		_, _, err := c.post("/reports/7")
		if err == nil {
			_, _, err = c.post("/charts/7")
		}
		return err
	}); err != nil {
		return err
	}

	connection, err := bullmq.Connect(ctx, os.Getenv("REDIS_URL")) // defaults to redis://127.0.0.1:6379
	if err != nil {
		return err
	}
	defer connection.Close()
	reports, err := bullmq.NewQueue(ctx, "http-reports", &bullmq.QueueOptions{Connection: connection})
	if err != nil {
		return err
	}
	defer reports.Close()
	charts, err := bullmq.NewQueue(ctx, "http-charts", &bullmq.QueueOptions{Connection: connection}) // that of worker.mjs
	if err != nil {
		return err
	}
	defer charts.Close()
	worker, err := bullmq.NewWorker(ctx, "http-reports", bullmqhttp.Serve(http.HandlerFunc(report)), &bullmq.WorkerOptions{Connection: connection})
	if err != nil {
		return err
	}
	go func() {
		if err := worker.Run(ctx); err != nil {
			log.Print(err)
		}
	}()
	defer worker.Close()

	reportJobs := bullmqhttp.New(reports, &bullmqhttp.Options{Base: "/report-jobs"})
	chartJobs := bullmqhttp.New(charts, &bullmqhttp.Options{Base: "/chart-jobs"})
	web = http.NewServeMux()
	web.Handle("POST /reports/{id}", reportJobs.Async("report", bullmqhttp.Route{})) // instead of report
	web.Handle("POST /charts/{id}", chartJobs.Async("chart", bullmqhttp.Route{}))    // instead of chart
	web.Handle("/report-jobs/", reportJobs)
	web.Handle("/chart-jobs/", chartJobs)
	return visit(web, func(c *client) error {
		fmt.Println("asynchronous, run by the same handler:")
		if err := c.follow("/reports/7"); err != nil {
			return err
		}
		fmt.Println("asynchronous, run by a worker in Node:")
		return c.follow("/charts/7")
	})
}

// work is how long a report or a chart takes.
const work = 300 * time.Millisecond

func report(w http.ResponseWriter, r *http.Request) { write(w, r, "report") }
func chart(w http.ResponseWriter, r *http.Request)  { write(w, r, "chart") }

// write replies with a document after a while, as worker.mjs does.
func write(w http.ResponseWriter, r *http.Request, kind string) {
	var order struct{ Year int }
	if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case <-time.After(work):
	case <-r.Context().Done(): // the client has left, or the job is cancelled
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"%s":%q,"year":%d,"by":"Go"}`, kind, r.PathValue("id"), order.Year)
}

// visit serves a handler while a client uses it.
func visit(handler http.Handler, use func(*client) error) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	return use(&client{"http://" + listener.Addr().String()})
}
