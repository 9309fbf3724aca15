package bullmq

import (
	"context"
	"fmt"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// Pause pauses the queue for all workers (BullMQ: pause). No job is fetched until
// [Queue.Resume]. Running jobs continue. To pause one worker, use [Worker.Pause].
func (q *Queue) Pause(ctx context.Context) (err error) {
	ctx, span := q.core.trace.start(ctx, SpanInternal, "pause")
	defer span.end(&err)
	return q.core.store.Pause(ctx)
}

// Resume ends the pause of the queue (BullMQ: resume). Jobs that BullMQ 5 has moved to the
// list "paused" become ready too.
func (q *Queue) Resume(ctx context.Context) (err error) {
	ctx, span := q.core.trace.start(ctx, SpanInternal, "resume")
	defer span.end(&err)
	return q.core.store.Resume(ctx)
}

// IsPaused reports whether the queue is paused (BullMQ: isPaused).
func (q *Queue) IsPaused(ctx context.Context) (bool, error) {
	meta, err := q.core.store.Meta(ctx)
	return meta.Paused, err
}

// IsMaxed reports whether as many jobs run as the queue's global concurrency allows
// (BullMQ: isMaxed).
func (q *Queue) IsMaxed(ctx context.Context) (bool, error) { return q.core.store.IsMaxed(ctx) }

// RateLimit stops the workers of the queue for a duration (BullMQ: rateLimit). If the
// queue has a global rate limit, all workers stop. Otherwise only workers with a [Limiter]
// stop. A handler that calls RateLimit must return [ErrRateLimited] afterwards. wait is
// rounded down to whole milliseconds. Less than a millisecond is an error.
func (q *Queue) RateLimit(ctx context.Context, wait time.Duration) (err error) {
	ctx, span := q.core.trace.start(ctx, SpanInternal, "rateLimit")
	defer span.end(&err)
	setAttr(span, attrQueueRateLimit, wait.Milliseconds())
	return q.core.rateLimit(ctx, wait)
}

func (c *core) rateLimit(ctx context.Context, wait time.Duration) error {
	if wait < time.Millisecond {
		return fmt.Errorf("bullmq: queue %s can't be stopped for %v, which is less than a millisecond; use Queue.RemoveRateLimitKey to end a rate limit", c.keys.queue, wait)
	}
	return c.store.StartRateLimit(ctx, wait)
}

// RateLimitTTL returns how long the rate limit is still in effect, or 0 if no limit is in
// effect (BullMQ: getRateLimitTtl, which returns -2 if there is no limit). max is the
// number of jobs that a window allows, usually the Max of the workers' [Limiter]. If max
// is 0, the Max of the global rate limit is used.
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

// RemoveRateLimitKey ends the current rate limit and reports whether there was one
// (BullMQ: removeRateLimitKey).
func (q *Queue) RemoveRateLimitKey(ctx context.Context) (bool, error) {
	return q.core.store.RemoveRateLimit(ctx)
}

// SetGlobalConcurrency limits how many jobs run at the same time, across all workers
// (BullMQ: setGlobalConcurrency). With 0 no job starts until
// [Queue.RemoveGlobalConcurrency] is called. A negative number is an error.
func (q *Queue) SetGlobalConcurrency(ctx context.Context, concurrency int) error {
	if concurrency < 0 {
		return fmt.Errorf("bullmq: queue %s: a global concurrency of %d is less than 0; use RemoveGlobalConcurrency to remove the limit", q.Name(), concurrency)
	}
	return q.core.store.SetGlobalConcurrency(ctx, &concurrency)
}

// RemoveGlobalConcurrency removes the limit of [Queue.SetGlobalConcurrency].
func (q *Queue) RemoveGlobalConcurrency(ctx context.Context) error {
	return q.core.store.SetGlobalConcurrency(ctx, nil)
}

// GlobalConcurrency returns the limit of [Queue.SetGlobalConcurrency], or 0 if there is
// none (BullMQ: getGlobalConcurrency). [Queue.Meta] distinguishes a limit of 0 from no
// limit.
func (q *Queue) GlobalConcurrency(ctx context.Context) (int, error) {
	meta, err := q.core.store.Meta(ctx)
	if err != nil || meta.Concurrency == nil {
		return 0, err
	}
	return *meta.Concurrency, nil
}

// SetGlobalRateLimit limits how many jobs start within a period, across all workers
// (BullMQ: setGlobalRateLimit). For a worker with a [Limiter], the global Max takes
// precedence over the Max of the Limiter, but the Duration of the Limiter takes precedence
// over the global Duration.
func (q *Queue) SetGlobalRateLimit(ctx context.Context, limit Limiter) error {
	if err := limit.check(); err != nil {
		return fmt.Errorf("bullmq: queue %s: %w; use RemoveGlobalRateLimit to remove the limit", q.Name(), err)
	}
	return q.core.store.SetGlobalRateLimit(ctx, (*backend.RateLimit)(&limit))
}

// RemoveGlobalRateLimit removes the limit of [Queue.SetGlobalRateLimit].
func (q *Queue) RemoveGlobalRateLimit(ctx context.Context) error {
	return q.core.store.SetGlobalRateLimit(ctx, nil)
}

// GlobalRateLimit returns the limit of [Queue.SetGlobalRateLimit], or nil if there is
// none (BullMQ: getGlobalRateLimit).
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

// RemoveDeduplicationKey frees a deduplication id and reports whether a job owned it
// (BullMQ: removeDeduplicationKey).
func (q *Queue) RemoveDeduplicationKey(ctx context.Context, dedupID string) (freed bool, err error) {
	ctx, span := q.core.trace.start(ctx, SpanInternal, "removeDeduplicationKey")
	defer span.end(&err)
	setAttr(span, attrDeduplicationKey, dedupID)
	return q.core.store.FreeDeduplication(ctx, dedupID)
}

// TrimEvents trims the events stream to about max entries and returns the number of
// removed entries (BullMQ: trimEvents).
func (q *Queue) TrimEvents(ctx context.Context, max int) (removed int, err error) {
	ctx, span := q.core.trace.start(ctx, SpanInternal, "trimEvents")
	defer span.end(&err)
	setAttr(span, attrQueueMaxEvents, max)
	if err := checkCount("max", max, "that none stays"); err != nil {
		return 0, fmt.Errorf("bullmq: the events of %s were not trimmed: %w", q.Name(), err)
	}
	return q.core.store.TrimEvents(ctx, max)
}

// RemoveDeprecatedPriorityKey deletes the key in which BullMQ 3 and older kept
// priorities, and reports whether it existed (BullMQ: removeDeprecatedPriorityKey). Call
// it only when no client of such a version uses the queue.
func (q *Queue) RemoveDeprecatedPriorityKey(ctx context.Context) (bool, error) {
	repairer, err := q.repairer()
	if err != nil {
		return false, err
	}
	return repairer.RemovePriorityKey(ctx)
}

// Meta has the settings of a queue (BullMQ: getMeta).
type Meta struct {
	Version     string // of the client that created the queue, such as bullmq:6.7.0
	Paused      bool
	Concurrency *int     // global; nil for no limit
	RateLimit   *Limiter // global; nil for no limit
	MaxEvents   int      // approximate number of entries that the events stream keeps, or NoEvents; 0 if not stored yet
}

// Meta returns the settings of the queue (BullMQ: getMeta).
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

// CountFinishedBefore returns how many of the stored jobs finished before a time. state is
// [StateCompleted] or [StateFailed]; another state is an error. It costs one command, however
// many jobs there are. [Queue.Clean] removes these jobs.
func (q *Queue) CountFinishedBefore(ctx context.Context, state State, before time.Time) (int, error) {
	if state != StateCompleted && state != StateFailed {
		return 0, fmt.Errorf("bullmq: count finished jobs of queue %s: jobs do not finish in the state %q; use StateCompleted or StateFailed", q.Name(), state)
	}
	return q.core.store.CountFinished(ctx, backendState(state), before)
}
