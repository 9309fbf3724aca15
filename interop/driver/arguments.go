package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Arguments that many operations share.
type (
	named     struct{ Queue string }
	byID      struct{ Queue, ID string }
	byDedupID struct{ Queue, DedupID string }
	jobSpec   struct {
		Queue, Name string
		Data        json.RawMessage
		Opts        json.RawMessage
	}
	onWorkerArgs struct {
		Queue  string
		Worker json.RawMessage
	}
)

func (j jobSpec) read() (any, *bullmq.JobOptions, error) {
	data, err := payload(j.Data)
	if err != nil {
		return nil, nil, err
	}
	options, err := jobOptions(j.Opts)
	return data, options, err
}

// onQueue makes an operation of a call on a Queue.
func onQueue[A any](act func(ctx context.Context, q *bullmq.Queue, a *A) (any, error)) operation {
	return func(ctx context.Context, s *session, raw json.RawMessage) (any, error) {
		var a A
		if err := read(raw, &a); err != nil {
			return nil, err
		}
		var about struct{ Queue string }
		_ = json.Unmarshal(raw, &about)
		q, err := s.queue(about.Queue)
		if err != nil {
			return nil, err
		}
		return act(ctx, q, &a)
	}
}

// onWorker makes an operation of a call on a Worker that runs nothing.
func onWorker[A any](act func(ctx context.Context, w *bullmq.Worker, a *A) (any, error)) operation {
	return func(ctx context.Context, s *session, raw json.RawMessage) (any, error) {
		var a A
		if err := read(raw, &a); err != nil {
			return nil, err
		}
		var about onWorkerArgs
		_ = json.Unmarshal(raw, &about)
		w, err := s.worker(about.Queue, about.Worker)
		if err != nil {
			return nil, err
		}
		return act(ctx, w, &a)
	}
}

// find is the job as its holder knows it; where the hash is gone, a bare one
// stands in: its holder would still call it, and the script answers.
func find(ctx context.Context, q *bullmq.Queue, id string) (*bullmq.Job, error) {
	job, err := q.Job(ctx, id)
	if errors.Is(err, bullmq.ErrJobNotFound) {
		return q.Handle(id), nil
	}
	return job, err
}

func findActive(ctx context.Context, w *bullmq.Worker, id string) (*bullmq.Job, error) {
	job, err := w.Job(ctx, id)
	if errors.Is(err, bullmq.ErrJobNotFound) {
		return w.Handle(id), nil
	}
	return job, err
}

func viewID(job *bullmq.Job) any {
	if job == nil {
		return nil
	}
	return map[string]any{"id": job.ID}
}

func or[T any](given *T, otherwise T) T {
	if given != nil {
		return *given
	}
	return otherwise
}

// list is never null.
func list[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}

// counted answers yes and no as the protocol does where it counts.
func counted(yes bool, err error) (any, error) {
	if yes {
		return 1, err
	}
	return 0, err
}
