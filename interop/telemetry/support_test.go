package telemetry_test

import (
	"context"
	"math"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmq/bullmqotel"
	"github.com/17a2ac88/bullmq-go/interop/nodeprobe"
)

// endedSpan is a finished span in the form of telemetry.mjs.
type endedSpan struct {
	Name, Kind              string
	TraceID, SpanID, Parent string
	Attributes              object
	Events                  []spanEvent
	Status                  int
}

type spanEvent struct {
	Name       string
	Attributes object
}

// measured is a value of a metric, or the number of values of a histogram.
type measured struct {
	Name, Description, Unit, Kind string
	Attributes                    object
	Value                         float64
}

// goTelemetry is OpenTelemetry for Go that keeps its data in memory.
type goTelemetry struct {
	bullmq.Telemetry
	propagator propagation.TextMapPropagator
	exporter   *tracetest.InMemoryExporter
	reader     *metric.ManualReader
}

func newGoTelemetry() *goTelemetry {
	t := &goTelemetry{
		propagator: propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}),
		exporter:   tracetest.NewInMemoryExporter(),
		reader:     metric.NewManualReader(),
	}
	t.Telemetry = bullmqotel.New(&bullmqotel.Options{
		TracerProvider: trace.NewTracerProvider(trace.WithSyncer(t.exporter)),
		Propagator:     t.propagator,
		MeterProvider:  metric.NewMeterProvider(metric.WithReader(t.reader)),
	})
	return t
}

// within returns a context with the remote trace context of a carrier.
func (t *goTelemetry) within(carrier map[string]string) context.Context {
	return t.propagator.Extract(soon(), propagation.MapCarrier(carrier))
}

// spans returns the spans that ended since the last call.
func (t *goTelemetry) spans() []endedSpan {
	defer t.exporter.Reset()
	return t.sofar()
}

// sofar is like spans but does not consume them.
func (t *goTelemetry) sofar() []endedSpan {
	stubs := t.exporter.GetSpans()
	spans := make([]endedSpan, len(stubs))
	for i, s := range stubs {
		spans[i] = endedSpan{
			Name: s.Name, Kind: s.SpanKind.String(), TraceID: s.SpanContext.TraceID().String(), SpanID: s.SpanContext.SpanID().String(),
			Attributes: values(s.Attributes), Status: int(s.Status.Code),
		}
		if s.Parent.IsValid() {
			spans[i].Parent = s.Parent.SpanID().String()
		}
		for _, event := range s.Events {
			spans[i].Events = append(spans[i].Events, spanEvent{event.Name, values(event.Attributes)})
		}
	}
	return spans
}

// values converts attributes to JSON types. JSON has no infinity.
func values(attributes []attribute.KeyValue) object {
	out := object{}
	for _, a := range attributes {
		value := a.Value.AsInterface()
		if value == math.Inf(1) {
			value = nil
		}
		out[string(a.Key)] = plain(value)
	}
	return out
}

// measured returns all values measured so far, except for a counter that Node does not have.
func (t *goTelemetry) measured() []measured {
	GinkgoHelper()
	var all metricdata.ResourceMetrics
	Expect(t.reader.Collect(soon(), &all)).To(Succeed())
	var out []measured
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name == "bullmq.jobs.attempts.failed" {
				continue
			}
			add := func(kind string, attributes attribute.Set, value float64) {
				out = append(out, measured{m.Name, m.Description, m.Unit, kind, values(attributes.ToSlice()), value})
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[float64]:
				for _, point := range data.DataPoints {
					add("counter", point.Attributes, point.Value)
				}
			case metricdata.Gauge[float64]:
				for _, point := range data.DataPoints {
					add("gauge", point.Attributes, point.Value)
				}
			case metricdata.Histogram[float64]:
				for _, point := range data.DataPoints {
					add("histogram", point.Attributes, float64(point.Count))
				}
			}
		}
	}
	return out
}

// spansOf returns the spans that have ended in Node since it was asked last.
func spansOf(p *nodeprobe.Probe) (spans []endedSpan) {
	GinkgoHelper()
	p.Do("spans", nil, &spans)
	return spans
}

// the returns the only span of a name.
func the(spans []endedSpan, name string) endedSpan {
	GinkgoHelper()
	found := all(spans, name)
	Expect(found).To(HaveLen(1), "spans named %q in %v", name, names(spans))
	return found[0]
}

func all(spans []endedSpan, name string) []endedSpan {
	return slices.DeleteFunc(slices.Clone(spans), func(s endedSpan) bool { return s.Name != name })
}

func names(spans []endedSpan) []string {
	out := make([]string, len(spans))
	for i, s := range spans {
		out[i] = s.Name
	}
	return out
}

// likeness returns the parts of spans that must be equal in both libraries. Generated values are replaced by
// a word, and the parent's id by its name.
func likeness(spans []endedSpan) []endedSpan {
	byID := map[string]string{}
	for _, s := range spans {
		byID[s.SpanID] = s.Name
	}
	var out []endedSpan
	renewed := false
	for _, s := range spans {
		like := endedSpan{Name: s.Name, Kind: s.Kind, Parent: s.Parent, Status: s.Status, Attributes: object{}, Events: []spanEvent{}}
		if name, there := byID[s.Parent]; there {
			like.Parent = name
		}
		if strings.HasPrefix(s.Name, "close ") {
			like.Parent = "" // in Node it is the job whose end led to it
		}
		for key, value := range s.Attributes {
			text, isText := value.(string)
			switch {
			case key == "bullmq.worker.id":
				value = "a worker"
			case strings.HasSuffix(key, "timestamp"):
				Expect(value).To(BeNumerically(">", 1.7e12), key)
				value = "a time"
			case key == "bullmq.job.id" && isText && (len(text) == 36 || strings.HasPrefix(text, "repeat:")):
				value = "an id"
			}
			like.Attributes[key] = value
		}
		for _, event := range s.Events {
			if event.Name == "exception" {
				Expect(event.Attributes).To(HaveKeyWithValue("exception.message", Not(BeEmpty())))
				event.Attributes = nil
			}
			like.Events = append(like.Events, event)
		}
		if strings.HasPrefix(s.Name, "extendLocks ") {
			if renewed {
				continue // the number depends on timing
			}
			renewed = true
		}
		out = append(out, like)
	}
	return out
}
