package bullmq

import (
	"context"
	"time"
)

// Pause stops the whole queue: no worker takes a job until Resume; jobs that
// run go on (BullMQ: pause).
func (q *Queue) Pause(ctx context.Context) error { return q.core.store.Pause(ctx) }

// Resume lets workers take jobs again, those that BullMQ 5 had parked too
// (BullMQ: resume).
func (q *Queue) Resume(ctx context.Context) error { return q.core.store.Resume(ctx) }

// IsPaused answers whether the queue is paused.
func (q *Queue) IsPaused(ctx context.Context) (bool, error) {
	return q.core.client.Do(ctx, q.core.client.B().Hexists().Key(q.core.keys.of("meta")).Field("paused").Build()).AsBool()
}

// IsMaxed answers whether the queue runs as many jobs as its global
// concurrency allows (BullMQ: isMaxed).
func (q *Queue) IsMaxed(ctx context.Context) (bool, error) { return q.core.store.IsMaxed(ctx) }

// RateLimit stops the queue for a time, for all workers that have a limiter,
// of their own or global (BullMQ: rateLimit).
func (q *Queue) RateLimit(ctx context.Context, wait time.Duration) error {
	return q.core.store.RateLimit(ctx, wait.Milliseconds())
}

// RateLimitTTL answers for how long the rate limit holds when max jobs a window
// are allowed; 0 takes the queue's global limit. It is negative where that is
// not set: -2 ms without any limit under way (BullMQ: getRateLimitTtl).
func (q *Queue) RateLimitTTL(ctx context.Context, max int) (time.Duration, error) {
	ms, err := q.core.store.RateLimitTTL(ctx, int64(max))
	return time.Duration(ms) * time.Millisecond, err
}
