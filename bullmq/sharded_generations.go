package bullmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// begin opens the shards of all generations. If there are none, it stores the first one.
func (s *ShardedQueue) begin(ctx context.Context, shards int) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	begun := time.Now()
	all, err := s.sharding.Generations(ctx)
	if err != nil {
		return err
	}
	var known []*shardSet
	if len(all) == 0 {
		first, err := s.open(ctx, backend.Generation{Shards: shards, Servers: s.servers(), Since: s.now()}, false)
		if err != nil {
			return err
		}
		known = append(known, first)
		if _, err = s.sharding.AddGeneration(ctx, first.Generation); err == nil {
			all, err = s.sharding.Generations(ctx) // another process may have been first
		}
		if err != nil {
			closeShards(first.shards)
			return err
		}
	}
	return s.show(ctx, begun, all, known...)
}

// readNow reads the generations and opens the shards of new ones.
func (s *ShardedQueue) readNow(ctx context.Context, known ...*shardSet) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	begun := time.Now()
	err := s.ready()
	var all []backend.Generation
	if err == nil {
		all, err = s.sharding.Generations(ctx)
	}
	if err == nil && len(all) == 0 { // Redis has lost them
		current := s.view.Load().current().Generation
		_, err = s.sharding.AddGeneration(ctx, current)
		all = append(all, current)
	}
	if err != nil {
		for _, set := range known {
			closeShards(set.shards)
		}
		return err
	}
	return s.show(ctx, begun, all, known...)
}

