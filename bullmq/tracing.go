package bullmq

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// Names of attributes, as BullMQ has them.
const (
	attrQueueName         = "bullmq.queue.name"
	attrQueueOperation    = "bullmq.queue.operation"
	attrQueueDrainDelayed = "bullmq.queue.drain.delay"
	attrQueueGrace        = "bullmq.queue.grace"
	attrQueueCleanLimit   = "bullmq.queue.clean.limit"
	attrQueueCleanCount   = "bullmq.queue.clean.count"
	attrQueueRateLimit    = "bullmq.queue.rate.limit"
	attrQueueOptions      = "bullmq.queue.options"
	attrQueueMaxEvents    = "bullmq.queue.event.max.length"
	attrQueueJobsState    = "bullmq.queue.jobs.state"
	attrJobName           = "bullmq.job.name"
	attrJobID             = "bullmq.job.id"
	attrJobType           = "bullmq.job.type"
	attrJobState          = "bullmq.job.state"
	attrJobOptions        = "bullmq.job.options"
	attrJobAttemptsMade   = "bullmq.job.attempts.made"
	attrJobProgress       = "bullmq.job.progress"
	attrJobResult         = "bullmq.job.result"
	attrJobFailedReason   = "bullmq.job.failed.reason"
	attrJobProcessed      = "bullmq.job.processed.timestamp"
	attrJobFinished       = "bullmq.job.attempt_finished_timestamp"
	attrBulkNames         = "bullmq.job.bulk.names"
	attrBulkCount         = "bullmq.job.bulk.count"
	attrDeduplicationKey  = "bullmq.job.deduplication.key"
	attrSchedulerID       = "bullmq.job.scheduler.id"
	attrFlowName          = "bullmq.flow.name"
	attrWorkerID          = "bullmq.worker.id"
	attrWorkerName        = "bullmq.worker.name"
	attrWorkerOptions     = "bullmq.worker.options"
	attrWorkerRateLimit   = "bullmq.worker.rate.limit"
	attrWorkerDoNotWait   = "bullmq.worker.do.not.wait.active"
	attrWorkerForceClose  = "bullmq.worker.force.close"
	attrWorkerStalledJobs = "bullmq.worker.stalled.jobs"
	attrWorkerLocks       = "bullmq.worker.jobs.to.extend.locks"
)

// tracer starts the spans of one queue. Without a Telemetry it starts none, and
// costs nothing: no text is put together and nothing is allocated before it has
// been looked at.
type tracer struct {
	telemetry Telemetry
	queue     string
}

// start begins the span of an operation on the queue.
func (t tracer) start(ctx context.Context, kind SpanKind, operation string) (context.Context, span) {
	if t.telemetry == nil {
		return ctx, span{}
	}
	return t.begin(ctx, kind, operation, t.queue)
}

// startAdd begins the span that adds a job of a name.
func (t tracer) startAdd(ctx context.Context, job string) (context.Context, span) {
	if t.telemetry == nil {
		return ctx, span{}
	}
	return t.begin(ctx, SpanProducer, "add", t.queue+"."+job)
}

func (t tracer) begin(ctx context.Context, kind SpanKind, operation, destination string) (context.Context, span) {
	name := operation
	if destination != "" {
		name += " " + destination
	}
	ctx, s := t.telemetry.StartSpan(ctx, name, kind)
	s.SetAttributes(Attribute{attrQueueName, t.queue}, Attribute{attrQueueOperation, operation})
	return ctx, span{s}
}

// inject is what of ctx goes with a job; "" for nothing.
func (t tracer) inject(ctx context.Context) string {
	if t.telemetry == nil {
		return ""
	}
	metadata := t.telemetry.Inject(ctx)
	if metadata == "{}" {
		return "" // a carrier into which nothing was put
	}
	return metadata
}

// from is ctx with what came with a job.
func (t tracer) from(ctx context.Context, job *Job) context.Context {
	if t.telemetry == nil || job.Opts.Telemetry == nil || job.Opts.Telemetry.Metadata == "" {
		return ctx
	}
	return t.telemetry.Extract(ctx, job.Opts.Telemetry.Metadata)
}

// outliving is a context for what has to be written although ctx has ended.
func (t tracer) outliving(ctx context.Context) context.Context {
	if t.telemetry == nil {
		return context.Background()
	}
	return context.WithoutCancel(ctx)
}

// span is a Span, or none.
type span struct{ to Span }

func (s span) on() bool { return s.to != nil }

// event is for callers that have asked whether the span is on.
func (s span) event(name string, attributes ...Attribute) { s.to.AddEvent(name, attributes...) }

// fail notes an error that the span gets over.
func (s span) fail(err error) {
	if s.to != nil {
		s.to.RecordError(err)
	}
}

// end is for defer: err is what the function answers.
func (s span) end(err *error) {
	if s.to == nil {
		return
	}
	if *err != nil {
		s.to.RecordError(*err)
	}
	s.to.End()
}

// done ends a span in which nothing could go wrong.
func (s span) done() {
	if s.to != nil {
		s.to.End()
	}
}

// set gives a span an attribute. The value is put into an interface, which
// allocates, only where there is a span.
func set[V any](s span, key string, value V) {
	if s.to != nil {
		s.to.SetAttributes(Attribute{key, value})
	}
}

