package chaos

import (
	"sync/atomic"
	"time"
)

// Clock is a clock that can be set wrong.
type Clock struct{ ahead atomic.Int64 }

// Now returns the time of this clock.
func (c *Clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// Jump sets the clock ahead of the correct time, or behind it if negative.
func (c *Clock) Jump(ahead time.Duration) { c.ahead.Store(int64(ahead)) }
