package bullmq

import (
	"context"
	"errors"
	"fmt"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/schedule"
)

// advance adds the next job of the scheduler that made this one; a worker does
// so when the job starts, whatever becomes of it. An error that is a
// *scheduleError is permanent: a retry fails the same way.
func (w *Worker) advance(ctx context.Context, job *Job) (err error) {
	run, err := w.nextRun(job)
	if err != nil || run == nil {
		return err
	}
	ctx, span := w.core.trace.startAdd(ctx, job.Name)
	defer span.end(&err)
	if run.Opts, err = carryOn(run.Opts, w.core.trace.inject(ctx)); err != nil {
		return err
	}
	id, err := w.core.store.UpdateJobScheduler(ctx, *run)
	if errors.Is(err, backend.ErrUnreadable) {
		return &scheduleError{job.SchedulerID, err}
	}
	if id != "" {
		set(span, attrSchedulerID, job.SchedulerID)
		set(span, attrJobID, id)
	}
	return err
}

// scheduleError says why a scheduler stops.
type scheduleError struct {
	scheduler string
	reason    error
}

func (e *scheduleError) Error() string {
	return fmt.Sprintf("bullmq: scheduler %s has no next run: %v", e.scheduler, e.reason)
}
func (e *scheduleError) Unwrap() error { return e.reason }

// nextRun returns the next job of the scheduler that made this one; nil when the
// scheduler has ended.
func (w *Worker) nextRun(job *Job) (*backend.NextRun, error) {
	now := w.core.now()
	run, err := schedule.Next(job.SchedulerID, job.RawOpts, now)
	if err != nil {
		return nil, &scheduleError{job.SchedulerID, err}
	}
	if run == nil {
		return nil, nil
	}
	return &backend.NextRun{
		SchedulerID: job.SchedulerID, Now: now, ProducerID: job.ID, Data: string(job.Data),
		Opts: run.Opts, Due: run.Due, EveryMillis: run.EveryMillis,
	}, nil
}
