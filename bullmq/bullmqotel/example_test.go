package bullmqotel_test

import (
	"context"
	"log"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmq/bullmqotel"
)

// The trace of the context given to Add continues in the worker, in Go or in Node.
func ExampleNew() {
	// otel.SetTracerProvider and otel.SetMeterProvider are called once per program too.
	otel.SetTextMapPropagator(propagation.TraceContext{})

	ctx := context.Background()
	telemetry := bullmqotel.New(&bullmqotel.Options{MeterProvider: otel.GetMeterProvider()})
	queue, err := bullmq.NewQueue(ctx, "orders", &bullmq.QueueOptions{Telemetry: telemetry})
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()
	if _, err := queue.Add(ctx, "paint", nil, nil); err != nil {
		log.Fatal(err)
	}
}
