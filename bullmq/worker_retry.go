package bullmq

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Verdict is the decision of WorkerOptions.Classify about an error.
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

// Transient returns the zero Verdict: another attempt may succeed. The job's options
// decide whether and when it is retried.
func Transient() Verdict { return Verdict{} }

// Permanent returns the Verdict that fails the job without a retry.
func Permanent() Verdict { return Verdict{kind: permanent} }

// RetryAfter returns the Verdict that retries the job after wait, regardless of its
// backoff, if an attempt is left. wait is rounded down to whole milliseconds. Less than
// one means at once.
func RetryAfter(wait time.Duration) Verdict { return Verdict{kind: retryAfter, wait: wait} }

// action is what happens to a job after its handler has returned.
type action int

const (
	complete          action = iota // complete the job
	fail                            // fail it permanently
	retryNow                        // retry it at once
	retryLater                      // retry it after decision.wait
	limited                         // requeue it until the rate limit ends, after decision.wait if that is known
	alreadyGone                     // do nothing: the handler has moved it
	handedOver                      // do nothing: another program finishes it
	giveBack                        // requeue it without consuming an attempt
	giveBackLater                   // delay it by decision.wait without consuming an attempt
	delayForRateLimit               // the same, because no limiter enforces the rate limit
	waitForChildren                 // wait for its pending children, or requeue it if there are none
	moveToRoute                     // move it to decision.route without consuming an attempt
)

type decision struct {
	action action
	wait   time.Duration
	until  time.Time // when the job is due; zero if only wait is known
	route  string    // name of the queue to which the job moves
}

// retryPolicy holds what decide needs besides the job and the error.
type retryPolicy struct {
	maxStarted int
	strategy   BackoffStrategy
	classify   func(err error, job *Job) Verdict
	chance     float64   // in [0,1), for jitter
	now        time.Time // on the queue's clock
}

