package scripts

import (
	"context"

	"github.com/redis/rueidis"
)

// Processed reads the return values (JSON) of a job's completed children.
func (q *Queue) Processed(ctx context.Context, jobID string) (map[string]string, error) {
	return q.client.Do(ctx, q.client.B().Hgetall().Key(q.base+jobID+":processed").Build()).AsStrMap()
}

// Ignored reads the reasons of failures that a job goes on without.
func (q *Queue) Ignored(ctx context.Context, jobID string) (map[string]string, error) {
	return q.client.Do(ctx, q.client.B().Hgetall().Key(q.base+jobID+":failed").Build()).AsStrMap()
}

// Children are the keys of a job's children, by how they stand.
type Children struct {
	Processed map[string]string // to return values (JSON)
	Pending   []string
	Ignored   map[string]string // to the reasons of failures that the job goes on without
	Failed    []string          // those that fail the job
}

// Children reads all children of a job, as they are at one moment.
func (q *Queue) Children(ctx context.Context, jobID string) (c Children, err error) {
	at, b := q.base+jobID, q.client.B
	results := q.client.DoMulti(ctx, b().Multi().Build(),
		b().Hgetall().Key(at+":processed").Build(), b().Smembers().Key(at+":dependencies").Build(),
		b().Hgetall().Key(at+":failed").Build(), b().Zrange().Key(at+":unsuccessful").Min("0").Max("-1").Build(),
		b().Exec().Build())
	answers, err := results[len(results)-1].ToArray()
	if err != nil {
		return c, err
	}
	if c.Processed, err = answers[0].AsStrMap(); err != nil {
		return c, err
	}
	if c.Pending, err = answers[1].AsStrSlice(); err != nil {
		return c, err
	}
	if c.Ignored, err = answers[2].AsStrMap(); err != nil {
		return c, err
	}
	c.Failed, err = answers[3].AsStrSlice()
	return c, err
}

// FailedReasons reads why jobs failed, by their keys, in their order; "" where
// a job is gone or has not failed.
func (q *Queue) FailedReasons(ctx context.Context, keys []string) ([]string, error) {
	calls := make([]rueidis.Completed, len(keys))
	for i, key := range keys {
		calls[i] = q.client.B().Hget().Key(key).Field("failedReason").Build()
	}
	reasons := make([]string, len(keys))
	for i, result := range q.client.DoMulti(ctx, calls...) {
		var err error
		if reasons[i], err = result.ToString(); err != nil && !rueidis.IsRedisNil(err) {
			return nil, err
		}
	}
	return reasons, nil
}

// ChildCounts counts a job's children: processed, pending, ignored, failed.
func (q *Queue) ChildCounts(ctx context.Context, jobID string) (counts [4]int64, err error) {
	at := q.base + jobID
	for i, result := range q.client.DoMulti(ctx,
		q.client.B().Hlen().Key(at+":processed").Build(), q.client.B().Scard().Key(at+":dependencies").Build(),
		q.client.B().Hlen().Key(at+":failed").Build(), q.client.B().Zcard().Key(at+":unsuccessful").Build(),
	) {
		if counts[i], err = result.AsInt64(); err != nil {
			return counts, err
		}
	}
	return counts, nil
}

// ChildKeys reads the keys of about max children of each kind: processed,
// pending, failed, ignored.
func (q *Queue) ChildKeys(ctx context.Context, jobID string, max int64) ([]string, error) {
	at := q.base + jobID
	results := q.client.DoMulti(ctx,
		q.client.B().Hscan().Key(at+":processed").Cursor(0).Count(max).Build(),
		q.client.B().Sscan().Key(at+":dependencies").Cursor(0).Count(max).Build(),
		q.client.B().Zrange().Key(at+":unsuccessful").Min("0").Max(decimal(max-1)).Build(),
		q.client.B().Hscan().Key(at+":failed").Cursor(0).Count(max).Build())
	var keys []string
	for i, result := range results {
		if i == 2 {
			failed, err := result.AsStrSlice()
			if err != nil {
				return nil, err
			}
			keys = append(keys, failed...)
			continue
		}
		page, err := result.AsScanEntry()
		if err != nil {
			return nil, err
		}
		for j, element := range page.Elements {
			if i == 1 || j%2 == 0 { // of a hash the fields, not the values
				keys = append(keys, element)
			}
		}
	}
	return keys, nil
}
