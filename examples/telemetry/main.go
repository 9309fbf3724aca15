// Telemetry follows a job from the request that adds it to the worker that runs it, in one OpenTelemetry
// trace. Either of them could be a Node program with npm bullmq-otel.
//
// The spans are printed when they end. A service would give its tracer provider an OpenTelemetry exporter
// such as otlptracegrpc.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmq/bullmqotel"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	// Set these once per program. The propagator encodes a trace as text: traceparent, as in HTTP headers.
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(printer{}))
	defer func() { _ = provider.Shutdown(context.Background()) }()
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))

	telemetry := bullmqotel.New(nil) // uses the globals set above
	connection, err := bullmq.Connect(ctx, os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	queue, err := bullmq.NewQueue(ctx, "invoices", &bullmq.QueueOptions{Connection: connection, Telemetry: telemetry})
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()
	worker, err := bullmq.NewWorker(ctx, "invoices", write, &bullmq.WorkerOptions{Connection: connection, Telemetry: telemetry})
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		if err := worker.Run(ctx); err != nil {
			log.Print(err)
		}
	}()

	// A web server's middleware does this for each request.
	request, span := otel.Tracer("shop").Start(ctx, "POST /orders")
	fmt.Println("the request's trace is", span.SpanContext().TraceID())
	job, err := queue.Add(request, "write", nil, &bullmq.JobOptions{Attempts: 2, KeepCompleted: bullmq.KeepNone()})
	span.End()
	if err != nil {
		log.Fatal(err)
	}
	if _, err := job.Wait(ctx, queue); err != nil {
		log.Fatal(err)
	}
	_ = worker.Close() // ends the worker's spans
}

// write is the handler. Its context contains the span of the attempt, so the calls that it makes with that
// context (HTTP, SQL) are part of the trace.
func write(ctx context.Context, job *bullmq.Job) (any, error) {
	_, span := otel.Tracer("shop").Start(ctx, "SELECT orders")
	defer span.End()
	if job.AttemptsMade == 0 {
		return nil, errors.New("the database is busy")
	}
	return "written", nil
}

// printer prints spans.
type printer struct{}

func (printer) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	for _, s := range spans {
		parent := trace.SpanID{}
		if s.Parent().IsValid() {
			parent = s.Parent().SpanID()
		}
		fmt.Printf("trace %.8s… span %s of parent %s: %s\n", s.SpanContext().TraceID(), s.SpanContext().SpanID(), parent, s.Name())
		for _, event := range s.Events() {
			fmt.Printf("    %s %v\n", event.Name, event.Attributes)
		}
	}
	return nil
}

func (printer) Shutdown(context.Context) error { return nil }