// decide returns the decision for a job whose handler has returned err. It uses neither
// Redis nor a clock (BullMQ: Job.shouldRetryJob and Worker.handleFailed). If the policy
// itself fails, for instance because the backoff type is unknown, decide also returns
// an error, and the job fails permanently.
func (p retryPolicy) decide(job *Job, err error) (decision, error) {
	switch {
	case err == nil:
		return decision{action: complete}, nil
	case errors.Is(err, ErrMovedToDelayed), errors.Is(err, ErrMovedToWait), errors.Is(err, ErrMovedToWaitingChildren):
		return decision{action: alreadyGone}, nil
	case errors.Is(err, ErrHandedOver):
		return decision{action: handedOver}, nil
	case errors.Is(err, ErrUnrecoverable): // even if it wraps other errors too
		return decision{action: fail}, nil
	case errors.Is(err, ErrRateLimited):
		return decision{action: limited}, nil
	case errors.Is(err, ErrSnoozed):
		return snooze(err, p.now), nil
	case errors.Is(err, ErrWaitForChildren):
		return decision{action: waitForChildren}, nil
	}
	if move := (*forwarding)(nil); errors.As(err, &move) {
		return decision{action: moveToRoute, route: move.route}, nil
	}
	made := job.AttemptsMade + job.attemptsSince + 1
	last := made >= job.Options.Attempts ||
		p.maxStarted > 0 && job.AttemptsStarted >= p.maxStarted
	if last {
		return decision{action: fail}, nil
	}
	verdict := Verdict{}
	classify := p.classify
	if own := (*classified)(nil); errors.As(err, &own) {
		classify, err = own.classify, own.error
	}
	if classify != nil {
		verdict = classify(err, job)
	}
	var wait time.Duration
	switch {
	case verdict.kind == permanent:
		return decision{action: fail}, nil
	case verdict.kind == retryAfter:
		wait = verdict.wait.Truncate(time.Millisecond)
	case job.Options.Backoff != nil:
		var custom func() time.Duration
		if p.strategy != nil {
			custom = func() time.Duration { return p.strategy(made, job.Options.Backoff.Type, err, job) }
		}
		var unknown error
		if wait, unknown = job.Options.Backoff.wait(made, p.chance, custom); unknown != nil {
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

// snooze returns the decision for an error that wraps ErrSnoozed. The wait is in whole
// milliseconds.
func snooze(err error, now time.Time) decision {
	var after snoozed
	if errors.As(err, &after) && after.wait >= time.Millisecond {
		return decision{action: giveBackLater, wait: after.wait.Truncate(time.Millisecond)}
	}
	var until snoozedUntil
	if errors.As(err, &until) {
		if wait := untilMillis(now, until.at); wait > 0 {
			return decision{action: giveBackLater, wait: wait, until: until.at}
		}
	}
	return decision{action: giveBack}
}

// untilMillis returns the time from now until at, counted between whole milliseconds.
// It is 0 if at has passed.
func untilMillis(now, at time.Time) time.Duration {
	return max(time.Duration(at.UnixMilli()-now.UnixMilli())*time.Millisecond, 0)
}

// Backoff defines how long a failed job waits before its next attempt (BullMQ:
// backoff). A nil Backoff retries at once.
type Backoff struct {
	// Type is "fixed", "exponential", or a name that [CustomBackoff] has set, for
	// WorkerOptions.BackoffStrategy. Any other text is an error, because a misspelled
	// type would otherwise be noticed only at the first retry.
	Type string
	// Delay is the wait, in whole milliseconds. If Type is "exponential", it is the
	// first wait and doubles with each attempt.
	Delay time.Duration
	// Jitter is the random part of the wait, from 0 to 1. With 0.25 a job waits
	// between 75 % and 100 % of the time.
	Jitter float64

	rest   rest
	number bool // parsed from a number, which means fixed
	custom bool // made by CustomBackoff
}

// FixedBackoff returns a Backoff that waits the same time before each attempt.
func FixedBackoff(delay time.Duration) *Backoff { return &Backoff{Type: "fixed", Delay: delay} }

// ExponentialBackoff returns a Backoff that waits delay before the first retry and
// twice as long before each further one.
func ExponentialBackoff(delay time.Duration) *Backoff {
	return &Backoff{Type: "exponential", Delay: delay}
}

// CustomBackoff returns a Backoff whose waits the worker's [BackoffStrategy]
// computes. name is passed to it as kind.
func CustomBackoff(name string) *Backoff { return &Backoff{Type: name, custom: true} }

// check returns an error for invalid values that a program has set. Values parsed
// from JSON are accepted as in Node.
func (b *Backoff) check() error {
	switch {
	case b.rest != nil || b.number:
		return nil
	case b.Type == "":
		return errors.New("Backoff has no Type: make it with FixedBackoff, ExponentialBackoff or CustomBackoff")
	case !b.custom && b.Type != "fixed" && b.Type != "exponential":
		return fmt.Errorf("Backoff.Type %.80q is neither fixed nor exponential: make it with CustomBackoff(%.80[1]q) for a worker with a BackoffStrategy", b.Type)
	}
	return checkMillis("Backoff.Delay", b.Delay, 0)
}

// BackoffStrategy computes the wait before the next attempt of a job whose backoff
// type, kind, is neither fixed nor exponential (BullMQ: settings.backoffStrategy). A
// negative wait fails the job without a retry. Any other wait is rounded down to whole
// milliseconds. attemptsMade includes the attempt that has just failed.
type BackoffStrategy func(attemptsMade int, kind string, err error, job *Job) time.Duration

// wait returns how long the job waits after attempt number attemptsMade. It is
// negative if the job must not be retried. chance is a random number in [0,1).
func (b *Backoff) wait(attemptsMade int, chance float64, custom func() time.Duration) (time.Duration, error) {
	var full float64 // ms
	switch b.Type {
	case "fixed":
		full = float64(b.Delay) / float64(time.Millisecond)
	case "exponential":
		full = math.Round(math.Pow(2, float64(attemptsMade-1)) * float64(b.Delay) / float64(time.Millisecond))
	default:
		if custom == nil {
			return 0, fmt.Errorf("unknown backoff type %q: give the worker a BackoffStrategy that knows it", b.Type)
		}
		wait := custom()
		if wait < 0 { // even by less than a millisecond
			return wait, nil
		}
		return wait.Truncate(time.Millisecond), nil
	}
	if b.Jitter > 0 {
		full = math.Floor(chance*full*b.Jitter + full*(1-b.Jitter))
	}
	if math.IsNaN(full) { // a delay of 0 times infinity
		return 0, nil
	}
	// The maximum of a Duration is about 292 years.
	return time.Duration(math.Min(full, maxWait) * float64(time.Millisecond)), nil
}

const maxWait = 100 * 365 * 24 * 3600 * 1000 // ms

// childrenFailure returns err. If Redis refused a call on this job because of its
// children, it returns the error with BullMQ's text, so that failedReason is the same in
// both languages. A job with a failed child fails permanently, even if attempts are left:
// BullMQ's call throws an UnrecoverableError.
func childrenFailure(job *Job, err error) error {
	refused := ownRefusal(job, err)
	if refused == nil {
		return err
	}
	reason := "Job " + job.ID + " has pending dependencies. " + refused.Command
	if refused.Code == ErrFailedChildren {
		reason = "Cannot complete job " + job.ID + " because it has at least one failed child. " + refused.Command
	}
	err = reworded{strings.ReplaceAll(err.Error(), refused.Error(), reason), err}
	if refused.Code == ErrFailedChildren {
		err = Unrecoverable(err)
	}
	return err
}

// ownRefusal returns the error in err with which Redis refused a call on this job because
// of its children. It returns nil if there is none, or only errors of other jobs.
func ownRefusal(job *Job, err error) *Error {
	switch e := err.(type) {
	case *Error:
		if refusedForChildren(e) && e.JobID == job.ID && e.QueueKey == job.core.keys.qualifiedName() {
			return e
		}
	case interface{ Unwrap() error }:
		return ownRefusal(job, e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, wrapped := range e.Unwrap() {
			if found := ownRefusal(job, wrapped); found != nil {
				return found
			}
		}
	}
	return nil
}

func refusedForChildren(err error) bool {
	return errors.Is(err, ErrPendingChildren) || errors.Is(err, ErrFailedChildren)
}

// reworded is an error with another text.
type reworded struct {
	text  string
	cause error
}

func (r reworded) Error() string { return r.text }
func (r reworded) Unwrap() error { return r.cause }
