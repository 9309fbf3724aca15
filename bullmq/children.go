package bullmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// Child is a child of a job, with what it has returned.
type Child[T any] struct {
	Key       string // <prefix>:<queue>:<id>, as Job.Key
	Queue, ID string
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
	child := func(key string) *Child[T] {
		_, queue, id, _ := splitJobKey(key) // a key of no job names none
		children = append(children, Child[T]{Key: key, Queue: queue, ID: id})
		return &children[len(children)-1]
	}
	failed := func(key, reason string) {
		c := child(key)
		c.Err = &JobFailedError{Queue: c.Queue, JobID: c.ID, Reason: reason}
	}
	for key, text := range standing.Processed {
		c := child(key)
		if err := decodeJSON([]byte(text), &c.Value); err != nil {
			return nil, fmt.Errorf("bullmq: what job %s of queue %s has returned doesn't fit %T: %w", c.ID, c.Queue, c.Value, err)
		}
	}
	for key, reason := range standing.Ignored {
		failed(key, reason)
	}
	for i, key := range standing.Failed {
		failed(key, reasons[i])
	}
	for _, key := range standing.Pending {
		child(key).Err = ErrChildPending
	}
	slices.SortFunc(children, func(a, b Child[T]) int { return cmp.Compare(a.Key, b.Key) })
	return children, nil
}

// ChildValue answers what the one child of a job has returned: in a Chain, the
// step before. It answers the child's Err where there is no value, and
// ErrNoChild where nothing is left of it. Several children are an error: read
// them with Children.
func ChildValue[T any](ctx context.Context, job *Job) (T, error) {
	var none T
	children, err := Children[T](ctx, job)
	switch {
	case err != nil:
		return none, err
	case len(children) == 0:
		return none, fmt.Errorf("job %s of queue %s: %w", job.ID, job.Queue(), ErrNoChild)
	case len(children) > 1:
		return none, fmt.Errorf("bullmq: job %s of queue %s has %d children, not one: read them with Children", job.ID, job.Queue(), len(children))
	}
	return children[0].Value, children[0].Err
}
