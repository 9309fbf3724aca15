package scripts

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

var (
	removeUnprocessedChildren = load("removeUnprocessedChildren")
	removeChildDependency     = load("removeChildDependency")
)

// ChildValues reads the return values of a job's completed children.
func (q *Store) ChildValues(ctx context.Context, jobID string) (children []backend.ChildResult, err error) {
	defer q.about("results of the children of job "+jobID, &err)
	values, err := q.client.Do(ctx, q.client.B().Hgetall().Key(q.base+jobID+":processed").Build()).AsStrMap()
	return childResults(values), err
}

// IgnoredFailures reads the failed children whose failure the job ignores, with the reasons.
func (q *Store) IgnoredFailures(ctx context.Context, jobID string) (children []backend.ChildResult, err error) {
	defer q.about("failures of the children of job "+jobID, &err)
	reasons, err := q.client.Do(ctx, q.client.B().Hgetall().Key(q.base+jobID+":failed").Build()).AsStrMap()
	return childResults(reasons), err
}

// Children reads all children of a job atomically.
func (q *Store) Children(ctx context.Context, jobID string) (d backend.Dependencies, err error) {
	defer q.about("children of job "+jobID, &err)
	at, b := q.base+jobID, q.client.B
	results := q.client.DoMulti(ctx, b().Multi().Build(),
		b().Hgetall().Key(at+":processed").Build(), b().Smembers().Key(at+":dependencies").Build(),
		b().Hgetall().Key(at+":failed").Build(), b().Zrange().Key(at+":unsuccessful").Min("0").Max("-1").Build(),
		b().Exec().Build())
	replies, err := results[len(results)-1].ToArray()
	if err == nil && len(replies) != 4 {
		err = fmt.Errorf("4 calls have %d replies", len(replies))
	}
	if err != nil {
		return d, err
	}
	processed, err := replies[0].AsStrMap()
	if err != nil {
		return d, err
	}
	pending, err := replies[1].AsStrSlice()
	if err != nil {
		return d, err
	}
	ignored, err := replies[2].AsStrMap()
	if err != nil {
		return d, err
	}
	failed, err := replies[3].AsStrSlice()
	return backend.Dependencies{
		Processed: childResults(processed), Pending: jobRefs(pending), Ignored: childResults(ignored), Failed: jobRefs(failed),
	}, err
}

func childResults(values map[string]string) []backend.ChildResult {
	children := make([]backend.ChildResult, 0, len(values))
	for key, value := range values {
		children = append(children, backend.ChildResult{Child: backend.ParseJobRef(key), Value: value})
	}
	return children
}

func jobRefs(keys []string) []backend.JobRef {
	refs := make([]backend.JobRef, len(keys))
	for i, key := range keys {
		refs[i] = backend.ParseJobRef(key)
	}
	return refs
}

// JobsOf reads jobs of any queues.
func (q *Store) JobsOf(ctx context.Context, jobs []backend.JobRef) (records []*backend.JobRecord, err error) {
	defer q.about("reading jobs for a job", &err)
	commands := make([]rueidis.Completed, len(jobs))
	for i, job := range jobs {
		commands[i] = q.client.B().Hgetall().Key(job.String()).Build()
	}
	records = make([]*backend.JobRecord, len(jobs))
	for i, result := range q.client.DoMulti(ctx, commands...) {
		if records[i], err = readIfHash(jobs[i].ID, result); err != nil {
			return nil, err
		}
	}
	return records, nil
}

// JobLabels reads the names of jobs of any queues, and why they have failed.
func (q *Store) JobLabels(ctx context.Context, jobs []backend.JobRef) (labels []backend.JobLabel, err error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	defer q.about("reading the names of jobs, for a job", &err)
	calls := make([]rueidis.Completed, len(jobs))
	for i, job := range jobs {
		calls[i] = q.client.B().Hmget().Key(job.String()).Field("name", "failedReason").Build()
	}
	labels = make([]backend.JobLabel, len(jobs))
	for i, result := range q.client.DoMulti(ctx, calls...) {
		message, err := result.ToMessage()
		if err != nil {
			return nil, err
		}
		if values := texts(message); len(values) == 2 {
			labels[i] = backend.JobLabel{Name: values[0], FailedReason: values[1]}
		}
	}
	return labels, nil
}