// show makes the view that of these generations, which were read at a time. The shards of
// known generations are open. Those that are not part of the view are closed.
func (s *ShardedQueue) show(ctx context.Context, begun time.Time, all []backend.Generation, known ...*shardSet) (err error) {
	old := s.view.Load()
	own := len(known) // of the caller
	if old != nil {
		known = append(known, old.generations...)
	}
	view := &shardView{}
	var opened []*shardSet
	defer func() {
		if err != nil {
			for _, set := range append(opened, known[:own]...) {
				closeShards(set.shards)
			}
		}
	}()
	for _, g := range all {
		i := slices.IndexFunc(known, func(set *shardSet) bool {
			return set.Number == g.Number && set.Shards == g.Shards && set.Servers == g.Servers
		})
		if i >= 0 {
			view.generations = append(view.generations, known[i])
			continue
		}
		set, err := s.open(ctx, g, old != nil)
		if err != nil {
			return err
		}
		opened, view.generations = append(opened, set), append(view.generations, set)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	s.confirm(begun)
	if old == nil || !slices.Equal(old.generations, view.generations) {
		s.view.Store(view)
		close(s.changed)
		s.changed = make(chan struct{})
	}
	s.mu.Unlock()
	for _, set := range known {
		if !slices.Contains(view.generations, set) {
			closeShards(set.shards)
		}
	}
	return nil
}

// confirm records that the view was read at a time.
func (s *ShardedQueue) confirm(at time.Time) { s.confirmed.Store(int64(at.Sub(s.begun))) }

// age returns how long ago the view was read.
func (s *ShardedQueue) age() time.Duration {
	return time.Since(s.begun) - time.Duration(s.confirmed.Load())
}

// fresh returns the view. If it is not new, the generations are read in the background.
// fresh waits for that only if the view is older, and fails only if it is so old that one of
// its generations may have been removed.
func (s *ShardedQueue) fresh(ctx context.Context) (*shardView, error) {
	if s.obliterated.Load() {
		return nil, s.ready()
	}
	age := s.age()
	if age < timing.ShardReview {
		return s.view.Load(), nil
	}
	done, err := s.review()
	if err != nil {
		return nil, err
	}
	if age > timing.ShardPatience && (age > timing.ShardExpiry || s.record.health().Reachable) {
		timer := time.NewTimer(timing.ShardReview)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if s.age() > timing.ShardExpiry {
		s.mu.Lock()
		defer s.mu.Unlock()
		return nil, fmt.Errorf("bullmq: the number of shards of %s was not read for %v: %w", s.name, s.age().Round(time.Second), cmp.Or(s.reviewErr, ctx.Err()))
	}
	return s.view.Load(), nil
}

// latest returns the view after it has read the generations. If it can't read them, it returns
// what fresh returns.
func (s *ShardedQueue) latest(ctx context.Context) (*shardView, error) {
	if s.record.health().Reachable {
		short, cancel := context.WithTimeout(ctx, timing.ProbeTimeout)
		defer cancel()
		if s.readNow(short) == nil {
			return s.view.Load(), nil
		}
	}
	return s.fresh(ctx)
}

// review reads the generations in the background, unless that was tried just now. The
// returned channel is closed when it has ended.
func (s *ShardedQueue) review() (<-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, ErrClosed
	case s.reviewing != nil:
		return s.reviewing, nil
	case time.Since(s.tried) < timing.ShardReview:
		ended := make(chan struct{})
		close(ended)
		return ended, nil
	}
	done := make(chan struct{})
	s.reviewing, s.tried = done, time.Now()
	s.background.Go(func() {
		ctx, cancel := context.WithTimeout(s.closing, timing.CallTimeout)
		defer cancel()
		err := s.readNow(ctx)
		if err != nil && s.closing.Err() == nil {
			s.log.Debug("the number of shards was not read; the last one known is used", logError, err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reviewing, s.reviewErr = nil, err
		close(done)
	})
	return done, nil
}

// Resize changes the number of shards, while jobs are added and processed. If the number, or
// that of the Connections, is another one, it begins a generation with other shards. They get
// the pause, the global concurrency and the global rate limit of the current ones. Producers
// add to it within two seconds after Resize has returned. Workers process the jobs of both
// generations. Resize moves the schedulers. It removes those that have ended.
//
// A JobID or deduplication id that an older generation knows stays there: an add with it goes
// to the shard that knows it, at the cost of a call for each older generation. An id that
// several programs add for the first time within two seconds after Resize may be added twice.
// Jobs with one key may run in another order than they were added if a Resize was between
// their adds.
//
// While jobs of the older generation are left, its limits hold in addition to those of the new
// one. A producer with fewer Connections than the new generation has servers goes on with the
// older one, and its adds fail after 30 minutes.
//
// If Resize fails after it has begun the generation, call it again with the same number,
// within an hour: it then sets the pause and the limits again, and moves the schedulers that
// are left. [ShardedQueue.Retire] removes older generations.
func (s *ShardedQueue) Resize(ctx context.Context, shards int) error {
	if shards < 1 || shards > MaxShards {
		return fmt.Errorf("bullmq: sharded queue %s can't have %d shards: use 1 to %d", s.name, shards, MaxShards)
	}
	if err := s.readNow(ctx); err != nil {
		return err
	}
	if current := s.view.Load().current(); len(current.shards) != shards || current.Servers != s.servers() {
		if err := s.beginGeneration(ctx, current, shards); err != nil {
			return err
		}
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	return s.moveSchedulers(ctx)
}

func (s *ShardedQueue) beginGeneration(ctx context.Context, current *shardSet, shards int) error {
	settings, err := readSettings(ctx, current.shards)
	if err == nil {
		err = settings.check(s.name, shards)
	}
	if err != nil {
		return err
	}
	next, err := s.open(ctx, backend.Generation{Number: current.Number + 1, Shards: shards, Servers: s.servers(), Since: s.now()}, false)
	if err != nil {
		return err
	}
	added := false
	if err = settings.apply(ctx, next.shards); err == nil {
		added, err = s.sharding.AddGeneration(ctx, next.Generation)
	}
	if err != nil {
		closeShards(next.shards)
		return err
	}
	if added {
		return s.readNow(ctx, next)
	}
	closeShards(next.shards)
	err = fmt.Errorf("bullmq: sharded queue %s was not resized to %d shards: another process resizes it", s.name, shards)
	if unsettled := cmp.Or(s.readNow(ctx), s.settle(ctx)); unsettled != nil { // some of its shards got settings for this number
		err = errors.Join(err, unsettled)
	}
	return err
}

// settle gives the shards of the current generation the settings of the previous one, until
// these no longer change. It does so only while the previous one can't have been retired.
func (s *ShardedQueue) settle(ctx context.Context) error {
	generations := s.view.Load().generations
	n := len(generations)
	if n < 2 || s.now().Sub(generations[n-1].Since) >= timing.ShardGrace {
		return nil
	}
	from, to := generations[n-2].shards, generations[n-1].shards
	settings, err := readSettings(ctx, from)
	for err == nil {
		if err = settings.check(s.name, len(to)); err != nil {
			break
		}
		if err = settings.apply(ctx, to); err != nil {
			break
		}
		applied := settings
		if settings, err = readSettings(ctx, from); settings == applied {
			break
		}
	}
	return err
}

// RetireOptions configures [ShardedQueue.Retire]. A nil pointer and the zero value select
// the defaults.
type RetireOptions struct {
	// RemoveFinished also removes generations whose shards have completed or failed jobs,
	// with these jobs. Their JobIDs are then free.
	// Defaults to false.
	RemoveFinished bool
}

// Retire removes older generations that are no longer used, with all their keys, and returns
// the names of the removed shards. A generation stays if it has schedulers or jobs, or if the
// next one began less than an hour ago. Retire first moves schedulers that are left in older
// generations, as Resize does. options may be nil.
//
// Each shard is removed only if it is unused at that moment. Clients of BullMQ do not notice
// that a generation has ended. Before Retire, make them add to the current one.
//
// Retire does not look at deduplication ids. If one lasts longer than its job, a job with this
// id may be added to the current generation before the TTL has passed. Call Retire after the
// longest TTL.
func (s *ShardedQueue) Retire(ctx context.Context, options *RetireOptions) (removed []string, err error) {
	if options == nil {
		options = &RetireOptions{}
	}
	if err := s.readNow(ctx); err != nil {
		return nil, err
	}
	if err := s.moveSchedulers(ctx); err != nil {
		return nil, err
	}
	view := s.view.Load()
	for i, g := range view.generations[:len(view.generations)-1] {
		if s.now().Sub(view.generations[i+1].Since) < timing.ShardGrace {
			continue
		}
		used, err := onEach(ctx, g.shards, func(ctx context.Context, of *shard) (bool, error) {
			return isUsed(ctx, of.Queue, options.RemoveFinished)
		})
		if err != nil {
			return removed, err
		}
		if slices.Contains(used, true) {
			continue
		}
		used, err = onEach(ctx, g.shards, func(ctx context.Context, of *shard) (bool, error) {
			gone, err := of.removeUnused(ctx, options.RemoveFinished)
			return !gone, err
		})
		if err != nil {
			return removed, err
		}
		if slices.Contains(used, true) {
			continue // a job was added meanwhile
		}
		if err := s.sharding.RemoveGenerations(ctx, g.Number); err != nil {
			return removed, err
		}
		for _, of := range g.shards {
			removed = append(removed, of.Name())
		}
	}
	if len(removed) > 0 {
		err = s.readNow(ctx)
	}
	return removed, err
}

// removeUnused removes a queue without schedulers and jobs, and reports whether it did. Finished
// jobs count unless withFinished is set.
func (q *Queue) removeUnused(ctx context.Context, withFinished bool) (removed bool, err error) {
	ctx, span := q.core.trace.start(ctx, SpanInternal, "obliterate")
	defer span.end(&err)
	for {
		used, again, err := q.core.store.RemoveUnused(ctx, 1000, withFinished)
		if err != nil || !again {
			return err == nil && !used, err
		}
	}
}

// isUsed reports whether a queue has schedulers or jobs. Finished jobs count unless
// ignoreFinished is set.
func isUsed(ctx context.Context, q *Queue, ignoreFinished bool) (bool, error) {
	counts, err := q.Counts(ctx)
	if err != nil {
		return false, err
	}
	for state, n := range counts {
		if finished := state == StateCompleted || state == StateFailed; n > 0 && !(finished && ignoreFinished) {
			return true, nil
		}
	}
	n, err := q.CountSchedulers(ctx)
	return n > 0, err
}
