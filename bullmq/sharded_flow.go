package bullmq

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// AddFlow adds a job with all its children to one shard, as [FlowProducer.Add] does. The root
// selects the shard, as for [ShardedQueue.Add]. The QueueName of each job must be empty or the
// name of the sharded queue, since the shard may be on another server than any other queue.
func (s *ShardedQueue) AddFlow(ctx context.Context, flow Flow) (*FlowNode, error) {
	view, err := s.fresh(ctx)
	if err != nil {
		return nil, err
	}
	to, err := s.keyedShard(ctx, view, flow.Name, flow.Data, flow.Options)
	if err != nil {
		return nil, err
	}
	var node *FlowNode
	attempt := func(ctx context.Context, to *shard, wait addWait) error {
		placed, err := s.placed(flow, to.Name())
		if err != nil {
			return err
		}
		producer := &FlowProducer{core: to.core, wait: wait, o: FlowProducerOptions{
			Prefix: s.prefix, Dialect: to.core.dialect, Middleware: s.o.Queue.Middleware,
			DefaultJobOptions: map[string]JobOptions{to.Name(): to.defaults},
		}}
		node, err = producer.Add(ctx, placed)
		return err
	}
	if to == nil && s.o.OnShardDown == ElsewhereWhenDown {
		err = s.elsewhere(ctx, view, func(ctx context.Context, to *shard) error { return attempt(ctx, to, addWait{}) })
		return node, err
	}
	if to == nil {
		to = s.choose(view.current())
	}
	err = ofShard(to, attempt(ctx, to, s.wait))
	return node, err
}

// placed returns a flow with the name of a shard for all its jobs.
func (s *ShardedQueue) placed(flow Flow, queueName string) (Flow, error) {
	if flow.QueueName != "" && flow.QueueName != s.name || flow.Prefix != "" && flow.Prefix != s.prefix {
		return flow, fmt.Errorf("bullmq: no job of the flow was added: %.80q is for queue %.80q: all jobs of a flow must be in %s", flow.Name, flow.QueueName, s.name)
	}
	flow.QueueName, flow.Prefix = queueName, ""
	flow.Children = slices.Clone(flow.Children)
	for i := range flow.Children {
		var err error
		if flow.Children[i], err = s.placed(flow.Children[i], queueName); err != nil {
			return flow, err
		}
	}
	return flow, nil
}

// UpsertScheduler creates or updates a job scheduler, as [Queue.UpsertScheduler] does. Its id
// selects the shard of its jobs. template may be nil.
func (s *ShardedQueue) UpsertScheduler(ctx context.Context, id string, repeat Repeat, template *JobTemplate) (*Job, error) {
	t := JobTemplate{}
	if template != nil {
		t = *template
	}
	if t.Name == "" {
		t.Name = id
	}
	if len(s.o.Queue.Middleware) == 0 {
		return s.upsertScheduler(ctx, id, repeat, t)
	}
	return upsertThrough(ctx, s.name, s.o.Queue.Middleware, id, t, func(ctx context.Context, t JobTemplate) (*Job, error) {
		return s.upsertScheduler(ctx, id, repeat, t)
	})
}

func (s *ShardedQueue) upsertScheduler(ctx context.Context, id string, repeat Repeat, t JobTemplate) (*Job, error) {
	view, err := s.fresh(ctx)
	if err != nil {
		return nil, err
	}
	to := view.current().of(id)
	job, err := to.upsertScheduler(ctx, id, repeat, t)
	if err != nil {
		return nil, ofShard(to, err)
	}
	for _, g := range view.generations[:len(view.generations)-1] {
		from := g.of(id)
		if err := forgiveMissing(from.RemoveScheduler(ctx, id)); err != nil {
			return job, ofShard(from, err)
		}
	}
	return job, nil
}

// Schedulers returns the job schedulers of all shards, in descending order of their next run,
// or in ascending order if Page.Ascending is set. If shards fail, it returns the schedulers of
// the others and a [*ShardError].
func (s *ShardedQueue) Schedulers(ctx context.Context, page Page) ([]*Scheduler, error) {
	from, to, err := page.bounds()
	if err != nil {
		return nil, err
	}
	view, err := s.fresh(ctx)
	if err != nil {
		return nil, err
	}
	first := Page{Limit: -1, Ascending: page.Ascending}
	if to >= 0 {
		first.Limit = to + 1
	}
	parts, err := onEach(ctx, view.all(), func(ctx context.Context, of *shard) ([]*Scheduler, error) { return of.Schedulers(ctx, first) })
	all := slices.Concat(parts...)
	slices.SortStableFunc(all, func(a, b *Scheduler) int {
		if page.Ascending {
			return a.Next.Compare(b.Next)
		}
		return b.Next.Compare(a.Next)
	})
	end := len(all)
	if to >= 0 {
		end = min(end, to+1)
	}
	return all[min(from, end):end], err
}

// Scheduler reads a job scheduler, as [Queue.Scheduler] does.
func (s *ShardedQueue) Scheduler(ctx context.Context, id string) (*Scheduler, error) {
	view, err := s.fresh(ctx)
	if err != nil {
		return nil, err
	}
	for i := len(view.generations) - 1; ; i-- {
		of := view.generations[i].of(id)
		scheduler, err := of.Scheduler(ctx, id)
		if i > 0 && errors.Is(err, ErrSchedulerNotFound) {
			continue
		}
		return scheduler, ofShard(of, err)
	}
}

// RemoveScheduler removes a job scheduler with its next job, as [Queue.RemoveScheduler] does.
func (s *ShardedQueue) RemoveScheduler(ctx context.Context, id string) error {
	view, err := s.fresh(ctx)
	if err != nil {
		return err
	}
	var missing error
	removed := false
	for _, g := range view.generations {
		of := g.of(id)
		switch err := of.RemoveScheduler(ctx, id); {
		case err == nil:
			removed = true
		case errors.Is(err, ErrSchedulerNotFound):
			missing = ofShard(of, err)
		default:
			return ofShard(of, err)
		}
	}
	if removed {
		return nil
	}
	return missing
}
