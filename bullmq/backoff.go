package bullmq

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Backoff says how long a failed job waits before its next attempt (BullMQ:
// backoff). nil retries at once.
type Backoff struct {
	// Type is "fixed", "exponential", or the name of a strategy of the worker's
	// own (WorkerOptions.BackoffStrategy), which CustomBackoff sets: any other text is
	// refused, since a misspelt type would be noticed by the first retry only.
	Type string
	// Delay is the wait, or with exponential the first one: it doubles with
	// each attempt. In whole milliseconds.
	Delay time.Duration
	// Jitter, from 0 to 1, is the part of the wait that chance decides: with
	// 0.25 a job waits between 75 % and 100 % of it.
	Jitter float64

	rest   rest
	number bool // it was read as a number, which means fixed
	custom bool // made by CustomBackoff
}

// FixedBackoff waits the same time before each attempt.
func FixedBackoff(delay time.Duration) *Backoff { return &Backoff{Type: "fixed", Delay: delay} }

// ExponentialBackoff waits delay, then twice as long, then four times …
func ExponentialBackoff(delay time.Duration) *Backoff {
	return &Backoff{Type: "exponential", Delay: delay}
}

// CustomBackoff leaves the wait to the worker's BackoffStrategy, which is given name.
func CustomBackoff(name string) *Backoff { return &Backoff{Type: name, custom: true} }

// check refuses what no program means; what was read from JSON is taken as
// Node takes it.
func (b *Backoff) check() error {
	switch {
	case b.rest != nil || b.number:
		return nil
	case b.Type == "":
		return errors.New("Backoff has no Type: make it by Fixed, Exponential or Custom")
	case !b.custom && b.Type != "fixed" && b.Type != "exponential":
		return fmt.Errorf("Backoff.Type %.80q is neither fixed nor exponential: make it by Custom(%.80[1]q) for a worker with a BackoffStrategy", b.Type)
	}
	return checkMillis("Backoff.Delay", b.Delay, 0)
}

// BackoffStrategy computes the wait before the next attempt for jobs whose
// backoff type is neither fixed nor exponential. A negative wait means: do not
// retry. attemptsMade counts the attempt that has just failed (BullMQ:
// settings.backoffStrategy).
type BackoffStrategy func(attemptsMade int, kind string, err error, job *Job) time.Duration

// wait is how long the job waits after attempt number attemptsMade; negative
// for never again. chance is a number in [0,1).
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
		return custom(), nil
	}
	if b.Jitter > 0 {
		full = math.Floor(chance*full*b.Jitter + full*(1-b.Jitter))
	}
	if math.IsNaN(full) { // no wait, doubled beyond all numbers
		return 0, nil
	}
	// Centuries are as good as for ever, and a Duration holds no more.
	return time.Duration(math.Min(full, maxWait) * float64(time.Millisecond)), nil
}

const maxWait = 100 * 365 * 24 * 3600 * 1000 // ms
