package bullmq

import "errors"

// ErrCancelled is what a *CancelledError is, for errors.Is.
var ErrCancelled = errors.New("bullmq: the job is cancelled")

// CancelledError is the cause with which CancelJob and CancelAllJobs end a
// handler's context.
type CancelledError struct {
	Reason string // as it was given; may be empty
}

func (e *CancelledError) Error() string {
	if e.Reason == "" {
		return ErrCancelled.Error()
	}
	return ErrCancelled.Error() + ": " + e.Reason
}

func (e *CancelledError) Unwrap() error { return ErrCancelled }

// CancelJob ends the context of the handler that runs a job in this worker,
// with a *CancelledError as its cause, and says whether there is one. Nothing
// is written: what becomes of the job is what its handler returns, as ever. An
// error is a failed attempt, after which others may follow; Unrecoverable fails
// the job for good, Snooze gives it back, and a value completes it (BullMQ:
// worker.cancelJob).
func (w *Worker) CancelJob(jobID, reason string) bool {
	return w.cancelHandlers(reason, func(job *Job) bool { return job.ID == jobID }) > 0
}

// CancelAllJobs is CancelJob for all jobs that run in this worker, and answers
// how many there are. New ones are still taken, unless the worker is paused or
// stops (BullMQ: worker.cancelAllJobs).
func (w *Worker) CancelAllJobs(reason string) int {
	return w.cancelHandlers(reason, func(*Job) bool { return true })
}

func (w *Worker) cancelHandlers(reason string, meant func(*Job) bool) int {
	r := w.current()
	if r == nil {
		return 0
	}
	cause := &CancelledError{Reason: reason}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for a := range r.running {
		if a.stage != returned && meant(a.job) {
			a.cancelled = cause
			a.heedCancel()
			n++
		}
	}
	return n
}

// stage is how far an attempt is, as to its handler.
type stage int

const (
	preparing stage = iota // not called yet: what comes before isn't cancelled, or the job would be left
	handling
	returned
)

// enter begins a stage.
func (a *attempt) enter(next stage) {
	a.runner.mu.Lock()
	defer a.runner.mu.Unlock()
	a.stage = next
	a.heedCancel()
}

// heedCancel passes a cancellation on to the handler; the caller holds the
// runner's mu.
func (a *attempt) heedCancel() {
	if a.stage == handling && a.cancelled != nil {
		a.cancel(a.cancelled)
	}
}
