package bullmq

import (
	"context"
	"strings"
)

// Telemetry records the operations of a Queue, a Worker or a FlowProducer as spans
// and metrics (BullMQ: telemetry). The trace context of the span that adds a job is
// stored with the job. So the span that runs the job, in Go or in Node, belongs to
// the same trace. Package bullmqotel implements Telemetry with OpenTelemetry.
//
// Its methods must be safe for concurrent use.
type Telemetry interface {
	// StartSpan starts a span, as a child of the span in ctx if there is one. It
	// returns the span and a context that contains it.
	StartSpan(ctx context.Context, name string, kind SpanKind) (context.Context, Span)
	// Inject encodes the trace context of ctx as the text that is stored with a job
	// in opts.tm (BullMQ: getMetadata). If Node clients share the queue, the text must
	// be the JSON of a carrier. If Inject returns "" or "{}", nothing is stored.
	Inject(ctx context.Context) string
	// Extract returns ctx with the trace context that Inject, here or in Node, has
	// encoded as metadata. It returns ctx itself if it can't parse metadata (BullMQ:
	// fromMetadata).
	Extract(ctx context.Context, metadata string) context.Context
	// Record records a value of a metric. It does nothing if metrics are disabled
	// (BullMQ: meter).
	Record(ctx context.Context, metric Instrument, value float64, attributes ...Attribute)
}

// Span is an operation that has begun with [Telemetry.StartSpan]. Its methods must
// be safe for concurrent use.
type Span interface {
	SetAttributes(attributes ...Attribute)
	AddEvent(name string, attributes ...Attribute)
	// RecordError records an error that ended the operation, or that the operation
	// recovered from (BullMQ: recordException).
	RecordError(err error)
	End()
}

// SpanKind is the role of a span in messaging, as defined by OpenTelemetry.
type SpanKind int

// The kinds of spans.
const (
	SpanInternal SpanKind = iota
	SpanProducer          // adds jobs
	SpanConsumer          // runs a job
)

// Attribute is a key, such as bullmq.queue.name, and a value that describe a span or
// a recorded value. Value is a string, bool, int, int64, float64 or []string.
type Attribute struct {
	Key   string
	Value any
}

// Instrument defines a metric.
type Instrument struct {
	Name, Description, Unit string
	Kind                    InstrumentKind
}

// InstrumentKind is how the values of a metric are aggregated, as defined by
// OpenTelemetry.
type InstrumentKind int

// The kinds of instruments.
const (
	InstrumentCounter   InstrumentKind = iota // sums the values
	InstrumentHistogram                       // counts the values in buckets
	InstrumentGauge                           // keeps the last value
)

// stateCounters maps each state to the counter of the jobs that have changed to it.
var stateCounters = map[string]Instrument{}

func init() {
	for _, state := range []string{"completed", "failed", "delayed", "retried", "waiting", "waiting-children"} {
		stateCounters[state] = Instrument{
			Name: "bullmq.jobs." + strings.ReplaceAll(state, "-", "_"), Description: "Number of jobs " + state, Unit: "1",
		}
	}
}

var (
	attemptsFailed = Instrument{Name: "bullmq.jobs.attempts.failed", Description: "Number of failed attempts of jobs", Unit: "1"}
	handedOverJobs = Instrument{Name: "bullmq.jobs.handed_over", Description: "Number of jobs that their handlers have handed over", Unit: "1"}

	jobDuration = Instrument{Name: "bullmq.job.duration", Description: "Job processing duration", Unit: "ms", Kind: InstrumentHistogram}
	jobsByState = Instrument{Name: "bullmq.queue.jobs", Description: "Number of jobs in the queue by state", Unit: "{jobs}", Kind: InstrumentGauge}
)

// measure counts a job under its new state and records how long it ran.
func (c *core) measure(ctx context.Context, job *Job, state string) {
	t := c.trace
	if t.telemetry == nil {
		return
	}
	if read, err := job.stored(ctx); err == nil {
		job = read
	}
	about := c.measured(job, state)
	t.telemetry.Record(ctx, stateCounters[state], 1, about...)
	if !job.ProcessedOn.IsZero() {
		t.telemetry.Record(ctx, jobDuration, float64(c.nowMs()-job.ProcessedOn.UnixMilli()), about...)
	}
}

// measureFailure is measure for a failed attempt. It also increments a counter that
// BullMQ does not have, because BullMQ's counters do not distinguish a delay after a
// failure from other delays.
func (c *core) measureFailure(ctx context.Context, job *Job, state string) {
	c.measure(ctx, job, state)
	if t := c.trace; t.telemetry != nil {
		t.telemetry.Record(ctx, attemptsFailed, 1, c.measured(job, state)...)
	}
}

// measured returns the attributes of a job's metrics.
func (c *core) measured(job *Job, state string) []Attribute {
	return []Attribute{{attrQueueName, c.trace.queue}, {attrJobName, job.Name}, {attrJobState, state}}
}

// measureEnd is measure for the action that a worker has taken.
func (w *queueWorker) measureEnd(ctx context.Context, job *Job, a action) {
	switch a {
	case complete:
		w.core.measure(ctx, job, "completed")
	case fail:
		w.core.measureFailure(ctx, job, "failed")
	case retryNow:
		w.core.measureFailure(ctx, job, "retried")
	case retryLater:
		w.core.measureFailure(ctx, job, "delayed")
	case giveBackLater, delayForRateLimit:
		w.core.measure(ctx, job, "delayed")
	case limited, giveBack:
		w.core.measure(ctx, job, "waiting")
	case waitForChildren:
		w.core.measure(ctx, job, "waiting-children")
	case handedOver:
		if t := w.core.trace; t.telemetry != nil {
			t.telemetry.Record(ctx, handedOverJobs, 1, w.core.measured(job, string(StateActive))...)
		}
	}
}

// RecordCounts returns the result of [Queue.Counts] and records the numbers as the gauge
// bullmq.queue.jobs of the queue's Telemetry. Call it at intervals (BullMQ:
// recordJobCountsMetric).
func (q *Queue) RecordCounts(ctx context.Context, states ...State) (map[State]int, error) {
	counts, err := q.Counts(ctx, states...)
	if t := q.core.trace; t.telemetry != nil {
		for state, n := range counts {
			t.telemetry.Record(ctx, jobsByState, float64(n), Attribute{attrQueueName, t.queue}, Attribute{attrQueueJobsState, string(state)})
		}
	}
	return counts, err
}
