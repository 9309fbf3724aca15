package turns

import "time"

// Postpone prevents fetches from a queue before a time, for example because of a rate limit.
// If Postpone was called earlier with a later time, that time stays.
func (t *Turns[K, G]) Postpone(k K, until time.Time) {
	if m := t.members[k]; m != nil && m.listed >= 0 {
		t.postpone(m, until)
		t.update(m)
	}
}

// postpone is like Postpone, but leaves it to the caller to call update.
func (t *Turns[K, G]) postpone(m *member[K, G], until time.Time) {
	if m.state == Postponed && !m.until.Before(until) {
		return
	}
	t.timed.remove(m)
	m.state, m.until = Postponed, until
	t.timed.push(m)
}

// Due records when a delayed job of a queue is due, by the clock of the queue. If Due was
// called before with an earlier time, that time stays. The zero time clears the record.
func (t *Turns[K, G]) Due(k K, at time.Time) {
	m := t.members[k]
	if m == nil || m.listed < 0 {
		return
	}
	if !at.IsZero() && !m.due.IsZero() && !at.Before(m.due) {
		return
	}
	t.delayed.remove(m)
	if m.due = at; !at.IsZero() {
		t.delayed.push(m)
	}
}

// NextDue returns the time that Due has recorded. It returns the zero time if there is none,
// or if [Turns.Advance] has passed that time.
func (t *Turns[K, G]) NextDue(k K) time.Time {
	if m := t.members[k]; m != nil {
		return m.due
	}
	return time.Time{}
}

// Advance makes queues ready whose time has come. now is the real time. clock is the time by
// the clock of the queues, which determines when delayed jobs are due. Advance returns after
// what time it must be called again. expected is false if it need not be called again.
func (t *Turns[K, G]) Advance(now, clock time.Time) (wait time.Duration, expected bool) {
	for t.timed.size() > 0 && !t.timed.first().until.After(now) {
		m := t.timed.first()
		t.timed.remove(m)
		m.state = Empty
		t.wake(m)
	}
	for t.delayed.size() > 0 && !t.delayed.first().due.After(clock) {
		m := t.delayed.first()
		t.delayed.remove(m)
		m.due = time.Time{}
		t.wake(m)
	}
	if t.timed.size() > 0 {
		wait, expected = t.timed.first().until.Sub(now), true
	}
	if t.delayed.size() > 0 {
		if left := t.delayed.first().due.Sub(clock); !expected || left < wait {
			wait, expected = left, true
		}
	}
	return wait, expected
}
