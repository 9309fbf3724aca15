package bullmq

import (
	"context"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/batch"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// sharedAdds makes the adds of several queues of one connection in shared calls, see
// QueueOptions.ShareCalls. On a cluster the queues have one hash tag. It exists as long as
// the connection, and belongs to none of the queues.
type sharedAdds struct {
	group   backend.Group
	batcher *batch.Batcher[sharedAdd, backend.AddResult]
}

// sharedAdd is a job to add, with its queue.
type sharedAdd struct {
	core *core
	add  backend.Add
}

func newSharedAdds(group backend.Group, batchSize int) *sharedAdds {
	s := &sharedAdds{group: group}
	s.batcher = batch.New(batch.Options[sharedAdd, backend.AddResult]{
		MaxSize: batchSize, Timeout: timing.CallTimeout, Send: s.send,
		SizeOf: func(a *sharedAdd) int { return sizeOfAdd(&a.add) },
	})
	return s
}

// do adds a plain job.
func (s *sharedAdds) do(ctx context.Context, c *core, add backend.Add) (backend.AddResult, error) {
	return s.batcher.Do(ctx, sharedAdd{c, add})
}

// send adds a batch of jobs in one call.
func (s *sharedAdds) send(ctx context.Context, requests []*sharedAdd) (read func() ([]backend.AddResult, error)) {
	results := make([]backend.AddResult, len(requests))
	var cores []*core
	var adds []backend.QueueAdds
	var at [][]int // the indexes of the jobs in requests
	numbers := make(map[*core]int, len(requests))
	for i, r := range requests {
		n, known := numbers[r.core]
		if !known {
			n = len(cores)
			numbers[r.core], cores = n, append(cores, r.core)
			adds, at = append(adds, backend.QueueAdds{Queue: r.core.keys.base}), append(at, nil)
		}
		adds[n].Jobs, at[n] = append(adds[n].Jobs, &r.add), append(at[n], i)
	}
	for n, of := range s.sendTo(ctx, cores, adds) {
		for j, result := range of {
			results[at[n][j]] = result
		}
	}
	return func() ([]backend.AddResult, error) { return results, nil }
}

// sendTo adds jobs to queues and returns the results of each queue.
func (s *sharedAdds) sendTo(ctx context.Context, cores []*core, adds []backend.QueueAdds) [][]backend.AddResult {
	alone := func() [][]backend.AddResult {
		results := make([][]backend.AddResult, len(adds))
		for n, c := range cores {
			results[n] = c.store.AddBatch(ctx, adds[n].Jobs)
		}
		return results
	}
	if len(adds) == 1 {
		return alone()
	}
	results, err := s.group.AddPlainJobs(ctx, adds)
	if err == nil {
		return results
	}
	if classify(err) == backend.Forbidden {
		return alone() // the user may lack the permission for one of the queues only
	}
	results = make([][]backend.AddResult, len(adds))
	for n, c := range cores {
		c.client.Heard(err)
		results[n] = make([]backend.AddResult, len(adds[n].Jobs))
		for j := range results[n] {
			results[n][j].Err = err
		}
	}
	return results
}
