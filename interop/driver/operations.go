package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// operation executes one request. A nil response is encoded as null.
type operation func(ctx context.Context, s *session, raw json.RawMessage) (any, error)

// operations are the operations of the protocol. Each makes one call of the public API.
var operations = map[string]operation{
	"clock": func(_ context.Context, s *session, raw json.RawMessage) (any, error) {
		var a struct{ Now int64 }
		err := read(raw, &a)
		s.stopped.Store(a.Now)
		return nil, err
	},
	"run":    run,
	"events": readEvents,

	"openQueue": openQueue,

	"add": onQueue(func(ctx context.Context, q *bullmq.Queue, a *jobSpec) (any, error) {
		data, options, err := a.read()
		if err != nil {
			return nil, err
		}
		job, err := q.Add(ctx, a.Name, data, options)
		return viewID(job), err
	}),
	"addBulk": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
		Queue string
		Jobs  []jobSpec
	}) (any, error) {
		bulk := make([]bullmq.BulkJob, len(a.Jobs))
		for i, spec := range a.Jobs {
			data, options, err := spec.read()
			if err != nil {
				return nil, err
			}
			bulk[i] = bullmq.BulkJob{Name: spec.Name, Data: data, Options: options}
		}
		jobs, err := q.AddBulk(ctx, bulk)
		ids := make([]any, len(jobs))
		for i, job := range jobs {
			ids[i] = viewID(job)
		}
		return ids, err
	}),

	"job": onQueue(func(ctx context.Context, q *bullmq.Queue, a *byID) (any, error) {
		job, err := q.Job(ctx, a.ID)
		if errors.Is(err, bullmq.ErrJobNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return viewJob(job), nil
	}),
	"state": onQueue(func(ctx context.Context, q *bullmq.Queue, a *byID) (any, error) {
		return stateName(q.JobState(ctx, a.ID))
	}),
	"progress": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
		Queue, ID string
		Progress  json.RawMessage
	}) (any, error) {
		return nil, q.UpdateJobProgress(ctx, a.ID, a.Progress)
	}),
	"updateData": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
		Queue, ID string
		Data      json.RawMessage
	}) (any, error) {
		return nil, q.JobRef(a.ID).UpdateData(ctx, a.Data)
	}),
	"log": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
		Queue, ID, Row string
		Keep           int
	}) (any, error) {
		return q.AddJobLog(ctx, a.ID, a.Row, &bullmq.LogOptions{Keep: a.Keep})
	}),
	"clearLogs": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
		Queue, ID string
		Keep      int
	}) (any, error) {
		return nil, q.JobRef(a.ID).ClearLogs(ctx, &bullmq.ClearLogsOptions{Keep: a.Keep})
	}),
	"logs": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
		Queue, ID string
		Start     int
		End       *int
		Asc       *bool
	}) (any, error) {
		rows, count, err := q.JobLogs(ctx, a.ID, pageOf(a.Start, or(a.End, -1), or(a.Asc, true)))
		return map[string]any{"logs": list(rows), "count": count}, err
	}),
	"retry": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
		Queue, ID string
		State     *bullmq.State
		Opts      bullmq.RetryOptions
	}) (any, error) {
		job, err := find(ctx, q, a.ID)
		if err != nil {
			return nil, err
		}
		return nil, job.Retry(ctx, or(a.State, bullmq.StateFailed), &a.Opts)
	}),
	"promote": onQueue(func(ctx context.Context, q *bullmq.Queue, a *byID) (any, error) {
		return nil, q.JobRef(a.ID).Promote(ctx)
	}),
	"changeDelay": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
		Queue, ID string
		Delay     millis
	}) (any, error) {
		return nil, q.JobRef(a.ID).ChangeDelay(ctx, a.Delay.duration())
	}),
	"changePriority": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
		Queue, ID string
		Priority  int
		LIFO      bool
	}) (any, error) {
		return nil, q.JobRef(a.ID).ChangePriority(ctx, a.Priority, &bullmq.ChangePriorityOptions{LIFO: a.LIFO})
	}),

	"pause":  onQueue(func(ctx context.Context, q *bullmq.Queue, _ *named) (any, error) { return nil, q.Pause(ctx) }),
	"resume": onQueue(func(ctx context.Context, q *bullmq.Queue, _ *named) (any, error) { return nil, q.Resume(ctx) }),
	"isPaused": onQueue(func(ctx context.Context, q *bullmq.Queue, _ *named) (any, error) {
		return q.IsPaused(ctx)
	}),
	"isMaxed": onQueue(func(ctx context.Context, q *bullmq.Queue, _ *named) (any, error) {
		return q.IsMaxed(ctx)
	}),
	"rateLimit": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
		Queue string
		Ms    millis
	}) (any, error) {
		return nil, q.RateLimit(ctx, a.Ms.duration())
	}),
	"rateLimitTtl": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
		Queue string
		Max   int
	}) (any, error) {
		ttl, err := q.RateLimitTTL(ctx, a.Max)
		if err != nil || ttl > 0 || a.Max > 0 {
			return ttl.Milliseconds(), err
		}
		limit, err := q.GlobalRateLimit(ctx)
		if limit == nil {
			return -2, err // Node's response if no limit is set
		}
		return 0, err
	}),

	"removeRateLimitKey": onQueue(func(ctx context.Context, q *bullmq.Queue, _ *named) (any, error) {
		return counted(q.RemoveRateLimitKey(ctx))
	}),
	"setGlobalConcurrency": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
		Queue       string
		Concurrency int
	}) (any, error) {
		return nil, q.SetGlobalConcurrency(ctx, a.Concurrency)
	}),
	"removeGlobalConcurrency": onQueue(func(ctx context.Context, q *bullmq.Queue, _ *named) (any, error) {
		return nil, q.RemoveGlobalConcurrency(ctx)
	}),
	"globalConcurrency": onQueue(func(ctx context.Context, q *bullmq.Queue, _ *named) (any, error) {
		meta, err := q.Meta(ctx)
		return meta.Concurrency, err
	}),
	"setGlobalRateLimit": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
		Queue    string
		Max      int
		Duration millis
	}) (any, error) {
		return nil, q.SetGlobalRateLimit(ctx, bullmq.Limiter{Max: a.Max, Duration: a.Duration.duration()})
	}),
	"removeGlobalRateLimit": onQueue(func(ctx context.Context, q *bullmq.Queue, _ *named) (any, error) {
		return nil, q.RemoveGlobalRateLimit(ctx)
	}),
	"deduplicationJobId": onQueue(func(ctx context.Context, q *bullmq.Queue, a *byDedupID) (any, error) {
		id, err := q.DeduplicationJobID(ctx, a.DedupID)
		if errors.Is(err, bullmq.ErrDeduplicationNotFound) {
			return nil, nil
		}
		return id, err
	}),
	"removeDeduplicationKey": onQueue(func(ctx context.Context, q *bullmq.Queue, a *byDedupID) (any, error) {
		return counted(q.RemoveDeduplicationKey(ctx, a.DedupID))
	}),
	"trimEvents": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
		Queue string
		Max   int
	}) (any, error) {
		return q.TrimEvents(ctx, a.Max)
	}),

	"jobs": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
		Queue string
		Types []bullmq.State
		Start int
		End   *int
		Asc   bool
	}) (any, error) {
		jobs, err := q.Jobs(ctx, pageOf(a.Start, or(a.End, -1), a.Asc), a.Types...)
		return viewJobs(jobs), err
	}),
	"counts": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
		Queue string
		Types []bullmq.State
	}) (any, error) {
		return q.Counts(ctx, a.Types...)
	}),
	"count": onQueue(func(ctx context.Context, q *bullmq.Queue, _ *named) (any, error) { return q.Count(ctx) }),
	"countsPerPriority": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
		Queue      string
		Priorities []int
	}) (any, error) {
		return q.CountsPerPriority(ctx, a.Priorities...)
	}),
	"metrics": onQueue(func(ctx context.Context, q *bullmq.Queue, a *struct {
		Queue string
		Type  bullmq.State
		Start int
		End   *int
	}) (any, error) {
		m, err := q.Metrics(ctx, a.Type, pageOf(a.Start, or(a.End, -1), false))
		prev := int64(0)
		if !m.PrevTime.IsZero() {
			prev = m.PrevTime.UnixMilli()
		}
		return map[string]any{
			"meta": map[string]any{"count": m.Count, "prevTS": prev, "prevCount": m.PrevCount},
			"data": list(m.Points), "count": m.Total,
		}, err
	}),

	"fetch": onFetcher(func(ctx context.Context, f *fetcher, a *struct {
		onFetcherArgs
		Token string
	}) (any, error) {
		f.token = a.Token
		job, err := orNone(f.TryFetch(ctx))
		if err != nil || job == nil {
			return nil, err
		}
		return viewJob(job), nil
	}),
	"complete": onFetcher(func(ctx context.Context, f *fetcher, a *struct {
		onFetcherArgs
		ID, Token   string
		Returnvalue json.RawMessage
		FetchNext   bool
	}) (any, error) {
		job, err := findActive(ctx, f, a.ID, a.Token)
		if err != nil {
			return nil, err
		}
		if !a.FetchNext {
			return nil, f.Complete(ctx, job, orNull(a.Returnvalue))
		}
		next, err := orNone(f.CompleteAndFetch(ctx, job, orNull(a.Returnvalue)))
		if next == nil {
			return nil, err
		}
		return map[string]any{"next": next.ID}, err
	}),
	"fail": onFetcher(func(ctx context.Context, f *fetcher, a *struct {
		onFetcherArgs
		ID, Token, Message string
		Unrecoverable      bool
		FetchNext          bool
	}) (any, error) {
		job, err := findActive(ctx, f, a.ID, a.Token)
		if err != nil {
			return nil, err
		}
		reason := errors.New(a.Message)
		if a.Unrecoverable {
			reason = bullmq.Unrecoverable(reason)
		}
		if !a.FetchNext {
			return nil, f.Fail(ctx, job, reason)
		}
		_, err = orNone(f.FailAndFetch(ctx, job, reason))
		return nil, err
	}),
	"extendLock": onFetcher(func(ctx context.Context, f *fetcher, a *struct {
		onFetcherArgs
		ID, Token string
		Duration  millis
	}) (any, error) {
		return counted(f.JobRef(a.ID).WithToken(a.Token).ExtendLock(ctx, a.Duration.duration()))
	}),
	"extendLocks": onFetcher(func(ctx context.Context, f *fetcher, a *struct {
		onFetcherArgs
		IDs, Tokens []string
		Duration    millis
	}) (any, error) {
		jobs := make([]*bullmq.Job, len(a.IDs))
		for i, id := range a.IDs {
			jobs[i] = f.JobRef(id).WithToken(a.Tokens[i])
		}
		lost, err := f.ExtendLocks(ctx, jobs, a.Duration.duration())
		return list(lost), err
	}),
	"moveToDelayed": onFetcher(func(ctx context.Context, f *fetcher, a *struct {
		onFetcherArgs
		ID, Token string
		Timestamp int64
	}) (any, error) {
		return nil, f.JobRef(a.ID).WithToken(a.Token).MoveToDelayed(ctx, time.UnixMilli(a.Timestamp))
	}),
	"moveToWait": onFetcher(func(ctx context.Context, f *fetcher, a *struct {
		onFetcherArgs
		ID, Token string
	}) (any, error) {
		return nil, f.JobRef(a.ID).WithToken(a.Token).MoveToWait(ctx)
	}),
	"moveToWaitingChildren": onFetcher(func(ctx context.Context, f *fetcher, a *struct {
		onFetcherArgs
		ID, Token string
		Child     *struct{ ID, Queue string }
	}) (any, error) {
		if a.Child != nil {
			return f.JobRef(a.ID).WithToken(a.Token).MoveToWaitingChild(ctx, a.Child.Queue+":"+a.Child.ID)
		}
		return f.JobRef(a.ID).WithToken(a.Token).MoveToWaitingChildren(ctx)
	}),
	"waitOrFail": onFetcher(func(ctx context.Context, f *fetcher, a *struct {
		onFetcherArgs
		ID, Token string
	}) (any, error) {
		return orFail(ctx, f, a.ID, a.Token, func(job *bullmq.Job) error {
			_, err := job.MoveToWaitingChildren(ctx)
			return err
		})
	}),
	"completeOrFail": onFetcher(func(ctx context.Context, f *fetcher, a *struct {
		onFetcherArgs
		ID, Token   string
		ReturnValue json.RawMessage
	}) (any, error) {
		return orFail(ctx, f, a.ID, a.Token, func(job *bullmq.Job) error {
			return f.Complete(ctx, job, orNull(a.ReturnValue))
		})
	}),
	"stalled": func(ctx context.Context, s *session, raw json.RawMessage) (any, error) {
		var a struct {
			Queue           string
			MaxStalledCount *int
			StalledInterval *millis
		}
		if err := read(raw, &a); err != nil {
			return nil, err
		}
		f, err := s.newFetcher(a.Queue, &bullmq.FetcherOptions{
			MaxStalledCount: stalledCount(a.MaxStalledCount), StalledInterval: or(a.StalledInterval, 30000).duration(),
		})
		if err != nil {
			return nil, err
		}
		defer f.Close()
		moved, err := f.CheckStalled(ctx)
		return list(moved), err
	},
}

// orFail fails a job with the error of a call and returns the reason.
func orFail(ctx context.Context, f *fetcher, id, token string, act func(job *bullmq.Job) error) (any, error) {
	job, err := findActive(ctx, f, id, token)
	if err != nil {
		return nil, err
	}
	refused := act(job)
	if refused == nil {
		return nil, nil
	}
	err = f.Fail(ctx, job, refused)
	return job.FailedReason, err
}

// orNone returns nil for a job that there is not, as Node does.
func orNone(job *bullmq.Job, err error) (*bullmq.Job, error) {
	if errors.Is(err, bullmq.ErrNoJob) {
		return nil, nil
	}
	return job, err
}
