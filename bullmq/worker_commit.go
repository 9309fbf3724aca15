package bullmq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// commit is one outcome on its way to Redis. It goes through these states:
//
//	sent → done | refused | unknown
//	unknown → done | notDone | lockLost
//	notDone → sent
//
// It ignores cancellation, and sends the outcome until the lock expires. After a lost
// reply it reads the job's state before it sends anything again.
type commit struct {
	a     *attempt
	d     decision
	res   result
	until time.Time // when the lock expires

	outage timing.Backoff
	// replyLost reports that it was unknown what an earlier send had done. A refusal
	// may then mean that the earlier send was carried out.
	replyLost bool
}

type commitState int

const (
	commitDone     commitState = iota // the outcome is written
	commitRefused                     // the job's state does not allow it
	commitUnknown                     // the reply was lost, or Redis could not be reached
	commitNotDone                     // nothing is written, and the lock is still held
	commitLockLost                    // the lock has expired, or Run no longer waits
)

// commit writes the outcome of a job, and fetches the slot's next job in the same call.
// It returns that job.
func (a *attempt) commit() handover {
	w, job, res := a.w, a.job, a.res
	if res.err != nil { // guarded, because the user's code may define the methods of the error
		w.guard("the handler's error", func() { res.err = childrenFailure(job, res.err) })
		res.err = a.ended(res.err)
	}
	d := w.decide(a.ctx, job, &res)
	if d.action == giveBack || d.action == limited && d.wait == 0 {
		w.pauseBeforeRerun(a.ctx, job)
	}
	c := &commit{a: a, d: d, res: res, until: w.locks.release(job.ID, job.token)}
	return c.sendUntilResolved()
}

// sendUntilResolved sends the outcome until it is known to be written, refused or too
// late.
func (c *commit) sendUntilResolved() handover {
	r, w, job := c.a.runner, c.a.w, c.a.job
	for alone := false; ; alone = true {
		begun := time.Now()
		fetch := !r.stopping() && w.source.mayFetch() && r.slots.reserveNext()
		next, state, err := c.send(fetch, alone)
		if state == commitUnknown {
			next, state = c.resolveCommit(err)
		}
		if fetch {
			r.slots.settle(false)
		}
		switch state {
		case commitDone:
			c.committed(next)
			if next.Job != nil || next.looked {
				return w.source.take(next, begun)
			}
			w.source.markDirty() // the call did not look for a next job, so the feed must
			return handover{}
		case commitNotDone:
			continue
		case commitRefused:
			if (c.d.action == complete || c.d.action == waitForChildren) && refusedForChildren(err) {
				c.res = result{err: c.a.ended(childrenFailure(job, err))}
				c.d = w.decide(c.a.ctx, job, &c.res)
				continue
			}
			w.fault(err, "the result of a job was refused and is dropped; the error names the reason", logJob, job.ID, logName, job.Name)
		case commitLockLost:
			w.fault(err, "the result of a job could not be written before its lock expired; the job will run again", logJob, job.ID, logName, job.Name)
		}
		w.source.markDirty()
		return handover{}
	}
}

// send sends the outcome once.
func (c *commit) send(fetch, alone bool) (found, commitState, error) {
	d, w := c.d, c.a.w
	next, err := w.write(w.core.trace.outliving(c.a.ctx), c.a.job, &c.d, c.res, fetch, alone)
	switch {
	case err == nil && d.action == waitForChildren && c.d.action == giveBack:
		// The lock is not renewed during this pause.
		ctx, cancel := context.WithTimeout(c.a.ctx, time.Until(c.until)/2)
		w.pauseBeforeRerun(ctx, c.a.job)
		cancel()
		return next, commitNotDone, nil
	case err == nil:
		return next, commitDone, nil
	}
	c.a.span.fail(err)
	var refusal *Error
	if errors.As(err, &refusal) && !c.replyLost {
		return next, commitRefused, err
	}
	c.replyLost = c.replyLost || mayHaveRun(err)
	return next, commitUnknown, err
}

// decide returns the outcome of a job: what is done with it.
func (w *queueWorker) decide(ctx context.Context, job *Job, res *result) decision {
	if res.err != nil && errors.Is(context.Cause(ctx), ErrShutdown) && !isExplicit(res.err) {
		return decision{action: giveBack}
	}
	d, err := w.judge(w.core.trace.outliving(ctx), job, res.err)
	if err != nil {
		res.err = fmt.Errorf("%w (and it can't be retried: %w)", res.err, err)
	}
	return d
}

// judge applies the worker's retry policy to an error, which is nil if the job
// completed. For an error, the policy calls functions of the user.
func (w *queueWorker) judge(ctx context.Context, job *Job, reason error) (decision, error) {
	policy := retryPolicy{
		maxStarted: w.maxStarted(), strategy: w.o.BackoffStrategy, classify: w.o.Classify, chance: rand.Float64(), now: w.core.now(),
	}
	if reason == nil {
		return policy.decide(job, nil) // without guard, which would start a goroutine for each job
	}
	d := decision{action: fail}
	err := errors.New("the worker's Classify or BackoffStrategy panicked")
	w.guard("Classify or BackoffStrategy", func() { d, err = policy.decide(job, reason) })
	if d.action == limited {
		d = w.underRateLimit(ctx, job, reason)
	}
	return d, err
}

