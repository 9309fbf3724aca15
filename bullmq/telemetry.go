package bullmq

import (
	"context"
	"strings"
)

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
	Record(ctx context.Context, metric Instrument, value float64, attributes ...Attribute)
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

// Instrument is something that is measured.
type Instrument struct {
	Name, Description, Unit string
	Kind                    InstrumentKind
}

// InstrumentKind is how the values of a metric are put together, as in
// OpenTelemetry.
type InstrumentKind int

// The kinds that occur.
const (
	InstrumentCounter   InstrumentKind = iota // values add up
	InstrumentHistogram                       // each counts in its range
	InstrumentGauge                           // the newest stands
)

// counted are the counters of what has become of jobs, by its name.
var counted = map[string]Instrument{}

func init() {
	for _, state := range []string{"completed", "failed", "delayed", "retried", "waiting", "waiting-children"} {
		counted[state] = Instrument{
			Name: "bullmq.jobs." + strings.ReplaceAll(state, "-", "_"), Description: "Number of jobs " + state, Unit: "1",
		}
	}
}

var (
	attemptsFailed = Instrument{Name: "bullmq.jobs.attempts.failed", Description: "Number of failed attempts of jobs", Unit: "1"}

	jobDuration = Instrument{Name: "bullmq.job.duration", Description: "Job processing duration", Unit: "ms", Kind: InstrumentHistogram}
	jobsByState = Instrument{Name: "bullmq.queue.jobs", Description: "Number of jobs in the queue by state", Unit: "{jobs}", Kind: InstrumentGauge}
)

// measure counts what has become of a job, and how long it had run until then.
func (c *core) measure(ctx context.Context, job *Job, state string) {
	t := c.trace
	if t.telemetry == nil {
		return
	}
	if read, err := job.stored(ctx); err == nil {
		job = read
	}
	about := c.measured(job, state)
	t.telemetry.Record(ctx, counted[state], 1, about...)
	if !job.ProcessedOn.IsZero() {
		t.telemetry.Record(ctx, jobDuration, float64(c.nowMs()-job.ProcessedOn.UnixMilli()), about...)
	}
}

// measureFailure is measure, for an attempt that has failed. The counter of these
// is our own: in BullMQ's, a delay after a failure looks like any other.
func (c *core) measureFailure(ctx context.Context, job *Job, state string) {
	c.measure(ctx, job, state)
	if t := c.trace; t.telemetry != nil {
		t.telemetry.Record(ctx, attemptsFailed, 1, c.measured(job, state)...)
	}
}

// measured are the attributes of what has become of a job.
func (c *core) measured(job *Job, state string) []Attribute {
	return []Attribute{{attrQueueName, c.trace.queue}, {attrJobName, job.Name}, {attrJobState, state}}
}

// measureEnd is measure, for what a worker has decided.
func (w *Worker) measureEnd(ctx context.Context, job *Job, a action) {
	switch a {
	case complete:
		w.core.measure(ctx, job, "completed")
	case fail:
		w.core.measureFailure(ctx, job, "failed")
	case retryNow:
		w.core.measureFailure(ctx, job, "retried")
	case retryLater:
		w.core.measureFailure(ctx, job, "delayed")
	case giveBackLater, heldBack:
		w.core.measure(ctx, job, "delayed")
	case limited, giveBack:
		w.core.measure(ctx, job, "waiting")
	}
}

// RecordCounts is Counts, and has the queue's Telemetry measure the numbers as
// the gauge bullmq.queue.jobs; call it from time to time (BullMQ:
// recordJobCountsMetric).
func (q *Queue) RecordCounts(ctx context.Context, states ...State) (map[State]int64, error) {
	counts, err := q.Counts(ctx, states...)
	if t := q.core.trace; t.telemetry != nil {
		for state, n := range counts {
			t.telemetry.Record(ctx, jobsByState, float64(n), Attribute{attrQueueName, t.queue}, Attribute{attrQueueJobsState, string(state)})
		}
	}
	return counts, err
}
