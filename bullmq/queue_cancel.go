package bullmq

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// CancelOutcome is what [Queue.Cancel] has found and done: [CancelQueued] for a job that was
// not running, [CancelRunning] for one that runs, and [CancelFinished] for one that had
// completed or failed already. The texts are "queued", "running" and "finished".
type CancelOutcome string

// The outcomes of [Queue.Cancel].
const (
	// CancelQueued means that the job was not running. It is now at the front of its
	// queue. The next worker that fetches it fails it without calling its handler.
	CancelQueued CancelOutcome = "queued"
	// CancelRunning means that the job is running. Its worker is told to cancel the
	// handler. This is a request: the job may complete before the worker notices. A job
	// that is shorter than about a second usually completes.
	CancelRunning CancelOutcome = "running"
	// CancelFinished means that the job had already completed or failed. Nothing was
	// changed.
	CancelFinished CancelOutcome = "finished"
)

// Cancel cancels a job of the queue, in whichever process it runs or waits. The job fails
// with the failedReason "cancelled: " and the reason, or "cancelled" if the reason is
// empty. It is not retried. [Job.Cancelled] tells such a job from others that have failed.
// A job that is cancelled can be run again by [Job.Retry].
//
// A job that is not running is moved to the front of its queue, whether it is waiting,
// prioritized, delayed or waiting for children. The next worker that fetches it, of
// bullmq-go or of BullMQ, fails it without calling its handler. While the queue is paused,
// no worker fetches it. Children of a parent are not cancelled.
//
// If the job is running, a [Worker] cancels the context of its handler with a
// [*CancelledError] as the cause. It usually notices within a second, and at the latest
// when it renews the job's lock; see WorkerOptions.LockRenewTime. If the handler then
// returns any error, the job fails with the reason, and its StackTrace has the error. If
// the handler returns a value, the job completes.
//
// A worker of BullMQ stops its processor only if you add a few lines of code, which
// docs/cancelling.md shows. Otherwise the processor runs to its end. If it throws and the
// job is retried, the job fails with the reason at its next start.
//
// Cancel returns [ErrJobNotFound] if there is no such job. It may be called several
// times for a job, for example after an error.
func (q *Queue) Cancel(ctx context.Context, jobID, reason string) (_ CancelOutcome, err error) {
	ctx, span := q.core.trace.start(ctx, SpanInternal, "cancel")
	defer span.end(&err)
	setAttr(span, attrJobID, jobID)
	outcome, err := q.core.store.Cancel(ctx, jobID, cancelText(reason), reason, "")
	switch {
	case err != nil:
		return "", err
	case outcome == backend.CancelQueued:
		return CancelQueued, nil
	case outcome == backend.CancelRunning:
		return CancelRunning, nil
	case outcome == backend.CancelFinished:
		return CancelFinished, nil
	}
	return "", fmt.Errorf("bullmq: cancel job %s of %s: the script returned %d, which is no outcome", jobID, q.Name(), outcome)
}

// Cancelled reports whether the job has failed because [Queue.Cancel] or a Node program has
// cancelled it, and the reason of the cancellation. The job may have ended in a worker of
// bullmq-go or of BullMQ. Cancelled makes no call to Redis.
//
// It returns false for a job that:
//
//   - was cancelled and has not ended yet, or has completed all the same
//   - has failed with another error, such as one that a processor in Node has thrown
//   - a Node program has cancelled while it ran in Node, if no worker of bullmq-go has marked
//     it before it ended
//   - has no record, such as one from [Queue.JobRef]
//   - is nil, as one that is returned with an error
func (j *Job) Cancelled() (reason string, cancelled bool) {
	// The field cancelled may be that of an earlier run, so the reason of the failure must be
	// that of a cancellation too. FailedReason stays when a later attempt completes.
	if j == nil || !j.cancelled || j.FinishedOn.IsZero() || j.ReturnValue != nil || !isCancelText(j.FailedReason) {
		return "", false
	}
	return cancelReason(j.FailedReason), true
}

const cancelPrefix = "cancelled"

// cancelText returns the failedReason of a cancelled job.
func cancelText(reason string) string {
	if reason == "" {
		return cancelPrefix
	}
	return cancelPrefix + ": " + reason
}

// isCancelText reports whether cancelText may have made the text.
func isCancelText(text string) bool {
	return text == cancelPrefix || strings.HasPrefix(text, cancelPrefix+": ")
}

// cancelReason returns the reason from which cancelText made the text. It returns any
// other text unchanged.
func cancelReason(text string) string {
	if text == cancelPrefix {
		return ""
	}
	return cmp.Or(strings.TrimPrefix(text, cancelPrefix+": "), text)
}
