package parity

import (
	"fmt"
	"time"
)

// Window is a stretch of time in which something happened.
type Window struct{ From, To time.Time }

// Span is what is known of a duration: it lies between the two.
type Span struct{ Min, Max time.Duration }

// expiryTolerance is by how much the lives of the same key may differ.
const expiryTolerance = 0.02

// alike reports whether two keys may have been given the same life.
func (s Span) alike(other Span) bool {
	reaches := func(a, b Span) bool { return float64(a.Min)*(1-expiryTolerance) <= float64(b.Max) }
	return reaches(s, other) && reaches(other, s)
}

func (s Span) String() string {
	return fmt.Sprintf("expires %v to %v after it was set",
		s.Min.Round(time.Millisecond), s.Max.Round(time.Millisecond))
}

// expiryTracker finds out which time to live each key of one server was given. What the server tells,
// the time that remains, depends on when it is asked, and one side may be slower than the other. So the
// moment at which a key got its expiry is narrowed down to the step that changed it.
type expiryTracker struct {
	known map[string]expiry
}

type expiry struct {
	deadline Window
	life     Span
}

// update takes the times to live read in a window, after steps that ran in another, and returns every
// expiring key's life.
func (t *expiryTracker) update(ttls map[string]time.Duration, read, steps Window) map[string]Span {
	// Redis rounds to milliseconds, and its clock isn't read when ours is.
	const rounding = 2 * time.Millisecond
	known, lives := make(map[string]expiry, len(ttls)), make(map[string]Span, len(ttls))
	for key, ttl := range ttls {
		deadline := Window{read.From.Add(ttl - rounding), read.To.Add(ttl + rounding)}
		now := expiry{deadline, Span{deadline.From.Sub(steps.To), deadline.To.Sub(steps.From)}}
		if before, ok := t.known[key]; ok && overlap(before.deadline, deadline) {
			// The same deadline: the key got it at an earlier step, which is known more exactly.
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
