package bullmq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/safe"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// onEach calls a function for each shard, at the same time. The results are in the order of
// the shards. If calls fail, it also returns a *ShardError.
func onEach[T any](ctx context.Context, shards []*shard, call func(context.Context, *shard) (T, error)) ([]T, error) {
	results, errs, calls := make([]T, len(shards)), make([]error, len(shards)), make([]func(), len(shards))
	for i, of := range shards {
		calls[i] = func() { results[i], errs[i] = call(ctx, of) }
	}
	safe.Together(calls...)
	failed := &ShardError{Shards: len(shards)}
	for i, err := range errs {
		if err != nil {
			failed.add(shards[i].Name(), err)
		}
	}
	return results, failed.orNil()
}

// Each calls a function with the Queue of each shard of all generations, at the same time. If
// calls return errors, Each returns a [*ShardError]. It is for calls that ShardedQueue does
// not have:
//
//	err := orders.Each(ctx, func(ctx context.Context, shard *bullmq.Queue) error {
//		return shard.RetryJobs(ctx, nil)
//	})
func (s *ShardedQueue) Each(ctx context.Context, call func(ctx context.Context, shard *Queue) error) error {
	view, err := s.fresh(ctx)
	if err != nil {
		return err
	}
	_, err = onEach(ctx, view.all(), func(ctx context.Context, of *shard) (struct{}, error) {
		return struct{}{}, call(ctx, of.Queue)
	})
	return err
}

// set changes a setting of all shards, also of those of a generation that begins meanwhile. A
// call that fails because of an outage is repeated until ctx ends. fits returns an error if the
// shards of a generation can't have the setting. It may be nil.
func (s *ShardedQueue) set(ctx context.Context, fits func(*shardSet) error, change func(ctx context.Context, g *shardSet, index int) error) error {
	if err := s.ready(); err != nil {
		return err
	}
	_, _ = s.latest(ctx) // without it, the generations are read after the first round
	done := map[*shard]bool{}
	for {
		failed := &ShardError{}
		type target struct {
			*shardSet
			index int
		}
		targets := map[*shard]target{}
		var pending []*shard
		view := s.view.Load()
		for _, g := range view.generations {
			failed.Shards += len(g.shards)
			if fits != nil {
				if err := fits(g); err != nil {
					return err
				}
			}
			for i, of := range g.shards {
				if !done[of] {
					targets[of], pending = target{g, i}, append(pending, of)
				}
			}
		}
		_, err := onEach(ctx, pending, func(ctx context.Context, of *shard) (struct{}, error) {
			to := targets[of]
			return struct{}{}, untilItSucceeds(ctx, func() error { return change(ctx, to.shardSet, to.index) })
		})
		var errs *ShardError
		if errors.As(err, &errs) {
			failed.Failed = errs.Failed
			return failed
		}
		for _, of := range pending {
			done[of] = true
		}
		if err := untilItSucceeds(ctx, func() error { return s.readNow(ctx) }); err != nil {
			return fmt.Errorf("bullmq: all %d shards of %s were changed, but whether it has new shards is unknown: %w", failed.Shards, s.name, err)
		}
		if s.view.Load() == view {
			return nil
		}
	}
}

// ready returns ErrClosed if the ShardedQueue is closed or obliterated.
func (s *ShardedQueue) ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrClosed
	case s.obliterated.Load():
		return fmt.Errorf("bullmq: sharded queue %s was obliterated; open it again with NewShardedQueue: %w", s.name, ErrClosed)
	}
	return nil
}

