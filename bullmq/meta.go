package bullmq

import (
	"context"
	"strconv"
	"time"
)

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
		m.RateLimit = &Limiter{Max: parseInt(values[3]), Duration: parseMillis(values[4])}
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

// CountDelayedBefore answers how many delayed jobs are due before a time
// (BullMQ: getDelayedCount with a timestamp).
func (q *Queue) CountDelayedBefore(ctx context.Context, before time.Time) (int64, error) {
	counts, err := q.core.store.Counts(ctx, before.UnixMilli(), string(Delayed))
	if err != nil {
		return 0, err
	}
	return counts[0], nil
}
