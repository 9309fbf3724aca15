package bullmq

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/schedule"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
	"github.com/17a2ac88/bullmq-go/internal/cron"
)

// Repeat defines when a job scheduler adds jobs (BullMQ: RepeatOptions). Set either a
// Pattern or an interval, Every.
type Repeat struct {
	// Pattern is a cron pattern with five or six fields. The first of six fields is the
	// seconds. The syntax is that of cron-parser 5.
	Pattern string
	// TimeZone is the IANA name of the zone of the pattern's times (BullMQ: tz). It needs
	// the machine's time zone database. If there may be none, import time/tzdata.
	// Defaults to the zone of this process.
	TimeZone string
	// Every is the interval, in whole milliseconds.
	Every time.Duration
	// Offset aligns the runs of an interval to the clock. They are at multiples of Every
	// since 1970, plus Offset. With an Every of an hour and an Offset of five minutes, they
	// are at five past each hour. If Offset is negative, or StartDate is set, the scheduler
	// aligns its runs only after a run was missed. Offset is in whole milliseconds.
	// Defaults to 0, which starts the first run at once.
	Offset time.Duration
	// StartDate is when the first job of an interval runs. If StartDate has passed, the
	// first job runs at once. All times of a pattern are after StartDate.
	StartDate time.Time
	// EndDate is when the scheduler stops adding jobs. A scheduler adds its next job
	// when its previous job starts. So a job that was added in time runs even if it
	// starts after EndDate. With Every, a job may be scheduled up to an interval after
	// EndDate. A pattern schedules no job after EndDate.
	EndDate time.Time
	// Limit is the number of jobs to add. Each upsert of the scheduler restarts the count.
	// Defaults to 0, no limit.
	Limit int
	// Immediately adds the first job of a pattern without a delay.
	Immediately bool
}

// JobTemplate defines the jobs of a scheduler.
type JobTemplate struct {
	Name    string // defaults to the scheduler's id
	Data    any
	Options *JobOptions // the scheduler overrides JobID and Delay
}

// Scheduler is the stored state of a job scheduler (BullMQ: JobSchedulerJson).
type Scheduler struct {
	ID         string
	Name       string    // name of its jobs
	Next       time.Time // when its next job runs
	Repeat     Repeat
	Iterations int // number of jobs added so far
	// HasOffset reports whether an offset is stored, even if it is 0.
	HasOffset bool
	// Data and RawOptions are the data and the options of the template, as JSON. They are
	// nil if none are stored.
	Data       json.RawMessage
	RawOptions json.RawMessage
	// PausedAt is when [Queue.PauseScheduler] has paused it. It is zero for a scheduler that
	// is not paused.
	PausedAt time.Time
}

// UpsertScheduler creates a job scheduler, or updates the one with that id, and returns
// its next job (BullMQ: upsertJobScheduler). Several processes may upsert the same
// scheduler at the same time. template may be nil.
//
// If the pattern has no next run, or no run until EndDate, UpsertScheduler writes nothing
// and returns [ErrNoNextRun]. If EndDate has passed, UpsertScheduler refuses it with
// another error.
func (q *Queue) UpsertScheduler(ctx context.Context, id string, repeat Repeat, template *JobTemplate) (*Job, error) {
	t := JobTemplate{}
	if template != nil {
		t = *template
	}
	if t.Name == "" {
		t.Name = id
	}
	if len(q.middleware) == 0 {
		return q.upsertScheduler(ctx, id, repeat, t)
	}
	return upsertThrough(ctx, q.Name(), q.middleware, id, t, func(ctx context.Context, t JobTemplate) (*Job, error) {
		return q.upsertScheduler(ctx, id, repeat, t)
	})
}

// upsertThrough upserts a scheduler through middleware.
func upsertThrough(ctx context.Context, queueName string, middleware []AddMiddleware, id string, t JobTemplate, upsert func(context.Context, JobTemplate) (*Job, error)) (*Job, error) {
	n := newJob(queueName, t.Name, t.Data, t.Options)
	n.SchedulerID = id
	called := false
	var job *Job
	err := wrapAdd(func(ctx context.Context, _ []*NewJob) (err error) {
		called = true
		job, err = upsert(ctx, JobTemplate{Name: t.Name, Data: n.Data, Options: n.Options})
		return err
	}, middleware)(ctx, []*NewJob{n})
	if err == nil && !called {
		err = errNotAdded
	}
	return job, err
}

