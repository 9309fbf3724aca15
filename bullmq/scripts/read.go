package scripts

import (
	"context"
)

var (
	getCounts            = load("getCounts")
	getCountsPerPriority = load("getCountsPerPriority")
	getJobIDs            = load("getJobIds")
	getJobs              = load("getJobs")
	getMetrics           = load("getMetrics")
	getRateLimitTTL      = load("getRateLimitTtl")
	isMaxed              = load("isMaxed")
	pause                = load("pause")
	resume               = load("resume")
)

// Counts answers how many jobs stand in each of some states, by the names of
// their keys (wait for waiting). With beforeMs ≥ 0 only delayed jobs due
// before that time count.
func (q *Store) Counts(ctx context.Context, beforeMs int64, states ...string) ([]int64, error) {
	before := ""
	if beforeMs >= 0 {
		before = decimal(beforeMs)
	}
	return q.numbers(ctx, getCounts, len(states), append([]string{q.base, before}, states...)...)
}

// CountsPerPriority answers how many jobs wait for each of some priorities.
func (q *Store) CountsPerPriority(ctx context.Context, priorities ...int64) ([]int64, error) {
	args := []string{q.base}
	for _, priority := range priorities {
		args = append(args, decimal(priority))
	}
	return q.numbers(ctx, getCountsPerPriority, len(priorities), args...)
}

// Record is a job as it is stored.
type Record struct {
	JobID string
	Hash  []string // field, value, field, value …
}

// Jobs answers a page of jobs for each of some states, by the names of their
// keys; to is inclusive, -1 the last.
func (q *Store) Jobs(ctx context.Context, from, to int64, ascending bool, states ...string) ([]Record, error) {
	args := append([]string{q.base, decimal(from), decimal(to), flag(ascending)}, states...)
	message, err := q.run(ctx, getJobs, args...)
	if err != nil {
		return nil, err
	}
	pages, err := message.ToArray()
	if err != nil {
		return nil, q.unexpected(getJobs, err)
	}
	var records []Record
	for _, page := range pages {
		rows, _ := page.ToArray()
		for _, row := range rows {
			if pair, _ := row.ToArray(); len(pair) == 2 {
				records = append(records, Record{JobID: text(pair[0]), Hash: texts(pair[1])})
			}
		}
	}
	return records, nil
}

// JobIDs answers a page of ids for each of some states, by the names of their
// keys, also of jobs without a hash; to is inclusive, -1 the last.
func (q *Store) JobIDs(ctx context.Context, from, to int64, ascending bool, states ...string) ([]string, error) {
	return q.strings(ctx, getJobIDs, append([]string{q.base, decimal(from), decimal(to), flag(ascending)}, states...)...)
}

// Metrics is what workers have counted of completed or failed jobs, in the
// text of the wire; "" where nothing is stored.
type Metrics struct {
	Count, PrevTS, PrevCount string
	Points                   []string // newest first, one a minute
	Total                    int64    // how many points there are
}

// Metrics reads a range of points; kind is completed or failed.
func (q *Store) Metrics(ctx context.Context, kind string, from, to int64) (Metrics, error) {
	message, err := q.run(ctx, getMetrics, q.base, kind, decimal(from), decimal(to))
	if err != nil {
		return Metrics{}, err
	}
	parts, err := message.ToArray()
	if err != nil || len(parts) != 3 {
		return Metrics{}, q.unexpected(getMetrics, err)
	}
	metrics := Metrics{Points: texts(parts[1])}
	if head := texts(parts[0]); len(head) == 3 {
		metrics.Count, metrics.PrevTS, metrics.PrevCount = head[0], head[1], head[2]
	}
	metrics.Total, _ = parts[2].AsInt64()
	return metrics, nil
}

// RateLimitTTL answers for how many ms the rate limit holds when max jobs a
// window are allowed, 0 for the queue's own maximum.
func (q *Store) RateLimitTTL(ctx context.Context, max int64) (int64, error) {
	message, err := q.run(ctx, getRateLimitTTL, q.base, decimal(max))
	if err != nil {
		return 0, err
	}
	return message.AsInt64()
}

// IsMaxed answers whether the queue runs as many jobs as its global
// concurrency allows.
func (q *Store) IsMaxed(ctx context.Context) (bool, error) {
	n, err := q.number(ctx, isMaxed, "", q.base)
	return n == 1, err
}

// Pause stops the queue for all workers.
func (q *Store) Pause(ctx context.Context) error {
	_, err := q.number(ctx, pause, "", q.base)
	return err
}

// Resume lets workers go on. Jobs that BullMQ 5 parked are moved back 7000 at
// a time until none is left; one event is written.
func (q *Store) Resume(ctx context.Context) error {
	for quiet := false; ; quiet = true {
		parked, err := q.number(ctx, resume, "", q.base, flag(quiet))
		if err != nil || parked == 0 {
			return err
		}
	}
}
