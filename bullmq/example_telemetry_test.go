package bullmq_test

import (
	"context"
	"fmt"
	"log"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// printer is a Telemetry that prints the names of spans. Package bullmqotel has one for
// OpenTelemetry.
type printer struct{}

func (printer) StartSpan(ctx context.Context, name string, _ bullmq.SpanKind) (context.Context, bullmq.Span) {
	return ctx, printedSpan(name)
}

// Inject and Extract would carry a trace context from the producer to the worker.
func (printer) Inject(context.Context) string                                           { return "" }
func (printer) Extract(ctx context.Context, _ string) context.Context                   { return ctx }
func (printer) Record(context.Context, bullmq.Instrument, float64, ...bullmq.Attribute) {}

type printedSpan string

func (printedSpan) SetAttributes(...bullmq.Attribute)    {}
func (printedSpan) AddEvent(string, ...bullmq.Attribute) {}
func (s printedSpan) RecordError(err error)              { fmt.Println(s, "failed:", err) }
func (s printedSpan) End()                               { fmt.Println(s, "ended") }

func ExampleTelemetry() {
	ctx := context.Background()
	queue, _, stop := queueForExample(ctx, bullmq.QueueOptions{Telemetry: printer{}})
	defer stop()
	if _, err := queue.Add(ctx, "paint", nil, nil); err != nil {
		log.Fatal(err)
	}
	// Output:
	// add orders.paint ended
	// close orders ended
}
