package scripts

import (
	"sync"
	"time"
)

// serverClock is the difference between the server's clock and ours. It is safe for
// concurrent use.
type serverClock struct {
	mu   sync.Mutex
	best ClockOffset
}

// ClockOffset is how far our clock is ahead of the server's clock.
type ClockOffset struct {
	// Known reports whether the server has reported its time.
	Known bool
	// Ahead is the least time by which our clock is ahead. It compares our time before the
	// call with the time that the server reported. So no job starts before its time,
	// however long the reply was in flight.
	Ahead time.Duration
	// Unsure is how much further ahead our clock may be. It is how long the call took.
	Unsure time.Duration
}

// ServerClock returns the difference between the clock of this machine and the
// server's, as fetches that found no job have shown it.
func (q *Store) ServerClock() ClockOffset {
	q.clock.mu.Lock()
	defer q.clock.mu.Unlock()
	return q.clock.best
}

// observe records the server's time, in microseconds, from the reply to a call that was begun
// at the time begun. It is 0 if the reply does not contain it. The shortest call gives the
// most exact result. That result is used until a later one contradicts it, because clocks
// drift and are changed.
func (c *serverClock) observe(serverUs int64, begun time.Time) {
	if serverUs == 0 {
		return
	}
	seen := ClockOffset{Known: true, Ahead: begun.Sub(time.UnixMicro(serverUs)), Unsure: time.Since(begun)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.best.Known || seen.Unsure <= c.best.Unsure || !c.best.agreesWith(seen) {
		c.best = seen
	}
}

func (c ClockOffset) agreesWith(other ClockOffset) bool {
	return c.Ahead <= other.Ahead+other.Unsure && other.Ahead <= c.Ahead+c.Unsure
}
