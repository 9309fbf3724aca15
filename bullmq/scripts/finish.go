package scripts

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

var (
	moveToFinished        = load("moveToFinished")
	retryJob              = load("retryJob")
	moveToDelayed         = load("moveToDelayed")
	moveToWait            = load("moveToWait")
	moveToWaitingChildren = load("moveToWaitingChildren")
)

// Keep is what stays of the finished jobs of one kind, in the numbers of the
// wire; "" where nothing is set.
type Keep struct {
	Count string // 0 removes the job itself at once, -1 keeps all
	Age   string // seconds
	Limit string // removals a call
}

// End is how a job ends for good.
type End struct {
	JobID string
	Token string
	Value string // return value (JSON), or the reason of a failure (plain text)
	Keep  Keep

	Failed   bool
	Attempts int64    // of a failed job: how many it had
	Fields   []string // of a failed job: field, value … to set

	Bare  bool // as it was when the job was taken
	Fetch bool // take a next job under the same token
}

// Finish ends jobs, and takes next ones for those that ask for one.
type Finish struct {
	NowMs  int64
	Points int64 // minutes of metrics to keep; 0 collects none
	Worker Worker
	Ends   []*End
}

// Ended is what became of an End.
type Ended struct {
	Err   error // it was refused; the others were not
	Taken Taken // of those that fetch
}

// Finish ends jobs, each by itself, in one call (BullMQ: moveToFinished, which
// ends one), and answers when that is done; read tells what became of each. An
// error means that none of them may have ended, or all.
func (q *Store) Finish(ctx context.Context, f Finish) (read func() ([]Ended, error)) {
	message, err := q.run(ctx, moveToFinished, encodeFinish(q.base, f)...)
	return func() ([]Ended, error) {
		if err != nil {
			return nil, err
		}
		return q.finished(f, message)
	}
}

func (q *Store) finished(f Finish, message rueidis.RedisMessage) ([]Ended, error) {
	parts, err := message.ToArray()
	if err == nil && len(parts) == 0 {
		err = errors.New("an empty list")
	}
	if err != nil {
		return nil, q.unexpected(moveToFinished, err)
	}
	ended := make([]Ended, len(f.Ends))
	refused, _ := parts[0].ToArray()
	for i := 0; i+1 < len(refused); i += 2 {
		n, _ := refused[i].AsInt64()
		end := int(n) - 1
		if end < 0 || end >= len(ended) {
			continue
		}
		if code, err := refused[i+1].AsInt64(); err == nil {
			ended[end].Err = q.refusal(moveToFinished, code, f.Ends[end].JobID, "")
		} else {
			ended[end].Err = q.failed(moveToFinished, &backend.ServerError{JobID: f.Ends[end].JobID, Text: text(refused[i+1])})
		}
	}
	each := f.Worker.takenEach(parts[1:], len(ended))
	for i := range ended {
		if f.Ends[i].Fetch && ended[i].Err == nil {
			ended[i].Taken, each = each[0], each[1:]
		}
	}
	return ended, nil
}

// RetryJob makes a job ready again whose attempt has failed.
func (q *Store) RetryJob(ctx context.Context, r backend.Retry) error {
	args := []string{q.base, decimal(r.Now.UnixMilli()), r.JobID, r.Token, pushEnd(r.LIFO)}
	_, err := q.number(ctx, retryJob, r.JobID, append(args, Fields(r.Failure)...)...)
	return err
}

// Fields returns what a failed attempt stores, as field, value … of the job's hash.
func Fields(f backend.FailedAttempt) []string {
	fields := []string{"failedReason", f.Reason, "stacktrace", f.StackTrace}
	if f.Telemetry != "" {
		fields = append(fields, "tm", f.Telemetry)
	}
	return fields
}

// pushEnd is the end of the list wait: next to run (lifo), or last in line.
func pushEnd(next bool) string {
	if next {
		return "RPUSH"
	}
	return "LPUSH"
}

// Delay sends a job back to run again later.
type Delay struct {
	JobID   string
	NowMs   int64
	Token   string
	DelayMs string // may hold a fraction
	Free    bool   // costs no attempt
	Fields  []string

	Fetch  bool
	Worker Worker
}

// Delay moves a running job to delayed (BullMQ: moveToDelayed).
func (q *Store) Delay(ctx context.Context, d Delay) (Taken, error) {
	args := append([]string{q.base, decimal(d.NowMs), d.JobID, d.Token, d.DelayMs, flag(d.Free), flag(d.Fetch)},
		d.Worker.args()...)
	message, err := q.run(ctx, moveToDelayed, append(args, d.Fields...)...)
	if err != nil {
		return Taken{}, err
	}
	if code, err := message.AsInt64(); err == nil && code < 0 {
		return Taken{}, q.refusal(moveToDelayed, code, d.JobID, "")
	}
	return q.takenOne(moveToDelayed, message, d.Worker)
}

// MoveToWait puts a running job back to the front of its queue (BullMQ:
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
