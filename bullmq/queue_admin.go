package bullmq

import (
	"context"
	"fmt"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
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
	meta, err := q.core.store.Meta(ctx)
	return meta.Paused, err
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
	return c.store.StartRateLimit(ctx, wait)
}

// RateLimitTTL returns for how long the rate limit still holds, or 0 if none holds. max is
// how many jobs a window allows; 0 takes the queue's global limit (BullMQ:
// getRateLimitTtl, which returns -2 if there is no limit).
func (q *Queue) RateLimitTTL(ctx context.Context, max int) (time.Duration, error) {
	if err := checkCount("max", max, "the queue's global limit"); err != nil {
		return 0, fmt.Errorf("bullmq: the rate limit of %s was not read: %w", q.Name(), err)
	}
	ttl, err := q.core.store.RateLimitTTL(ctx, max)
	if ttl < 0 { // no limit is set
		ttl = 0
	}
	return ttl, err
}

// RemoveRateLimitKey ends a rate limit that is under way and answers whether
// there was one (BullMQ: removeRateLimitKey).
func (q *Queue) RemoveRateLimitKey(ctx context.Context) (bool, error) {
	return q.core.store.RemoveRateLimit(ctx)
}

// SetGlobalConcurrency bounds how many jobs run at once, over all workers. With 0
// no job starts any more, until RemoveGlobalConcurrency takes the bound away; less
// is refused (BullMQ: setGlobalConcurrency).
func (q *Queue) SetGlobalConcurrency(ctx context.Context, concurrency int) error {
	if concurrency < 0 {
		return fmt.Errorf("bullmq: queue %s: a global concurrency of %d is less than 0; RemoveGlobalConcurrency takes the bound away", q.Name(), concurrency)
	}
	return q.core.store.SetGlobalConcurrency(ctx, &concurrency)
}

// RemoveGlobalConcurrency takes that bound away.
func (q *Queue) RemoveGlobalConcurrency(ctx context.Context) error {
	return q.core.store.SetGlobalConcurrency(ctx, nil)
}

// GlobalConcurrency returns that bound, or 0 if there is none. [Queue.Meta] tells a bound
// of 0 from none (BullMQ: getGlobalConcurrency).
func (q *Queue) GlobalConcurrency(ctx context.Context) (int, error) {
	meta, err := q.core.store.Meta(ctx)
	if err != nil || meta.Concurrency == nil {
		return 0, err
	}
	return *meta.Concurrency, nil
}

// SetGlobalRateLimit bounds how many jobs start within a time, over all workers.
// The global Max takes precedence over a worker's Limiter.Max; a worker's
// Limiter.Duration takes precedence over the global one (BullMQ:
// setGlobalRateLimit).
func (q *Queue) SetGlobalRateLimit(ctx context.Context, limit Limiter) error {
	if err := limit.check(); err != nil {
		return fmt.Errorf("bullmq: queue %s: %w; RemoveGlobalRateLimit takes a limit away", q.Name(), err)
	}
	return q.core.store.SetGlobalRateLimit(ctx, (*backend.RateLimit)(&limit))
}

// RemoveGlobalRateLimit takes that bound away.
func (q *Queue) RemoveGlobalRateLimit(ctx context.Context) error {
	return q.core.store.SetGlobalRateLimit(ctx, nil)
}

// GlobalRateLimit answers that bound; nil for none (BullMQ: getGlobalRateLimit).
func (q *Queue) GlobalRateLimit(ctx context.Context) (*Limiter, error) {
	meta, err := q.core.store.Meta(ctx)
	return (*Limiter)(meta.RateLimit), err
}

// DeduplicationJobID returns the id of the job that owns a deduplication id. It returns
// [ErrDeduplicationNotFound] if no job owns it (BullMQ: getDeduplicationJobId).
func (q *Queue) DeduplicationJobID(ctx context.Context, dedupID string) (string, error) {
	owner, err := q.core.store.DeduplicationOwner(ctx, dedupID)
	if err == nil && owner == "" {
		return "", fmt.Errorf("bullmq: read the owner of deduplication id %.80q of %s: %w", dedupID, q.Name(), ErrDeduplicationNotFound)
	}
	return owner, err
}

// RemoveDeduplicationKey frees a deduplication id, whoever owns it, and answers
// whether anybody did (BullMQ: removeDeduplicationKey).
func (q *Queue) RemoveDeduplicationKey(ctx context.Context, dedupID string) (freed bool, err error) {
	ctx, span := q.core.trace.start(ctx, SpanInternal, "removeDeduplicationKey")
	defer span.end(&err)
	set(span, attrDeduplicationKey, dedupID)
	return q.core.store.FreeDeduplication(ctx, dedupID)
}

// TrimEvents cuts the events stream to about max entries and returns how many it removed
// (BullMQ: trimEvents).
func (q *Queue) TrimEvents(ctx context.Context, max int) (removed int, err error) {
	ctx, span := q.core.trace.start(ctx, SpanInternal, "trimEvents")
	defer span.end(&err)
	set(span, attrQueueMaxEvents, max)
	if err := checkCount("max", max, "that none stays"); err != nil {
		return 0, fmt.Errorf("bullmq: the events of %s were not trimmed: %w", q.Name(), err)
	}
	return q.core.store.TrimEvents(ctx, max)
}

// RemoveDeprecatedPriorityKey removes what BullMQ 3 and older have left of their
// priorities, and answers whether there was anything. Only when no client of that
// age works on the queue any more (BullMQ: removeDeprecatedPriorityKey).
func (q *Queue) RemoveDeprecatedPriorityKey(ctx context.Context) (bool, error) {
	repairer, err := q.repairer()
	if err != nil {
		return false, err
	}
	return repairer.RemovePriorityKey(ctx)
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
	meta, err := q.core.store.Meta(ctx)
	return Meta{
		Version: meta.Version, Paused: meta.Paused, Concurrency: meta.Concurrency,
		RateLimit: (*Limiter)(meta.RateLimit), MaxEvents: meta.MaxEvents,
	}, err
}

// CountDelayedBefore returns how many delayed jobs are due before a time
// (BullMQ: getDelayedCount with a timestamp).
func (q *Queue) CountDelayedBefore(ctx context.Context, before time.Time) (int, error) {
	return q.core.store.CountDelayed(ctx, before)
}
