package bullmq

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/safe"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// Add adds a job to a shard and returns it with its id, as [Queue.Add] does. The QueueName of
// the job is the name of the shard. A number as its id is unique within that shard only.
//
// The key of the job selects the shard: that of ShardedQueueOptions.ShardKey, its
// deduplication id, or its JobID. For a job without a key, ShardedQueueOptions.Choose does.
// A job with a [Target] is refused.
//
// If a shard refuses the job or can't be reached, the error is a [*ShardError]. After
// [ErrMaybeAdded] the job may or may not have been added. After any other error it was not
// added.
func (s *ShardedQueue) Add(ctx context.Context, name string, data any, options *JobOptions) (*Job, error) {
	if s.addOne == nil {
		return s.add(ctx, name, data, options)
	}
	n := newJob(s.name, name, data, options)
	err := s.addOne(ctx, []*NewJob{n})
	if err == nil && n.job == nil {
		err = errNotAdded
	}
	if err != nil {
		return nil, err
	}
	return n.job, nil
}

// addNew adds a job after all middleware.
func (s *ShardedQueue) addNew(ctx context.Context, jobs []*NewJob) (err error) {
	if len(jobs) != 1 {
		return fmt.Errorf("bullmq: a middleware adds %d jobs instead of one: it must call next with the jobs that it gets", len(jobs))
	}
	n := jobs[0]
	n.job, err = s.add(ctx, n.Name, n.Data, n.Options)
	return err
}

func (s *ShardedQueue) add(ctx context.Context, name string, data any, options *JobOptions) (job *Job, err error) {
	ctx, cancel := s.wait.within(ctx, time.Now())
	defer cancel()
	view, err := s.fresh(ctx)
	if err != nil {
		return nil, err
	}
	to, err := s.keyedShard(ctx, view, name, data, options)
	switch {
	case err != nil:
	case to == nil && s.o.OnShardDown == ElsewhereWhenDown:
		err = s.elsewhere(ctx, view, func(ctx context.Context, to *shard) (err error) {
			job, err = to.addWithin(ctx, addWait{}, name, data, options)
			return err
		})
	default:
		if to == nil {
			to = s.choose(view.current())
		}
		job, err = to.addWithin(ctx, s.wait, name, data, options)
		err = ofShard(to, err)
	}
	return job, err
}