func (q *Queue) upsertScheduler(ctx context.Context, id string, repeat Repeat, t JobTemplate) (_ *Job, err error) {
	s, err := q.scheduler(id, repeat, t)
	if err != nil {
		return nil, fmt.Errorf("bullmq: scheduler %.80q of queue %s was not changed: %w", id, q.Name(), err)
	}
	ctx, span := q.core.trace.startAdd(ctx, t.Name)
	defer span.end(&err)
	if s.Opts, err = carryOn(s.Opts, q.core.trace.inject(ctx)); err != nil {
		return nil, err
	}
	q.entry.renew(ctx)
	jobID, delay, err := q.core.store.AddJobScheduler(ctx, *s)
	if err != nil {
		return nil, err
	}
	setAttr(span, attrSchedulerID, id)
	setAttr(span, attrJobID, jobID)
	return q.scheduled(s, jobID, delay)
}

// scheduled returns the job that an upsert has added.
func (q *Queue) scheduled(s *backend.SchedulerAdd, id string, delay time.Duration) (*Job, error) {
	job := &Job{
		ID: id, Name: s.Name, Data: json.RawMessage(s.Data), Timestamp: time.UnixMilli(s.Now.UnixMilli()),
		Delay: delay, SchedulerID: s.ID, core: q.core,
	}
	var fields map[string]any
	if err := wire.DecodeJSON([]byte(s.Opts), &fields); err != nil {
		return nil, err
	}
	fields["jobId"], fields["delay"] = id, delay.Milliseconds() // as the script stores them
	wire, err := wire.EncodeJSON(fields)
	if err != nil {
		return nil, err
	}
	job.RawOptions = json.RawMessage(wire)
	if err := job.Options.UnmarshalJSON(job.RawOptions); err != nil {
		return nil, err
	}
	delete(job.Options.Extra, schedulerOption) // it is in SchedulerID
	job.Priority = job.Options.Priority
	if d := job.Options.Deduplication; d != nil {
		job.DeduplicationID = d.ID
	}
	return job, nil
}

// scheduler checks and encodes a scheduler.
func (q *Queue) scheduler(id string, r Repeat, t JobTemplate) (*backend.SchedulerAdd, error) {
	if err := cmp.Or(checkText("its id", id), checkText("the name of its jobs", t.Name)); err != nil {
		return nil, err
	}
	switch {
	case id == "":
		return nil, errors.New("it needs an id")
	case r.Pattern != "" && r.Every != 0:
		return nil, errors.New("Repeat has both a Pattern and an Every: choose one")
	case r.Pattern == "" && r.Every < time.Millisecond:
		return nil, fmt.Errorf("Repeat needs a Pattern, or an Every of at least a millisecond, not %v", r.Every)
	case r.Immediately && !r.StartDate.IsZero():
		return nil, errors.New("Repeat has both Immediately and a StartDate: choose one")
	case !r.EndDate.IsZero() && r.EndDate.Before(q.core.now()):
		return nil, fmt.Errorf("EndDate %v has passed", r.EndDate)
	}
	if err := cmp.Or(checkMillis("Every", r.Every, 0), checkMillis("Offset", r.Offset.Abs(), 0), checkCount("Limit", r.Limit, "no limit")); err != nil {
		return nil, err
	}
	now := q.core.now()
	s := &backend.SchedulerAdd{
		ID: id, Now: now, Name: t.Name, Data: "{}",
		Repeat: backend.SchedulerRepeat{
			Pattern: r.Pattern, TimeZone: r.TimeZone, Every: r.Every, Offset: r.Offset,
			StartDate: r.StartDate, EndDate: r.EndDate, Limit: r.Limit,
		},
	}
	if r.Every == 0 {
		s.Repeat.Offset = 0 // a pattern has no offset
	}
	var err error
	if s.Due, err = dueOf(r, now); err != nil {
		return nil, err
	}
	if t.Data != nil {
		if s.Data, err = wire.EncodeJSON(t.Data); err != nil {
			return nil, fmt.Errorf("its data can't be written as JSON: %w", err)
		}
		if s.Data == "null" { // the same as no data
			s.Data = "{}"
		}
	}
	return s, q.schedulerOptions(s, t)
}

