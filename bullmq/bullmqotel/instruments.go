package bullmqotel

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// instruments are the OpenTelemetry instruments created so far, by their definition.
// All record floating-point numbers, as in JavaScript, because some backends reject
// values of different types under the same name.
type instruments struct{ sync.Map }

// record records a value with an OpenTelemetry instrument.
type record func(ctx context.Context, value float64, attributes metric.MeasurementOption)

func (t *telemetry) Record(ctx context.Context, m bullmq.Instrument, value float64, attributes ...bullmq.Attribute) {
	if t.meter == nil {
		return
	}
	known, ok := t.instruments.Load(m)
	if !ok {
		known, _ = t.instruments.LoadOrStore(m, t.instrument(m))
	}
	known.(record)(ctx, value, metric.WithAttributes(keyValues(attributes)...))
}

func (t *telemetry) instrument(m bullmq.Instrument) record {
	switch m.Kind {
	case bullmq.InstrumentHistogram:
		histogram, err := t.meter.Float64Histogram(m.Name, metric.WithDescription(m.Description), metric.WithUnit(m.Unit))
		handle(err)
		return func(ctx context.Context, value float64, attributes metric.MeasurementOption) {
			histogram.Record(ctx, value, attributes)
		}
	case bullmq.InstrumentGauge:
		gauge, err := t.meter.Float64Gauge(m.Name, metric.WithDescription(m.Description), metric.WithUnit(m.Unit))
		handle(err)
		return func(ctx context.Context, value float64, attributes metric.MeasurementOption) {
			gauge.Record(ctx, value, attributes)
		}
	default:
		counter, err := t.meter.Float64Counter(m.Name, metric.WithDescription(m.Description), metric.WithUnit(m.Unit))
		handle(err)
		return func(ctx context.Context, value float64, attributes metric.MeasurementOption) {
			counter.Add(ctx, value, attributes)
		}
	}
}

// handle reports an error to OpenTelemetry. An instrument that was returned together with
// an error can still be used.
func handle(err error) {
	if err != nil {
		otel.Handle(err)
	}
}
