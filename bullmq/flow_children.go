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

// Child is a child of a job, with what it has returned.
type Child[T any] struct {
	Key           string // <prefix>:<queue>:<id>, as Job.Key
	QueueName, ID string
	// Value is what the child returned; the zero value unless Err is nil.
	Value T
	// Err is nil for a child that completed, a *JobFailedError for one that
	// failed, and ErrChildPending for one that has not ended.
	Err error
}

var (
	// ErrChildPending says that a child has not ended, or that it has failed and
	// its parent waits for it to be retried.
	ErrChildPending = errors.New("bullmq: the child has not ended yet")
	// ErrNoChild says that a job has no child, or that nothing is left of it: it
	// was removed, or it failed and had RemoveDependencyOnFailure.
	ErrNoChild = errors.New("bullmq: the job has no child, or none that it remembers")
)

// Children reads a job's children in the order of their keys, and decodes what
// they have returned into the type that the caller names; json.RawMessage takes
// every value as it is. A value that doesn't fit is an error (BullMQ:
// getDependencies).
func Children[T any](ctx context.Context, job *Job) ([]Child[T], error) {
	c, err := job.at("read the children of")
	if err != nil {
		return nil, err
	}
	standing, err := c.store.Children(ctx, job.ID)
	if err != nil {
		return nil, err
	}
	reasons, err := c.store.FailedReasons(ctx, standing.Failed)
	if err != nil {
		return nil, err
	}
	var children []Child[T]
	child := func(ref backend.JobRef) *Child[T] {
		child := Child[T]{Key: ref.String()}
		if ref.IsComplete() { // a key of no job names none
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
			return nil, fmt.Errorf("bullmq: what job %s of queue %s has returned doesn't fit %T: %w", c.ID, c.QueueName, c.Value, err)
		}
	}
	for _, result := range standing.Ignored {
		failed(result.Child, result.Value)
	}
	for i, ref := range standing.Failed {
		failed(ref, reasons[i])
	}
	for _, ref := range standing.Pending {
		child(ref).Err = ErrChildPending
	}
	slices.SortFunc(children, func(a, b Child[T]) int { return cmp.Compare(a.Key, b.Key) })
	return children, nil
}

// ChildValue returns the result of a job's only child: in a [Chain], of the step
// before. It returns the child's Err if there is no result, and [ErrNoChild] if
// nothing is left of the child. A job with several children is an error: use
// [Children].
func ChildValue[T any](ctx context.Context, job *Job) (T, error) {
	var none T
	children, err := Children[T](ctx, job)
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

// ChildrenValues answers what the job's completed children have returned, as
// JSON, by their keys (BullMQ: getChildrenValues).
func (j *Job) ChildrenValues(ctx context.Context) (map[string]json.RawMessage, error) {
	c, err := j.at("read the children of")
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

// reasonsOf returns why children have failed, by their keys.
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

// dependencies returns children as the public calls do.
func dependencies(d backend.Dependencies) Dependencies {
	return Dependencies{
		Processed: rawValues(d.Processed), Unprocessed: keysOf(d.Pending), Ignored: reasonsOf(d.Ignored), Failed: keysOf(d.Failed),
	}
}

// IgnoredChildrenFailures answers why children failed whose failure the job
// goes on without, by their keys (BullMQ: getIgnoredChildrenFailures).
func (j *Job) IgnoredChildrenFailures(ctx context.Context) (map[string]string, error) {
	c, err := j.at("read the children of")
	if err != nil {
		return nil, err
	}
	failures, err := c.store.IgnoredFailures(ctx, j.ID)
	if err != nil {
		return nil, err
	}
	return reasonsOf(failures), nil
}

// Dependencies are a job's children, by how they stand.
type Dependencies struct {
	Processed   map[string]json.RawMessage // key to return value (JSON)
	Unprocessed []string                   // keys of those that have not ended
	Ignored     map[string]string          // key to the reason of a failure that is ignored
	Failed      []string                   // keys of those that fail the job
}

// Dependencies reads the job's children, as they are at one moment (BullMQ:
// getDependencies).
func (j *Job) Dependencies(ctx context.Context) (*Dependencies, error) {
	c, err := j.at("read the children of")
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

// Cursor is where to read children of one kind, and about how many of them.
type Cursor struct {
	At    uint64 // 0 is the beginning; else what a DependencyPage has said
	Count int    // 20 for 0
}

// DependencyQuery says which children to read; a kind that is nil is left out.
type DependencyQuery struct{ Processed, Unprocessed, Ignored, Failed *Cursor }

// DependencyPage is a part of a job's children.
type DependencyPage struct {
	Dependencies
	// Next is the query for what follows: a kind is nil once all of it is read,
	// and all kinds are, Next == (DependencyQuery{}), when nothing is left.
	Next DependencyQuery
}

// DependencyPage reads a part of the job's children, for a job with very many.
// Redis hands them out in no order, up to a hundred or so in any case; while
// children come and go, one may come twice (BullMQ: getDependencies with
// cursors).
func (j *Job) DependencyPage(ctx context.Context, query DependencyQuery) (*DependencyPage, error) {
	c, err := j.at("read the children of")
	if err != nil {
		return nil, err
	}
	for name, cursor := range map[string]*Cursor{
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

func (c *Cursor) scan() *backend.Scan {
	if c == nil {
		return nil
	}
	count := c.Count
	if count == 0 {
		count = 20
	}
	return &backend.Scan{Cursor: c.At, Count: count}
}

func cursor(next *backend.Scan) *Cursor {
	if next == nil {
		return nil
	}
	return &Cursor{At: next.Cursor, Count: next.Count}
}

// ChildJob is a child of a job, with its record.
type ChildJob struct {
	Key         string          // <prefix>:<queue>:<id>
	ReturnValue json.RawMessage // JSON; nil while it is pending
	Job         *Job            // nil once it is removed
}

// PendingChildren reads a page of the children of a job that have not ended, with their
// records, and returns how many there are in total. Their order is Redis's own and does
// not change until a child is added or ends, so Page.Ascending has no effect (BullMQ:
// queue.getDependencies, "pending").
func (q *Queue) PendingChildren(ctx context.Context, parentID string, page Page) ([]ChildJob, int, error) {
	return q.children(ctx, parentID, false, page)
}

// ProcessedChildren reads children of a job that have completed, as
// PendingChildren does (BullMQ: queue.getDependencies, "processed").
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

// DependencyCounts says how many children a job has, by how they stand.
type DependencyCounts struct{ Processed, Unprocessed, Ignored, Failed int }

// DependencyCounts counts the job's children (BullMQ: getDependenciesCount).
func (j *Job) DependencyCounts(ctx context.Context) (DependencyCounts, error) {
	c, err := j.at("count the children of")
	if err != nil {
		return DependencyCounts{}, err
	}
	n, err := c.store.ChildCounts(ctx, j.ID)
	return DependencyCounts{n.Processed, n.Pending, n.Ignored, n.Failed}, err
}
