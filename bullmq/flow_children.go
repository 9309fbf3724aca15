package bullmq

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// Child is a child of a job with its result.
type Child[T any] struct {
	Key           string // <prefix>:<queue>:<id>, as returned by Job.Key
	QueueName, ID string
	// Name is the child's name. It is "" if the child was removed. A child with
	// KeepCompleted [KeepNone] is removed when it completes.
	Name string
	// Value is the child's return value. It is the zero value if Err is not nil.
	Value T
	// Err is nil if the child completed, a [*JobFailedError] if it failed, and
	// [ErrChildPending] if it has not finished.
	Err error
}

var (
	// ErrChildPending means that a child has not finished, or that it has failed and
	// its parent waits until it is retried.
	ErrChildPending = errors.New("bullmq: the child has not finished")
	// ErrNoChild means that a job has no child, that its child was removed, or that its
	// child failed and has OnFailure [RemoveDependency].
	ErrNoChild = errors.New("bullmq: the job has no child, or its child was removed")
)

// Children returns a job's children in the order of their keys, with their return
// values decoded as type T (BullMQ: getDependencies). A value that can't be decoded as T is
// an error. With json.RawMessage as T, the values are not decoded. You can then decode each
// value as the type that belongs to the Name of the child.
//
// Children makes two calls to Redis: the second one reads the names.
func Children[T any](ctx context.Context, job *Job) ([]Child[T], error) {
	return children[T](ctx, job, true)
}

// children is Children. It reads the names only if named is set.
func children[T any](ctx context.Context, job *Job, named bool) ([]Child[T], error) {
	c, err := job.coreFor("read the children of")
	if err != nil {
		return nil, err
	}
	standing, err := c.store.Children(ctx, job.ID)
	if err != nil {
		return nil, err
	}
	refs := standing.Failed // whose reasons are read too
	if named {
		refs = slices.Concat(standing.Failed, childRefs(standing.Processed), childRefs(standing.Ignored), standing.Pending)
	}
	labels, err := c.store.JobLabels(ctx, refs)
	if err != nil {
		return nil, err
	}
	names := make(map[backend.JobRef]string, len(refs))
	for i, ref := range refs {
		names[ref] = labels[i].Name
	}
	var children []Child[T]
	child := func(ref backend.JobRef) *Child[T] {
		child := Child[T]{Key: ref.String(), Name: names[ref]}
		if ref.IsComplete() { // otherwise the key names no job
			child.QueueName, child.ID = ref.Queue, ref.ID
		}
		children = append(children, child)
		return &children[len(children)-1]
	}
	failed := func(ref backend.JobRef, reason string) {
		c := child(ref)
		c.Err = &JobFailedError{QueueName: c.QueueName, JobID: c.ID, Reason: reason}
	}
	for _, result := range standing.Processed {
		c := child(result.Child)
		if err := wire.DecodeJSON([]byte(result.Value), &c.Value); err != nil {
			return nil, fmt.Errorf("bullmq: the return value of job %s of queue %s can't be decoded as %T: %w", c.ID, c.QueueName, c.Value, err)
		}
	}
	for _, result := range standing.Ignored {
		failed(result.Child, result.Value)
	}
	for i, ref := range standing.Failed {
		failed(ref, labels[i].FailedReason)
	}
	for _, ref := range standing.Pending {
		child(ref).Err = ErrChildPending
	}
	slices.SortFunc(children, func(a, b Child[T]) int { return cmp.Compare(a.Key, b.Key) })
	return children, nil
}

// ChildValue returns the result of a job's only child, which in a [Chain] is the
// previous step. It returns the child's Err if there is no result, and [ErrNoChild] if
// there is no child. For a job with several children it returns an error; use
// [Children] instead.
func ChildValue[T any](ctx context.Context, job *Job) (T, error) {
	var none T
	children, err := children[T](ctx, job, false)
	switch {
	case err != nil:
		return none, err
	case len(children) == 0:
		return none, fmt.Errorf("job %s of queue %s: %w", job.ID, job.QueueName(), ErrNoChild)
	case len(children) > 1:
		return none, fmt.Errorf("bullmq: job %s of queue %s has %d children, not one: read them with Children", job.ID, job.QueueName(), len(children))
	}
	return children[0].Value, children[0].Err
}

