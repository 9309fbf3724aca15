package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// date is a date of the protocol: milliseconds, or a text that JavaScript's Date parses.
type date struct{ time.Time }

func (d *date) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		var err error
		d.Time, err = time.Parse(time.RFC3339, text)
		return err
	}
	var ms millis
	if err := json.Unmarshal(raw, &ms); err != nil {
		return err
	}
	d.Time = time.UnixMilli(int64(ms))
	return nil
}

func viewScheduler(s *bullmq.Scheduler) map[string]any {
	view := map[string]any{"key": s.ID, "name": s.Name, "next": s.Next.UnixMilli()}
	for name, n := range map[string]int64{
		"iterationCount": int64(s.Iterations), "limit": int64(s.Repeat.Limit), "every": s.Repeat.Every.Milliseconds(),
	} {
		if n != 0 {
			view[name] = n
		}
	}
	if s.HasOffset {
		view["offset"] = s.Repeat.Offset.Milliseconds()
	}
	for name, at := range map[string]time.Time{"startDate": s.Repeat.StartDate, "endDate": s.Repeat.EndDate} {
		if !at.IsZero() {
			view[name] = at.UnixMilli()
		}
	}
	for name, text := range map[string]string{"pattern": s.Repeat.Pattern, "tz": s.Repeat.TimeZone} {
		if text != "" {
			view[name] = text
		}
	}
	template := map[string]any{}
	if s.Data != nil {
		template["data"] = s.Data
	}
	if s.RawOptions != nil {
		template["opts"] = publicOptions(s.RawOptions)
	}
	if len(template) > 0 {
		view["template"] = template
	}
	return view
}

func init() {
	operations["upsertScheduler"] = onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
		Queue, ID string
		Repeat    struct {
			Pattern, TZ        string
			Every, Offset      millis
			StartDate, EndDate date
			Limit              int
			Immediately        bool
		}
		Template *jobSpec
	}) (any, error) {
		repeat := bullmq.Repeat{
			Pattern: a.Repeat.Pattern, TimeZone: a.Repeat.TZ, Every: a.Repeat.Every.duration(), Offset: a.Repeat.Offset.duration(),
			StartDate: a.Repeat.StartDate.Time, EndDate: a.Repeat.EndDate.Time, Limit: a.Repeat.Limit, Immediately: a.Repeat.Immediately,
		}
		var template *bullmq.JobTemplate
		if a.Template != nil {
			data, options, err := a.Template.read()
			if err != nil {
				return nil, err
			}
			template = &bullmq.JobTemplate{Name: a.Template.Name, Data: data, Options: options}
		}
		job, err := q.UpsertScheduler(ctx, a.ID, repeat, template)
		if errors.Is(err, bullmq.ErrNoNextRun) {
			return nil, nil // Node's response
		}
		return viewID(job), err
	})
	operations["removeScheduler"] = onQueue(func(ctx context.Context, q *bullmq.Queue, a *byID) (any, error) {
		return found(q.RemoveScheduler(ctx, a.ID), bullmq.ErrSchedulerNotFound)
	})
	operations["scheduler"] = onQueue(func(ctx context.Context, q *bullmq.Queue, a *byID) (any, error) {
		s, err := q.Scheduler(ctx, a.ID)
		if known, err := found(err, bullmq.ErrSchedulerNotFound); !known {
			return nil, err
		}
		return viewScheduler(s), nil
	})
	operations["schedulers"] = onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
		Queue string
		Start int
		End   *int
		Asc   bool
	}) (any, error) {
		all, err := q.Schedulers(ctx, pageOf(a.Start, or(a.End, -1), a.Asc))
		views := []any{}
		for _, s := range all {
			if s.Name == "" && s.Repeat == (bullmq.Repeat{}) {
				views = append(views, nil) // an entry without a record, as in Node's response
				continue
			}
			view := viewScheduler(s)
			if parts := strings.SplitN(s.ID, ":", 5); len(parts) == 5 && s.Iterations == 0 {
				view["id"] = parts[1] // the job of an old repeatable job
			}
			views = append(views, view)
		}
		return views, err
	})
	operations["schedulersCount"] = onQueue(func(ctx context.Context, q *bullmq.Queue, _ *named) (any, error) {
		return q.CountSchedulers(ctx)
	})
}
