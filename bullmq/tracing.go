package bullmq

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// Names of attributes, as in BullMQ.
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

// tracer starts the spans of one queue. Without a Telemetry it starts none and
// allocates nothing.
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

// startAdd begins the span of an add of a job with this name.
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

// inject returns the trace context to store with a job, or "" if there is none.
func (t tracer) inject(ctx context.Context) string {
	if t.telemetry == nil {
		return ""
	}
	metadata := t.telemetry.Inject(ctx)
	if metadata == "{}" {
		return "" // an empty carrier
	}
	return metadata
}

// from returns ctx with the trace context that is stored with a job.
func (t tracer) from(ctx context.Context, job *Job) context.Context {
	if t.telemetry == nil || job.Options.Telemetry == nil || job.Options.Telemetry.Metadata == "" {
		return ctx
	}
	return t.telemetry.Extract(ctx, job.Options.Telemetry.Metadata)
}

// outliving returns a context for writes that must be made even after ctx has ended.
func (t tracer) outliving(ctx context.Context) context.Context {
	if t.telemetry == nil {
		return context.Background()
	}
	return context.WithoutCancel(ctx)
}

// span is a Span that may be nil.
type span struct{ to Span }

// isRecording reports whether there is a Span.
func (s span) isRecording() bool { return s.to != nil }

// event adds an event. The caller must have checked isRecording.
func (s span) event(name string, attributes ...Attribute) { s.to.AddEvent(name, attributes...) }

// fail records an error that does not end the operation.
func (s span) fail(err error) {
	if s.to != nil {
		s.to.RecordError(err)
	}
}

// end ends the span. Call it by defer, with the address of the function's error, or
// with nil for an operation that can't fail.
func (s span) end(err *error) {
	if s.to == nil {
		return
	}
	if err != nil && *err != nil {
		s.to.RecordError(*err)
	}
	s.to.End()
}

// setAttr sets an attribute of a span. It is generic, so that the value is converted to
// an interface, which allocates, only if there is a span.
func setAttr[V any](s span, key string, value V) {
	if s.to != nil {
		s.to.SetAttributes(Attribute{key, value})
	}
}

// describe sets the attributes of the span's job.
func (s span) describe(job *Job) {
	setAttr(s, attrJobName, job.Name)
	setAttr(s, attrJobID, job.ID)
}

// carryAlone sets the trace context of a job for Add. It overrides the metadata in
// the job's options, unless the job has the option OmitContext.
func (o *JobOptions) carryAlone(metadata string, own *JobOptions) {
	if metadata == "" || own != nil && own.Telemetry != nil && own.Telemetry.OmitContext {
		return
	}
	o.Telemetry = &JobTelemetry{Metadata: metadata}
}

// carry sets the trace context of a job for bulks and flows. As in BullMQ, metadata in
// the job's options takes precedence, defaults of the queue are ignored, and tm: false
// is stored if the job has the option OmitContext.
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

// carryOn is carry for the stored options of a scheduler's next job.
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

// describe sets the attributes of the worker.
func (h *host) describe(s span) {
	setAttr(s, attrWorkerID, h.id)
	if h.options.Name != "" {
		setAttr(s, attrWorkerName, h.options.Name)
	}
}

// startProcess begins the span in which a job runs, a child of the span that added
// it. The returned context is passed to the handler.
func (w *queueWorker) startProcess(ctx context.Context, job *Job) (context.Context, span) {
	ctx, s := w.core.trace.start(w.core.trace.from(ctx, job), SpanConsumer, "process")
	w.describe(s)
	setAttr(s, attrJobID, job.ID)
	setAttr(s, attrJobName, job.Name)
	return ctx, s
}

// completed, failed and handedOver record the outcome of the attempt.
func (s span) completed(job *Job, res result) {
	if s.isRecording() {
		s.event("job completed", Attribute{attrJobResult, res.json})
		setAttr(s, attrJobAttemptsMade, job.AttemptsMade)
	}
}

func (s span) failed(job *Job, res result) {
	if s.isRecording() {
		s.event("job failed", Attribute{attrJobFailedReason, res.err.Error()})
		setAttr(s, attrJobAttemptsMade, job.AttemptsMade)
	}
}

func (s span) handedOver() {
	if s.isRecording() {
		s.event("job handed over")
	}
}

// endProcess ends the span of startProcess.
func (w *queueWorker) endProcess(s span, job *Job) {
	if s.isRecording() {
		setAttr(s, attrJobFinished, w.core.nowMs())
		if !job.ProcessedOn.IsZero() {
			setAttr(s, attrJobProcessed, job.ProcessedOn.UnixMilli())
		}
		s.end(nil)
	}
}

// startEnd begins the span of the call that writes the outcome of a job, if BullMQ
// has a span for it.
func (w *queueWorker) startEnd(ctx context.Context, job *Job, a action) (context.Context, span) {
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
func (w *queueWorker) startExtendLocks(ctx context.Context, locks []backend.Lock) (context.Context, span) {
	ctx, s := w.core.trace.start(ctx, SpanInternal, "extendLocks")
	if s.isRecording() {
		ids := make([]string, len(locks))
		for i, lock := range locks {
			ids[i] = lock.JobID
		}
		w.describe(s)
		setAttr(s, attrWorkerLocks, ids)
	}
	return ctx, s
}

// startClose begins the span in which the worker ends.
func (h *host) startClose(ctx context.Context) span {
	_, s := h.home.trace.start(ctx, SpanInternal, "close")
	h.describe(s)
	return s
}

// noteFetched records the span of a fetch, as BullMQ's getNextJob does. It begins
// once the job is known, because it belongs to the trace of the job.
func (w *queueWorker) noteFetched(ctx context.Context, job *Job, wait bool) {
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
	setAttr(s, attrWorkerOptions, options)
	if job != nil {
		setAttr(s, attrJobID, job.ID)
	}
	s.end(nil)
}
