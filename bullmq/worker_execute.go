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

// result is the result of a handler.
type result struct {
	value any
	json  string // value as JSON
	err   error
	stack string // of a panic or runtime.Goexit; "" otherwise
}

// slot runs jobs one after the other, until there is no job to run in this slot.
func (r *runner) slot(next handover) {
	var a *attempt
	defer func() {
		if a == nil || !a.movedOn {
			r.vacate()
		}
	}()
	for next.job != nil && !r.hardStopped() {
		a = &attempt{runner: r, w: next.w, job: next.job, lockedAt: next.lockedAt}
		a.begin()
		a.run()
		next = a.end()
	}
}

// attempt is one run of a job.
type attempt struct {
	runner   *runner
	w        *queueWorker
	job      *Job
	ctx      context.Context
	cancel   context.CancelCauseFunc
	handler  *handlerContext // of the handler, made of ctx; nil before run
	span     span
	res      result
	left     bool // the result is not written; the stalled check requeues the job
	lockedAt time.Time

	// Guarded by the runner's mu.
	stage     stage
	cancelled error  // the cause; nil unless the job was cancelled
	failure   string // with which a job that [Queue.Cancel] has cancelled fails; "" otherwise

	// movedOn is set if the handler called runtime.Goexit. Another goroutine then
	// runs the slot's jobs.
	movedOn bool
}

func (a *attempt) begin() {
	a.ctx, a.cancel = context.WithCancelCause(a.runner.base)
	a.w.locks.hold(a.job.ID, heldLock{token: a.job.token, renewed: a.lockedAt, lose: a.cancel})
	a.runner.track(a)
}

// run calls the handler, unless the job must fail without running.
func (a *attempt) run() {
	w, job := a.w, a.job
	if !a.advance() {
		a.left = true
		return
	}
	a.ctx, a.span = w.startProcess(a.ctx, job)
	a.handler = &handlerContext{Context: a.ctx, job: job, worker: w, number: job.AttemptsMade + 1}
	if a.res.err = w.refusal(job); a.res.err != nil {
		return
	}
	if a.res.err = w.redirect(a.ctx, job); a.res.err != nil {
		return
	}
	if w.o.Limits != nil {
		if a.res.err = a.admit(); a.res.err != nil {
			return
		}
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
		// A goroutine that called runtime.Goexit can't be recovered.
		a.res = result{err: errors.New("the handler ended its goroutine with runtime.Goexit"), stack: string(debug.Stack())}
		a.movedOn = true
		go func() {
			a.runner.slot(a.end())
		}()
	}()
	a.enter(handling)
	w.emit(WorkerEvent{Type: EventActive, Job: job})
	value, err := w.handler(a.handler, job)
	a.res, returned = outcome(value, err), true
}

// end writes the result and returns the slot's next job.
func (a *attempt) end() handover {
	defer a.cancel(nil)
	a.enter(returned)
	defer a.runner.untrack(a) // also if the result was not written
	defer a.w.source.ended(a.job.token)
	defer a.w.endProcess(a.span, a.job)
	if a.left || a.runner.hardStopped() {
		a.w.locks.release(a.job.ID, a.job.token)
		return handover{}
	}
	return a.commit()
}

// PanicError is the error of an attempt whose handler panicked. The job's StackTrace has
// the stack.
type PanicError struct {
	Value any // of the panic
	Stack string
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value of the panic if that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

func panicked(p any) result {
	stack := string(debug.Stack())
	return result{err: &PanicError{Value: p, Stack: stack}, stack: stack}
}

// advance adds the next job of the job's scheduler, if it has one. If the lock is not
// renewed, it stops retrying when the lock expires.
func (a *attempt) advance() bool {
	if a.job.SchedulerID == "" {
		return true
	}
	ctx := a.ctx
	if a.w.o.SkipLockRenewal {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, a.lockedAt.Add(a.w.o.LockDuration))
		defer cancel()
	}
	return a.advanceWithin(ctx)
}

