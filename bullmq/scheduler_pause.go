package bullmq

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// PauseScheduler stops a job scheduler until [Queue.ResumeScheduler]. Its next job is removed
// if it is still delayed. A job that is ready or running is not affected. It returns
// [ErrSchedulerNotFound] if there is no such scheduler. It returns nil if the scheduler is
// paused already.
//
// BullMQ has no paused schedulers. Other clients see none with this id. The definition is kept
// beside the queue, where only this SDK reads it. If any client upserts a scheduler with the
// same id, this one runs, and the paused one is dropped. Services that upsert their schedulers
// when they start thus end the pause.
func (q *Queue) PauseScheduler(ctx context.Context, id string) error {
	found, err := q.core.store.PauseJobScheduler(ctx, id, q.core.now())
	if err == nil && !found {
		return fmt.Errorf("bullmq: pause scheduler %.80q of %s: %w", id, q.Name(), ErrSchedulerNotFound)
	}
	return err
}

// ResumeScheduler continues a paused job scheduler, with the first of its scheduled times that
// has not passed, and the number of its iterations. Runs that were missed are not made up for. It
// returns [ErrSchedulerNotFound] if there is no such paused scheduler, and [ErrNoNextRun] if it
// has no further run. If there is another scheduler with this id by now, that one is kept and
// ResumeScheduler returns nil.
func (q *Queue) ResumeScheduler(ctx context.Context, id string) error {
	fail := func(err error) error {
		return fmt.Errorf("bullmq: resume scheduler %.80q of %s: %w", id, q.Name(), err)
	}
	records, err := q.core.store.PausedJobSchedulers(ctx, id)
	if err != nil {
		return err
	}
	if len(records) == 0 {
		if record, err := q.core.store.JobScheduler(ctx, id); err == nil && record != nil {
			return nil
		}
		return fail(ErrSchedulerNotFound)
	}
	paused, now := newScheduler(records[0]), q.core.now()
	if !paused.Repeat.EndDate.IsZero() && paused.Repeat.EndDate.Before(now) {
		return fail(fmt.Errorf("%w: EndDate %v has passed", ErrNoNextRun, paused.Repeat.EndDate))
	}
	s := &backend.SchedulerAdd{
		ID: id, Now: now, Name: paused.Name, Data: cmp.Or(string(paused.Data), "{}"), Template: cmp.Or(string(paused.RawOptions), "{}"),
		Repeat: records[0].Repeat, Resume: true,
	}
	if s.Due, err = dueOf(paused.Repeat, now); err != nil {
		return fail(err)
	}
	template := map[string]any{}
	if err := wire.DecodeJSON([]byte(s.Template), &template); err != nil {
		return fail(fmt.Errorf("its options are not an object: %w", err))
	}
	if err := nextJobOptions(s, template, max(paused.Iterations, 1)); err != nil {
		return fail(err)
	}
	q.entry.renew(ctx)
	_, _, err = q.core.store.AddJobScheduler(ctx, *s)
	if errors.Is(err, backend.ErrSchedulerNotPaused) { // somebody else has resumed it
		return nil
	}
	return err
}

// PausedSchedulers returns the paused job schedulers, in the order of their ids. Next is when
// the job would have run that the pause has removed.
func (q *Queue) PausedSchedulers(ctx context.Context) ([]*Scheduler, error) {
	records, err := q.core.store.PausedJobSchedulers(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]*Scheduler, len(records))
	for i, record := range records {
		all[i] = newScheduler(record)
	}
	return all, nil
}

// schedulerFields are options of a scheduler's job that are not those of an ordinary job.
var schedulerFields = []string{"repeat", "repeatJobKey", "prevMillis", "timestamp", "jobId", "delay"}

// RunScheduler adds a job with the name, the data and the options of a job scheduler, which may
// be paused, and returns it. It does not change when the scheduler adds jobs. The job is an
// ordinary one, with a number as its id. Its SchedulerID is "", since otherwise BullMQ would
// take its start for that of the scheduled job. The defaults and the middleware of the Queue do
// not apply, because they did when the scheduler was upserted. It returns
// [ErrSchedulerNotFound] if there is no such scheduler.
func (q *Queue) RunScheduler(ctx context.Context, id string) (*Job, error) {
	record, err := q.core.store.JobScheduler(ctx, id)
	if err != nil {
		return nil, err
	}
	if record == nil {
		paused, err := q.core.store.PausedJobSchedulers(ctx, id)
		if err != nil {
			return nil, err
		}
		if len(paused) == 0 {
			return nil, fmt.Errorf("bullmq: run scheduler %.80q of %s: %w", id, q.Name(), ErrSchedulerNotFound)
		}
		record = paused[0]
	}
	template := map[string]json.RawMessage{}
	if len(record.Opts) > 0 {
		if err := json.Unmarshal(record.Opts, &template); err != nil {
			return nil, fmt.Errorf("bullmq: run scheduler %.80q of %s: its options are not an object: %w", id, q.Name(), err)
		}
	}
	for _, name := range schedulerFields {
		delete(template, name)
	}
	text, err := json.Marshal(template)
	if err != nil {
		return nil, err
	}
	var o JobOptions
	if err := o.UnmarshalJSON(text); err != nil {
		return nil, fmt.Errorf("bullmq: run scheduler %.80q of %s: %w", id, q.Name(), err)
	}
	o.JobID, o.Delay, o.Timestamp = "", 0, time.Time{}
	var data any
	if len(record.Data) > 0 {
		data = json.RawMessage(record.Data)
	}
	return q.addWith(ctx, q.wait, record.Name, data, &o, o)
}
