package scripts

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

var (
	moveToFinished        = load("moveToFinished")
	retryJob              = load("retryJob")
	moveToDelayed         = load("moveToDelayed")
	moveToWait            = load("moveToWait")
	moveToWaitingChildren = load("moveToWaitingChildren")
)

// MoveToFinished completes or fails jobs, each independently, in one call.
func (q *Store) MoveToFinished(ctx context.Context, f backend.Finish) (read func() ([]backend.Ended, error)) {
	message, err := q.run(ctx, moveToFinished, encodeFinish(q.base, f)...)
	return func() ([]backend.Ended, error) {
		if err != nil {
			return nil, err
		}
		return q.finished(f, message)
	}
}

func (q *Store) finished(f backend.Finish, message rueidis.RedisMessage) ([]backend.Ended, error) {
	parts, err := message.ToArray()
	if err == nil && len(parts) == 0 {
		err = errors.New("an empty list")
	}
	if err != nil {
		return nil, q.unexpected(moveToFinished, err)
	}
	ended := make([]backend.Ended, len(f.Ends))
	refused, _ := parts[0].ToArray()
	readRefused(q.base, f.Ends, refused, func(end int, why error) { ended[end].Err = why })
	each, _ := readFetches(parts[1:], len(ended), f.Worker.Name)
	for i := range ended {
		if f.Ends[i].Fetch && ended[i].Err == nil {
			ended[i].Next, each = each[0], each[1:]
		}
	}
	return ended, nil
}

// readRefused calls set for each job that was not finished, with the reason. refused has a
// number and an error for each of these jobs: number, error, number, error …
func readRefused(base string, ends []*backend.End, refused []rueidis.RedisMessage, set func(end int, why error)) {
	for i := 0; i+1 < len(refused); i += 2 {
		n, _ := refused[i].AsInt64()
		end := int(n) - 1
		if end < 0 || end >= len(ends) {
			continue
		}
		jobID := ends[end].JobID
		if code, err := refused[i+1].AsInt64(); err == nil {
			set(end, refusalOn(moveToFinished, base, code, jobID, ""))
		} else {
			set(end, failed(moveToFinished, base, &backend.ServerError{JobID: jobID, Text: text(refused[i+1])}))
		}
	}
}

// RetryJob makes a job whose attempt has failed ready again.
func (q *Store) RetryJob(ctx context.Context, r backend.Retry) error {
	args := make([]string, 0, 5+failureFields)
	args = append(args, q.base, decimal(r.Now.UnixMilli()), r.JobID, r.Token, pushEnd(r.LIFO))
	_, err := q.number(ctx, retryJob, r.JobID, appendFailure(args, &r.Failure)...)
	return err
}

// failureFields is the maximum number of values that appendFailure appends.
const failureFields = 6

// appendFailure appends the fields that a failed attempt sets in the job's hash: field,
// value …
func appendFailure(args []string, f *backend.FailedAttempt) []string {
	args = append(args, "failedReason", f.Reason, "stacktrace", f.StackTrace)
	if f.Telemetry != "" {
		args = append(args, "tm", f.Telemetry)
	}
	return args
}

// pushEnd returns the command that adds a job to the list "wait". If next is set, the job is
// fetched next, otherwise last.
func pushEnd(next bool) string {
	if next {
		return "RPUSH"
	}
	return "LPUSH"
}

// MoveToDelayed delays a running job.
func (q *Store) MoveToDelayed(ctx context.Context, d backend.Delay) (backend.Fetched, error) {
	options := workerArgs(d.Worker)
	args := make([]string, 0, 7+len(options)+failureFields)
	args = append(args, q.base, decimal(d.Now.UnixMilli()), d.JobID, d.Token, wire.FormatMillis(d.Delay), flag(d.Failure == nil), flag(d.Fetch))
	args = append(args, options[:]...)
	if d.Failure != nil {
		args = appendFailure(args, d.Failure)
	}
	message, err := q.run(ctx, moveToDelayed, args...)
	if err != nil {
		return backend.Fetched{}, err
	}
	if code, err := message.AsInt64(); err == nil && code < 0 {
		return backend.Fetched{}, q.refusal(moveToDelayed, code, d.JobID, "")
	}
	return q.readFetch(moveToDelayed, message, d.Worker)
}

// MoveToWait returns a running job to the front of its queue (BullMQ:
// moveJobFromActiveToWait).
func (q *Store) MoveToWait(ctx context.Context, jobID, token string) (time.Duration, error) {
	ms, err := q.number(ctx, moveToWait, jobID, q.base, jobID, token)
	return time.Duration(ms) * time.Millisecond, err
}

// MoveToWaitingChildren makes a running job wait for its children.
func (q *Store) MoveToWaitingChildren(ctx context.Context, jobID, token string, now time.Time, child backend.JobRef) (bool, error) {
	n, err := q.number(ctx, moveToWaitingChildren, jobID, q.base, jobID, decimal(now.UnixMilli()), token, child.String())
	return err == nil && n == 0, err
}