// advanceWithin adds the next job of the scheduler that added this job. It retries while
// the worker holds the job, because no other job would add the next one. It returns false
// if the job must be left to the stalled check.
func (a *attempt) advanceWithin(ctx context.Context) bool {
	w, job := a.w, a.job
	var outage timing.Backoff
	for {
		call, cancel := context.WithTimeout(ctx, timing.CallTimeout)
		err := w.advance(call, job)
		cancel()
		var stopped *scheduleError
		var refused *Error
		switch {
		case err == nil:
			return true
		case errors.As(err, &stopped), errors.As(err, &refused):
			w.fault(err, "a job scheduler stops; its last job runs; correct it with Queue.UpsertScheduler", logJob, job.ID, logName, job.Name)
			return true
		case ctx.Err() != nil:
			return false
		}
		w.fault(err, "the next job of a scheduler could not be added; retrying before this job runs", logJob, job.ID, logName, job.Name)
		select {
		case <-time.After(outage.Next()):
		case <-ctx.Done():
			return false
		case <-a.runner.hard:
			return false
		}
	}
}

// refusal returns the reason why a job must fail without running, or nil.
func (w *queueWorker) refusal(job *Job) error {
	switch {
	case job.DeferredFailure != "":
		return Unrecoverable(errors.New(job.DeferredFailure))
	case job.invalid != nil:
		return Unrecoverable(job.invalid)
	case w.o.MaxStartedAttempts > 0 && job.AttemptsStarted > w.o.MaxStartedAttempts:
		return Unrecoverable(errors.New("job started more than allowable limit"))
	}
	return nil
}

// maxStarted returns the number of starts after which a failed job is not retried.
// BullMQ 5 retries it and fails it at the next start.
func (w *queueWorker) maxStarted() int {
	if w.core.dialect == V5 {
		return 0
	}
	return w.o.MaxStartedAttempts
}

// outcome converts what a handler returned to a result. A value that can't be encoded
// as JSON is a failure.
func outcome(value any, err error) result {
	if err != nil {
		// The methods of err are user code and may panic. Here the panic is
		// recovered, later it would not be.
		_, _ = err.Error(), errors.Is(err, ErrUnrecoverable)
		return result{err: err}
	}
	text, err := wire.EncodeJSON(value)
	if err != nil {
		return result{err: fmt.Errorf("the handler's result, a %T, can't be written as JSON: %w", value, err)}
	}
	return result{value: value, json: text}
}

// stackTrace returns the entry of the failure in the job's stack traces: the stack of
// a panic, or the error formatted with %+v, which includes a stack if it has one. For a
// cancelled job it includes the handler's error too.
func (res result) stackTrace() string {
	if res.stack != "" {
		return strings.TrimSpace(res.err.Error() + "\n" + res.stack)
	}
	if cancelled, ok := res.err.(*cancelFailure); ok {
		return fmt.Sprintf("%s\n%+v", cancelled.text, cancelled.cause)
	}
	return fmt.Sprintf("%+v", res.err)
}

// traces returns the job's stack traces with newest at the end, within the job's
// limit.
func traces(job *Job, newest string) []string {
	switch limit := job.Options.StackTraceLimit; {
	case limit == NoStackTraces:
		return []string{}
	case limit > 0:
		all := append(append([]string{}, job.StackTrace...), newest)
		return all[max(0, len(all)-limit):]
	default:
		return append(append([]string{}, job.StackTrace...), newest)
	}
}

// stage is the progress of an attempt.
type stage int

const (
	preparing stage = iota // the handler is not called yet; cancelling this stage would leave the job
	handling
	returned
)

// enter moves the attempt to a stage.
func (a *attempt) enter(next stage) {
	a.runner.mu.Lock()
	defer a.runner.mu.Unlock()
	a.stage = next
	a.heedCancel()
}

// heedCancel cancels the handler's context if the attempt was cancelled. The caller
// holds the runner's mu.
func (a *attempt) heedCancel() {
	if a.stage == handling && a.cancelled != nil {
		a.cancel(a.cancelled)
	}
}
