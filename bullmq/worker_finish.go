package bullmq

import (
	"context"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// finish implements source. Jobs that end at the same time share calls.
func (f *queueFeed) finish(ctx context.Context, end backend.End, alone bool) (found, error) {
	do := f.ends.Do
	if alone {
		do = f.ends.DoAlone
	}
	since := f.currentEpoch()
	ended, err := do(ctx, end)
	if err == nil {
		err = ended.Err
	}
	next := ended.Next
	return found{Fetched: next, w: f.w, token: end.Token, since: since, looked: end.Fetch && !next.Unknown}, err
}

// delay implements source. The call does not tell whether it has looked for a job, if it
// has found none.
func (f *queueFeed) delay(ctx context.Context, d backend.Delay) (found, error) {
	since := f.currentEpoch()
	next, err := f.w.core.store.MoveToDelayed(ctx, d)
	return found{Fetched: next, w: f.w, token: d.Token, since: since}, err
}

// ended implements source.
func (f *queueFeed) ended(string) {}

// take implements source.
func (f *queueFeed) take(next found, begun time.Time) handover {
	return handover{f.w, f.newJob(next.Fetched, next.token, next.since), begun}
}

// send finishes jobs in one call.
func (f *queueFeed) send(ctx context.Context, ends []*backend.End) func() ([]backend.Ended, error) {
	w := f.w
	ctx, cancel := context.WithTimeout(ctx, w.endTimeout())
	defer cancel()
	return f.store.MoveToFinished(ctx, backend.Finish{
		Now: w.core.now(), MetricsPoints: w.o.MetricsPoints, Worker: w.backendWorker(), Ends: ends,
	})
}

// endTimeout returns the timeout of a call that ends a job. The lock is not renewed
// during the call, and must outlast it long enough to find out what a lost call has
// done.
func (w *queueWorker) endTimeout() time.Duration { return endTimeout(&w.o) }

func endTimeout(o *WorkerOptions) time.Duration {
	return min(timing.CallTimeout, max(o.LockDuration/3, timing.LastRenewal))
}

// sizeOfEnd returns the approximate size of an end in bytes.
func sizeOfEnd(e *backend.End) int {
	if f := e.Failure; f != nil {
		return len(f.Reason) + len(f.StackTrace) + len(f.Telemetry)
	}
	return len(e.ReturnValue)
}
