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

// Repeat says when a job scheduler makes jobs: by a Pattern or by an interval
// (BullMQ: RepeatOptions).
type Repeat struct {
	// Pattern is a cron pattern of five fields, or six with seconds first, as
	// cron-parser 5 reads it.
	Pattern string
	// TimeZone is the IANA name of the zone in which the pattern counts; that of
	// this process unless given (BullMQ: tz).
	TimeZone string
	// Every is the interval, in whole milliseconds.
	Every time.Duration
	// Offset shifts the slots of an interval.
	Offset time.Duration
	// StartDate is an interval's first slot; a pattern's slots come after it.
	StartDate time.Time
	// EndDate is when the scheduler stops making jobs. It bounds when jobs are made, not
	// when they run. The next job is made when one starts, so a job that was made in
	// time runs even if it starts after EndDate; and with Every its slot may be up to an
	// interval after EndDate. A pattern has no slots after EndDate.
	EndDate time.Time
	// Limit is how many jobs are made in all; 0 for no limit.
	Limit int
	// Immediately makes the first job of a pattern at once.
	Immediately bool
}

// Template is what the jobs of a scheduler are.
type Template struct {
	Name    string // the scheduler's id unless given
	Data    any
	Options *JobOptions // JobID and Delay are the scheduler's own, whatever stands here
}

// Scheduler is a job scheduler as it is stored (BullMQ: JobSchedulerJson).
type Scheduler struct {
	ID         string
	Name       string
	Next       time.Time
	Repeat     Repeat
	Iterations int // jobs made so far
	// HasOffset says that an offset is stored, be it 0.
	HasOffset bool
	// Data is the template's data, Options its options; nil where none are stored.
	Data    json.RawMessage
	Options json.RawMessage
}

// UpsertScheduler makes a job scheduler, or changes the one with that id, and
// answers its next job; nil when a pattern has no slot until EndDate, and nothing is
// written then. ErrNoNextRun means that no next run of the pattern is found, where
// BullMQ reports nothing. Many processes may upsert the same id at the same time.
// template may be nil (BullMQ: upsertJobScheduler).
func (q *Queue) UpsertScheduler(ctx context.Context, id string, repeat Repeat, template *Template) (_ *Job, err error) {
	t := Template{}
	if template != nil {
		t = *template
	}
	if t.Name == "" {
		t.Name = id
	}
	s, err := q.scheduler(id, repeat, t)
	if err != nil {
		return nil, fmt.Errorf("bullmq: scheduler %.80q of queue %s was not changed: %w", id, q.Name(), err)
	}
	if s == nil {
		return nil, nil
	}
	ctx, span := q.core.trace.startAdd(ctx, t.Name)
	defer span.end(&err)
	if s.Opts, err = carryOn(s.Opts, q.core.trace.inject(ctx)); err != nil {
		return nil, err
	}
	jobID, delay, err := q.core.store.AddJobScheduler(ctx, *s)
	if err != nil {
		return nil, err
	}
	set(span, attrSchedulerID, id)
	set(span, attrJobID, jobID)
	return q.scheduled(s, jobID, delay)
}

// scheduled is the job that an upsert has added.
func (q *Queue) scheduled(s *backend.SchedulerAdd, id string, delay time.Duration) (*Job, error) {
	job := &Job{
		ID: id, Name: s.Name, Data: json.RawMessage(s.Data), Timestamp: time.UnixMilli(s.Now.UnixMilli()),
		Delay: delay, SchedulerID: s.ID, core: q.core,
	}
	var fields map[string]any
	if err := wire.DecodeJSON([]byte(s.Opts), &fields); err != nil {
		return nil, err
	}
	fields["jobId"], fields["delay"] = id, delay.Milliseconds() // which the script puts in
	wire, err := wire.EncodeJSON(fields)
	if err != nil {
		return nil, err
	}
	job.RawOpts = json.RawMessage(wire)
	if err := job.Opts.UnmarshalJSON(job.RawOpts); err != nil {
		return nil, err
	}
	delete(job.Opts.Extra, schedulerOption) // which is SchedulerID
	job.Priority = job.Opts.Priority
	if d := job.Opts.Deduplication; d != nil {
		job.DeduplicationID = d.ID
	}
	return job, nil
}