// isExplicit reports whether a handler's error determines the outcome of the job even
// when the worker shuts down.
func isExplicit(err error) bool {
	for _, explicit := range []error{ErrUnrecoverable, ErrRateLimited, ErrSnoozed, ErrWaitForChildren, ErrMovedToDelayed, ErrMovedToWait, ErrMovedToWaitingChildren, ErrHandedOver} {
		if errors.Is(err, explicit) {
			return true
		}
	}
	return false
}

// write makes the call that a decision needs. Jobs that complete or fail share calls,
// unless alone is set. For a job that should wait for children and has none pending, write
// changes nothing and sets the decision to giveBack, which is then to be written.
func (w *queueWorker) write(ctx context.Context, job *Job, d *decision, res result, fetch, alone bool) (next found, err error) {
	ctx, span := w.startEnd(ctx, job, d.action)
	defer span.end(&err)
	if d.action != complete && d.action != fail { // shared calls have a separate timeout
		limited, cancel := context.WithTimeout(ctx, w.endTimeout())
		defer cancel()
		ctx = limited
	}
	if d.action == limited || d.action == delayForRateLimit {
		if wait := askedRateLimit(res.err); wait > 0 {
			if err := w.RateLimit(ctx, wait); err != nil {
				return found{}, err
			}
		}
	}
	store := w.core.store
	switch d.action {
	case complete, fail:
		end := backend.End{JobID: job.ID, Token: job.token, ReturnValue: res.json, Keep: w.keep(job, *d), Hint: job.hint, Fetch: fetch}
		if d.action == fail {
			end.Failure, end.Attempts = w.failure(ctx, job, res), job.Options.Attempts
		}
		return w.source.finish(ctx, end, alone)
	case retryLater:
		return w.source.delay(ctx, backend.Delay{
			JobID: job.ID, Token: job.token, Now: w.core.now(), Delay: d.wait,
			Failure: w.failure(ctx, job, res), Fetch: fetch, Worker: w.backendWorker(),
		})
	case giveBackLater, delayForRateLimit:
		// It fetches no other job. BullMQ makes two calls too, and leaves the markers of both.
		now, delay := w.core.now(), d.wait
		if !d.until.IsZero() {
			delay = untilMillis(now, d.until)
		}
		_, err := store.MoveToDelayed(ctx, backend.Delay{JobID: job.ID, Token: job.token, Now: now, Delay: delay})
		return found{}, err
	case retryNow:
		return found{}, store.RetryJob(ctx, backend.Retry{
			JobID: job.ID, Token: job.token, Now: w.core.now(), LIFO: job.Options.LIFO, Failure: *w.failure(ctx, job, res),
		})
	case giveBack:
		_, err := store.MoveToWait(ctx, job.ID, job.token)
		return found{}, err
	case limited:
		left, err := store.MoveToWait(ctx, job.ID, job.token)
		return found{Fetched: backend.Fetched{LimitedFor: left}}, err
	case waitForChildren:
		moved, err := store.MoveToWaitingChildren(ctx, job.ID, job.token, w.core.now(), backend.JobRef{})
		if err == nil && !moved {
			*d = decision{action: giveBack}
		}
		return found{}, err
	case moveToRoute:
		return found{}, w.forward(ctx, job, d.route)
	default: // alreadyGone, handedOver
		return found{}, nil
	}
}

// failure returns the fields that a failed attempt sets in the job's record.
func (w *queueWorker) failure(ctx context.Context, job *Job, res result) *backend.FailedAttempt {
	text, _ := wire.EncodeJSON(traces(job, res.stackTrace())) // strings
	f := &backend.FailedAttempt{Reason: res.err.Error(), StackTrace: text}
	if t := job.Options.Telemetry; t == nil || !t.OmitContext {
		f.Telemetry = w.core.trace.inject(ctx)
	}
	return f
}

// committed reports a written outcome to events, traces, logs and metrics, and applies
// its rate limit.
func (c *commit) committed(next found) {
	a, d, res := c.a, c.d, c.res
	w, job := a.w, a.job
	a.runner.untrack(a)
	w.measureEnd(a.ctx, job, d.action)
	w.noteEnd(job, d, res)
	switch d.action {
	case complete:
		w.emit(WorkerEvent{Type: EventCompleted, Job: job, Value: res.value})
		a.span.completed(job, res)
	case fail, retryNow, retryLater:
		ctx := a.handler.outliving()
		w.logFailure(ctx, a, res, d.action != fail)
		w.emit(WorkerEvent{Type: EventFailed, Job: job, Err: res.err})
		if w.failed != nil {
			w.guard("OnFailed", func() {
				w.failed(ctx, Failure{Job: job, Err: res.err, Final: d.action == fail})
			})
		}
		a.span.failed(job, res)
		if d.action == fail && w.letters != nil {
			w.letters.noteFailure(job, res.err, w.keep(job, d))
		}
	case handedOver:
		withLogAttrs(a.handler.outliving(), w.core.log).LogAttrs(a.ctx, slog.LevelDebug,
			"the handler has handed a job over; its lock is not renewed any more", slog.String(logJob, job.ID), slog.String(logName, job.Name))
		a.span.handedOver()
	case limited:
		w.source.setRateLimit(next.LimitedFor)
	case delayForRateLimit:
		w.source.stopFetchingFor(d.wait)
	}
}

