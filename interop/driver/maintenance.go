package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

func init() {
	for name, carryOut := range map[string]operation{
		"drain": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
			Queue   string
			Delayed bool
		}) (any, error) {
			return nil, q.Drain(ctx, &bullmq.DrainOptions{Delayed: a.Delayed})
		}),
		"clean": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
			Queue string
			Grace millis
			Limit int
			Type  *bullmq.State
		}) (any, error) {
			ids, err := q.Clean(ctx, &bullmq.CleanOptions{Grace: a.Grace.duration(), Limit: a.Limit, State: or(a.Type, bullmq.StateCompleted)})
			slices.Sort(ids)
			return ids, err
		}),
		"obliterate": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
			Queue string
			Force bool
			Count int
		}) (any, error) {
			return nil, q.Obliterate(ctx, &bullmq.ObliterateOptions{Force: a.Force, Count: a.Count})
		}),
		"retryJobs": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
			Queue     string
			State     bullmq.State
			Count     int
			Timestamp int64
		}) (any, error) {
			options := &bullmq.RetryJobsOptions{State: a.State, Count: a.Count}
			if a.Timestamp != 0 {
				options.Until = time.UnixMilli(a.Timestamp)
			}
			return nil, q.RetryJobs(ctx, options)
		}),
		"promoteJobs": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
			Queue string
			Count int
		}) (any, error) {
			return nil, q.PromoteJobs(ctx, &bullmq.PromoteJobsOptions{Count: a.Count})
		}),
		"remove": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
			Queue, ID      string
			RemoveChildren *bool
		}) (any, error) {
			err := q.Remove(ctx, a.ID, &bullmq.RemoveOptions{KeepChildren: !or(a.RemoveChildren, true)})
			if errors.Is(err, bullmq.ErrJobNotFound) {
				err = nil // Node's response is 1 then too
			}
			removed, err := found(err, bullmq.ErrJobLocked)
			return counted(removed, err)
		}),
		"removeOrphanedJobs": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
			Queue        string
			Count, Limit int
		}) (any, error) {
			ids, err := q.RemoveOrphanedJobs(ctx, &bullmq.RemoveOrphanedJobsOptions{Count: a.Count, Limit: a.Limit})
			return len(ids), err
		}),
		"removeUnprocessedChildren": onQueue(func(ctx context.Context, q *bullmq.Queue, a *byID) (any, error) {
			return nil, q.JobRef(a.ID).RemoveUnprocessedChildren(ctx)
		}),
		"removeChildDependency": onQueue(func(ctx context.Context, q *bullmq.Queue, a *byID) (any, error) {
			job, err := find(ctx, q, a.ID)
			if err != nil {
				return nil, err
			}
			removed, err := job.RemoveChildDependency(ctx)
			if err == nil && !removed && job.ParentKey == "" {
				err = &bullmq.Error{Code: -5} // ErrParentNotFound, as Node refuses a job without a parent
			}
			return removed, err
		}),
		"childrenValues": onQueue(func(ctx context.Context, q *bullmq.Queue, a *byID) (any, error) {
			return q.JobRef(a.ID).ChildrenValues(ctx)
		}),
		"ignoredChildrenFailures": onQueue(func(ctx context.Context, q *bullmq.Queue, a *byID) (any, error) {
			return q.JobRef(a.ID).IgnoredChildrenFailures(ctx)
		}),
		"dependencies": onQueue(func(ctx context.Context, q *bullmq.Queue, a *byID) (any, error) {
			d, err := q.JobRef(a.ID).Dependencies(ctx)
			if err != nil {
				return nil, err
			}
			return map[string]any{
				"processed": d.Processed, "unprocessed": list(d.Unprocessed), "ignored": d.Ignored, "failed": list(d.Failed),
			}, nil
		}),
		"dependenciesCount": onQueue(func(ctx context.Context, q *bullmq.Queue, a *byID) (any, error) {
			n, err := q.JobRef(a.ID).DependencyCounts(ctx)
			return map[string]any{
				"processed": n.Processed, "unprocessed": n.Unprocessed, "ignored": n.Ignored, "failed": n.Failed,
			}, err
		}),
	} {
		operations[name] = carryOut
	}
}
