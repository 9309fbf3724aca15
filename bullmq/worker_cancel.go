package bullmq

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// ErrCancelled matches every [*CancelledError] with errors.Is.
var ErrCancelled = errors.New("bullmq: the job is cancelled")

// CancelledError is the cause with which [Queue.Cancel], [Worker.CancelJob] and
// [Worker.CancelAllJobs] cancel a handler's context. [Job.ExtendLock] returns an error that
// wraps it for a cancelled job of a [Fetcher].
type CancelledError struct {
	Reason string // as passed to Cancel; may be empty
}

func (e *CancelledError) Error() string {
	if e.Reason == "" {
		return ErrCancelled.Error()
	}
	return ErrCancelled.Error() + ": " + e.Reason
}

func (e *CancelledError) Unwrap() error { return ErrCancelled }

// CancelJob cancels the context of the handler that runs a job in this worker, with a
// [*CancelledError] as the cause (BullMQ: worker.cancelJob). It reports whether this
// worker runs the job.
//
// CancelJob writes nothing to Redis. After it, the handler's return value determines the
// outcome of the job, as always: an error fails the attempt, [Unrecoverable] fails the
// job without a retry, [Snooze] requeues it, and a value completes it. To cancel a job in
// any process and without a retry, use [Queue.Cancel].
func (w *queueWorker) CancelJob(jobID, reason string) bool {
	return w.cancelHandlers(reason, func(a *attempt) bool { return a.w == w && a.job.ID == jobID }) > 0
}

// CancelAllJobs cancels all jobs that run in this worker, as [Worker.CancelJob] does,
// and returns their number (BullMQ: worker.cancelAllJobs). The worker still fetches
// jobs, unless it is paused or stopping.
func (h *host) CancelAllJobs(reason string) int {
	return h.cancelHandlers(reason, func(*attempt) bool { return true })
}

func (h *host) cancelHandlers(reason string, meant func(*attempt) bool) int {
	r := h.current()
	if r == nil {
		return 0
	}
	cause := &CancelledError{Reason: reason}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for a := range r.running {
		if a.stage != returned && meant(a) {
			a.cancelled = cause
			a.heedCancel()
			n++
		}
	}
	return n
}

// cancelOwn cancels the handler of a job that [Queue.Cancel] has cancelled. If the
// handler then returns an error, the job fails with the text of failure.
func (w *queueWorker) cancelOwn(c backend.Cancellation) {
	r := w.current()
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for a := range r.running {
		if a.w != w || a.job.ID != c.JobID || a.stage == returned || a.failure != "" {
			continue
		}
		a.failure = c.Failure
		if a.cancelled == nil {
			a.cancelled = &CancelledError{Reason: cancelReason(c.Failure)}
		}
		a.heedCancel()
	}
}

// cancelFailure is the error of a job that [Queue.Cancel] has cancelled and whose
// handler has returned an error. It has no retry.
type cancelFailure struct {
	text  string
	cause error // of the handler
}

func (e *cancelFailure) Error() string   { return e.text }
func (e *cancelFailure) Unwrap() []error { return []error{e.cause, ErrUnrecoverable} }

// cancellation returns the error that tells a program which has fetched the job that it is
// cancelled.
func (j *Job) cancellation(c backend.Cancellation) error {
	failure := &cancelFailure{c.Failure, &CancelledError{Reason: cancelReason(c.Failure)}}
	return fmt.Errorf("bullmq: job %s of %s was %w", j.ID, j.QueueName(), failure)
}

// isCancelled reports whether a job that has failed with err was cancelled by
// [Queue.Cancel], while it ran or before.
func isCancelled(job *Job, err error) bool {
	return failedByCancel(err) || isCancelText(job.DeferredFailure)
}

// failedByCancel reports whether err is that of a job that [Queue.Cancel] has cancelled
// while it ran.
func failedByCancel(err error) bool {
	var running *cancelFailure
	return errors.As(err, &running)
}