// logFailure logs a failed attempt. A panic is logged as an error, another failure for good
// as a warning, and the rest as information.
func (w *queueWorker) logFailure(ctx context.Context, a *attempt, res result, retry bool) {
	level, message, stack := slog.LevelInfo, "", slog.Attr{}
	switch {
	case retry:
		message = "an attempt of a job failed; the job is retried"
	case a.wasCancelled(res.err):
		message = "a job was cancelled"
	default:
		level, message = slog.LevelWarn, "a job failed; Job.Retry runs it again"
	}
	if res.stack != "" {
		level, stack = slog.LevelError, slog.String(logStack, res.stack)
	}
	withLogAttrs(ctx, w.core.log).LogAttrs(ctx, level, message, slog.String(logJob, a.job.ID), slog.String(logName, a.job.Name),
		slog.Int(logAttempt, a.job.AttemptsMade), slog.Bool(logRetry, retry), slog.Any(logError, res.err), stack)
}

// noteEnd sets the fields of a job to the stored outcome. A goroutine that the handler
// has started may still report progress meanwhile.
func (w *queueWorker) noteEnd(job *Job, d decision, res result) {
	job.update(func() {
		switch d.action {
		case complete:
			job.ReturnValue, job.FinishedOn = []byte(res.json), w.core.now()
			job.AttemptsMade++
		case fail, retryNow, retryLater:
			job.FailedReason, job.StackTrace = res.err.Error(), traces(job, res.stackTrace())
			if d.action == fail {
				job.FinishedOn = w.core.now()
				job.cancelled = job.cancelled || failedByCancel(res.err)
			}
			job.AttemptsMade++
		}
	})
}

// resolveCommit finds out what a failed send has done. It reads the job's state
// repeatedly until the lock expires, and at least once: Redis may hold the lock longer
// than the worker assumes.
func (c *commit) resolveCommit(cause error) (found, commitState) {
	w, job := c.a.w, c.a.job
	for tried := false; !tried || time.Now().Before(c.until); tried = true {
		w.fault(cause, "the result of a job could not be written; retrying until its lock expires", logJob, job.ID, logName, job.Name)
		pause := w.pauseAfter(cause, &c.outage)
		if left := time.Until(c.until); left > 0 {
			pause = min(pause, left)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-c.a.runner.hard:
			timer.Stop()
			return found{}, commitLockLost
		}
		ctx, cancel := context.WithTimeout(context.Background(), w.endTimeout())
		next, state, err := c.readState(ctx)
		cancel()
		if err == nil {
			return next, state
		}
		cause = err
	}
	return found{}, commitLockLost
}

// readState reads the job's state and returns what a send has done.
func (c *commit) readState(ctx context.Context) (found, commitState, error) {
	w, job := c.a.w, c.a.job
	undone, fetched, err := w.core.store.ResolveFetch(ctx, job.token, job.ID)
	next := found{Fetched: fetched, w: w, token: job.token}
	switch {
	case err != nil:
		return found{}, commitUnknown, err
	case undone:
		return next, commitNotDone, nil
	case fetched.Job != nil:
		return next, commitDone, nil
	}
	carriedOut, err := w.carriedOut(ctx, job, c.d)
	if carriedOut {
		return next, commitDone, err
	}
	return next, commitLockLost, err
}

// carriedOut reports whether the outcome of a job was written, if the job is no longer
// locked by the worker. Otherwise its lock was lost before that. A written outcome has
// counted the attempt. A job that no longer exists was finished, unless it had to be
// kept: then Redis has lost it.
func (w *queueWorker) carriedOut(ctx context.Context, job *Job, d decision) (bool, error) {
	switch d.action {
	case giveBack, giveBackLater, delayForRateLimit, limited, waitForChildren, moveToRoute:
		return true, nil // the job waits to run again in both cases
	}
	now, err := w.core.store.Summary(ctx, job.ID)
	if err != nil {
		return false, err
	}
	if now == nil {
		return !w.keep(job, d).All(), nil
	}
	if (d.action == complete || d.action == fail) && now.StalledCounter > job.StalledCounter {
		return false, nil // the job was still active after this run, so it is another one that has ended it
	}
	return now.AttemptsMade+now.AttemptsSince > job.AttemptsMade+job.attemptsSince, nil
}

// keep returns the retention that applies to the job.
func (w *queueWorker) keep(job *Job, d decision) backend.Keep {
	switch d.action {
	case complete:
		return job.Options.KeepCompleted.withDefault(w.o.KeepCompleted)
	case fail:
		return job.Options.KeepFailed.withDefault(w.o.KeepFailed)
	default:
		return keepAll.rule.keep
	}
}
