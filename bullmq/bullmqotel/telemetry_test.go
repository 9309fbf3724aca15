package bullmqotel_test

import (
	"context"
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmq/bullmqotel"
)

// What the wire and Node see of it is tested in interop/telemetry.
var _ = Describe("Telemetry", func() {
	var (
		ctx      context.Context
		exporter *tracetest.InMemoryExporter
		options  bullmqotel.Options
	)
	BeforeEach(func() {
		ctx, exporter = context.Background(), tracetest.NewInMemoryExporter()
		options = bullmqotel.Options{
			TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)),
			Propagator:     propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}),
		}
	})

	It("takes the global providers and propagator unless others are given, those set later too", func() {
		telemetry := bullmqotel.New(nil)
		Expect(telemetry.Inject(ctx)).To(Equal("{}"))
		tracers, propagator := otel.GetTracerProvider(), otel.GetTextMapPropagator()
		DeferCleanup(func() { otel.SetTracerProvider(tracers); otel.SetTextMapPropagator(propagator) })
		otel.SetTracerProvider(options.TracerProvider)
		otel.SetTextMapPropagator(propagation.TraceContext{})
		inside, span := telemetry.StartSpan(ctx, "add orders", bullmq.SpanProducer)
		Expect(telemetry.Inject(inside)).To(ContainSubstring("traceparent"))
		span.End()
		Expect(exporter.GetSpans()).To(HaveLen(1))
		Expect(exporter.GetSpans()[0].InstrumentationScope.Name).To(Equal("bullmq"))
	})

	It("makes spans of the kinds, with attributes of all types, events and errors", func() {
		options.Name, options.Version = "shop", "1.2.3"
		telemetry := bullmqotel.New(&options)
		for _, kind := range []bullmq.SpanKind{bullmq.SpanInternal, bullmq.SpanProducer, bullmq.SpanConsumer} {
			_, span := telemetry.StartSpan(ctx, "a", kind)
			span.SetAttributes(bullmq.Attribute{Key: "text", Value: "t"}, bullmq.Attribute{Key: "int", Value: 1}, bullmq.Attribute{Key: "int64", Value: int64(2)},
				bullmq.Attribute{Key: "float", Value: 0.5}, bullmq.Attribute{Key: "bool", Value: true}, bullmq.Attribute{Key: "list", Value: []string{"a"}},
				bullmq.Attribute{Key: "other", Value: bullmq.StateWaiting})
			span.AddEvent("happened", bullmq.Attribute{Key: "n", Value: 3})
			span.RecordError(errors.New("boom"))
			span.End()
		}
		spans := exporter.GetSpans()
		Expect([]trace.SpanKind{spans[0].SpanKind, spans[1].SpanKind, spans[2].SpanKind}).To(Equal(
			[]trace.SpanKind{trace.SpanKindInternal, trace.SpanKindProducer, trace.SpanKindConsumer}))
		Expect(spans[0].Attributes).To(Equal([]attribute.KeyValue{
			attribute.String("text", "t"), attribute.Int("int", 1), attribute.Int64("int64", 2), attribute.Float64("float", 0.5),
			attribute.Bool("bool", true), attribute.StringSlice("list", []string{"a"}), attribute.String("other", "waiting"),
		}))
		Expect(spans[0].InstrumentationScope.Version).To(Equal("1.2.3"))
		Expect(spans[0].Events).To(HaveLen(2))
		Expect(spans[0].Events[0].Attributes).To(Equal([]attribute.KeyValue{attribute.Int("n", 3)}))
		Expect(spans[0].Events[1].Attributes).To(ContainElement(attribute.String("exception.message", "boom")))
	})

	It("writes a context as Node does, traceparent first, and reads it again", func() {
		telemetry := bullmqotel.New(&options)
		const text = `{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"a=<&>","baggage":"user=ada"}`
		inside := telemetry.Extract(ctx, text)
		Expect(trace.SpanContextFromContext(inside).IsRemote()).To(BeTrue())
		Expect(baggage.FromContext(inside).Member("user").Value()).To(Equal("ada"))
		Expect(telemetry.Inject(inside)).To(Equal(text))
	})

	DescribeTable("leaves the context as it is when the text holds none",
		func(text string) {
			before := trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}}))
			inside := bullmqotel.New(&options).Extract(before, text)
			Expect(trace.SpanContextFromContext(inside)).To(Equal(trace.SpanContextFromContext(before)))
		},
		Entry("being no JSON", "own"), Entry("being empty", ""), Entry("being another thing", `["traceparent"]`), Entry("being null", "null"),
		Entry("being no text", `{"traceparent":7}`), Entry("being wrong", `{"traceparent":"00-1-2-01"}`), Entry("being an empty carrier", "{}"),
	)

	It("measures nothing unless it is given a meter, and each metric with one instrument", func() {
		gauge := bullmq.Instrument{Name: "jobs", Unit: "{jobs}", Kind: bullmq.InstrumentGauge}
		bullmqotel.New(&options).Record(ctx, gauge, 1)
		reader := metric.NewManualReader()
		options.MeterProvider = metric.NewMeterProvider(metric.WithReader(reader))
		telemetry := bullmqotel.New(&options)
		for n := range 3 {
			telemetry.Record(ctx, gauge, float64(n))
			telemetry.Record(ctx, bullmq.Instrument{Name: "done", Kind: bullmq.InstrumentCounter}, 2, bullmq.Attribute{Key: "queue", Value: "orders"})
			telemetry.Record(ctx, bullmq.Instrument{Name: "took", Unit: "ms", Kind: bullmq.InstrumentHistogram}, float64(n))
		}
		var all metricdata.ResourceMetrics
		Expect(reader.Collect(ctx, &all)).To(Succeed())
		seen := map[string]float64{}
		for _, m := range all.ScopeMetrics[0].Metrics {
			switch data := m.Data.(type) {
			case metricdata.Gauge[float64]:
				seen[m.Name] = data.DataPoints[0].Value
			case metricdata.Sum[float64]:
				seen[m.Name] = data.DataPoints[0].Value
				Expect(data.DataPoints[0].Attributes.ToSlice()).To(ConsistOf(attribute.String("queue", "orders")))
			case metricdata.Histogram[float64]:
				seen[m.Name] = data.DataPoints[0].Sum
			}
		}
		Expect(seen).To(Equal(map[string]float64{"jobs": 2, "done": 6, "took": 3}))
	})
})
