package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Arguments that several operations share.
type (
	named     struct{ Queue string }
	byID      struct{ Queue, ID string }
	byDedupID struct{ Queue, DedupID string }
	jobSpec   struct {
		Queue, Name string
		Data        json.RawMessage
		Opts        json.RawMessage
	}
	onFetcherArgs struct {
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

// onQueue returns an operation that calls a Queue.
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

// onWorker returns an operation that calls a Worker without a handler.
func onFetcher[A any](act func(ctx context.Context, f *fetcher, a *A) (any, error)) operation {
	return func(ctx context.Context, s *session, raw json.RawMessage) (any, error) {
		var a A
		if err := read(raw, &a); err != nil {
			return nil, err
		}
		var about onFetcherArgs
		_ = json.Unmarshal(raw, &about)
		f, err := s.fetcher(about.Queue, about.Worker)
		if err != nil {
			return nil, err
		}
		return act(ctx, f, &a)
	}
}

// find returns a job. If its hash does not exist, it returns a job with only an id, because a program that
// holds such a job could still make the call.
func find(ctx context.Context, q *bullmq.Queue, id string) (*bullmq.Job, error) {
	job, err := q.Job(ctx, id)
	if errors.Is(err, bullmq.ErrJobNotFound) {
		return q.JobRef(id), nil
	}
	return job, err
}

// findActive returns a job that was fetched under a token.
func findActive(ctx context.Context, f *fetcher, id, token string) (*bullmq.Job, error) {
	job, err := f.Job(ctx, id)
	if errors.Is(err, bullmq.ErrJobNotFound) {
		return f.JobRef(id).WithToken(token), nil
	}
	return job.WithToken(token), err
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

// list returns items, and an empty list in place of nil.
func list[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}

// counted returns 1 or 0, as the protocol does where it counts.
// pageOf returns the page of an inclusive range whose end may be -1, the last entry.
func pageOf(start, end int, ascending bool) bullmq.Page {
	page := bullmq.Page{Offset: start, Limit: -1, Ascending: ascending}
	if end >= 0 {
		page.Limit = end - start + 1
	}
	return page
}

// stalledCount returns WorkerOptions.MaxStalledCount for Node's maxStalledCount.
func stalledCount(given *int) int {
	switch {
	case given == nil:
		return 0
	case *given <= 0:
		return *given - 1
	default:
		return *given
	}
}

// stateName returns "unknown" for a job that does not exist, as Node does.
func stateName(state bullmq.State, err error) (any, error) {
	if errors.Is(err, bullmq.ErrJobNotFound) {
		return "unknown", nil
	}
	return state, err
}

// found reports whether a call found what it is about, as Node does instead of an error.
func found(err, notFound error) (bool, error) {
	if errors.Is(err, notFound) {
		return false, nil
	}
	return err == nil, err
}

func counted(yes bool, err error) (any, error) {
	if yes {
		return 1, err
	}
	return 0, err
}
