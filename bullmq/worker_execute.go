package bullmq

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// result is how a handler ended.
type result struct {
	value any
	json  string // value as JSON
	err   error
	stack string // of a panic or runtime.Goexit; "" otherwise
}

// slot sees jobs through, one after the other, on a goroutine of its own,
// until there is none left for it.
func (r *runner) slot(job *Job, taken time.Time) {
	var a *attempt
	defer func() {
		if a == nil || !a.movedOn {
			r.vacate()
		}
	}()
	for job != nil && !r.hardStopped() {
		a = &attempt{runner: r, job: job}
		a.begin(taken)
		a.run()
		job, taken = a.end()
	}
}

// attempt is one job on its slot.
type attempt struct {
	runner *runner
	job    *Job
	ctx    context.Context
	cancel context.CancelCauseFunc
	span   span
	res    result
	left   bool // not to be written: the job is left to the stalled check

	// of the runner's mu:
	stage     stage
	cancelled error // why, once it is

	// movedOn: the handler has ended its goroutine with runtime.Goexit, and another
	// one runs the slot's jobs.
	movedOn bool
}

func (a *attempt) begin(taken time.Time) {
	a.ctx, a.cancel = context.WithCancelCause(a.runner.base)
	a.runner.w.locks.hold(a.job.ID, a.job.token, taken, a.cancel)
	a.runner.track(a)
}

// run calls the handler, unless the job must fail without.
func (a *attempt) run() {
	w, job := a.runner.w, a.job
	if !a.runner.advance(a.ctx, job) {
		a.left = true
		return
	}
	a.ctx, a.span = w.startProcess(a.ctx, job)
	if a.res.err = w.refusal(job); a.res.err != nil {
		return
	}
	returned := false
	defer func() {
		if returned {
			return
		}
		if p := recover(); p != nil {
			a.res = panicked(p)
			return
		}
		// Nothing can keep a goroutine that calls runtime.Goexit.
		a.res = result{err: errors.New("the handler ended its goroutine with runtime.Goexit"), stack: string(debug.Stack())}
		a.movedOn = true
		go func() {
			next, taken := a.end()
			a.runner.slot(next, taken)
		}()
	}()
	a.enter(handling)
	w.emit(WorkerEvent{Type: EventActive, Job: job})
	value, err := w.handler(a.ctx, job)
	a.res, returned = outcome(value, err), true
}

// end writes the outcome and answers the slot's next job.
func (a *attempt) end() (*Job, time.Time) {
	defer a.cancel(nil)
	a.enter(returned)
	r := a.runner
	defer r.untrack(a) // where it was not written either
	defer r.w.endProcess(a.span, a.job)
	if a.left || r.hardStopped() {
		r.w.locks.release(a.job.ID, a.job.token)
		return nil, time.Time{}
	}
	return r.commit(a)
}

func panicked(p any) result {
	res := result{err: fmt.Errorf("panic: %v", p), stack: string(debug.Stack())}
	if err, ok := p.(error); ok {
		res.err = fmt.Errorf("panic: %w", err)
	}
	return res
}

// advance lets the scheduler that made the job go on, if one did. It is tried
// for as long as the job is held, since no other job would do it; false means
// that the job is left to be started again by the stalled check.
func (r *runner) advance(ctx context.Context, job *Job) bool {
	if job.SchedulerID == "" {
		return true
	}
	var outage timing.Backoff
	for {
		call, cancel := context.WithTimeout(ctx, timing.CallTimeout)
		err := r.w.advance(call, job)
		cancel()
		var stopped *scheduleError
		var refused *Error
		switch {
		case err == nil:
			return true
		case errors.As(err, &stopped), errors.As(err, &refused):
			r.w.fault(err, "a job scheduler stops; its last job runs; correct it with Queue.UpsertScheduler", logJob, job.ID, logName, job.Name)
			return true
		case ctx.Err() != nil:
			return false
		}
		r.w.fault(err, "the next job of a scheduler could not be added; retrying before this job runs", logJob, job.ID, logName, job.Name)
		select {
		case <-time.After(outage.Next()):
		case <-ctx.Done():
			return false
		case <-r.hard:
			return false
		}
	}
}

// refusal is why a job must fail without its handler being called.
func (w *Worker) refusal(job *Job) error {
	switch {
	case job.DeferredFailure != "":
		return Unrecoverable(errors.New(job.DeferredFailure))
	case job.flaw != nil:
		return Unrecoverable(job.flaw)
	case w.o.MaxStartedAttempts > 0 && job.AttemptsStarted > w.o.MaxStartedAttempts:
		return Unrecoverable(errors.New("job started more than allowable limit"))
	}
	return nil
}

// maxStarted is the number of starts after which a failed job isn't tried
// again; BullMQ 5 tries it again, and fails it at the next start.
func (w *Worker) maxStarted() int {
	if w.core.dialect == V5 {
		return 0
	}
	return w.o.MaxStartedAttempts
}

// outcome turns what a handler returned into a result; a value that JSON can't
// hold is a failure.
func outcome(value any, err error) result {
	if err != nil {
		// Its methods are the user's too: what panics in them does so here, where it
		// is caught, and not on the way to Redis.
		_, _ = err.Error(), errors.Is(err, ErrUnrecoverable)
		return result{err: err}
	}
	text, err := wire.EncodeJSON(value)
	if err != nil {
		return result{err: fmt.Errorf("the handler's result, a %T, can't be written as JSON: %w", value, err)}
	}
	return result{value: value, json: text}
}

// stackTrace is what the job keeps of this failure: the stack of a panic, what
// an error that carries a stack prints with %+v, or the error's text.
func (res result) stackTrace() string {
	if res.stack != "" {
		return strings.TrimSpace(res.err.Error() + "\n" + res.stack)
	}
	return fmt.Sprintf("%+v", res.err)
}

// traces adds a failure to those that the job has, within its limit. What is
// there stays, the newest is the last.
func traces(job *Job, newest string) []string {
	switch limit := job.Opts.StackTraceLimit; {
	case limit == NoStackTraces:
		return []string{}
	case limit > 0:
		all := append(append([]string{}, job.StackTrace...), newest)
		return all[max(0, len(all)-limit):]
	default:
		return append(append([]string{}, job.StackTrace...), newest)
	}
}

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
