// Package bullmqotel records OpenTelemetry traces and metrics of the queues, workers
// and flow producers of package bullmq. It uses the names of spans, attributes and metrics
// of npm bullmq-otel, and stores the trace context with a job in the same form. So a trace
// that begins in Node continues in Go, and the reverse.
//
//	telemetry := bullmqotel.New(nil)
//	queue, err := bullmq.NewQueue(ctx, "orders", &bullmq.QueueOptions{Telemetry: telemetry})
package bullmqotel

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Options configures [New]. A nil pointer and the zero value select the defaults.
type Options struct {
	// TracerProvider provides the tracer.
	// Defaults to otel.GetTracerProvider().
	TracerProvider trace.TracerProvider
	// Propagator encodes the trace context that is stored with a job. The global
	// propagator encodes nothing until the program sets it by
	// otel.SetTextMapPropagator.
	// Defaults to otel.GetTextMapPropagator().
	Propagator propagation.TextMapPropagator
	// MeterProvider provides the meter (bullmq-otel: enableMetrics). Use
	// otel.GetMeterProvider() for the global one.
	// Defaults to nil, which records no metrics.
	MeterProvider metric.MeterProvider
	// Name is the name of the tracer and the meter (bullmq-otel: tracerName,
	// meterName).
	// Defaults to "bullmq".
	Name string
	// Version is the version of the tracer and the meter.
	// Defaults to no version.
	Version string
}

// New returns a Telemetry for the options of queues, workers and flow producers,
// which may share it. options may be nil.
func New(options *Options) bullmq.Telemetry {
	var o Options
	if options != nil {
		o = *options
	}
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	if o.Propagator == nil {
		o.Propagator = otel.GetTextMapPropagator()
	}
	if o.Name == "" {
		o.Name = "bullmq"
	}
	t := &telemetry{
		tracer:     o.TracerProvider.Tracer(o.Name, trace.WithInstrumentationVersion(o.Version)),
		propagator: o.Propagator,
	}
	if o.MeterProvider != nil {
		t.meter = o.MeterProvider.Meter(o.Name, metric.WithInstrumentationVersion(o.Version))
	}
	return t
}

type telemetry struct {
	tracer      trace.Tracer
	propagator  propagation.TextMapPropagator
	meter       metric.Meter // nil to record no metrics
	instruments instruments
}

func (t *telemetry) StartSpan(ctx context.Context, name string, kind bullmq.SpanKind) (context.Context, bullmq.Span) {
	ctx, s := t.tracer.Start(ctx, name, trace.WithSpanKind(kinds[kind]))
	return ctx, span{s}
}

var kinds = map[bullmq.SpanKind]trace.SpanKind{
	bullmq.SpanInternal: trace.SpanKindInternal,
	bullmq.SpanProducer: trace.SpanKindProducer,
	bullmq.SpanConsumer: trace.SpanKindConsumer,
}

func (t *telemetry) Inject(ctx context.Context) string {
	var c carrier
	t.propagator.Inject(ctx, &c)
	return c.text()
}

func (t *telemetry) Extract(ctx context.Context, metadata string) context.Context {
	return t.propagator.Extract(ctx, readCarrier(metadata))
}

// span adapts an OpenTelemetry span. As in bullmq-otel, an error is recorded as an
// event of the span and does not set its status.
type span struct{ trace.Span }

func (s span) SetAttributes(attributes ...bullmq.Attribute) {
	s.Span.SetAttributes(keyValues(attributes)...)
}

func (s span) AddEvent(name string, attributes ...bullmq.Attribute) {
	s.Span.AddEvent(name, trace.WithAttributes(keyValues(attributes)...))
}

func (s span) RecordError(err error) { s.Span.RecordError(err) }

func (s span) End() { s.Span.End() }

func keyValues(attributes []bullmq.Attribute) []attribute.KeyValue {
	out := make([]attribute.KeyValue, len(attributes))
	for i, a := range attributes {
		out[i] = keyValue(attribute.Key(a.Key), a.Value)
	}
	return out
}

func keyValue(key attribute.Key, value any) attribute.KeyValue {
	switch v := value.(type) {
	case string:
		return key.String(v)
	case bool:
		return key.Bool(v)
	case int:
		return key.Int(v)
	case int64:
		return key.Int64(v)
	case float64:
		return key.Float64(v)
	case []string:
		return key.StringSlice(v)
	default:
		return key.String(fmt.Sprint(v))
	}
}