// dueOf returns the next run of a pattern. It is zero for an interval.
func dueOf(r Repeat, now time.Time) (time.Time, error) {
	if r.Pattern == "" {
		return time.Time{}, nil
	}
	due, ended, err := schedule.Pattern(cron.Plan{
		Pattern: r.Pattern, TimeZone: r.TimeZone, StartDate: dateMillis(r.StartDate), EndDate: dateMillis(r.EndDate),
		Immediately: r.Immediately,
	}, now)
	if err == nil && ended {
		err = fmt.Errorf("%w for the pattern %q before EndDate %v", ErrNoNextRun, r.Pattern, r.EndDate)
	}
	return due, err
}

// schedulerOptions encodes the options of a scheduler's template and those of its
// next job.
func (q *Queue) schedulerOptions(s *backend.SchedulerAdd, t JobTemplate) error {
	o := q.options(t.Options)
	if err := o.check(s.Data); err != nil {
		return err
	}
	template := o.fields()
	if o.Backoff != nil && o.Backoff.number {
		template["backoff"] = json.RawMessage(wire.FormatMillis(o.Backoff.Delay)) // BullMQ keeps the number in a template
	}
	if odd := o.Extra["backoff"]; len(odd) > 0 && !isNull(odd) {
		template["backoff"] = odd // BullMQ keeps any other form too
	}
	if o.Attempts == 0 && !o.noAttempts && len(o.Extra["attempts"]) == 0 {
		delete(template, "attempts") // a template has no defaults
	}
	var err error
	if s.Template, err = wire.EncodeJSON(template); err != nil {
		return err
	}
	return nextJobOptions(s, template, 1)
}

// nextJobOptions encodes the options of the next job of a scheduler. count is its number. It
// changes template.
func nextJobOptions(s *backend.SchedulerAdd, template map[string]any, count int) error {
	repeat := map[string]any{"count": count}
	for name, text := range map[string]string{"pattern": s.Repeat.Pattern, "tz": s.Repeat.TimeZone} {
		if text != "" {
			repeat[name] = text
		}
	}
	for name, ms := range map[string]int64{"every": s.Repeat.Every.Milliseconds(), "limit": int64(s.Repeat.Limit), "offset": s.Repeat.Offset.Milliseconds()} {
		if ms != 0 {
			repeat[name] = ms
		}
	}
	for name, date := range map[string]time.Time{"startDate": s.Repeat.StartDate, "endDate": s.Repeat.EndDate} {
		if !date.IsZero() {
			repeat[name] = date.UnixMilli()
		}
	}
	template["repeat"], template["repeatJobKey"], template["timestamp"] = repeat, s.ID, s.Now.UnixMilli()
	if !s.Due.IsZero() {
		template["prevMillis"] = s.Due.UnixMilli()
	}
	var err error
	s.Opts, err = wire.EncodeJSON(template)
	return err
}

// RemoveScheduler removes a job scheduler with its next job. A running job is not
// affected. A paused scheduler is removed too. It returns [ErrSchedulerNotFound] if there is
// no such scheduler (BullMQ: removeJobScheduler).
func (q *Queue) RemoveScheduler(ctx context.Context, id string) error {
	removed, err := q.core.store.RemoveJobScheduler(ctx, id)
	if err == nil && !removed {
		return fmt.Errorf("bullmq: remove scheduler %.80q of %s: %w", id, q.Name(), ErrSchedulerNotFound)
	}
	return err
}

