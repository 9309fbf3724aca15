package bullmq

import (
	"errors"
	"time"
)

// Verdict is what Classify says of an error.
type Verdict struct {
	kind verdictKind
	wait time.Duration
}

type verdictKind int

const (
	transient verdictKind = iota
	permanent
	retryAfter
)

// Transient: another attempt may succeed; the job's own options decide. It is
// the zero Verdict.
func Transient() Verdict { return Verdict{} }

// Permanent: no attempt can succeed; the job fails for good.
func Permanent() Verdict { return Verdict{kind: permanent} }

// RetryAfter: another attempt makes sense after this time, if one is left,
// whatever the job's backoff says.
func RetryAfter(wait time.Duration) Verdict { return Verdict{kind: retryAfter, wait: wait} }

// action is what becomes of a job when its handler has returned.
type action int

const (
	complete      action = iota // it completed
	fail                        // it failed for good
	retryNow                    // it is tried again at once
	retryLater                  // it is tried again after decision.wait
	limited                     // it goes back to wait, and the rate limit holds, for decision.wait if that is known
	alreadyGone                 // the handler has moved it itself
	giveBack                    // it goes back to wait, with no attempt used
	giveBackLater               // it is delayed by decision.wait, with no attempt used
	heldBack                    // the same, for a rate limit that the worker has no limiter to obey
)

type decision struct {
	action action
	wait   time.Duration
}

// retryPolicy is what decides beside the job and the error.
type retryPolicy struct {
	maxStarted int
	strategy   BackoffStrategy
	classify   func(err error, job *Job) Verdict
	chance     float64 // in [0,1), for jitter
}

// decide turns the end of a handler into what becomes of the job: no Redis,
// no clock (BullMQ: Job.shouldRetryJob and Worker.handleFailed). An error from
// the policy itself, such as a backoff type that nobody knows, is answered
// beside the decision and fails the job for good.
func (p retryPolicy) decide(job *Job, err error) (decision, error) {
	switch {
	case err == nil:
		return decision{action: complete}, nil
	case errors.Is(err, ErrMovedToDelayed), errors.Is(err, ErrMovedToWait), errors.Is(err, ErrMovedToWaitingChildren):
		return decision{action: alreadyGone}, nil
	case errors.Is(err, ErrUnrecoverable): // whatever else it wraps
		return decision{action: fail}, nil
	case errors.Is(err, ErrRateLimited):
		return decision{action: limited}, nil
	case errors.Is(err, ErrSnoozed):
		return snooze(err), nil
	}
	made := job.AttemptsMade + job.madeSince + 1
	last := made >= job.Opts.Attempts ||
		p.maxStarted > 0 && job.AttemptsStarted >= p.maxStarted
	if last {
		return decision{action: fail}, nil
	}
	verdict := Verdict{}
	if p.classify != nil {
		verdict = p.classify(err, job)
	}
	var wait time.Duration
	switch {
	case verdict.kind == permanent:
		return decision{action: fail}, nil
	case verdict.kind == retryAfter:
		wait = verdict.wait
	case job.Opts.Backoff != nil:
		var custom func() time.Duration
		if p.strategy != nil {
			custom = func() time.Duration { return p.strategy(made, job.Opts.Backoff.Type, err, job) }
		}
		var unknown error
		if wait, unknown = job.Opts.Backoff.wait(made, p.chance, custom); unknown != nil {
			return decision{action: fail}, unknown
		}
		if wait < 0 {
			return decision{action: fail}, nil
		}
	}
	if wait <= 0 {
		return decision{action: retryNow}, nil
	}
	return decision{action: retryLater, wait: wait}, nil
}

// snooze is what an error that is ErrSnoozed asks for, in whole milliseconds.
func snooze(err error) decision {
	var asked snoozed
	if errors.As(err, &asked) && asked.wait >= time.Millisecond {
		return decision{action: giveBackLater, wait: asked.wait.Truncate(time.Millisecond)}
	}
	return decision{action: giveBack}
}
