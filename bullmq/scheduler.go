package bullmq

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/schedule"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
	"github.com/17a2ac88/bullmq-go/bullmq/scripts"
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
	jobID, delay, err := q.core.store.Upsert(ctx, *s)
	if err != nil {
		return nil, err
	}
	set(span, attrSchedulerID, id)
	set(span, attrJobID, jobID)
	return q.scheduled(s, jobID, delay)
}

// scheduled is the job that an upsert has added.
func (q *Queue) scheduled(s *scripts.Scheduler, id string, delayMs int64) (*Job, error) {
	job := &Job{
		ID: id, Name: s.Name, Data: json.RawMessage(s.Data), Timestamp: time.UnixMilli(s.NowMs),
		Delay: time.Duration(delayMs) * time.Millisecond, SchedulerID: s.ID, core: q.core,
	}
	var fields map[string]any
	if err := wire.DecodeJSON([]byte(s.Opts), &fields); err != nil {
		return nil, err
	}
	fields["jobId"], fields["delay"] = id, delayMs // which the script puts in
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
func (q *Queue) scheduler(id string, r Repeat, t Template) (*scripts.Scheduler, error) {
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
	now := q.core.nowMs()
	s := &scripts.Scheduler{
		ID: id, NowMs: now, Name: t.Name, Data: "{}", Pattern: r.Pattern, TimeZone: r.TimeZone,
		Every: wholeMs(r.Every), StartDate: dateText(r.StartDate), EndDate: dateText(r.EndDate),
	}
	if r.Limit > 0 {
		s.Limit = strconv.Itoa(r.Limit)
	}
	if r.Every > 0 {
		s.Offset = wholeMs(r.Offset)
	}
	if r.Pattern != "" {
		due, ended, err := schedule.Pattern(cron.Plan{
			Pattern: r.Pattern, TimeZone: r.TimeZone, StartDate: dateMillis(r.StartDate), EndDate: dateMillis(r.EndDate),
			Immediately: r.Immediately,
		}, time.UnixMilli(now))
		if err != nil || ended {
			return nil, err
		}
		s.DueMs = due.UnixMilli()
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
	return s, q.schedulerOptions(s, r, t)
}

// schedulerOptions writes the options of a scheduler's jobs, and those of its
// next one.
func (q *Queue) schedulerOptions(s *scripts.Scheduler, r Repeat, t Template) error {
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
	for name, text := range map[string]string{"pattern": r.Pattern, "tz": r.TimeZone} {
		if text != "" {
			repeat[name] = text
		}
	}
	for name, number := range map[string]string{"every": s.Every, "limit": s.Limit, "startDate": s.StartDate, "endDate": s.EndDate, "offset": s.Offset} {
		if number != "" {
			repeat[name] = json.RawMessage(number)
		}
	}
	template["repeat"], template["repeatJobKey"], template["timestamp"] = repeat, s.ID, s.NowMs
	if s.DueMs != 0 {
		template["prevMillis"] = s.DueMs
	}
	s.Opts, err = wire.EncodeJSON(template)
	return err
}

// RemoveScheduler removes a job scheduler with its next job; false when there
// was none. A job that runs is left alone (BullMQ: removeJobScheduler).
func (q *Queue) RemoveScheduler(ctx context.Context, id string) (bool, error) {
	return q.core.store.RemoveScheduler(ctx, id)
}

// Scheduler reads a job scheduler; nil when there is none (BullMQ:
// getJobScheduler).
func (q *Queue) Scheduler(ctx context.Context, id string) (*Scheduler, error) {
	record, next, err := q.core.store.SchedulerRecord(ctx, id)
	if err != nil || next == "" || len(record) == 0 {
		return nil, err
	}
	ms, _ := strconv.ParseFloat(next, 64)
	return readScheduler(id, record, int64(ms)), nil
}

// Schedulers reads job schedulers by their next run, the last one first, or the
// next one first if Page.Ascending (BullMQ: getJobSchedulers). An entry without a
// record is removed, as BullMQ 6 does, and one of an old repeatable job is an error;
// in the dialect of BullMQ 5 both are answered, with what the entry itself says.
func (q *Queue) Schedulers(ctx context.Context, page Page) ([]*Scheduler, error) {
	ids, next, err := q.core.store.Schedulers(ctx, int64(page.From), int64(page.To), page.Ascending)
	if err != nil {
		return nil, err
	}
	var all []*Scheduler
	for i, id := range ids {
		record, _, err := q.core.store.SchedulerRecord(ctx, id)
		if err != nil {
			return nil, err
		}
		switch {
		case len(record) > 0:
			all = append(all, readScheduler(id, record, int64(next[i])))
		case q.core.dialect == V5:
			all = append(all, readEntry(id, int64(next[i])))
		case schedule.IsLegacyKey(id):
			return nil, fmt.Errorf("bullmq: %s of queue %s is a repeatable job of BullMQ 4 or older, not a scheduler; upsert a scheduler in its place and remove it with BullMQ 5", id, q.Name())
		default:
			if _, err := q.RemoveScheduler(ctx, id); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// CountSchedulers answers how many job schedulers there are (BullMQ:
// getJobSchedulersCount).
func (q *Queue) CountSchedulers(ctx context.Context) (int64, error) {
	return q.core.store.CountSchedulers(ctx)
}

func readScheduler(id string, record map[string]string, nextMs int64) *Scheduler {
	return &Scheduler{
		ID: id, Name: record["name"], Next: time.UnixMilli(nextMs), Iterations: parseInt(record["ic"]),
		Repeat: Repeat{
			Pattern: record["pattern"], TimeZone: record["tz"], Every: wire.ParseMillis(record["every"]),
			Offset: wire.ParseMillis(record["offset"]), Limit: parseInt(record["limit"]),
			StartDate: wire.ParseTime(record["startDate"]), EndDate: wire.ParseTime(record["endDate"]),
		},
		HasOffset: record["offset"] != "", Data: rawJSON(record["data"]), Options: rawJSON(record["opts"]),
	}
}

// readEntry reads an entry without a record: an old repeatable job's tells what
// it is, name:id:endDate:tz:pattern.
func readEntry(entry string, nextMs int64) *Scheduler {
	parts := strings.SplitN(entry, ":", 5)
	if len(parts) < 5 {
		return &Scheduler{ID: entry, Next: time.UnixMilli(nextMs)}
	}
	return readScheduler(entry, map[string]string{"name": parts[0], "endDate": parts[2], "tz": parts[3], "pattern": parts[4]}, nextMs)
}

func wholeMs(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}

func dateMillis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func dateText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}
