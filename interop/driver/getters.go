package main

import (
	"context"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// page selects the children of one kind to read.
type page struct {
	Cursor uint64
	Count  int
}

func (p *page) cursor() *bullmq.DependencyCursor {
	if p == nil {
		return nil
	}
	return &bullmq.DependencyCursor{At: p.Cursor, Count: p.Count}
}

// Reads of queues, jobs and their children.
func init() {
	for name, carryOut := range map[string]operation{
		"ids": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
			Queue string
			Types []bullmq.State
			Start int
			End   *int
			Asc   bool
		}) (any, error) {
			return q.JobIDs(ctx, pageOf(a.Start, or(a.End, 1), a.Asc), a.Types...)
		}),
		"jobsOf": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
			Queue string
			State bullmq.State
			Start int
			End   *int
		}) (any, error) {
			ended := a.State == bullmq.StateCompleted || a.State == bullmq.StateFailed // Node lists the newest first
			jobs, err := q.Jobs(ctx, pageOf(a.Start, or(a.End, -1), !ended), a.State)
			return viewJobs(jobs), err
		}),
		"countOf": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
			Queue  string
			State  bullmq.State
			Before *millis
		}) (any, error) {
			if a.Before != nil {
				return q.CountDelayedBefore(ctx, time.UnixMilli(int64(*a.Before)))
			}
			counts, err := q.Counts(ctx, a.State)
			return counts[a.State], err
		}),
		"countOfTypes": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
			Queue string
			Types []bullmq.State
		}) (any, error) {
			counts, err := q.Counts(ctx, a.Types...)
			var sum int
			for _, n := range counts {
				sum += n
			}
			return sum, err
		}),
		"json": onQueue(func(ctx context.Context, q *bullmq.Queue, a *byID) (any, error) {
			job, err := q.Job(ctx, a.ID)
			if err != nil {
				return nil, err
			}
			return viewJSON(job), nil
		}),
		"isIn": onQueue(func(ctx context.Context, q *bullmq.Queue, a *byID) (any, error) {
			state, err := stateName(q.JobRef(a.ID).State(ctx))
			view := map[string]any{"state": state}
			for _, each := range []bullmq.State{
				bullmq.StateCompleted, bullmq.StateFailed, bullmq.StateDelayed, bullmq.StateActive, bullmq.StateWaiting, bullmq.StateWaitingChildren,
			} {
				view[string(each)] = state == each
			}
			return view, err
		}),
		"meta": onQueue(func(ctx context.Context, q *bullmq.Queue, _ *named) (any, error) {
			m, err := q.Meta(ctx)
			meta := map[string]any{"version": m.Version, "maxLenEvents": max(m.MaxEvents, 0), "paused": m.Paused}
			if m.Concurrency != nil {
				meta["concurrency"] = m.Concurrency
			}
			if m.RateLimit != nil {
				meta["max"], meta["duration"] = m.RateLimit.Max, m.RateLimit.Duration.Milliseconds()
			}
			return map[string]any{"meta": meta, "version": m.Version}, err
		}),
		"globalRateLimit": onQueue(func(ctx context.Context, q *bullmq.Queue, _ *named) (any, error) {
			limit, err := q.GlobalRateLimit(ctx)
			if limit == nil {
				return nil, err
			}
			return map[string]any{"max": limit.Max, "duration": limit.Duration.Milliseconds()}, err
		}),
		"prometheus": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
			Queue  string
			Labels map[string]string
		}) (any, error) {
			text, err := q.PrometheusMetrics(ctx, a.Labels)
			return strings.TrimSuffix(text, "\n"), err // Node does not terminate the last line
		}),
		"schedulerObject": onQueue(func(ctx context.Context, q *bullmq.Queue, a *byID) (any, error) {
			scheduler, err := q.Scheduler(ctx, a.ID)
			known, err := found(err, bullmq.ErrSchedulerNotFound)
			if err != nil {
				return nil, err
			}
			view := map[string]any{"scheduler": nil, "known": known}
			if known {
				view["scheduler"] = viewScheduler(scheduler)
			}
			view["count"], err = q.CountSchedulers(ctx)
			return view, err
		}),
		"dependenciesPage": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
			Queue, ID                               string
			Processed, Unprocessed, Ignored, Failed *page
		}) (any, error) {
			found, err := q.JobRef(a.ID).DependencyPage(ctx, bullmq.DependencyQuery{
				Processed: a.Processed.cursor(), Unprocessed: a.Unprocessed.cursor(),
				Ignored: a.Ignored.cursor(), Failed: a.Failed.cursor(),
			})
			if err != nil {
				return nil, err
			}
			view := map[string]any{}
			next := func(name string, c *bullmq.DependencyCursor) {
				view[name] = 0
				if c != nil {
					view[name] = c.At
				}
			}
			if a.Processed != nil {
				view["processed"] = found.Processed
				next("nextProcessedCursor", found.Next.Processed)
			}
			if a.Unprocessed != nil {
				view["unprocessed"] = list(found.Unprocessed)
				next("nextUnprocessedCursor", found.Next.Unprocessed)
			}
			if a.Ignored != nil {
				view["ignored"] = found.Ignored
				next("nextIgnoredCursor", found.Next.Ignored)
			}
			if a.Failed != nil {
				// Node returns the start of the next page whether or not it exists.
				count := a.Failed.Count
				if count == 0 {
					count = 20
				}
				view["failed"], view["nextFailedCursor"] = list(found.Failed), int(a.Failed.Cursor)+count
			}
			return view, nil
		}),
		"children": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
			Queue, ID, Type string
			Start, End      int
		}) (any, error) {
			read := q.PendingChildren
			if a.Type == "processed" {
				read = q.ProcessedChildren
			}
			found, total, err := read(ctx, a.ID, pageOf(a.Start, a.End, false))
			views := []map[string]any{}
			for _, child := range found {
				view := map[string]any{"id": child.Key, "name": child.Job.Name}
				if child.ReturnValue != nil {
					view["v"] = child.ReturnValue
				}
				views = append(views, view)
			}
			return map[string]any{"children": views, "total": total}, err
		}),
	} {
		operations[name] = carryOut
	}
}
