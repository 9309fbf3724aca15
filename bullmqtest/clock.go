package bullmqtest

import (
	"sync"
	"time"
)

// clock is the time of a Kit.
type clock struct {
	runs bool

	mu    sync.Mutex
	now   time.Time     // the time, while it stands still
	ahead time.Duration // how far it is ahead of the real clock, while it runs
}

func newClock(start time.Time, runs bool) *clock {
	if start.IsZero() {
		start = time.Now()
	}
	start = start.Truncate(time.Millisecond)
	return &clock{runs: runs, now: start, ahead: time.Until(start)}
}

func (c *clock) time() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs {
		return time.Now().Add(c.ahead).Round(0)
	}
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.ahead = c.now.Add(d), c.ahead+d
}

// Now returns the time of the Kit. It is the Now of all options that the Kit returns.
func (k *Kit) Now() time.Time { return k.clock.time() }

// Advance moves the time of the Kit and of Redis forward. Delayed jobs then become due, and
// rate limits and deduplication ids expire. Idle workers look for jobs at once.
//
// The locks of running jobs stay, because their workers would have renewed them. To remove a
// lock, use [Kit.LoseLock]. Time limits of handlers and contexts use the real clock.
//
// Time jumps. If several runs of a scheduler fall into one Advance, its job runs only once, as
// after an outage of all workers. [Kit.Drain] with FollowDelays runs all of them.
//
// On a real Redis, keys also expire by its own clock.
func (k *Kit) Advance(d time.Duration) {
	k.t.Helper()
	if d < 0 || d%time.Millisecond != 0 {
		k.t.Fatalf("bullmqtest: advance by %v: the time must be whole milliseconds, and not negative", d)
	}
	k.clock.advance(d)
	ctx := k.t.Context()
	if err := k.redis.advance(ctx, k.clock, d, k.o.Prefix+":*"); err != nil {
		k.t.Fatalf("bullmqtest: advance by %v: %v", d, err)
	}
	if err := k.wakeWorkers(ctx); err != nil {
		k.t.Fatalf("bullmqtest: advance by %v: wake the workers: %v", d, err)
	}
}
