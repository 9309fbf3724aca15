package parity

import (
	"fmt"
	"time"
)

// Window is a period in which something happened.
type Window struct{ From, To time.Time }

// Span bounds a duration.
type Span struct{ Min, Max time.Duration }

// expiryTolerance is the relative difference that is allowed between the times to live of a key.
const expiryTolerance = 0.02

// matches reports whether two keys may have the same time to live.
func (s Span) matches(other Span) bool {
	reaches := func(a, b Span) bool { return float64(a.Min)*(1-expiryTolerance) <= float64(b.Max) }
	return reaches(s, other) && reaches(other, s)
}

func (s Span) String() string {
	return fmt.Sprintf("expires %v to %v after it was set",
		s.Min.Round(time.Millisecond), s.Max.Round(time.Millisecond))
}

// expiryTracker determines the time to live that each key of a server was given. The server reports only the
// remaining time, which depends on when it is read, and one driver may be slower than the other. The time at
// which a key got its expiry is therefore narrowed down to the step that changed it.
type expiryTracker struct {
	known map[string]expiry
}

type expiry struct {
	deadline Window
	life     Span
}

// update processes the times to live that were read during read, after steps that ran during steps. It
// returns the original time to live of every key that expires.
func (t *expiryTracker) update(ttls map[string]time.Duration, read, steps Window) map[string]Span {
	// Redis rounds to milliseconds, and its clock is not read at exactly the same time as ours.
	const rounding = 2 * time.Millisecond
	known, lives := make(map[string]expiry, len(ttls)), make(map[string]Span, len(ttls))
	for key, ttl := range ttls {
		deadline := Window{read.From.Add(ttl - rounding), read.To.Add(ttl + rounding)}
		now := expiry{deadline, Span{deadline.From.Sub(steps.To), deadline.To.Sub(steps.From)}}
		if before, ok := t.known[key]; ok && overlap(before.deadline, deadline) {
			// The deadline is unchanged: an earlier step set it, for which the bounds are narrower.
			now = expiry{intersection(before.deadline, deadline), before.life}
		}
		known[key], lives[key] = now, now.life
	}
	t.known = known
	return lives
}

func overlap(a, b Window) bool { return !a.To.Before(b.From) && !b.To.Before(a.From) }

func intersection(a, b Window) Window {
	if b.From.After(a.From) {
		a.From = b.From
	}
	if b.To.Before(a.To) {
		a.To = b.To
	}
	return a
}