// ScanChildren reads a part of a job's children. Redis returns them in no particular order.
func (q *Store) ScanChildren(ctx context.Context, jobID string, from backend.ChildScan) (page backend.ChildPage, err error) {
	defer q.about("children of job "+jobID, &err)
	at, b := q.base+jobID, q.client.B()
	var commands []rueidis.Completed
	var readers []func(rueidis.RedisResult) error
	scan := func(command rueidis.Completed, count int, next **backend.Scan, found func(elements []string)) {
		commands = append(commands, command)
		readers = append(readers, func(result rueidis.RedisResult) error {
			entry, err := result.AsScanEntry()
			found(entry.Elements)
			if entry.Cursor != 0 {
				*next = &backend.Scan{Cursor: entry.Cursor, Count: count}
			}
			return err
		})
	}
	results := func(children *[]backend.ChildResult) func([]string) {
		return func(pairs []string) {
			for i := 0; i+1 < len(pairs); i += 2 {
				*children = append(*children, backend.ChildResult{Child: backend.ParseJobRef(pairs[i]), Value: pairs[i+1]})
			}
		}
	}
	if s := from.Processed; s != nil {
		scan(b.Hscan().Key(at+":processed").Cursor(s.Cursor).Count(int64(s.Count)).Build(), s.Count, &page.Next.Processed, results(&page.Processed))
	}
	if s := from.Pending; s != nil {
		scan(b.Sscan().Key(at+":dependencies").Cursor(s.Cursor).Count(int64(s.Count)).Build(), s.Count, &page.Next.Pending,
			func(keys []string) { page.Pending = jobRefs(keys) })
	}
	if s := from.Ignored; s != nil {
		scan(b.Hscan().Key(at+":failed").Cursor(s.Cursor).Count(int64(s.Count)).Build(), s.Count, &page.Next.Ignored, results(&page.Ignored))
	}
	if s := from.Failed; s != nil { // a sorted set, so the cursor is an index
		last := int64(s.Cursor) + int64(s.Count) - 1
		commands = append(commands, b.Zrange().Key(at+":unsuccessful").Min(decimal(int64(s.Cursor))).Max(decimal(last)).Build())
		readers = append(readers, func(result rueidis.RedisResult) error {
			keys, err := result.AsStrSlice()
			page.Failed = jobRefs(keys)
			if len(keys) == s.Count {
				page.Next.Failed = &backend.Scan{Cursor: uint64(last + 1), Count: s.Count}
			}
			return err
		})
	}
	for i, result := range q.client.DoMulti(ctx, commands...) {
		if err := readers[i](result); err != nil {
			return backend.ChildPage{}, err
		}
	}
	return page, nil
}

// ChildRange reads a range of a job's children that have completed or are pending,
// in the order in which Redis returns them.
func (q *Store) ChildRange(ctx context.Context, jobID string, processed bool, from, to int) (children []backend.ChildResult, total int, err error) {
	counts, err := q.ChildCounts(ctx, jobID)
	if err != nil {
		return nil, 0, err
	}
	total = counts.Pending
	if processed {
		total = counts.Processed
	}
	if to < 0 || to >= total {
		to = total - 1
	}
	seen := map[backend.JobRef]bool{}
	note := func(child backend.ChildResult) {
		if !seen[child.Child] { // a scan may return a child twice
			seen[child.Child] = true
			children = append(children, child)
		}
	}
	for next := (&backend.Scan{Count: min(max(to+1, 1), 1000)}); next != nil && len(children) <= to; {
		scan := backend.ChildScan{Pending: next}
		if processed {
			scan = backend.ChildScan{Processed: next}
		}
		page, err := q.ScanChildren(ctx, jobID, scan)
		if err != nil {
			return nil, 0, err
		}
		for _, child := range page.Pending {
			note(backend.ChildResult{Child: child})
		}
		for _, child := range page.Processed {
			note(child)
		}
		if next = page.Next.Pending; processed {
			next = page.Next.Processed
		}
	}
	end := min(max(to+1, 0), len(children))
	start := min(max(from, 0), end)
	return children[start:end], total, nil
}

// ChildCounts counts a job's children.
func (q *Store) ChildCounts(ctx context.Context, jobID string) (counts backend.ChildCounts, err error) {
	defer q.about("counting the children of job "+jobID, &err)
	at := q.base + jobID
	kinds := []*int{&counts.Processed, &counts.Pending, &counts.Ignored, &counts.Failed}
	for i, result := range q.client.DoMulti(ctx,
		q.client.B().Hlen().Key(at+":processed").Build(), q.client.B().Scard().Key(at+":dependencies").Build(),
		q.client.B().Hlen().Key(at+":failed").Build(), q.client.B().Zcard().Key(at+":unsuccessful").Build(),
	) {
		n, err := result.AsInt64()
		if err != nil {
			return counts, err
		}
		*kinds[i] = int(n)
	}
	return counts, nil
}

// RemoveUnprocessedChildren removes a job's children that have not finished and are not
// running.
func (q *Store) RemoveUnprocessedChildren(ctx context.Context, jobID string) error {
	_, err := q.number(ctx, removeUnprocessedChildren, jobID, q.base, jobID)
	return err
}

// RemoveChildDependency detaches a child from its parent.
func (q *Store) RemoveChildDependency(ctx context.Context, jobID string) (bool, error) {
	n, err := q.number(ctx, removeChildDependency, jobID, q.base, jobID)
	return err == nil && n == 0, err
}
