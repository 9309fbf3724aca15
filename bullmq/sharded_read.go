package bullmq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Job reads a job by the name of its shard and its id, as [Queue.Job] does.
func (s *ShardedQueue) Job(ctx context.Context, queueName, id string) (*Job, error) {
	view, err := s.fresh(ctx)
	if err != nil {
		return nil, err
	}
	of := view.find(queueName)
	if of == nil {
		return nil, fmt.Errorf("bullmq: read job %.80q: %.80q is no shard of %s: %w", id, queueName, s.name, ErrJobNotFound)
	}
	return of.Job(ctx, id)
}

// Find returns the jobs with an id in all shards. There is at most one if the id is a JobID
// whose shard it selected, in each generation. It returns [ErrJobNotFound] if there is none.
// If shards fail, it returns the jobs of the others and a [*ShardError].
func (s *ShardedQueue) Find(ctx context.Context, id string) ([]*Job, error) {
	view, err := s.fresh(ctx)
	if err != nil {
		return nil, err
	}
	found, err := onEach(ctx, view.all(), func(ctx context.Context, of *shard) (*Job, error) {
		job, err := of.Job(ctx, id)
		if errors.Is(err, ErrJobNotFound) {
			return nil, nil
		}
		return job, err
	})
	found = slices.DeleteFunc(found, func(job *Job) bool { return job == nil })
	if len(found) == 0 && err == nil {
		err = s.record.noJob("Find", id)
	}
	return found, err
}

// Counts returns the number of jobs in each given state, in all shards together, as
// [Queue.Counts] does. If shards fail, it returns the sums of the others and a [*ShardError].
func (s *ShardedQueue) Counts(ctx context.Context, states ...State) (map[State]int, error) {
	byShard, err := s.ShardCounts(ctx, states...)
	sums := map[State]int{}
	for _, counts := range byShard {
		for state, n := range counts {
			sums[state] += n
		}
	}
	return sums, err
}

// ShardCounts returns the counts of each shard, by its name, as [Queue.Counts] does. Shards
// that fail are missing, and it returns a [*ShardError].
func (s *ShardedQueue) ShardCounts(ctx context.Context, states ...State) (map[string]map[State]int, error) {
	view, err := s.fresh(ctx)
	if err != nil {
		return nil, err
	}
	all := view.all()
	parts, err := onEach(ctx, all, func(ctx context.Context, of *shard) (map[State]int, error) { return of.Counts(ctx, states...) })
	counts := make(map[string]map[State]int, len(all))
	for i, part := range parts {
		if part != nil {
			counts[all[i].Name()] = part
		}
	}
	return counts, err
}

// Metrics reads the counts of jobs that have reached state, in all shards together, as
// [Queue.Metrics] does. If shards fail, it returns the sums of the others and a [*ShardError].
func (s *ShardedQueue) Metrics(ctx context.Context, state State, page Page) (JobMetrics, error) {
	from, to, err := page.bounds()
	if err != nil {
		return JobMetrics{}, err
	}
	view, err := s.fresh(ctx)
	if err != nil {
		return JobMetrics{}, err
	}
	parts, err := onEach(ctx, view.all(), func(ctx context.Context, of *shard) (JobMetrics, error) {
		return of.Metrics(ctx, state, Page{Limit: -1})
	})
	sum := sumMetrics(parts)
	if page.Ascending {
		slices.Reverse(sum.Points)
	}
	end := len(sum.Points)
	if to >= 0 {
		end = min(end, to+1)
	}
	sum.Points = sum.Points[min(from, end):end]
	return sum, err
}

// sumMetrics adds up the metrics of several queues. Their points are newest first. The newest
// one of each queue is of the minute before its PrevTime.
func sumMetrics(parts []JobMetrics) JobMetrics {
	var sum JobMetrics
	for _, part := range parts {
		sum.Count += part.Count
		sum.PrevCount += part.PrevCount
		if part.PrevTime.After(sum.PrevTime) {
			sum.PrevTime = part.PrevTime
		}
	}
	minute := func(t time.Time) int { return int(t.UnixMilli() / time.Minute.Milliseconds()) }
	for _, part := range parts {
		if len(part.Points) == 0 {
			continue
		}
		idle := minute(sum.PrevTime) - minute(part.PrevTime)
		for i, n := range part.Points {
			for len(sum.Points) <= idle+i {
				sum.Points = append(sum.Points, 0)
			}
			sum.Points[idle+i] += n
		}
	}
	sum.Total = len(sum.Points)
	return sum
}
