package scripts

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

var (
	forwardJob  = load("forwardJob")
	moveWaiting = load("moveWaiting")
)

var _ backend.Routes = (*Store)(nil)

// ForwardJob moves a running job to another queue.
func (q *Store) ForwardJob(ctx context.Context, f backend.Forward) (backend.AddResult, error) {
	message, err := NewGroup(q.client, q.Dialect).message(ctx, forwardJob, []string{q.base, f.To.String() + ":"},
		wire.FormatTime(f.Now), f.JobID, f.Token, ttlText(&f.Deduplication), deduplicationFlags(&f.Deduplication), flag(f.LIFO))
	if err != nil {
		return backend.AddResult{}, err
	}
	if code, err := message.AsInt64(); err == nil {
		return backend.AddResult{}, q.refusal(forwardJob, code, f.JobID, "")
	}
	reply, err := message.ToArray()
	if err == nil && len(reply) != 2 {
		err = fmt.Errorf("%d values, not 2", len(reply))
	}
	if err != nil {
		return backend.AddResult{}, q.unexpected(forwardJob, err)
	}
	result := backend.AddResult{JobID: text(reply[0])}
	switch text(reply[1]) {
	case "exists":
		result.Outcome = backend.AlreadyExists
	case "deduplicated":
		result.Outcome = backend.Deduplicated
	}
	return result, nil
}

// MoveWaiting moves jobs that are ready to run to another queue.
func (q *Store) MoveWaiting(ctx context.Context, to backend.QueueRef, now time.Time, jobs []backend.MovedJob) ([]string, error) {
	reply, err := q.moveWaiting(ctx, to, now, false, jobs)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(reply))
	for i := range reply {
		ids[i] = text(reply[i])
	}
	return ids, nil
}

// MoveRequested moves a job to another queue.
func (q *Store) MoveRequested(ctx context.Context, to backend.QueueRef, now time.Time, job backend.MovedJob) (string, backend.MoveObstacle, error) {
	reply, err := q.moveWaiting(ctx, to, now, true, []backend.MovedJob{job})
	if err != nil {
		return "", 0, err
	}
	if reply[0].IsString() {
		return text(reply[0]), 0, nil
	}
	codes, err := reply[0].AsIntSlice()
	if err != nil || len(codes) != 1 {
		return "", 0, q.unexpected(moveWaiting, err)
	}
	return "", backend.MoveObstacle(codes[0]), nil
}

func (q *Store) moveWaiting(ctx context.Context, to backend.QueueRef, now time.Time, requested bool, jobs []backend.MovedJob) ([]rueidis.RedisMessage, error) {
	args := make([]string, 0, 2+5*len(jobs))
	args = append(args, wire.FormatTime(now), flag(requested))
	for i := range jobs {
		job := &jobs[i]
		args = append(args, job.ID, job.Opts, ttlText(&job.Deduplication), deduplicationFlags(&job.Deduplication), flag(job.LIFO))
	}
	reply, err := NewGroup(q.client, q.Dialect).run(ctx, moveWaiting, []string{q.base, to.String() + ":"}, args...)
	if err == nil && len(reply) != len(jobs) {
		err = q.unexpected(moveWaiting, fmt.Errorf("%d values, not %d", len(reply), len(jobs)))
	}
	return reply, err
}

// ttlText returns the time for which a job owns its deduplication id; "" without one.
func ttlText(d *backend.Deduplication) string {
	if ms := d.TTL.Milliseconds(); ms > 0 {
		return decimal(ms)
	}
	return ""
}
