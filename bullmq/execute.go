package bullmq

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
)

// result is how a handler ended.
type result struct {
	value any
	json  string // value as JSON
	err   error
	stack string // of a panic; "" otherwise
}

// process sees one job through, on a slot's goroutine, and answers the next
// job of that slot.
func (r *runner) process(job *Job, taken time.Time) (*Job, time.Time) {
	w := r.w
	ctx, cancel := context.WithCancelCause(r.base)
	defer cancel(nil)
	w.locks.hold(job.ID, job.token, taken, cancel)
	r.track(job.ID, true)

	if !r.advance(ctx, job) {
		w.locks.release(job.ID, job.token)
		r.track(job.ID, false)
		return nil, taken
	}
	res, ended := result{}, true
	if refusal := w.refusal(job); refusal != nil {
		res.err = refusal
	} else {
		if w.o.Events.Active != nil {
			w.guard("Active", func() { w.o.Events.Active(job) })
		}
		res, ended = r.handle(ctx, job)
	}
	if !ended {
		w.locks.release(job.ID, job.token)
		return nil, taken
	}
	r.track(job.ID, false)
	return r.commit(ctx, job, res)
}

// advance lets the scheduler that made the job go on, if one did. It is tried
// for as long as the job is held, since no other job would do it; false means
// that the job is left to be started again by the stalled check.
func (r *runner) advance(ctx context.Context, job *Job) bool {
	if job.SchedulerID == "" {
		return true
	}
	var outage backoffTimer
	for {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		err := r.w.advance(call, job)
		cancel()
		var stopped *scheduleError
		var refused *Error
		switch {
		case err == nil:
			return true
		case errors.As(err, &stopped), errors.As(err, &refused):
			r.w.fault(err, "a scheduler stops; the job that it made runs")
			return true
		case ctx.Err() != nil:
			return false
		}
		r.w.fault(err, "the next run of a scheduler could not be added yet; trying again before its job runs")
		select {
		case <-time.After(outage.next()):
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

// handle calls the handler on a goroutine of its own, since it may end that
// with runtime.Goexit, or never. ended is false when it is waited for no longer.
func (r *runner) handle(ctx context.Context, job *Job) (res result, ended bool) {
	done := make(chan result, 1)
	go func() {
		res := result{err: errors.New("the handler ended its goroutine with runtime.Goexit")}
		returned := false
		defer func() {
			if !returned {
				if p := recover(); p != nil {
					res = result{err: fmt.Errorf("panic: %v", p), stack: string(debug.Stack())}
					if err, ok := p.(error); ok {
						res.err = fmt.Errorf("panic: %w", err)
					}
				}
			}
			done <- res
		}()
		value, err := r.w.handler(ctx, job)
		res, returned = outcome(value, err), true
	}()
	select {
	case res = <-done:
		return res, true
	case <-r.hard:
		select {
		case res = <-done:
			return res, true
		default:
			return result{}, false
		}
	}
}

// outcome turns what a handler returned into a result; a value that JSON can't
// hold is a failure.
func outcome(value any, err error) result {
	if err != nil {
		return result{err: err}
	}
	text, err := encodeJSON(value)
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