// ChildrenValues returns the return values of the job's completed children, as JSON,
// by the children's keys (BullMQ: getChildrenValues).
func (j *Job) ChildrenValues(ctx context.Context) (map[string]json.RawMessage, error) {
	c, err := j.coreFor("read the children of")
	if err != nil {
		return nil, err
	}
	values, err := c.store.ChildValues(ctx, j.ID)
	if err != nil {
		return nil, err
	}
	return rawValues(values), nil
}

// rawValues returns the values of children by their keys.
func rawValues(children []backend.ChildResult) map[string]json.RawMessage {
	values := make(map[string]json.RawMessage, len(children))
	for _, child := range children {
		values[child.Child.String()] = json.RawMessage(child.Value)
	}
	return values
}

// reasonsOf returns the reasons of failed children, by their keys.
func reasonsOf(children []backend.ChildResult) map[string]string {
	reasons := make(map[string]string, len(children))
	for _, child := range children {
		reasons[child.Child.String()] = child.Value
	}
	return reasons
}

// keysOf returns the keys of jobs.
func keysOf(refs []backend.JobRef) []string {
	keys := make([]string, len(refs))
	for i, ref := range refs {
		keys[i] = ref.String()
	}
	return keys
}

// dependencies converts children to Dependencies.
func dependencies(d backend.Dependencies) Dependencies {
	return Dependencies{
		Processed: rawValues(d.Processed), Unprocessed: keysOf(d.Pending), Ignored: reasonsOf(d.Ignored), Failed: keysOf(d.Failed),
	}
}

// IgnoredChildrenFailures returns the failure reasons of children whose failure the
// job ignores, by the children's keys (BullMQ: getIgnoredChildrenFailures).
func (j *Job) IgnoredChildrenFailures(ctx context.Context) (map[string]string, error) {
	c, err := j.coreFor("read the children of")
	if err != nil {
		return nil, err
	}
	failures, err := c.store.IgnoredFailures(ctx, j.ID)
	if err != nil {
		return nil, err
	}
	return reasonsOf(failures), nil
}

// Dependencies are a job's children, grouped by their outcome.
type Dependencies struct {
	Processed   map[string]json.RawMessage // key to return value (JSON)
	Unprocessed []string                   // keys of the children that have not finished
	Ignored     map[string]string          // key to the reason of an ignored failure
	Failed      []string                   // keys of the failed children that fail the job
}

// Dependencies returns all children of the job, read atomically (BullMQ:
// getDependencies).
func (j *Job) Dependencies(ctx context.Context) (*Dependencies, error) {
	c, err := j.coreFor("read the children of")
	if err != nil {
		return nil, err
	}
	children, err := c.store.Children(ctx, j.ID)
	if err != nil {
		return nil, err
	}
	d := dependencies(children)
	return &d, nil
}

// DependencyCursor is the position from which to read children of one kind.
type DependencyCursor struct {
	// At is the position, from DependencyPage.Next. 0 is the beginning.
	At uint64
	// Count is the approximate number of children to read.
	// Defaults to 20.
	Count int
}

// DependencyQuery selects the children to read. A kind whose cursor is nil is not
// read.
type DependencyQuery struct{ Processed, Unprocessed, Ignored, Failed *DependencyCursor }

// DependencyPage is a page of a job's children.
type DependencyPage struct {
	Dependencies
	// Next is the query for the next page. The cursor of a kind is nil if all its
	// children were read. Next is the zero DependencyQuery after the last page.
	Next DependencyQuery
}