// elsewhere makes an attempt on a shard. While the server of the shard is down, it makes others
// on further shards. It makes none on shards that are known to be unreachable, unless all are.
// If all fail, it begins again, within AddWait. ctx is from addWait.within.
func (s *ShardedQueue) elsewhere(ctx context.Context, view *shardView, attempt func(ctx context.Context, to *shard) error) (err error) {
	var pause timing.Backoff
	for {
		current := view.current()
		for _, to := range current.reachableFrom(s.choose(current)) {
			if err = ofShard(to, attempt(ctx, to)); !isDown(err) {
				return err
			}
		}
		if s.wait.limit <= 0 {
			return err
		}
		if timing.Sleep(ctx, pause.Next()); ctx.Err() != nil {
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		if view, err = s.fresh(ctx); err != nil {
			return err
		}
	}
}

// reachableFrom returns the shards that are not known to be unreachable, beginning at one. It
// returns that one if all are unreachable.
func (g *shardSet) reachableFrom(first *shard) []*shard {
	var reachable []*shard
	begin := slices.Index(g.shards, first)
	for i := range g.shards {
		if to := g.shards[(begin+i)%len(g.shards)]; to.Health().Reachable {
			reachable = append(reachable, to)
		}
	}
	if len(reachable) == 0 {
		return []*shard{first}
	}
	return reachable
}

// untried returns a shard that is not known to be unreachable and is not among those tried. It
// begins to look at first. It returns nil if there is none.
func (g *shardSet) untried(first *shard, tried []*shard) *shard {
	for _, to := range g.reachableFrom(first) {
		if !slices.Contains(tried, to) {
			return to
		}
	}
	return nil
}

// isDown reports whether a call failed because its server can't serve, and has certainly not
// been carried out.
func isDown(err error) bool {
	if err == nil || errors.Is(err, ErrMaybeAdded) || errors.Is(err, ErrClosed) {
		return false
	}
	switch classify(err) {
	case backend.NotSent, backend.Unavailable, backend.Exhausted:
		return true
	}
	return false
}

// ofShard returns the error of a call on one shard, or nil.
func ofShard(s *shard, err error) error {
	if err == nil {
		return nil
	}
	return &ShardError{Failed: map[string]error{s.Name(): err}, Shards: 1}
}

// keyedShard returns the shard of a job with a key or a parent, or nil. If an older generation
// knows the job's id, that is a shard of the older generation.
func (s *ShardedQueue) keyedShard(ctx context.Context, view *shardView, name string, data any, options *JobOptions) (*shard, error) {
	current := view.current()
	merged := current.shards[0].options(options)
	if err := checkUntargeted(merged.Target); err != nil {
		return nil, fmt.Errorf("bullmq: job %.80q was not added to %s: %w", name, s.name, err)
	}
	if merged.Parent != nil {
		parent := merged.Parent.ref()
		if of := view.find(parent.Queue); of != nil && parent.Prefix == s.prefix {
			return of, nil
		}
		return nil, fmt.Errorf("bullmq: job %.80q was not added to %s: its parent is in %s, which is no shard of this queue", name, s.name, merged.Parent.QueueKey)
	}
	var key string
	if s.o.ShardKey != nil {
		key = s.o.ShardKey(newJob(s.name, name, data, options))
	}
	if d := merged.Deduplication; key == "" && d != nil {
		key = d.ID
	}
	if key == "" {
		key = merged.JobID
	}
	if key == "" {
		return nil, nil
	}
	for i := len(view.generations) - 2; i >= 0; i-- {
		older := view.generations[i].of(key)
		known, err := s.knows(ctx, older, &merged)
		if err != nil {
			return nil, ofShard(older, fmt.Errorf("bullmq: job %.80q was not added to %s: %w", name, s.name, err))
		}
		if known {
			return older, nil
		}
	}
	return current.of(key), nil
}

// knows reports whether a shard has a job with the JobID or an owner of the deduplication id of
// a job. During an outage it is repeated within AddWait. ctx is from addWait.within.
func (s *ShardedQueue) knows(ctx context.Context, of *shard, o *JobOptions) (known bool, err error) {
	read := func() error {
		known = false
		if d := o.Deduplication; d != nil {
			owner, err := of.core.store.DeduplicationOwner(ctx, d.ID)
			if known = owner != ""; known || err != nil {
				return err
			}
		}
		if o.JobID == "" {
			return nil
		}
		record, err := of.core.store.Job(ctx, o.JobID)
		known = record != nil
		return err
	}
	if s.wait.limit <= 0 {
		err = read()
		return known, err
	}
	err = untilItSucceeds(ctx, read)
	return known, err
}

// choose returns the shard of a job without a key.
func (s *ShardedQueue) choose(g *shardSet) *shard {
	n := len(g.shards)
	if s.o.Choose == RoundRobin || n == 1 {
		return g.shards[int((s.turn.Add(1)-1)%uint64(n))]
	}
	s.countLoads(g)
	first := rand.IntN(n)
	second := rand.IntN(n - 1)
	if second >= first {
		second++
	}
	to := g.shards[first]
	if other := g.shards[second]; other.load.Load() < to.load.Load() {
		to = other
	}
	to.load.Add(1)
	return to
}

// shardLoads limits how often the jobs of the shards are counted.
type shardLoads struct {
	begun    atomic.Int64 // when the last count began, in ns since ShardedQueue.begun
	counting atomic.Bool
}

// countLoads counts the jobs of the shards in the background, unless that was done just now.
func (s *ShardedQueue) countLoads(g *shardSet) {
	now := time.Since(s.begun)
	last := s.loads.begun.Load()
	if last != 0 && now-time.Duration(last) < timing.ShardLoadInterval || !s.loads.counting.CompareAndSwap(false, true) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.loads.begun.Store(max(1, int64(now)))
	s.background.Go(func() {
		defer s.loads.counting.Store(false)
		ctx, cancel := context.WithTimeout(s.closing, timing.ProbeTimeout)
		defer cancel()
		_, _ = onEach(ctx, g.shards, func(ctx context.Context, of *shard) (struct{}, error) {
			counts, err := of.Counts(ctx, StateWaiting, StatePrioritized, StateActive)
			if err == nil {
				var load int64
				for _, n := range counts {
					load += int64(n)
				}
				of.load.Store(load)
			}
			return struct{}{}, nil
		})
	})
}

// AddBulk adds jobs, with a thousand for each shard in a round trip, as [Queue.AddBulk] does.
// The result is in the order of the jobs. Jobs of one shard keep their order there.
//
// If the options of one job are invalid, no job is added. If jobs were not added, the error is
// a [*BulkError], and these jobs have no ID. Their QueueName tells which shard has failed.
func (s *ShardedQueue) AddBulk(ctx context.Context, bulk []BulkJob) ([]*Job, error) {
	if s.addMany == nil || len(bulk) == 0 {
		return s.addBulk(ctx, bulk)
	}
	jobs := make([]*NewJob, len(bulk))
	for i, b := range bulk {
		jobs[i] = newJob(s.name, b.Name, b.Data, b.Options)
	}
	return addedBy(jobs, s.addMany(ctx, jobs))
}

// addNewBulk is addNew for the jobs of AddBulk.
func (s *ShardedQueue) addNewBulk(ctx context.Context, jobs []*NewJob) error {
	bulk := make([]BulkJob, len(jobs))
	for i, n := range jobs {
		bulk[i] = BulkJob{Name: n.Name, Data: n.Data, Options: n.Options}
	}
	added, err := s.addBulk(ctx, bulk)
	for i, job := range added {
		jobs[i].job = job
	}
	return err
}

// shardedAdd is a job of a bulk.
type shardedAdd struct {
	at    int // in the bulk
	keyed bool
	to    *shard
	tried []*shard // which are down
	add   backend.Add
}

func (s *ShardedQueue) addBulk(ctx context.Context, bulk []BulkJob) (jobs []*Job, err error) {
	ctx, span := s.trace.start(ctx, SpanProducer, "addBulk")
	defer span.end(&err)
	setAttr(span, attrBulkCount, len(bulk))
	begun := time.Now()
	ctx, cancel := s.wait.within(ctx, begun)
	defer cancel()
	view, err := s.fresh(ctx)
	if err != nil {
		return nil, err
	}
	metadata := s.trace.inject(ctx)
	jobs = make([]*Job, len(bulk))
	prepare := func(a *shardedAdd) (err error) {
		b := bulk[a.at]
		o := a.to.options(b.Options)
		o.carry(metadata, b.Options)
		jobs[a.at], a.add, err = a.to.prepare(b.Name, b.Data, &o)
		return err
	}
	pending := make([]*shardedAdd, len(bulk))
	keyed, errs := s.keyedShards(ctx, view, bulk)
	for i, b := range bulk {
		a := &shardedAdd{at: i}
		pending[i] = a
		err := errs[i]
		if err == nil {
			if a.to, a.keyed = keyed[i], keyed[i] != nil; !a.keyed {
				a.to = s.choose(view.current())
			}
			err = prepare(a)
		}
		if err != nil {
			return nil, fmt.Errorf("bullmq: none of %d jobs was added to %s: job %d, %.80q: %w", len(bulk), s.name, i, b.Name, err)
		}
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("bullmq: none of %d jobs was added to %s: %w", len(bulk), s.name, context.Cause(ctx))
	}
	results := make([]backend.AddResult, len(bulk))
	var pause timing.Backoff
	for len(pending) > 0 {
		failed := s.sendBulk(ctx, begun, pending, jobs, results)
		if len(failed) == 0 {
			break
		}
		if view, err = s.fresh(ctx); err != nil {
			break
		}
		pending = pending[:0]
		all := false // the shards were tried
		for _, a := range failed {
			first := s.choose(view.current())
			a.tried = append(a.tried, a.to)
			if a.to = view.current().untried(first, a.tried); a.to == nil && s.wait.limit > 0 {
				all, a.to, a.tried = true, first, nil
			}
			if a.to == nil {
				continue
			}
			if err := prepare(a); err != nil {
				results[a.at].Err = err
				continue
			}
			pending = append(pending, a)
		}
		if all {
			timing.Sleep(ctx, pause.Next())
		}
		if ctx.Err() != nil {
			for _, a := range pending {
				results[a.at].Err = fmt.Errorf("%w: %w", context.Cause(ctx), results[a.at].Err)
			}
			break
		}
	}
	for i, result := range results {
		jobs[i].added(result)
	}
	return jobs, bulkError(results)
}

// keyedShards returns the keyedShard of each job of a bulk, or its error.
func (s *ShardedQueue) keyedShards(ctx context.Context, view *shardView, bulk []BulkJob) (shards []*shard, errs []error) {
	shards, errs = make([]*shard, len(bulk)), make([]error, len(bulk))
	find := func(i int) {
		b := bulk[i]
		shards[i], errs[i] = s.keyedShard(ctx, view, b.Name, b.Data, b.Options)
	}
	if len(view.generations) == 1 { // without calls to Redis
		for i := range bulk {
			find(i)
		}
		return shards, errs
	}
	calls := make([]func(), len(bulk))
	for i := range bulk {
		calls[i] = func() { find(i) }
	}
	safe.Together(calls...)
	return shards, errs
}

// sendBulk adds jobs to their shards, and sets their results. It returns those that may be
// added to other shards.
func (s *ShardedQueue) sendBulk(ctx context.Context, begun time.Time, pending []*shardedAdd, jobs []*Job, results []backend.AddResult) (failed []*shardedAdd) {
	type part struct {
		to    *shard
		keyed bool
	}
	parts := map[part][]*shardedAdd{}
	for _, a := range pending {
		p := part{a.to, a.keyed || s.o.OnShardDown == FailWhenDown}
		parts[p] = append(parts[p], a)
	}
	var calls []func()
	for p, list := range parts {
		calls = append(calls, func() {
			wait := s.wait
			if !p.keyed {
				wait = addWait{}
			}
			own, adds := make([]*Job, len(list)), make([]*backend.Add, len(list))
			for i, a := range list {
				own[i], adds[i] = jobs[a.at], &a.add
			}
			for i, result := range p.to.sendBulk(ctx, begun, wait, own, adds) {
				results[list[i].at] = result
			}
		})
	}
	safe.Together(calls...)
	for _, a := range pending {
		if !a.keyed && s.o.OnShardDown == ElsewhereWhenDown && isDown(results[a.at].Err) {
			failed = append(failed, a)
		}
	}
	return failed
}
