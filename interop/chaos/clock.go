package chaos

import (
	"sync/atomic"
	"time"
)

// Clock is one that can be set wrong.
type Clock struct{ ahead atomic.Int64 }

// Now is the time by this clock.
func (c *Clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// Jump sets it so far ahead of the right time, or behind.
func (c *Clock) Jump(ahead time.Duration) { c.ahead.Store(int64(ahead)) }
