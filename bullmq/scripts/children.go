package scripts

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/rueidis"
)

// Processed reads the return values (JSON) of a job's completed children.
func (q *Store) Processed(ctx context.Context, jobID string) (values map[string]string, err error) {
	defer q.about("results of the children of job "+jobID, &err)
	return q.client.Do(ctx, q.client.B().Hgetall().Key(q.base+jobID+":processed").Build()).AsStrMap()
}

// Ignored reads the reasons of failures that a job goes on without.
func (q *Store) Ignored(ctx context.Context, jobID string) (reasons map[string]string, err error) {
	defer q.about("failures of the children of job "+jobID, &err)
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
func (q *Store) Children(ctx context.Context, jobID string) (c Children, err error) {
	defer q.about("children of job "+jobID, &err)
	at, b := q.base+jobID, q.client.B
	results := q.client.DoMulti(ctx, b().Multi().Build(),
		b().Hgetall().Key(at+":processed").Build(), b().Smembers().Key(at+":dependencies").Build(),
		b().Hgetall().Key(at+":failed").Build(), b().Zrange().Key(at+":unsuccessful").Min("0").Max("-1").Build(),
		b().Exec().Build())
	answers, err := results[len(results)-1].ToArray()
	if err == nil && len(answers) != 4 {
		err = fmt.Errorf("4 calls have %d answers", len(answers))
	}
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
func (q *Store) FailedReasons(ctx context.Context, keys []string) (reasons []string, err error) {
	defer q.about("reading why jobs failed, for a job", &err)
	calls := make([]rueidis.Completed, len(keys))
	for i, key := range keys {
		calls[i] = q.client.B().Hget().Key(key).Field("failedReason").Build()
	}
	reasons = make([]string, len(keys))
	for i, result := range q.client.DoMulti(ctx, calls...) {
		if reasons[i], err = result.ToString(); err != nil && !rueidis.IsRedisNil(err) {
			return nil, err
		}
	}
	return reasons, nil
}

// Scan is where to read children of one kind, and about how many of them; nil
// where none are to be read, or none are left.
type Scan struct {
	Cursor uint64
	Count  int64
}

// ChildScan is a Scan for each kind of children.
type ChildScan struct{ Processed, Unprocessed, Ignored, Failed *Scan }

// ChildPage is what a ChildScan has found, keys of children, with Next for what
// follows. Behind each key of Processed and Ignored stands its value.
type ChildPage struct {
	Processed, Unprocessed, Ignored, Failed []string
	Next                                    ChildScan
}

// ScanChildren reads a part of a job's children.
func (q *Store) ScanChildren(ctx context.Context, jobID string, from ChildScan) (page ChildPage, err error) {
	defer q.about("children of job "+jobID, &err)
	at, b := q.base+jobID, q.client.B()
	var commands []rueidis.Completed
	var readers []func(rueidis.RedisResult) error
	scan := func(command rueidis.Completed, count int64, found *[]string, next **Scan) {
		commands = append(commands, command)
		readers = append(readers, func(result rueidis.RedisResult) error {
			entry, err := result.AsScanEntry()
			*found = entry.Elements
			if entry.Cursor != 0 {
				*next = &Scan{entry.Cursor, count}
			}
			return err
		})
	}
	if s := from.Processed; s != nil {
		scan(b.Hscan().Key(at+":processed").Cursor(s.Cursor).Count(s.Count).Build(), s.Count, &page.Processed, &page.Next.Processed)
	}
	if s := from.Unprocessed; s != nil {
		scan(b.Sscan().Key(at+":dependencies").Cursor(s.Cursor).Count(s.Count).Build(), s.Count, &page.Unprocessed, &page.Next.Unprocessed)
	}
	if s := from.Ignored; s != nil {
		scan(b.Hscan().Key(at+":failed").Cursor(s.Cursor).Count(s.Count).Build(), s.Count, &page.Ignored, &page.Next.Ignored)
	}
	if s := from.Failed; s != nil { // sorted, so the cursor is a place
		last := int64(s.Cursor) + s.Count - 1
		commands = append(commands, b.Zrange().Key(at+":unsuccessful").Min(decimal(int64(s.Cursor))).Max(decimal(last)).Build())
		readers = append(readers, func(result rueidis.RedisResult) (err error) {
			page.Failed, err = result.AsStrSlice()
			if int64(len(page.Failed)) == s.Count {
				page.Next.Failed = &Scan{uint64(last + 1), s.Count}
			}
			return err
		})
	}
	for i, result := range q.client.DoMulti(ctx, commands...) {
		if err := readers[i](result); err != nil {
			return ChildPage{}, err
		}
	}
	return page, nil
}

// ChildRange reads children that have completed, with their values (JSON), or
// that are pending, with none, between two places of the order in which Redis
// hands them out; to is inclusive, -1 the last. total counts all of them.
func (q *Store) ChildRange(ctx context.Context, jobID string, processed bool, from, to int64) (keys, values []string, total int64, err error) {
	counts, err := q.ChildCounts(ctx, jobID)
	if err != nil {
		return nil, nil, 0, err
	}
	total = counts[1]
	if processed {
		total = counts[0]
	}
	if to < 0 || to >= total {
		to = total - 1
	}
	seen := map[string]bool{}
	note := func(key, value string) {
		if !seen[key] { // a scan may hand one out twice
			seen[key] = true
			keys, values = append(keys, key), append(values, value)
		}
	}
	for next := (&Scan{Count: min(max(to+1, 1), 1000)}); next != nil && int64(len(keys)) <= to; {
		scan := ChildScan{Unprocessed: next}
		if processed {
			scan = ChildScan{Processed: next}
		}
		page, err := q.ScanChildren(ctx, jobID, scan)
		if err != nil {
			return nil, nil, 0, err
		}
		for _, key := range page.Unprocessed {
			note(key, "")
		}
		for i := 0; i+1 < len(page.Processed); i += 2 {
			note(page.Processed[i], page.Processed[i+1])
		}
		if next = page.Next.Unprocessed; processed {
			next = page.Next.Processed
		}
	}
	end := min(max(to+1, 0), int64(len(keys)))
	start := min(max(from, 0), end)
	return keys[start:end], values[start:end], total, nil
}

// ChildCounts counts a job's children: processed, pending, ignored, failed.
func (q *Store) ChildCounts(ctx context.Context, jobID string) (counts [4]int64, err error) {
	defer q.about("counting the children of job "+jobID, &err)
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
func (q *Store) ChildKeys(ctx context.Context, jobID string, max int64) ([]string, error) {
	from := &Scan{Count: max}
	page, err := q.ScanChildren(ctx, jobID, ChildScan{from, from, from, from})
	return slices.Concat(evenOnes(page.Processed), page.Unprocessed, page.Failed, evenOnes(page.Ignored)), err
}

// evenOnes are the keys of a list of keys and values.
func evenOnes(pairs []string) []string {
	keys := make([]string, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		keys = append(keys, pairs[i])
	}
	return keys
}