// DependencyPage returns a page of the job's children, for jobs with many children
// (BullMQ: getDependencies with cursors). The children are in no particular order. A
// page may have up to about a hundred children even if Count is less. If children
// finish or are removed between two pages, a child may be returned twice.
func (j *Job) DependencyPage(ctx context.Context, query DependencyQuery) (*DependencyPage, error) {
	c, err := j.coreFor("read the children of")
	if err != nil {
		return nil, err
	}
	for name, cursor := range map[string]*DependencyCursor{
		"Processed": query.Processed, "Unprocessed": query.Unprocessed, "Ignored": query.Ignored, "Failed": query.Failed,
	} {
		if cursor != nil {
			if err := checkCount(name+".Count", cursor.Count, "20"); err != nil {
				return nil, fmt.Errorf("bullmq: children of job %s were not read: %w", j.ID, err)
			}
		}
	}
	found, err := c.store.ScanChildren(ctx, j.ID, backend.ChildScan{
		Processed: query.Processed.scan(), Pending: query.Unprocessed.scan(),
		Ignored: query.Ignored.scan(), Failed: query.Failed.scan(),
	})
	if err != nil {
		return nil, err
	}
	return &DependencyPage{
		Dependencies: dependencies(found.Dependencies),
		Next: DependencyQuery{
			Processed: cursor(found.Next.Processed), Unprocessed: cursor(found.Next.Pending),
			Ignored: cursor(found.Next.Ignored), Failed: cursor(found.Next.Failed),
		},
	}, nil
}

func (c *DependencyCursor) scan() *backend.Scan {
	if c == nil {
		return nil
	}
	count := c.Count
	if count == 0 {
		count = 20
	}
	return &backend.Scan{Cursor: c.At, Count: count}
}

func cursor(next *backend.Scan) *DependencyCursor {
	if next == nil {
		return nil
	}
	return &DependencyCursor{At: next.Cursor, Count: next.Count}
}

// ChildJob is a child of a job, with the child's record.
type ChildJob struct {
	Key         string          // <prefix>:<queue>:<id>
	ReturnValue json.RawMessage // JSON; nil while the child is pending
	Job         *Job            // nil if the child was removed
}

// PendingChildren returns a page of the children of a job that have not finished, with
// their records, and the total number of such children (BullMQ: queue.getDependencies,
// "pending"). The order is that of Redis, so Page.Ascending has no effect. The order does
// not change until a child is added, finishes or is removed.
func (q *Queue) PendingChildren(ctx context.Context, parentID string, page Page) ([]ChildJob, int, error) {
	return q.children(ctx, parentID, false, page)
}

// ProcessedChildren returns a page of the children of a job that have completed, as
// [Queue.PendingChildren] does (BullMQ: queue.getDependencies, "processed").
func (q *Queue) ProcessedChildren(ctx context.Context, parentID string, page Page) ([]ChildJob, int, error) {
	return q.children(ctx, parentID, true, page)
}

func (q *Queue) children(ctx context.Context, parentID string, processed bool, page Page) ([]ChildJob, int, error) {
	from, to, err := page.bounds()
	if err != nil {
		return nil, 0, err
	}
	found, total, err := q.core.store.ChildRange(ctx, parentID, processed, from, to)
	if err != nil {
		return nil, 0, err
	}
	refs := childRefs(found)
	records, err := q.core.store.JobsOf(ctx, refs)
	if err != nil {
		return nil, 0, err
	}
	children := make([]ChildJob, len(found))
	homes := map[string]*core{}
	for i, ref := range refs {
		children[i].Key = ref.String()
		if processed {
			children[i].ReturnValue = json.RawMessage(found[i].Value)
		}
		if records[i] == nil {
			continue
		}
		if !ref.IsComplete() {
			return nil, 0, noJobKey(ref)
		}
		home := homes[ref.Prefix+":"+ref.Queue]
		if home == nil {
			if home, err = q.core.sibling(ref.Prefix, ref.Queue); err != nil {
				return nil, 0, err
			}
			homes[ref.Prefix+":"+ref.Queue] = home
		}
		children[i].Job = home.newJob(records[i])
	}
	return children, total, nil
}

// DependencyCounts are the numbers of a job's children, by their outcome.
type DependencyCounts struct{ Processed, Unprocessed, Ignored, Failed int }

// DependencyCounts returns the numbers of the job's children (BullMQ:
// getDependenciesCount).
func (j *Job) DependencyCounts(ctx context.Context) (DependencyCounts, error) {
	c, err := j.coreFor("count the children of")
	if err != nil {
		return DependencyCounts{}, err
	}
	n, err := c.store.ChildCounts(ctx, j.ID)
	return DependencyCounts{n.Processed, n.Pending, n.Ignored, n.Failed}, err
}