// scheduler checks and encodes a scheduler; nil when there is no next job.
func (q *Queue) scheduler(id string, r Repeat, t Template) (*backend.SchedulerAdd, error) {
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
		s.Repeat.Offset = 0 // of an interval only
	}
	if r.Pattern != "" {
		due, ended, err := schedule.Pattern(cron.Plan{
			Pattern: r.Pattern, TimeZone: r.TimeZone, StartDate: dateMillis(r.StartDate), EndDate: dateMillis(r.EndDate),
			Immediately: r.Immediately,
		}, now)
		if err != nil || ended {
			return nil, err
		}
		s.Due = due
	}
	if t.Data != nil {
		var err error
		if s.Data, err = wire.EncodeJSON(t.Data); err != nil {
			return nil, fmt.Errorf("its data can't be written as JSON: %w", err)
		}
		if s.Data == "null" { // as if there were none
			s.Data = "{}"
		}
	}
	return s, q.schedulerOptions(s, t)
}

// schedulerOptions writes the options of a scheduler's jobs, and those of its
// next one.
func (q *Queue) schedulerOptions(s *backend.SchedulerAdd, t Template) error {
	o := q.options(t.Options)
	if err := o.check(s.Data); err != nil {
		return err
	}
	template := o.fields()
	if o.Backoff != nil && o.Backoff.number {
		template["backoff"] = json.RawMessage(wire.FormatMillis(o.Backoff.Delay)) // BullMQ keeps that form in a template
	}
	if odd := o.Extra["backoff"]; len(odd) > 0 && !isNull(odd) {
		template["backoff"] = odd // and every other
	}
	if o.Attempts == 0 && !o.noAttempts && len(o.Extra["attempts"]) == 0 {
		delete(template, "attempts") // a template has no defaults
	}
	var err error
	if s.Template, err = wire.EncodeJSON(template); err != nil {
		return err
	}
	repeat := map[string]any{"count": 1}
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
	s.Opts, err = wire.EncodeJSON(template)
	return err
}

// RemoveScheduler removes a job scheduler with its next job; false when there
// was none. A job that runs is left alone (BullMQ: removeJobScheduler).
func (q *Queue) RemoveScheduler(ctx context.Context, id string) (bool, error) {
	return q.core.store.RemoveJobScheduler(ctx, id)
}

// Scheduler reads a job scheduler; nil when there is none (BullMQ:
// getJobScheduler).
func (q *Queue) Scheduler(ctx context.Context, id string) (*Scheduler, error) {
	record, err := q.core.store.JobScheduler(ctx, id)
	if err != nil || record == nil {
		return nil, err
	}
	return newScheduler(record), nil
}

// Schedulers reads job schedulers by their next run, the last one first, or the
// next one first if Page.Ascending (BullMQ: getJobSchedulers). An entry without a
// record is removed, as BullMQ 6 does, and one of an old repeatable job is an error;
// in the dialect of BullMQ 5 both are answered, with what the entry itself says.
func (q *Queue) Schedulers(ctx context.Context, page Page) ([]*Scheduler, error) {
	records, err := q.core.store.JobSchedulers(ctx, backend.Page{From: page.From, To: page.To, Ascending: page.Ascending})
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
			if _, err := q.RemoveScheduler(ctx, record.ID); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// CountSchedulers answers how many job schedulers there are (BullMQ:
// getJobSchedulersCount).
func (q *Queue) CountSchedulers(ctx context.Context) (int64, error) {
	n, err := q.core.store.CountJobSchedulers(ctx)
	return int64(n), err
}

func newScheduler(record *backend.SchedulerRecord) *Scheduler {
	r := record.Repeat
	return &Scheduler{
		ID: record.ID, Name: record.Name, Next: record.Next, Iterations: record.Iterations,
		Repeat: Repeat{
			Pattern: r.Pattern, TimeZone: r.TimeZone, Every: r.Every, Offset: r.Offset, Limit: r.Limit,
			StartDate: r.StartDate, EndDate: r.EndDate,
		},
		HasOffset: record.HasOffset, Data: record.Data, Options: record.Opts,
	}
}

// legacyScheduler reads the id of a scheduler without a record. That of an old
// repeatable job is name:id:endDate:tz:pattern.
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
