package bullmq

import (
	"context"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// feed gets the jobs for the slots of a runner. The feed of a [Worker] is a [queueFeed], and
// that of a [MultiWorker] a [groupFeed].
type feed interface {
	// start is called once, before the other methods.
	start(r *runner)
	// fetch fetches jobs and runs each in a slot, until the runner stops. It returns false
	// if runner.fetchUntilStopped was called in another goroutine, which continues.
	fetch() (stopped bool)
	// markDirty makes fetch look for jobs again.
	markDirty()
	// signal is called when a slot has become free, and when another condition of fetch has
	// changed. The channel runner.wake is signalled too.
	signal()
	// interrupt ends a wait for jobs when the runner stops.
	interrupt()
	// close closes the connection of the waits.
	close()
}

// source is the queue of a [queueWorker] as part of a feed. All calls that end a job, and
// may fetch the next one for its slot, go through it.
type source interface {
	// mayFetch reports whether such a call may fetch a job.
	mayFetch() bool
	// finish completes or fails a job. With end.Fetch a slot is reserved for a job that the
	// call fetches. With alone the call is not shared with other jobs.
	finish(ctx context.Context, end backend.End, alone bool) (found, error)
	// delay delays a job. With d.Fetch a slot is reserved, as for finish.
	delay(ctx context.Context, d backend.Delay) (found, error)
	// take returns the job that such a call has found, if any. It is called after the
	// outcome of the job that ended was reported. begun is when the call began.
	take(f found, begun time.Time) handover
	// ended is called when the slot of the job with this token no longer runs it. finish may
	// know that before.
	ended(token string)
	// markDirty makes the feed look for jobs of the queue again.
	markDirty()
	// setRateLimit stops fetching for a duration; 0 ends a limit.
	setRateLimit(wait time.Duration)
	// stopFetchingFor stops fetching for a duration, regardless of the results of fetches.
	stopFetchingFor(wait time.Duration)
}

// found is what a call that ended a job has found for its slot.
type found struct {
	backend.Fetched
	w       *queueWorker   // of the queue of the job
	token   string         // of its lock
	since   int            // queueView.currentEpoch before the call
	looked  bool           // the call looked for a job
	drained []*memberQueue // in which the call has found that no job is ready any more
}

// handover is the next job of a slot. The zero value is none.
type handover struct {
	w        *queueWorker // of the job's queue
	job      *Job
	lockedAt time.Time // from when the lock counts
}