// Scheduler reads a job scheduler. It returns [ErrSchedulerNotFound] if there is none
// (BullMQ: getJobScheduler).
func (q *Queue) Scheduler(ctx context.Context, id string) (*Scheduler, error) {
	record, err := q.core.store.JobScheduler(ctx, id)
	if err != nil {
		return nil, err
	}
	if record == nil {
		return nil, fmt.Errorf("bullmq: read scheduler %.80q of %s: %w", id, q.Name(), ErrSchedulerNotFound)
	}
	return newScheduler(record), nil
}

// Schedulers returns job schedulers in descending order of their next run, or in
// ascending order if Page.Ascending is set (BullMQ: getJobSchedulers).
//
// The list of schedulers in Redis may have entries without a record. In the dialect [V6],
// Schedulers removes such an entry, as BullMQ 6 does. It returns an error if the entry is
// an old repeatable job. In the dialect [V5], Schedulers returns both kinds of entries,
// with the values that the entry itself contains.
func (q *Queue) Schedulers(ctx context.Context, page Page) ([]*Scheduler, error) {
	stored, err := page.stored()
	if err != nil {
		return nil, err
	}
	records, err := q.core.store.JobSchedulers(ctx, stored)
	if err != nil {
		return nil, err
	}
	var all []*Scheduler
	for _, record := range records {
		switch {
		case !record.Missing:
			all = append(all, newScheduler(record))
		case q.core.dialect == V5:
			all = append(all, legacyScheduler(record))
		case schedule.IsLegacyKey(record.ID):
			return nil, fmt.Errorf("bullmq: %s of queue %s is a repeatable job of BullMQ 4 or older, not a scheduler; upsert a scheduler in its place and remove it with BullMQ 5", record.ID, q.Name())
		default:
			if _, err := q.core.store.RemoveJobScheduler(ctx, record.ID); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// CountSchedulers returns how many job schedulers the queue has (BullMQ:
// getJobSchedulersCount).
func (q *Queue) CountSchedulers(ctx context.Context) (int, error) {
	return q.core.store.CountJobSchedulers(ctx)
}

func newScheduler(record *backend.SchedulerRecord) *Scheduler {
	r := record.Repeat
	return &Scheduler{
		ID: record.ID, Name: record.Name, Next: record.Next, Iterations: record.Iterations,
		Repeat: Repeat{
			Pattern: r.Pattern, TimeZone: r.TimeZone, Every: r.Every, Offset: r.Offset, Limit: r.Limit,
			StartDate: r.StartDate, EndDate: r.EndDate,
		},
		HasOffset: record.HasOffset, Data: record.Data, RawOptions: record.Opts, PausedAt: record.PausedAt,
	}
}

// legacyScheduler parses the id of a scheduler without a record. The id of an old
// repeatable job has the form name:id:endDate:tz:pattern.
func legacyScheduler(record *backend.SchedulerRecord) *Scheduler {
	s := &Scheduler{ID: record.ID, Next: record.Next}
	if parts := strings.SplitN(record.ID, ":", 5); len(parts) == 5 {
		s.Name = parts[0]
		s.Repeat = Repeat{EndDate: wire.ParseTime(parts[2]), TimeZone: parts[3], Pattern: parts[4]}
	}
	return s
}

func dateMillis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// advance adds the next job of the scheduler that added job. A worker calls it when the
// job starts, so the next job does not depend on how this job ends. A *scheduleError is
// permanent: a retry fails in the same way.
func (w *queueWorker) advance(ctx context.Context, job *Job) (err error) {
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
		setAttr(span, attrSchedulerID, job.SchedulerID)
		setAttr(span, attrJobID, id)
	}
	return err
}

// scheduleError is the reason why a scheduler stops.
type scheduleError struct {
	scheduler string
	reason    error
}

func (e *scheduleError) Error() string {
	return fmt.Sprintf("bullmq: scheduler %s has no next run: %v", e.scheduler, e.reason)
}
func (e *scheduleError) Unwrap() error { return e.reason }

// nextRun returns the next job of the scheduler that added job, or nil if the scheduler
// has ended.
func (w *queueWorker) nextRun(job *Job) (*backend.NextRun, error) {
	now := w.core.now()
	run, err := schedule.Next(job.SchedulerID, job.RawOptions, now)
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
