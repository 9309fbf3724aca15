package bullmq

import "context"

// Telemetry is a tracing system as this package sees it: what a Queue, a Worker
// or a FlowProducer does becomes spans, and the context of the span that adds a
// job goes with the job, so that the span that runs it, in Go or in Node,
// belongs to the same trace. Package bullmqotel makes one of OpenTelemetry
// (BullMQ: telemetry).
//
// Its methods are called from several goroutines at a time.
type Telemetry interface {
	// StartSpan begins a span, a child of the one in ctx if there is one, and
	// answers ctx with the new span in it.
	StartSpan(ctx context.Context, name string, kind SpanKind) (context.Context, Span)
	// Inject writes what of ctx is to travel as the text that is stored with a
	// job (opts.tm): the JSON of a carrier, in a mixed fleet. "" and
	// "{}", an empty carrier, store nothing (BullMQ: getMetadata).
	Inject(ctx context.Context) string
	// Extract is ctx with what Inject, here or in Node, has written. Text that it
	// can't read leaves ctx as it is (BullMQ: fromMetadata).
	Extract(ctx context.Context, metadata string) context.Context
	// Record takes in one value of a metric; it does nothing where nothing is
	// measured (BullMQ: meter).
	Record(ctx context.Context, metric Metric, value float64, attributes ...Attribute)
}

// Span is something that happens, from StartSpan to End.
type Span interface {
	SetAttributes(attributes ...Attribute)
	AddEvent(name string, attributes ...Attribute)
	// RecordError notes an error with which the span is about to end, or that it
	// has got over (BullMQ: recordException).
	RecordError(err error)
	End()
}

// SpanKind is a span's part in an exchange of messages, as in OpenTelemetry.
type SpanKind int

// The kinds that occur.
const (
	SpanInternal SpanKind = iota
	SpanProducer          // adds jobs
	SpanConsumer          // runs one
)

// Attribute is a fact about a span or a value: a string, bool, int, int64,
// float64 or []string under a name such as bullmq.queue.name.
type Attribute struct {
	Key   string
	Value any
}

// Metric is something that is measured.
type Metric struct {
	Name, Description, Unit string
	Kind                    MetricKind
}

// MetricKind is how the values of a metric are put together, as in
// OpenTelemetry.
type MetricKind int

// The kinds that occur.
const (
	MetricCounter   MetricKind = iota // values add up
	MetricHistogram                   // each counts in its range
	MetricGauge                       // the newest stands
)
