package bullmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// FlowQuery selects the flow to read, and how much of it.
type FlowQuery struct {
	QueueName string
	// Prefix is the prefix of the queue.
	// Defaults to the prefix of the FlowProducer.
	Prefix string
	ID     string
	// Depth is the number of levels to read.
	// Defaults to 10.
	Depth int
	// MaxChildren is the approximate number of children of each kind (completed,
	// pending, ignored, failed) to read for a job.
	// Defaults to 20.
	MaxChildren int
}

// Flow reads a job with its children. It returns [ErrJobNotFound] if there is no such
// job. Children that were removed are left out (BullMQ: getFlow).
func (p *FlowProducer) Flow(ctx context.Context, query FlowQuery) (*FlowNode, error) {
	if err := cmp.Or(checkCount("Depth", query.Depth, "10 levels"), checkCount("MaxChildren", query.MaxChildren, "20")); err != nil {
		return nil, fmt.Errorf("bullmq: flow %.80q of queue %.80q was not read: %w", query.ID, query.QueueName, err)
	}
	if query.Depth == 0 {
		query.Depth = 10
	}
	if query.MaxChildren == 0 {
		query.MaxChildren = 20
	}
	queue, err := p.queue(ctx, query.QueueName, query.Prefix, addWait{}.retry(ctx, p.core, time.Now()))
	if err != nil {
		return nil, err
	}
	job, err := queue.Job(ctx, query.ID)
	if err != nil {
		return nil, err
	}
	node := &FlowNode{Job: job}
	if query.Depth == 1 {
		return node, nil
	}
	from := &backend.Scan{Count: query.MaxChildren}
	page, err := queue.core.store.ScanChildren(ctx, query.ID, backend.ChildScan{Processed: from, Pending: from, Ignored: from, Failed: from})
	if err != nil {
		return nil, err
	}
	for _, ref := range slices.Concat(childRefs(page.Processed), page.Pending, page.Failed, childRefs(page.Ignored)) {
		if !ref.IsComplete() {
			return nil, noJobKey(ref)
		}
		child := query
		child.Depth--
		child.Prefix, child.QueueName, child.ID = ref.Prefix, ref.Queue, ref.ID
		below, err := p.Flow(ctx, child)
		if errors.Is(err, ErrJobNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		node.Children = append(node.Children, below)
	}
	return node, nil
}

func childRefs(children []backend.ChildResult) []backend.JobRef {
	refs := make([]backend.JobRef, len(children))
	for i, child := range children {
		refs[i] = child.Child
	}
	return refs
}

// noJobKey returns the error for a reference that names no job.
func noJobKey(ref backend.JobRef) error {
	return fmt.Errorf("bullmq: %.80q is not the key of a job", ref.String())
}
