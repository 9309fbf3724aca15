package bullmq

import (
	"context"
	"errors"
	"fmt"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// Errors of [Queue.MoveJob].
var (
	// ErrInFlow means that the job has a parent or children.
	ErrInFlow = errors.New("it is part of a flow, which would refer to its old queue")
	// ErrMoveConflict means that the other queue has a job with the same id, or with the same
	// deduplication id.
	ErrMoveConflict = errors.New("the other queue has a job with its id, or its deduplication id")
)

// MoveJob moves a job to another queue with the same prefix, and returns it there. The job may
// be waiting, prioritized, delayed or failed. It keeps its data, name, options, log and attempts.
// A delayed job stays delayed until its time. A failed job waits, as after [Job.Retry]. A job
// whose id is a number gets another number if the other queue has a job with its own. Both
// queues must be of the same version of BullMQ. To move the jobs that match conditions, call
// MoveJob in [Queue.EachMatch].
//
// The move is one call to Redis, so that the job is in one of the queues at any time. If the
// reply is lost, MoveJob returns an error, and the job may have been moved. A second call then
// returns [ErrJobNotFound].
//
// The errors are [ErrJobNotFound], [ErrNotInState], [ErrInFlow], [ErrSchedulerJob] and
// [ErrMoveConflict]. After one of these the job has not changed. On a cluster both queues must
// have the same hash tag. BullMQ has no such call.
func (q *Queue) MoveJob(ctx context.Context, jobID, toQueue string) (*Job, error) {
	fail := func(err error) (*Job, error) {
		return nil, fmt.Errorf("bullmq: move job %.80s of queue %s to %.80s: %w", jobID, q.Name(), toQueue, err)
	}
	to, err := q.core.sibling(q.core.keys.prefix, toQueue)
	if err != nil {
		return fail(err)
	}
	if toQueue == q.Name() {
		return fail(errors.New("it is in this queue; give another name"))
	}
	if err := q.core.store.CheckReach(to.keys.prefix, to.keys.queue); err != nil {
		return fail(err)
	}
	store, ok := q.core.store.(backend.Routes)
	if !ok {
		return fail(errors.New("only jobs of a queue in Redis can be moved"))
	}
	job, err := q.core.job(ctx, jobID)
	if err != nil {
		return nil, err
	}
	id, obstacle, err := store.MoveRequested(ctx, backend.QueueRef{Prefix: to.keys.prefix, Name: toQueue}, q.core.now(), backend.MovedJob{
		ID: jobID, Opts: string(job.RawOptions), Deduplication: job.Options.Deduplication.modes(), LIFO: job.Options.LIFO,
	})
	switch {
	case err != nil:
		return fail(err)
	case id != "":
		return &Job{ID: id, core: to, isRef: true}, nil
	}
	switch obstacle {
	case backend.MoveNoJob:
		return nil, q.core.noJob("moveWaiting", jobID)
	case backend.MoveInFlow:
		return fail(ErrInFlow)
	case backend.MoveScheduled:
		return fail(ErrSchedulerJob)
	case backend.MoveTaken:
		return fail(ErrMoveConflict)
	}
	return fail(ErrNotInState)
}
