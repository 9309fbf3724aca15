package bullmq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
	"github.com/17a2ac88/bullmq-go/bullmq/scripts"
	"github.com/17a2ac88/bullmq-go/internal/cron"
)

// repeatOptions is the option repeat of a job that a scheduler made.
type repeatOptions struct {
	Pattern   string      `json:"pattern"`
	Every     json.Number `json:"every"`
	Limit     json.Number `json:"limit"`
	Count     json.Number `json:"count"`
	Offset    json.Number `json:"offset"`
	TimeZone  string      `json:"tz"`
	HashSeed  string      `json:"hashSeed"`
	StartDate dateMs      `json:"startDate"`
	EndDate   dateMs      `json:"endDate"`
}

// dateMs is a date as clients write it: milliseconds, or text.
type dateMs int64

func (d *dateMs) UnmarshalJSON(text []byte) error {
	if unquoted, err := strconv.Unquote(string(text)); err == nil {
		at, err := time.Parse(time.RFC3339, unquoted)
		if err != nil {
			return err
		}
		*d = dateMs(at.UnixMilli())
		return nil
	}
	ms, err := strconv.ParseFloat(string(text), 64)
	if err == nil {
		*d = dateMs(ms)
	}
	return nil
}

func number(n json.Number) int64 {
	f, _ := n.Float64()
	return int64(f)
}

// advance adds the next job of the scheduler that made this one; a worker does
// so when the job starts, whatever becomes of it. An error that is a
// *scheduleError can't be mended by trying again.
func (w *Worker) advance(ctx context.Context, job *Job) (err error) {
	a, err := w.nextRun(job)
	if err != nil || a == nil {
		return err
	}
	ctx, span := w.core.trace.startAdd(ctx, job.Name)
	defer span.end(&err)
	if a.Opts, err = carryOn(a.Opts, w.core.trace.inject(ctx)); err != nil {
		return err
	}
	id, err := w.core.store.Advance(ctx, *a)
	if errors.Is(err, scripts.ErrUnreadable) {
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

// nextRun works out the next job; nil when the scheduler is over (BullMQ:
// JobScheduler.upsertJobScheduler with override false).
func (w *Worker) nextRun(job *Job) (*scripts.Advance, error) {
	stop := func(reason error) (*scripts.Advance, error) {
		return nil, &scheduleError{job.SchedulerID, reason}
	}
	if isLegacyRepeatKey(job.SchedulerID) {
		return stop(errors.New("it is a repeatable job of BullMQ 4 or older, which has no scheduler's record; upsert a scheduler in its place"))
	}
	var opts map[string]json.RawMessage
	if err := json.Unmarshal(job.RawOpts, &opts); err != nil {
		return stop(fmt.Errorf("the job's opts can't be read: %w", err))
	}
	var repeat repeatOptions
	if len(opts["repeat"]) == 0 {
		return stop(errors.New("the job's opts have no option repeat"))
	}
	if err := json.Unmarshal(opts["repeat"], &repeat); err != nil {
		return stop(fmt.Errorf("the job's option repeat can't be read: %w", err))
	}
	count := number(repeat.Count) + 1
	now := w.core.nowMs()
	if repeat.Limit != "" && count > number(repeat.Limit) || repeat.EndDate != 0 && now > int64(repeat.EndDate) {
		return nil, nil
	}
	a := &scripts.Advance{Scheduler: job.SchedulerID, NowMs: now, Producer: job.ID, Data: string(job.Data)}
	switch {
	case repeat.Every != "" && repeat.Pattern == "":
		a.EveryMs = repeat.Every.String()
	case repeat.Pattern != "" && repeat.Every == "":
		prev, _ := wire.ParseNumber(string(opts["prevMillis"]))
		due, err := cron.Plan{
			Pattern: repeat.Pattern, TimeZone: repeat.TimeZone, HashSeed: repeat.HashSeed,
			StartDate: int64(repeat.StartDate), EndDate: int64(repeat.EndDate), PrevMillis: prev,
		}.NextRun(now)
		switch {
		case errors.Is(err, cron.ErrEnded):
			return nil, nil
		case errors.Is(err, cron.ErrGaveUp):
			return stop(fmt.Errorf("%w for the pattern %q in the time zone %q", ErrNoNextRun, repeat.Pattern, repeat.TimeZone))
		case err != nil:
			return stop(err)
		}
		a.DueMs = due
	default:
		return stop(errors.New("its option repeat needs either a pattern or an interval"))
	}
	var err error
	if a.Opts, err = nextOpts(opts, repeat, a, count); err != nil {
		return stop(err)
	}
	return a, nil
}

// nextOpts are the options of the next job: those of this one, moved on. The
// script puts in the delay and the id.
func nextOpts(opts map[string]json.RawMessage, repeat repeatOptions, a *scripts.Advance, count int64) (string, error) {
	var kept map[string]json.RawMessage
	if err := json.Unmarshal(opts["repeat"], &kept); err != nil {
		return "", err
	}
	set := func(fields map[string]json.RawMessage, name string, value int64) {
		delete(fields, name)
		if value != 0 {
			fields[name] = json.RawMessage(strconv.FormatInt(value, 10))
		}
	}
	delete(kept, "immediately")
	set(kept, "count", count)
	set(kept, "startDate", int64(repeat.StartDate))
	set(kept, "endDate", int64(repeat.EndDate))
	offset := number(repeat.Offset)
	if a.EveryMs == "" {
		offset = 0
	}
	set(kept, "offset", offset)
	set(opts, "timestamp", a.NowMs)
	set(opts, "prevMillis", a.DueMs)
	text, err := wire.EncodeJSON(kept)
	if err != nil {
		return "", err
	}
	opts["repeat"] = json.RawMessage(text)
	if text, err = wire.EncodeJSON(a.Scheduler); err != nil {
		return "", err
	}
	opts["repeatJobKey"] = json.RawMessage(text)
	if _, err := strconv.ParseFloat(string(opts["backoff"]), 64); err == nil { // a number means fixed
		opts["backoff"] = json.RawMessage(`{"type":"fixed","delay":` + string(opts["backoff"]) + `}`)
	}
	if _, set := opts["attempts"]; !set {
		opts["attempts"] = json.RawMessage("0")
	}
	return wire.EncodeJSON(opts)
}

// isLegacyRepeatKey tells the key of an old repeatable job,
// name:id:endDate:tz:suffix, from a scheduler's id, by its shape.
func isLegacyRepeatKey(key string) bool {
	parts := strings.SplitN(key, ":", 5)
	if len(parts) < 5 || parts[4] == "" || strings.Trim(parts[2], "0123456789") != "" {
		return false
	}
	return strings.Contains(parts[4], " ") || strings.Trim(parts[4], "0123456789") == ""
}
