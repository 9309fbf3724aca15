package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// described is a handler described by a scenario.
type described struct {
	Progress         json.RawMessage
	Log              *string
	Sleep            millis
	FailUntilAttempt *int
	Message          *string
	Unrecoverable    *string
	Throw            *string
	Children         bool
	Delay            *millis // this and the next three fields apply to the first start only
	Wait             bool
	RateLimit        *millis
	WaitForChildren  bool
	Cancel           *string
	Return           json.RawMessage
	ByName           map[string]described
	Default          *described
}

func (d described) of(job *bullmq.Job) described {
	if named, ok := d.ByName[job.Name]; ok {
		return named
	}
	switch {
	case d.Default != nil:
		return *d.Default
	case d.ByName != nil:
		return described{}
	default:
		return d
	}
}

func (d described) handle(ctx context.Context, w *bullmq.Worker, job *bullmq.Job) (any, error) {
	var result any = orNull(d.Return)
	if d.Cancel != nil {
		here, elsewhere := w.CancelJob(job.ID, *d.Cancel), w.CancelJob("nobody", *d.Cancel)
		var cancelled *bullmq.CancelledError
		if !errors.As(context.Cause(ctx), &cancelled) {
			return nil, errors.New("the handler's context is not done")
		}
		ctx = context.WithoutCancel(ctx)
		if len(d.Return) == 0 {
			result = map[string]any{"here": here, "elsewhere": elsewhere, "reason": cancelled.Reason}
		}
	}
	if job.AttemptsStarted < 2 {
		switch {
		case d.Delay != nil:
			return nil, bullmq.Snooze(d.Delay.duration())
		case d.Wait:
			return nil, bullmq.ErrSnoozed
		case d.RateLimit != nil:
			if err := w.RateLimit(ctx, d.RateLimit.duration()); err != nil {
				return nil, err
			}
			return nil, bullmq.ErrRateLimited
		case d.WaitForChildren:
			if parked, err := job.MoveToWaitingChildren(ctx); parked || err != nil {
				return nil, cmp.Or(err, bullmq.ErrMovedToWaitingChildren)
			}
		}
	}
	if len(d.Progress) > 0 {
		if err := job.UpdateProgress(ctx, d.Progress); err != nil {
			return nil, err
		}
	}
	if d.Log != nil {
		if _, err := job.Log(ctx, *d.Log); err != nil {
			return nil, err
		}
	}
	time.Sleep(d.Sleep.duration())
	switch {
	case d.FailUntilAttempt != nil && job.AttemptsMade+1 < *d.FailUntilAttempt:
		if d.Message != nil {
			return nil, errors.New(*d.Message)
		}
		return nil, errors.New("boom")
	case d.Unrecoverable != nil:
		return nil, bullmq.Unrecoverable(errors.New(*d.Unrecoverable))
	case d.Throw != nil:
		return nil, errors.New(*d.Throw)
	}
	if d.Children {
		return job.ChildrenValues(ctx)
	}
	return result, nil
}

// run runs a worker until enough attempts have completed or failed. It stops the worker in the event of the
// last one, so that no further job is fetched.
func run(ctx context.Context, s *session, raw json.RawMessage) (any, error) {
	var a struct {
		Queue   string
		Count   int
		Worker  json.RawMessage
		Handler described
		Timeout *millis
	}
	if err := read(raw, &a); err != nil {
		return nil, err
	}
	options, err := workerOptions(a.Worker)
	if err != nil {
		return nil, err
	}
	timeout := 10 * time.Second
	if a.Timeout != nil {
		timeout = a.Timeout.duration()
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	var mu sync.Mutex
	outcomes := []map[string]any{}
	note := func(outcome map[string]any) {
		mu.Lock()
		defer mu.Unlock()
		outcomes = append(outcomes, outcome)
		if len(outcomes) >= a.Count {
			cancel()
		}
	}
	options.Events.Completed = func(job *bullmq.Job, _ any) {
		note(map[string]any{"id": job.ID, "outcome": "completed", "returnvalue": orNull(job.ReturnValue)})
	}
	options.Events.Failed = func(job *bullmq.Job, err error) {
		note(map[string]any{"id": job.ID, "outcome": "failed", "reason": err.Error()})
	}
	var w *bullmq.Worker
	w, err = s.newWorker(a.Queue, func(ctx context.Context, job *bullmq.Job) (any, error) {
		return a.Handler.of(job).handle(ctx, w, job)
	}, options)
	if err != nil {
		return nil, err
	}
	if err := w.Run(ctx); err != nil {
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	if len(outcomes) < a.Count {
		return nil, fmt.Errorf("run: %d of %d jobs finished within %v", len(outcomes), a.Count, timeout)
	}
	return outcomes, nil
}