// untilItSucceeds repeats a call that may run more than once, as long as an outage makes it
// fail, until ctx ends.
func untilItSucceeds(ctx context.Context, call func() error) error {
	var pause timing.Backoff
	for {
		err := call()
		if err == nil || !isOutage(err) {
			return err
		}
		if timing.Sleep(ctx, pause.Next()); ctx.Err() != nil {
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// isOutage reports whether a call has failed because of an outage.
func isOutage(err error) bool {
	var refused *Error
	if errors.Is(err, ErrClosed) || errors.As(err, &refused) {
		return false
	}
	switch classify(err) {
	case backend.NotSent, backend.Unavailable, backend.Exhausted, backend.Lost:
		return true
	}
	return false
}

// Pause pauses all shards for all workers, as [Queue.Pause] does. It also pauses the shards of
// a generation that begins meanwhile.
//
// The shards are not paused at one moment. While one can't be reached, Pause repeats the call
// until ctx ends, so give ctx a deadline. Then it returns a [*ShardError] with the shards that
// may not be paused.
func (s *ShardedQueue) Pause(ctx context.Context) error {
	return s.set(ctx, nil, func(ctx context.Context, g *shardSet, index int) error { return g.shards[index].Pause(ctx) })
}

// Resume ends the pause of all shards, as [ShardedQueue.Pause] begins it.
func (s *ShardedQueue) Resume(ctx context.Context) error {
	return s.set(ctx, nil, func(ctx context.Context, g *shardSet, index int) error { return g.shards[index].Resume(ctx) })
}

// IsPaused reports whether all shards are paused.
func (s *ShardedQueue) IsPaused(ctx context.Context) (bool, error) {
	view, err := s.fresh(ctx)
	if err != nil {
		return false, err
	}
	paused, err := onEach(ctx, view.all(), func(ctx context.Context, of *shard) (bool, error) { return of.IsPaused(ctx) })
	for _, is := range paused {
		if !is {
			return false, err
		}
	}
	return true, err
}

// share returns the part of a limit that a shard gets. The first shards get the rest.
func share(limit, index, shards int) int {
	part := limit / shards
	if index < limit%shards {
		part++
	}
	return part
}

// SetGlobalConcurrency limits how many jobs run at the same time, across all workers. Each
// shard gets an equal part of the limit, as [Queue.SetGlobalConcurrency] sets it. So the limit
// is reached only if all shards have jobs. The limit must be 0, with which no job starts, or
// at least the number of shards.
//
// Each generation of shards has the limit of its own. An outage is treated as by
// [ShardedQueue.Pause].
func (s *ShardedQueue) SetGlobalConcurrency(ctx context.Context, concurrency int) error {
	if concurrency < 0 {
		return fmt.Errorf("bullmq: sharded queue %s: a global concurrency of %d is less than 0; use RemoveGlobalConcurrency to remove the limit", s.name, concurrency)
	}
	fits := func(g *shardSet) error { return s.divisible("a global concurrency", concurrency, g) }
	return s.set(ctx, fits, func(ctx context.Context, g *shardSet, index int) error {
		return g.shards[index].SetGlobalConcurrency(ctx, share(concurrency, index, len(g.shards)))
	})
}

// divisible returns an error if a limit is too small to be divided among the shards.
func (s *ShardedQueue) divisible(what string, limit int, g *shardSet) error {
	if n := len(g.shards); limit > 0 && limit < n {
		return fmt.Errorf("bullmq: sharded queue %s: %s of %d can't be divided among %d shards: use at least %d", s.name, what, limit, n, n)
	}
	return nil
}

// RemoveGlobalConcurrency removes the limit of [ShardedQueue.SetGlobalConcurrency].
func (s *ShardedQueue) RemoveGlobalConcurrency(ctx context.Context) error {
	return s.set(ctx, nil, func(ctx context.Context, g *shardSet, index int) error {
		return g.shards[index].RemoveGlobalConcurrency(ctx)
	})
}

// GlobalConcurrency returns the sum of the limits of the current generation, or 0 if one of
// its shards has none.
func (s *ShardedQueue) GlobalConcurrency(ctx context.Context) (int, error) {
	settings, err := s.settings(ctx)
	return max(0, settings.concurrency), err
}

// SetGlobalRateLimit limits how many jobs start within a period, across all workers. Each
// shard gets an equal part of limit.Max, as [Queue.SetGlobalRateLimit] sets it. So the limit is
// reached only if all shards have jobs. limit.Max must be at least the number of shards.
//
// Each generation of shards has the limit of its own. An outage is treated as by
// [ShardedQueue.Pause].
func (s *ShardedQueue) SetGlobalRateLimit(ctx context.Context, limit Limiter) error {
	if err := limit.check(); err != nil {
		return fmt.Errorf("bullmq: sharded queue %s: %w; use RemoveGlobalRateLimit to remove the limit", s.name, err)
	}
	fits := func(g *shardSet) error { return s.divisible("a global rate limit", limit.Max, g) }
	return s.set(ctx, fits, func(ctx context.Context, g *shardSet, index int) error {
		part := limit
		part.Max = share(limit.Max, index, len(g.shards))
		return g.shards[index].SetGlobalRateLimit(ctx, part)
	})
}

// RemoveGlobalRateLimit removes the limit of [ShardedQueue.SetGlobalRateLimit].
func (s *ShardedQueue) RemoveGlobalRateLimit(ctx context.Context) error {
	return s.set(ctx, nil, func(ctx context.Context, g *shardSet, index int) error {
		return g.shards[index].RemoveGlobalRateLimit(ctx)
	})
}

// GlobalRateLimit returns the sum of the limits of the current generation, or nil if one of
// its shards has none.
func (s *ShardedQueue) GlobalRateLimit(ctx context.Context) (*Limiter, error) {
	settings, err := s.settings(ctx)
	if err != nil || settings.limit == (Limiter{}) {
		return nil, err
	}
	return &settings.limit, nil
}

// Drain removes all waiting jobs of all shards, as [Queue.Drain] does. options may be nil. If
// shards fail, Drain returns a [*ShardError]; the others are drained.
func (s *ShardedQueue) Drain(ctx context.Context, options *DrainOptions) error {
	return s.Each(ctx, func(ctx context.Context, shard *Queue) error { return shard.Drain(ctx, options) })
}

// Obliterate pauses all shards of all generations and removes them with all their data, as
// [Queue.Obliterate] does. If no shard fails, it also removes the number of shards from Redis.
// Further calls return [ErrClosed]. options may be nil.
//
// First stop all workers and close all other ShardedQueues of the queue. Each of them would
// store the number of shards again.
func (s *ShardedQueue) Obliterate(ctx context.Context, options *ObliterateOptions) error {
	if err := s.readNow(ctx); err != nil {
		return err
	}
	view := s.view.Load()
	if _, err := onEach(ctx, view.all(), func(ctx context.Context, of *shard) (struct{}, error) {
		return struct{}{}, of.Obliterate(ctx, options)
	}); err != nil {
		return err
	}
	var numbers []int
	for _, g := range view.generations {
		numbers = append(numbers, g.Number)
	}
	s.reading.Lock() // a reading that finds no generation stores the one that it knows
	defer s.reading.Unlock()
	err := s.sharding.RemoveGenerations(ctx, numbers...)
	s.obliterated.Store(err == nil)
	return err
}

// noLimit is a concurrency without a limit.
const noLimit = -1

// shardSettings are the settings that the shards of a generation have together.
type shardSettings struct {
	paused      bool    // one shard is paused
	concurrency int     // their sum, or noLimit
	limit       Limiter // with the sum of Max; zero for none
}

// settings reads the settings of the current generation.
func (s *ShardedQueue) settings(ctx context.Context) (shardSettings, error) {
	view, err := s.fresh(ctx)
	if err != nil {
		return shardSettings{}, err
	}
	return readSettings(ctx, view.current().shards)
}

func readSettings(ctx context.Context, shards []*shard) (shardSettings, error) {
	metas, err := onEach(ctx, shards, func(ctx context.Context, of *shard) (Meta, error) { return of.Meta(ctx) })
	if err != nil {
		return shardSettings{}, err
	}
	var settings shardSettings
	limited := true
	for _, meta := range metas {
		settings.paused = settings.paused || meta.Paused
		switch {
		case meta.Concurrency == nil:
			settings.concurrency = noLimit
		case settings.concurrency != noLimit:
			settings.concurrency += *meta.Concurrency
		}
		if meta.RateLimit == nil {
			limited = false
			continue
		}
		settings.limit.Max += meta.RateLimit.Max
		settings.limit.Duration = max(settings.limit.Duration, meta.RateLimit.Duration)
	}
	if !limited {
		settings.limit = Limiter{}
	}
	return settings, nil
}

// check returns an error if the limits can't be divided among this number of shards.
func (o shardSettings) check(queueName string, shards int) error {
	if o.concurrency > 0 && o.concurrency < shards {
		return fmt.Errorf("bullmq: sharded queue %s can't have %d shards: its global concurrency of %d can't be divided among them; raise or remove it first", queueName, shards, o.concurrency)
	}
	if o.limit.Max > 0 && o.limit.Max < shards {
		return fmt.Errorf("bullmq: sharded queue %s can't have %d shards: its global rate limit of %d can't be divided among them; raise or remove it first", queueName, shards, o.limit.Max)
	}
	return nil
}

// apply gives shards these settings, whichever they had.
func (o shardSettings) apply(ctx context.Context, shards []*shard) error {
	_, err := onEach(ctx, shards, func(ctx context.Context, of *shard) (struct{}, error) {
		return struct{}{}, o.applyTo(ctx, of.Queue, slices.Index(shards, of), len(shards))
	})
	return err
}

func (o shardSettings) applyTo(ctx context.Context, q *Queue, index, shards int) error {
	choose := func(set bool, to, remove func(context.Context) error) error {
		if set {
			return to(ctx)
		}
		return remove(ctx)
	}
	return errors.Join(
		choose(o.concurrency != noLimit, func(ctx context.Context) error {
			return q.SetGlobalConcurrency(ctx, share(o.concurrency, index, shards))
		}, q.RemoveGlobalConcurrency),
		choose(o.limit != Limiter{}, func(ctx context.Context) error {
			return q.SetGlobalRateLimit(ctx, Limiter{Max: share(o.limit.Max, index, shards), Duration: o.limit.Duration})
		}, q.RemoveGlobalRateLimit),
		choose(o.paused, q.Pause, q.Resume),
	)
}

// Health returns whether all shards can be reached. It makes no call. If shards can't be
// reached, Since is when the first of them became unreachable, and Err is a [*ShardError].
func (s *ShardedQueue) Health() Health {
	all := s.view.Load().all()
	failed := &ShardError{Shards: len(all)}
	var joined Health
	var recovered error
	for _, of := range all {
		h := of.Health()
		switch {
		case !h.Reachable:
			if len(failed.Failed) == 0 || h.Since.Before(joined.Since) {
				joined.Since = h.Since
			}
			failed.add(of.Name(), h.Err)
		case len(failed.Failed) == 0 && h.Since.After(joined.Since):
			joined.Since, recovered = h.Since, h.Err
		}
	}
	if joined.Reachable, joined.Err = len(failed.Failed) == 0, failed.orNil(); joined.Reachable {
		joined.Err = recovered
	}
	return joined
}

// ShardHealth returns whether each shard can be reached, by the name of the shard. It makes no
// call.
func (s *ShardedQueue) ShardHealth() map[string]Health {
	healths := map[string]Health{}
	for _, of := range s.view.Load().all() {
		healths[of.Name()] = of.Health()
	}
	return healths
}

// Ping checks the servers of all shards, as [Queue.Ping] does. If some can't be reached, it
// returns a [*ShardError].
func (s *ShardedQueue) Ping(ctx context.Context) error {
	_, err := onEach(ctx, s.view.Load().all(), func(ctx context.Context, of *shard) (struct{}, error) {
		return struct{}{}, of.Ping(ctx)
	})
	return err
}

// Ages returns how old the oldest job of each given state is, in all shards, as [Queue.Ages]
// does. If shards fail, it returns the ages of the others and a [*ShardError].
func (s *ShardedQueue) Ages(ctx context.Context, states ...State) (map[State]time.Duration, error) {
	view, err := s.fresh(ctx)
	if err != nil {
		return nil, err
	}
	parts, err := onEach(ctx, view.all(), func(ctx context.Context, of *shard) (map[State]time.Duration, error) { return of.Ages(ctx, states...) })
	ages := map[State]time.Duration{}
	for _, part := range parts {
		for state, age := range part {
			ages[state] = max(ages[state], age)
		}
	}
	return ages, err
}
