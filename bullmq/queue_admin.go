package bullmq

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// Pause stops the whole queue: no worker takes a job until Resume; jobs that
// run go on (BullMQ: pause).
func (q *Queue) Pause(ctx context.Context) (err error) {
	ctx, span := q.core.trace.start(ctx, SpanInternal, "pause")
	defer span.end(&err)
	return q.core.store.Pause(ctx)
}

// Resume lets workers take jobs again, those that BullMQ 5 had parked too
// (BullMQ: resume).
func (q *Queue) Resume(ctx context.Context) (err error) {
	ctx, span := q.core.trace.start(ctx, SpanInternal, "resume")
	defer span.end(&err)
	return q.core.store.Resume(ctx)
}

// IsPaused answers whether the queue is paused.
func (q *Queue) IsPaused(ctx context.Context) (bool, error) {
	values, err := q.core.store.Meta(ctx, "paused")
	return err == nil && values[0] != "", err
}

// IsMaxed answers whether the queue runs as many jobs as its global
// concurrency allows (BullMQ: isMaxed).
func (q *Queue) IsMaxed(ctx context.Context) (bool, error) { return q.core.store.IsMaxed(ctx) }

// RateLimit stops the queue for a time, for all workers that have a limiter,
// of their own or global; others go on. A handler that has called it returns
// [ErrRateLimited]. wait counts in whole milliseconds, what is left of one
// is dropped, and less than one is refused (BullMQ: rateLimit).
func (q *Queue) RateLimit(ctx context.Context, wait time.Duration) (err error) {
	ctx, span := q.core.trace.start(ctx, SpanInternal, "rateLimit")
	defer span.end(&err)
	set(span, attrQueueRateLimit, wait.Milliseconds())
	return q.core.rateLimit(ctx, wait)
}

func (c *core) rateLimit(ctx context.Context, wait time.Duration) error {
	if wait < time.Millisecond {
		return fmt.Errorf("bullmq: queue %s can't be stopped for %v, which is less than a millisecond; RemoveRateLimitKey of a Queue ends a rate limit", c.keys.queue, wait)
	}
	return c.store.RateLimit(ctx, wait.Milliseconds())
}

// RateLimitTTL answers for how long the rate limit holds when max jobs a window
// are allowed; 0 takes the queue's global limit. It is negative where that is
// not set: -2 ms without any limit under way (BullMQ: getRateLimitTtl).
func (q *Queue) RateLimitTTL(ctx context.Context, max int) (time.Duration, error) {
	if err := checkCount("max", max, "the queue's global limit"); err != nil {
		return 0, fmt.Errorf("bullmq: the rate limit of %s was not read: %w", q.Name(), err)
	}
	ms, err := q.core.store.RateLimitTTL(ctx, int64(max))
	return time.Duration(ms) * time.Millisecond, err
}

// RemoveRateLimitKey ends a rate limit that is under way and answers whether
// there was one (BullMQ: removeRateLimitKey).
func (q *Queue) RemoveRateLimitKey(ctx context.Context) (bool, error) {
	return q.core.store.Delete(ctx, "limiter")
}

// SetGlobalConcurrency bounds how many jobs run at once, over all workers. With 0
// no job starts any more, until RemoveGlobalConcurrency takes the bound away; less
// is refused (BullMQ: setGlobalConcurrency).
func (q *Queue) SetGlobalConcurrency(ctx context.Context, concurrency int) error {
	if concurrency < 0 {
		return fmt.Errorf("bullmq: queue %s: a global concurrency of %d is less than 0; RemoveGlobalConcurrency takes the bound away", q.Name(), concurrency)
	}
	return q.core.store.SetMeta(ctx, "concurrency", strconv.Itoa(concurrency))
}

// RemoveGlobalConcurrency takes that bound away.
func (q *Queue) RemoveGlobalConcurrency(ctx context.Context) error {
	return q.core.store.RemoveMeta(ctx, "concurrency")
}

// GlobalConcurrency answers that bound; nil for none (BullMQ:
// getGlobalConcurrency).
func (q *Queue) GlobalConcurrency(ctx context.Context) (*int, error) {
	values, err := q.core.store.Meta(ctx, "concurrency")
	if err != nil {
		return nil, err
	}
	return readBound(values[0]), nil
}

// readBound reads a bound that may be 0; nil where none is stored.
func readBound(text string) *int {
	if text == "" {
		return nil
	}
	return new(parseInt(text))
}