// wasCancelled reports whether an attempt that has failed with err was cancelled by
// [Queue.Cancel] or [Worker.CancelJob].
func (a *attempt) wasCancelled(err error) bool {
	return isCancelled(a.job, err) || errors.Is(context.Cause(a.ctx), ErrCancelled)
}

// ended returns the error of an attempt: that of the handler, or a cancelFailure if the
// job was cancelled by [Queue.Cancel].
func (a *attempt) ended(err error) error {
	a.runner.mu.Lock()
	defer a.runner.mu.Unlock()
	if err == nil || a.failure == "" {
		return err
	}
	return &cancelFailure{a.failure, err}
}

// cancelWatch notices jobs of a worker that [Queue.Cancel] has cancelled. It polls the
// stream of cancellations: often while a handler runs for a while, and rarely otherwise.
// The stream makes it fast. The renewal of the locks returns the cancelled jobs too.
type cancelWatch struct {
	worker *queueWorker
	after  string // the id of the last entry
	polled time.Time
}

func newCancelWatch(w *queueWorker) *cancelWatch {
	return &cancelWatch{worker: w, after: firstCancelRequest(), polled: time.Now()}
}

// firstCancelRequest returns the id after which a worker that starts now reads requests.
// Entries that were read before do no harm: the jobs themselves say whether they are
// cancelled. So the server's clock may differ.
func firstCancelRequest() string {
	since := time.Now().Add(-time.Minute).UnixMilli()
	return strconv.FormatInt(since, 10) + "-0"
}

func (c *cancelWatch) run(ctx context.Context) {
	var outage timing.Backoff
	for wait := timing.CancelPollInterval; ; {
		if timing.Sleep(ctx, wait); ctx.Err() != nil {
			return
		}
		wait = timing.CancelPollInterval
		if time.Since(c.polled) < timing.IdleCancelPollInterval && !c.worker.runsSince(time.Now().Add(-wait)) {
			continue
		}
		if err := c.poll(ctx); err != nil {
			wait = max(wait, outage.Next())
			if classify(err).Lasting() { // such as for want of permission
				wait = timing.IdleCancelPollInterval
			}
			c.worker.core.log.Debug("cancellations could not be read; the renewal of locks returns them later", logError, err)
			continue
		}
		outage.Succeeded()
	}
}

// poll reads the entries since the last poll.
func (c *cancelWatch) poll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timing.CallTimeout)
	defer cancel()
	c.polled = time.Now()
	w := c.worker
	for {
		requests, err := w.core.store.CancelRequests(ctx, c.after)
		if err != nil || len(requests) == 0 {
			return err
		}
		if err := w.applyCancelRequests(ctx, requests); err != nil {
			return err
		}
		c.after = requests[len(requests)-1].ID
	}
}

// applyCancelRequests records the cancellations that are not yet, and cancels the jobs
// that this worker runs.
func (w *queueWorker) applyCancelRequests(ctx context.Context, requests []backend.CancelRequest) error {
	own := []string{}
	for _, request := range requests {
		if request.JobID == "" {
			continue
		}
		if !request.Recorded {
			_, err := w.core.store.Cancel(ctx, request.JobID, cancelText(request.Reason), request.Reason, request.ID)
			if err != nil && !errors.Is(err, ErrJobNotFound) {
				return err
			}
		}
		if w.runs(request.JobID) {
			own = append(own, request.JobID)
		}
	}
	if len(own) == 0 {
		return nil
	}
	cancelled, err := w.core.store.Cancellations(ctx, own)
	for _, one := range cancelled {
		w.cancelOwn(one)
	}
	return err
}

// runs reports whether the worker runs a job.
func (w *queueWorker) runs(jobID string) bool {
	r := w.current()
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for a := range r.running {
		if a.w == w && a.job.ID == jobID {
			return true
		}
	}
	return false
}

// runsSince reports whether the worker runs a job that it fetched before a time.
func (w *queueWorker) runsSince(before time.Time) bool {
	r := w.current()
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for a := range r.running {
		if a.w == w && a.lockedAt.Before(before) {
			return true
		}
	}
	return false
}
