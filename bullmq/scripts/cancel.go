package scripts

import (
	"context"
	"strings"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

var cancelJob = load("cancelJob")

// cancelEventsKey returns the key of the stream that tells workers of cancellations. The key
// does not begin with the queue's base, because Node's removeOrphanedJobs would then remove
// it.
func (q *Store) cancelEventsKey() string { return cancelEventsKey(q.base) }

func cancelEventsKey(base string) string { return strings.TrimSuffix(base, ":") + "@x:events" }

// Cancel cancels a job that has not finished.
func (q *Store) Cancel(ctx context.Context, jobID, failure, reason, request string) (backend.CancelOutcome, error) {
	n, err := q.number(ctx, cancelJob, jobID, q.base, jobID, failure, reason, request)
	return backend.CancelOutcome(n), err
}

// CancelRequests returns at most a thousand entries of the stream after an id.
func (q *Store) CancelRequests(ctx context.Context, after string) (requests []backend.CancelRequest, err error) {
	defer q.about("cancellations", &err)
	reply := q.client.Do(ctx, q.client.B().Xread().Count(1000).Streams().Key(q.cancelEventsKey()).Id(after).Build())
	streams, err := reply.AsXRead()
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	for _, entries := range streams {
		requests = append(requests, cancelRequests(entries)...)
	}
	return requests, err
}

func cancelRequests(entries []rueidis.XRangeEntry) (requests []backend.CancelRequest) {
	for _, entry := range entries {
		request := backend.CancelRequest{
			ID: entry.ID, JobID: entry.FieldValues["jobId"], Reason: entry.FieldValues["reason"],
			Recorded: entry.FieldValues["prev"] == "active",
		}
		if entry.FieldValues["event"] != "cancel" {
			request.JobID = ""
		}
		requests = append(requests, request)
	}
	return requests
}

// Cancellations returns, of the given jobs, those that are cancelled and have not finished.
func (q *Store) Cancellations(ctx context.Context, jobIDs []string) (cancelled []backend.Cancellation, err error) {
	defer q.about("cancellations", &err)
	commands := make([]rueidis.Completed, len(jobIDs))
	for i, id := range jobIDs {
		commands[i] = q.client.B().Hget().Key(q.base + id).Field("defa").Build()
	}
	for i, result := range q.client.DoMulti(ctx, commands...) {
		failure, err := result.ToString()
		switch {
		case rueidis.IsRedisNil(err):
		case err != nil:
			return nil, err
		case failure == "cancelled" || strings.HasPrefix(failure, "cancelled: "): // a failed child writes another text to its running parent
			cancelled = append(cancelled, backend.Cancellation{JobID: jobIDs[i], Failure: failure})
		}
	}
	return cancelled, nil
}
