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

// ClockOffset is by how much our clock is ahead of the server's.
type ClockOffset struct {
	// Known reports whether the server has reported its time.
	Known bool
	// Ahead is counted from before the call that reported the server's time. So no job
	// starts before its time, however long the reply was in flight.
	Ahead time.Duration
	// Unsure is by how much our clock may be further ahead: as long as that call took.
	Unsure time.Duration
}

// ServerClock returns the difference between the clock of this machine and the
// server's, as fetches that found no job have shown it.
func (q *Store) ServerClock() ClockOffset {
	q.clock.mu.Lock()
	defer q.clock.mu.Unlock()
	return q.clock.best
}

// observe records the server's clock, in microseconds, as reported by the reply to a
// call that began then; 0 if the reply does not contain it. A shorter call is more
// exact. Its result is used until a later one contradicts it, because clocks drift and are
// changed.
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
