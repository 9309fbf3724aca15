// OpenTelemetry for this process, set up as a Node program does for bullmq-otel. What it records stays in
// memory.

import { context, metrics, propagation, ROOT_CONTEXT, SpanKind, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { CompositePropagator, W3CBaggagePropagator, W3CTraceContextPropagator } from '@opentelemetry/core';
import { AggregationTemporality, InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';
import { BullMQOtel } from 'bullmq-otel';

/** Sets up the process and returns the library's telemetry and functions to read what was recorded. */
export function startTelemetry() {
  const exporter = new InMemorySpanExporter();
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(
    new CompositePropagator({ propagators: [new W3CTraceContextPropagator(), new W3CBaggagePropagator()] }));
  trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }));
  const reader = new PeriodicExportingMetricReader({
    exporter: new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE), exportIntervalMillis: 3600000,
  });
  metrics.setGlobalMeterProvider(new MeterProvider({ readers: [reader] }));
  return {
    telemetry: new BullMQOtel({ tracerName: 'bullmq', meterName: 'bullmq', enableMetrics: true }),

    /** Calls act with the remote context of a carrier. */
    within: (carrier, act) => context.with(propagation.extract(ROOT_CONTEXT, carrier), act),

    /** Returns the spans that ended since the last call, in the order in which they ended. */
    spans() {
      const ended = exporter.getFinishedSpans().map(showSpan);
      exporter.reset();
      return ended;
    },

    /** Returns everything that was measured so far. */
    async measured() {
      const { resourceMetrics } = await reader.collect();
      return resourceMetrics.scopeMetrics.flatMap(scope => scope.metrics).flatMap(
        ({ descriptor: { name, description, unit, type }, dataPoints }) => dataPoints.map(({ attributes, value }) => ({
          name, description, unit, kind: type.toLowerCase(), attributes, value: value.count ?? value,
        })));
    },
  };
}

function showSpan(span) {
  const { traceId, spanId } = span.spanContext();
  return {
    name: span.name,
    kind: SpanKind[span.kind].toLowerCase(),
    traceId,
    spanId,
    parent: span.parentSpanContext?.spanId ?? '',
    attributes: span.attributes,
    events: span.events.map(({ name, attributes }) => ({ name, attributes: attributes ?? {} })),
    status: span.status.code,
  };
}
