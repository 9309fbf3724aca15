package redisstore

import "time"

// serverClock is how the server's clock and ours compare.
type serverClock struct {
	known bool
	// ahead is by how much ours is ahead, counted from before the call that reported
	// it. So no job starts before its time, however long the reply was in flight.
	ahead time.Duration
	// unsure is by how much ours may be further ahead: as long as that call took.
	unsure time.Duration
}

// observe records the server's clock, in microseconds, as reported by the reply to a
// call. A shorter call is more exact. Its result holds until a later one contradicts
// it, since clocks drift and are set.
func (c *serverClock) observe(serverUs int64, begun time.Time) {
	if serverUs == 0 {
		return
	}
	seen := serverClock{known: true, ahead: begun.Sub(time.UnixMicro(serverUs)), unsure: time.Since(begun)}
	if !c.known || seen.unsure <= c.unsure || !c.agreesWith(seen) {
		*c = seen
	}
}

func (c *serverClock) agreesWith(other serverClock) bool {
	return c.ahead <= other.ahead+other.unsure && other.ahead <= c.ahead+c.unsure
}