// describe says which job a span is about.
func (s span) describe(job *Job) {
	set(s, attrJobName, job.Name)
	set(s, attrJobID, job.ID)
}

// carryAlone is what Add does with the context of its span: it goes before
// everything but the job's own wish to have none.
func (o *JobOptions) carryAlone(metadata string, own *JobOptions) {
	if metadata == "" || own != nil && own.Telemetry != nil && own.Telemetry.OmitContext {
		return
	}
	o.Telemetry = &JobTelemetry{Metadata: metadata}
}

// carry is what bulks and flows do with it: what a job brings itself goes first,
// the defaults of its queue have no say, and where the context is left out
// BullMQ stores tm: false.
func (o *JobOptions) carry(metadata string, own *JobOptions) {
	o.Telemetry = nil
	if own != nil {
		o.Telemetry = own.Telemetry
	}
	switch {
	case metadata == "" || o.Telemetry != nil && o.Telemetry.Metadata != "":
	case o.Telemetry != nil && o.Telemetry.OmitContext:
		o.Extra = maps.Clone(o.Extra)
		if o.Extra == nil {
			o.Extra = map[string]json.RawMessage{}
		}
		o.Extra["tm"] = json.RawMessage("false")
	default:
		o.Telemetry = &JobTelemetry{Metadata: metadata}
	}
}

// carryOn does the same with opts as they are stored, of a scheduler's next job.
func carryOn(opts, metadata string) (string, error) {
	if metadata == "" {
		return opts, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(opts), &fields); err != nil {
		return "", err
	}
	var own string
	switch {
	case json.Unmarshal(fields["tm"], &own) == nil && own != "":
		return opts, nil
	case string(fields["omc"]) == "true":
		fields["tm"] = json.RawMessage("false")
	default:
		text, err := wire.EncodeJSON(metadata)
		if err != nil {
			return "", err
		}
		fields["tm"] = json.RawMessage(text)
	}
	return wire.EncodeJSON(fields)
}

// describe says whose span it is.
func (w *Worker) describe(s span) {
	set(s, attrWorkerID, w.id)
	if w.o.Name != "" {
		set(s, attrWorkerName, w.o.Name)
	}
}

// startProcess begins the span in which a job is run, a child of the one that
// added it. Its context is the handler's.
func (w *Worker) startProcess(ctx context.Context, job *Job) (context.Context, span) {
	ctx, s := w.core.trace.start(w.core.trace.from(ctx, job), SpanConsumer, "process")
	w.describe(s)
	set(s, attrJobID, job.ID)
	set(s, attrJobName, job.Name)
	return ctx, s
}

// completed and failed tell how the attempt came out.
func (s span) completed(job *Job, res result) {
	if s.on() {
		s.event("job completed", Attribute{attrJobResult, res.json})
		set(s, attrJobAttemptsMade, job.AttemptsMade)
	}
}

func (s span) failed(job *Job, res result) {
	if s.on() {
		s.event("job failed", Attribute{attrJobFailedReason, res.err.Error()})
		set(s, attrJobAttemptsMade, job.AttemptsMade)
	}
}

// endProcess ends the span of startProcess; what is written by then is written.
func (w *Worker) endProcess(s span, job *Job) {
	if s.on() {
		set(s, attrJobFinished, w.core.nowMs())
		if !job.ProcessedOn.IsZero() {
			set(s, attrJobProcessed, job.ProcessedOn.UnixMilli())
		}
		s.done()
	}
}

// startEnd begins the span of the call that writes what becomes of a job, where
// BullMQ has one.
func (w *Worker) startEnd(ctx context.Context, job *Job, a action) (context.Context, span) {
	var operation string
	switch a {
	case complete:
		operation = "complete"
	case fail:
		operation = "fail"
	case retryNow:
		operation = "retry"
	case retryLater:
		operation = "delay"
	default:
		return ctx, span{}
	}
	ctx, s := w.core.trace.start(ctx, SpanInternal, operation)
	s.describe(job)
	return ctx, s
}

// startExtendLocks begins the span in which some locks are renewed.
func (w *Worker) startExtendLocks(ctx context.Context, locks []backend.Lock) (context.Context, span) {
	ctx, s := w.core.trace.start(ctx, SpanInternal, "extendLocks")
	if s.on() {
		ids := make([]string, len(locks))
		for i, lock := range locks {
			ids[i] = lock.JobID
		}
		w.describe(s)
		set(s, attrWorkerLocks, ids)
	}
	return ctx, s
}

// startClose begins the span in which the worker ends.
func (w *Worker) startClose(ctx context.Context) span {
	_, s := w.core.trace.start(ctx, SpanInternal, "close")
	w.describe(s)
	return s
}

// noteFetched records the span of a fetch, as BullMQ's getNextJob does. It begins
// once the job is known, because it belongs to the trace of the job.
func (w *Worker) noteFetched(ctx context.Context, job *Job, wait bool) {
	if w.core.trace.telemetry == nil {
		return
	}
	if job != nil {
		ctx = w.core.trace.from(ctx, job)
	}
	_, s := w.core.trace.start(ctx, SpanInternal, "getNextJob")
	w.describe(s)
	options := `{"block":false}`
	if wait {
		options = `{"block":true}`
	}
	set(s, attrWorkerOptions, options)
	if job != nil {
		set(s, attrJobID, job.ID)
	}
	s.done()
}
