package bullmqhttp_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
)

type Order struct {
	Number string `json:"number"`
	Cents  int    `json:"cents"`
}

type Receipt struct {
	Paid int `json:"paid"`
}

var PlaceOrder = bullmq.Define[Order, Receipt]("order.place", bullmq.JobOptions{Attempts: 3})

// checkOrder refuses orders that can't be placed. The number makes the id of the job, so that a client may repeat a
// request.
func checkOrder(_ *http.Request, order *Order, options *bullmq.JobOptions) error {
	if order.Number == "" || order.Cents <= 0 {
		return errors.New("the order needs a number, and must cost something")
	}
	options.JobID = "order-" + order.Number
	return nil
}

// POST /orders adds a typed job, GET /orders/{id} shows its state and its result, and DELETE /orders/{id} cancels it.
func ExamplePost() {
	ctx := context.Background()
	connection, stop := redisForExample() // in a service: bullmq.Connect(ctx, "redis://127.0.0.1:6379")
	defer stop()
	queue, err := bullmq.NewQueue(ctx, "orders", &bullmq.QueueOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()

	jobs := bullmqhttp.New(queue, &bullmqhttp.Options{Base: "/orders"})
	web := http.NewServeMux()
	web.Handle("POST /orders", bullmqhttp.Post(jobs, PlaceOrder, checkOrder))
	web.Handle("/orders/", jobs)

	// What a client sees:
	call := func(method, path, body string) {
		r, w := httptest.NewRequest(method, path, strings.NewReader(body)), httptest.NewRecorder()
		r.Header.Set("Content-Type", "application/json")
		web.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("Location"), w.Body)
	}
	call("POST", "/orders", `{"number":"A1","cents":4200}`)
	call("POST", "/orders", `{"number":"A2","cents":"4200"}`)
	call("POST", "/orders", `{"number":"A2"}`)

	mux := bullmq.NewMux()
	bullmq.Handle(mux, PlaceOrder, func(_ context.Context, _ *bullmq.Job, order Order) (Receipt, error) {
		return Receipt{Paid: order.Cents}, nil
	})
	worker, err := bullmq.NewWorker(ctx, "orders", mux.ServeJob, &bullmq.WorkerOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	defer worker.Close()
	go func() { _ = worker.Run(ctx) }()
	call("GET", "/orders/order-A1/result?wait=20", "")
	// Output:
	// 202 /orders/order-A1 {"id":"order-A1","status":"queued","route":"order.place","attempts":0,"links":{"self":"/orders/order-A1","result":"/orders/order-A1/result","events":"/orders/order-A1/events","cancel":"/orders/order-A1/cancel"}}
	// 400  {"status":400,"title":"Bad Request","detail":"$.cents must be an integer, and is a string","code":"INVALID_REQUEST","path":"$.cents"}
	// 422  {"status":422,"title":"Unprocessable Entity","detail":"the order needs a number, and must cost something","code":"INVALID_DATA"}
	// 200  {"paid":4200}
}