// SetGlobalRateLimit bounds how many jobs start within a time, over all workers.
// The global Max takes precedence over a worker's Limiter.Max; a worker's
// Limiter.Duration takes precedence over the global one (BullMQ:
// setGlobalRateLimit).
func (q *Queue) SetGlobalRateLimit(ctx context.Context, limit Limiter) error {
	if err := limit.check(); err != nil {
		return fmt.Errorf("bullmq: queue %s: %w; RemoveGlobalRateLimit takes a limit away", q.Name(), err)
	}
	return q.core.store.SetMeta(ctx, "max", strconv.Itoa(limit.Max), "duration", wire.FormatMillis(limit.Duration))
}

// RemoveGlobalRateLimit takes that bound away.
func (q *Queue) RemoveGlobalRateLimit(ctx context.Context) error {
	return q.core.store.RemoveMeta(ctx, "max", "duration")
}

// GlobalRateLimit answers that bound; nil for none (BullMQ: getGlobalRateLimit).
func (q *Queue) GlobalRateLimit(ctx context.Context) (*Limiter, error) {
	values, err := q.core.store.Meta(ctx, "max", "duration")
	if err != nil || values[0] == "" || values[1] == "" {
		return nil, err
	}
	return &Limiter{Max: parseInt(values[0]), Duration: wire.ParseMillis(values[1])}, nil
}

// DeduplicationJobID answers the job that owns a deduplication id; "" when
// none does (BullMQ: getDeduplicationJobId).
func (q *Queue) DeduplicationJobID(ctx context.Context, dedupID string) (string, error) {
	return q.core.store.DedupOwner(ctx, dedupID)
}

// RemoveDeduplicationKey frees a deduplication id, whoever owns it, and answers
// whether anybody did (BullMQ: removeDeduplicationKey).
func (q *Queue) RemoveDeduplicationKey(ctx context.Context, dedupID string) (freed bool, err error) {
	ctx, span := q.core.trace.start(ctx, SpanInternal, "removeDeduplicationKey")
	defer span.end(&err)
	set(span, attrDeduplicationKey, dedupID)
	return q.core.store.FreeDedup(ctx, dedupID)
}

// TrimEvents cuts the events stream to about max entries and answers how many
// went (BullMQ: trimEvents).
func (q *Queue) TrimEvents(ctx context.Context, max int) (removed int64, err error) {
	ctx, span := q.core.trace.start(ctx, SpanInternal, "trimEvents")
	defer span.end(&err)
	set(span, attrQueueMaxEvents, max)
	if err := checkCount("max", max, "that none stays"); err != nil {
		return 0, fmt.Errorf("bullmq: the events of %s were not trimmed: %w", q.Name(), err)
	}
	return q.core.store.TrimEvents(ctx, int64(max))
}

// RemoveDeprecatedPriorityKey removes what BullMQ 3 and older have left of their
// priorities, and answers whether there was anything. Only when no client of that
// age works on the queue any more (BullMQ: removeDeprecatedPriorityKey).
func (q *Queue) RemoveDeprecatedPriorityKey(ctx context.Context) (bool, error) {
	return q.core.store.DeletePriority(ctx)
}

// Meta is what a queue says of itself (BullMQ: getMeta).
type Meta struct {
	Version     string // that of the client which made the queue, such as bullmq:6.7.0
	Paused      bool
	Concurrency *int     // global; nil for no bound
	RateLimit   *Limiter // global; nil for none
	MaxEvents   int      // about how many entries the events stream keeps, or NoEvents; 0 when nothing is stored yet
}

// Meta reads what the queue says of itself.
func (q *Queue) Meta(ctx context.Context) (Meta, error) {
	values, err := q.core.store.Meta(ctx, "version", "paused", "concurrency", "max", "duration", "opts.maxLenEvents")
	if err != nil {
		return Meta{}, err
	}
	m := Meta{
		Version: values[0], Paused: values[1] != "", Concurrency: readBound(values[2]), MaxEvents: readMaxEvents(values[5]),
	}
	if values[3] != "" && values[4] != "" {
		m.RateLimit = &Limiter{Max: parseInt(values[3]), Duration: wire.ParseMillis(values[4])}
	}
	return m, nil
}

// readMaxEvents reads opts.maxLenEvents; 0 for what the scripts replace by
// DefaultMaxEvents, no text of digits.
func readMaxEvents(stored string) int {
	n, err := strconv.ParseUint(stored, 10, 63)
	switch {
	case err != nil:
		return 0
	case n == 0:
		return NoEvents
	}
	return int(n)
}

// CountDelayedBefore returns how many delayed jobs are due before a time
// (BullMQ: getDelayedCount with a timestamp).
func (q *Queue) CountDelayedBefore(ctx context.Context, before time.Time) (int64, error) {
	counts, err := q.core.store.Counts(ctx, before.UnixMilli(), string(StateDelayed))
	if err != nil {
		return 0, err
	}
	return counts[0], nil
}
