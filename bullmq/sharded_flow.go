package bullmq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// AddFlow adds a job with all its children to one shard, as [FlowProducer.Add] does. The root
// selects the shard, as for [ShardedQueue.Add]. The QueueName of each job must be empty or the
// name of the sharded queue, since the shard may be on another server than any other queue.
func (s *ShardedQueue) AddFlow(ctx context.Context, flow Flow) (*FlowNode, error) {
	ctx, cancel := s.wait.within(ctx, time.Now())
	defer cancel()
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
	if flow.Options != nil {
		if err := checkUntargeted(flow.Options.Target); err != nil {
			return flow, fmt.Errorf("bullmq: no job of the flow was added: %.80q: %w", flow.Name, err)
		}
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
	var job *Job
	err := s.onLatest(ctx, func(view *shardView) (err error) {
		to := view.current().of(id)
		if err := checkUntargeted(to.options(t.Options).Target); err != nil {
			return fmt.Errorf("bullmq: scheduler %.80q of %s was not changed: %w", id, s.name, err)
		}
		if job, err = to.upsertScheduler(ctx, id, repeat, t); err != nil {
			return ofShard(to, err)
		}
		for _, g := range view.generations[:len(view.generations)-1] {
			from := g.of(id)
			if err := forgiveMissing(from.RemoveScheduler(ctx, id)); err != nil {
				return ofShard(from, err)
			}
		}
		return nil
	})
	return job, err
}

// onLatest makes a change with the generations that are stored now. It repeats the change if a
// generation has begun meanwhile.
func (s *ShardedQueue) onLatest(ctx context.Context, change func(view *shardView) error) error {
	view, err := s.latest(ctx)
	for err == nil {
		if err = change(view); err != nil {
			break
		}
		changed := view
		if view, err = s.latest(ctx); view == changed {
			break
		}
	}
	return err
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
	var missing error
	removed := false
	err := s.onLatest(ctx, func(view *shardView) error {
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
		return nil
	})
	if err == nil && !removed {
		err = missing
	}
	return err
}

// moveSchedulers moves the schedulers of older generations to the current one.
func (s *ShardedQueue) moveSchedulers(ctx context.Context) error {
	view := s.view.Load()
	var older []*shard
	for _, g := range view.generations[:len(view.generations)-1] {
		older = append(older, g.shards...)
	}
	_, err := onEach(ctx, older, func(ctx context.Context, from *shard) (struct{}, error) {
		all, err := from.Schedulers(ctx, AllEntries())
		for _, scheduler := range all {
			if err = s.moveScheduler(ctx, from, view.current().of(scheduler.ID), scheduler.ID); err != nil {
				break
			}
		}
		return struct{}{}, err
	})
	return err
}

// moveScheduler moves a scheduler to another shard, unless the other one has it. A scheduler
// that has no further run is removed as soon as its last job has run.
func (s *ShardedQueue) moveScheduler(ctx context.Context, from, to *shard, id string) error {
	scheduler, err := from.Scheduler(ctx, id) // a job may have started since the list was read
	if err != nil {
		return forgiveMissing(err)
	}
	switch _, err := to.Scheduler(ctx, id); {
	case err == nil:
		return forgiveMissing(from.RemoveScheduler(ctx, id))
	case !errors.Is(err, ErrSchedulerNotFound):
		return err
	}
	last, err := readSchedulerRun(ctx, from, scheduler)
	if err != nil {
		return err
	}
	repeat, now := scheduler.Repeat, s.now()
	ended := !repeat.EndDate.IsZero() && repeat.EndDate.Before(now)
	if repeat.Limit > 0 {
		repeat.Limit -= last.used
		ended = ended || repeat.Limit < 1
	}
	if !ended {
		next := scheduler.Next
		if last.stays {
			next = next.Add(repeat.Every)
		}
		if repeat.Every > 0 && next.After(now) {
			repeat.StartDate = next
		}
		template := JobTemplate{Name: scheduler.Name, Options: &JobOptions{}}
		if scheduler.Data != nil {
			template.Data = scheduler.Data
		}
		if len(scheduler.RawOptions) > 0 {
			if err := template.Options.UnmarshalJSON(scheduler.RawOptions); err != nil {
				return err
			}
		}
		_, err := to.UpsertScheduler(ctx, id, repeat, &template)
		if ended = errors.Is(err, ErrNoNextRun); err != nil && !ended {
			return err
		}
	}
	if ended && last.unfinished {
		return nil
	}
	return forgiveMissing(from.RemoveScheduler(ctx, id))
}

// schedulerRun is about the job that a scheduler has added last.
type schedulerRun struct {
	used       int  // how many runs of the scheduler's limit are used if the scheduler is removed
	unfinished bool // the job has not ended
	stays      bool // the job has not ended, and is not removed with the scheduler
}

func readSchedulerRun(ctx context.Context, of *shard, scheduler *Scheduler) (schedulerRun, error) {
	run := schedulerRun{used: scheduler.Iterations}
	job, state, err := of.JobAndState(ctx, fmt.Sprintf("repeat:%s:%d", scheduler.ID, scheduler.Next.UnixMilli()))
	if err != nil {
		if errors.Is(err, ErrJobNotFound) {
			err = nil
		}
		return run, err
	}
	var options struct {
		Repeat struct {
			Count int `json:"count"` // begins again with each upsert, unlike Iterations
		} `json:"repeat"`
	}
	if json.Unmarshal(job.RawOptions, &options) == nil && options.Repeat.Count > 0 {
		run.used = options.Repeat.Count
	}
	run.unfinished = state != StateCompleted && state != StateFailed
	run.stays = run.unfinished && !(state == StateDelayed && job.AttemptsStarted == 0)
	if run.unfinished && !run.stays {
		run.used-- // the next job counts again
	}
	return run, nil
}

// forgiveMissing returns nil if a scheduler was not found, or err.
func forgiveMissing(err error) error {
	if errors.Is(err, ErrSchedulerNotFound) {
		return nil
	}
	return err
}
