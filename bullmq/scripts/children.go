package scripts

import (
	"context"
)

// Processed reads the return values (JSON) of a job's completed children.
func (q *Queue) Processed(ctx context.Context, jobID string) (map[string]string, error) {
	return q.client.Do(ctx, q.client.B().Hgetall().Key(q.base+jobID+":processed").Build()).AsStrMap()
}

// Ignored reads the reasons of failures that a job goes on without.
func (q *Queue) Ignored(ctx context.Context, jobID string) (map[string]string, error) {
	return q.client.Do(ctx, q.client.B().Hgetall().Key(q.base+jobID+":failed").Build()).AsStrMap()
}

// Children reads the keys of a job's pending children and of those that fail it.
func (q *Queue) Children(ctx context.Context, jobID string) (pending, failed []string, err error) {
	results := q.client.DoMulti(ctx,
		q.client.B().Smembers().Key(q.base+jobID+":dependencies").Build(),
		q.client.B().Zrange().Key(q.base+jobID+":unsuccessful").Min("0").Max("-1").Build())
	if pending, err = results[0].AsStrSlice(); err != nil {
		return nil, nil, err
	}
	failed, err = results[1].AsStrSlice()
	return pending, failed, err
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
