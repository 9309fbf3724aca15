package main

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Methods of Job where operations.go addresses the job by its id, and custom events.
func init() {
	operations["jobProgress"] = onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
		Queue, ID string
		Progress  json.RawMessage
	}) (any, error) {
		return nil, q.JobRef(a.ID).UpdateProgress(ctx, a.Progress)
	})
	operations["jobLog"] = onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct{ Queue, ID, Row string }) (any, error) {
		job, err := find(ctx, q, a.ID)
		if err != nil {
			return nil, err
		}
		return job.Log(ctx, a.Row)
	})
	operations["removeJob"] = onQueue(func(ctx context.Context, q *bullmq.Queue, a *byID) (any, error) {
		_, err := found(q.JobRef(a.ID).Remove(ctx), bullmq.ErrJobNotFound)
		return nil, err
	})
	operations["removeJobDeduplicationKey"] = onQueue(func(ctx context.Context, q *bullmq.Queue, a *byID) (any, error) {
		job, err := find(ctx, q, a.ID)
		if err != nil {
			return nil, err
		}
		return job.RemoveDeduplicationKey(ctx)
	})
	operations["removeDeprecatedPriorityKey"] = onQueue(func(ctx context.Context, q *bullmq.Queue, _ *named) (any, error) {
		return counted(q.RemoveDeprecatedPriorityKey(ctx))
	})
	operations["publish"] = func(ctx context.Context, s *session, raw json.RawMessage) (any, error) {
		var a struct {
			Queue  string
			Event  bullmq.EventType
			Fields map[string]string
			Max    *int
		}
		if err := read(raw, &a); err != nil {
			return nil, err
		}
		keep := 1000 // Node's default
		if a.Max != nil {
			keep = cmp.Or(*a.Max, bullmq.NoEvents)
		}
		q, err := s.newQueue(a.Queue, bullmq.QueueOptions{SkipMetaUpdate: true})
		if err != nil {
			return nil, err
		}
		defer q.Close()
		var fields []string
		for _, name := range slices.Sorted(maps.Keys(a.Fields)) { // the same order as in scenarios
			fields = append(fields, name, a.Fields[name])
		}
		_, err = q.Publish(ctx, a.Event, &bullmq.PublishOptions{MaxEvents: keep}, fields...)
		return nil, err
	}
}
