package bullmq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// runStalledCheck checks for stalled jobs at once and then every StalledInterval,
// until ctx ends. It makes no check while the worker is paused, and one at once after
// it is resumed. The interval begins at the end of a check, because Redis skips a check
// that is made before the interval has passed. checked is closed after the first check.
func (w *queueWorker) runStalledCheck(ctx context.Context, checked chan<- struct{}) {
	_, span := w.core.trace.start(ctx, SpanInternal, "startStalledCheckTimer")
	w.describe(span)
	span.end(nil)
	var outage timing.Backoff
	for first := true; first || ctx.Err() == nil; first = false {
		paused, turn := w.slots.paused()
		var next <-chan time.Time
		if !paused {
			callCtx := ctx
			if first { // made even if the worker stops at once
				callCtx = context.WithoutCancel(ctx)
			}
			pause := w.o.StalledInterval
			if w.checkStalled(callCtx) {
				outage.Succeeded()
			} else {
				pause = max(pause, outage.Next())
			}
			next = time.After(pause)
		}
		if first {
			close(checked)
		}
		select {
		case <-next:
		case <-turn.Done():
		case <-ctx.Done():
		}
	}
}

// checkStalled makes one check and reports whether it succeeded.
func (w *queueWorker) checkStalled(ctx context.Context) bool {
	callCtx, cancel := context.WithTimeout(ctx, timing.CallTimeout)
	defer cancel()
	ids, err := w.findStalled(callCtx)
	if err != nil && ctx.Err() == nil {
		w.fault(err, "the check for stalled jobs failed; it is repeated after StalledInterval")
	}
	for _, id := range ids {
		w.host.reportStalled(w.core.log, w.QueueName(), id)
	}
	return err == nil
}

func (h *host) reportStalled(log *slog.Logger, queueName, jobID string) {
	log.Warn("a job stalled: its worker no longer renewed its lock; the job is waiting again; check whether that worker ended or was blocked", logJob, jobID)
	h.emit(WorkerEvent{Type: EventStalled, QueueName: queueName, JobIDs: []string{jobID}})
}

// findStalled checks for stalled jobs once and returns the ids of those that it moved
// back to waiting. A job is stalled if two checks find it without a lock. All workers
// together make at most one check in each StalledInterval.
func (w *queueWorker) findStalled(ctx context.Context) (jobIDs []string, err error) {
	ctx, span := w.core.trace.start(ctx, SpanInternal, "moveStalledJobsToWait")
	defer span.end(&err)
	w.describe(span)
	ctx, cancel := w.untilClosed(ctx)
	defer cancel()
	jobIDs, err = w.core.store.MoveStalledJobsToWait(ctx, w.core.now(), max(w.o.MaxStalledCount, 0), w.o.StalledInterval)
	err = w.cutOff(err)
	if span.isRecording() && err == nil {
		setAttr(span, attrWorkerStalledJobs, jobIDs)
		for _, id := range jobIDs {
			span.event("job stalled", Attribute{attrJobID, id})
		}
	}
	return jobIDs, err
}

// untilClosed returns a context that also ends when the worker is closed. It ends calls
// over a shared client.
func (h *host) untilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	forget := context.AfterFunc(h.closed, func() { cancel(ErrClosed) })
	return ctx, func() {
		forget()
		cancel(nil)
	}
}

// cutOff returns the error of a call whose context ended because the worker was
// closed.
func (w *queueWorker) cutOff(err error) error {
	if errors.Is(err, context.Canceled) && w.closed.Err() != nil {
		return fmt.Errorf("bullmq: queue %s: %w", w.QueueName(), backend.ErrCutOff)
	}
	return err
}
