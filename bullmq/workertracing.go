package bullmq

import (
	"context"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/scripts"
)

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
	operation := ""
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
func (w *Worker) startExtendLocks(ctx context.Context, locks []scripts.Lock) (context.Context, span) {
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

// noteHandedOut is the span of GetNextJob. It begins when the job is known,
// whose context is its own.
func (w *Worker) noteHandedOut(ctx context.Context, job *Job, wait time.Duration) {
	if w.core.trace.telemetry == nil {
		return
	}
	if job != nil {
		ctx = w.core.trace.from(ctx, job)
	}
	_, s := w.core.trace.start(ctx, SpanInternal, "getNextJob")
	w.describe(s)
	options := `{"block":false}`
	if wait > 0 {
		options = `{"block":true}`
	}
	set(s, attrWorkerOptions, options)
	if job != nil {
		set(s, attrJobID, job.ID)
	}
	s.done()
}
