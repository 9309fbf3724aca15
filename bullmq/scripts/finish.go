package scripts

import "context"

var (
	moveToCompleted       = load("moveToCompleted")
	moveToFailed          = load("moveToFailed")
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

// Finish ends a job.
type Finish struct {
	JobID  string
	NowMs  int64
	Token  string
	Value  string // return value (JSON), or the reason (plain text)
	Keep   Keep
	Points int64 // minutes of metrics to keep; 0 collects none

	Attempts int64    // of a failed job: how many it had
	Fields   []string // of a failed job: field, value … to set

	Fetch  bool // take the next job under the same token
	Worker Worker
}

func (f Finish) args(base string) []string {
	points := ""
	if f.Points > 0 {
		points = decimal(f.Points)
	}
	args := []string{base, f.JobID, decimal(f.NowMs), f.Token, f.Value, f.Keep.Count, f.Keep.Age, f.Keep.Limit,
		points, flag(f.Fetch)}
	return append(args, f.Worker.args()...)
}

// Complete ends a job well (BullMQ: moveToFinished, target completed).
func (q *Queue) Complete(ctx context.Context, f Finish) (Taken, error) {
	return q.finishing(ctx, moveToCompleted, f.JobID, f.args(q.base))
}

// Fail ends a job as failed (BullMQ: moveToFinished, target failed).
func (q *Queue) Fail(ctx context.Context, f Finish) (Taken, error) {
	args := append(f.args(q.base), decimal(f.Attempts))
	return q.finishing(ctx, moveToFailed, f.JobID, append(args, f.Fields...))
}

func (q *Queue) finishing(ctx context.Context, c *command, jobID string, args []string) (Taken, error) {
	message, err := q.run(ctx, c, args...)
	if err != nil {
		return Taken{}, err
	}
	if code, err := message.AsInt64(); err == nil && code < 0 {
		return Taken{}, q.refusal(c, code, jobID, "")
	}
	return q.taken(c, message)
}

// Retry gives a job that failed another attempt at once (BullMQ: retryJob).
func (q *Queue) Retry(ctx context.Context, jobID string, nowMs int64, token string, next bool, fields []string) error {
	args := []string{q.base, decimal(nowMs), jobID, token, pushEnd(next)}
	_, err := q.number(ctx, retryJob, jobID, append(args, fields...)...)
	return err
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
func (q *Queue) Delay(ctx context.Context, d Delay) (Taken, error) {
	args := append([]string{q.base, decimal(d.NowMs), d.JobID, d.Token, d.DelayMs, flag(d.Free), flag(d.Fetch)},
		d.Worker.args()...)
	return q.finishing(ctx, moveToDelayed, d.JobID, append(args, d.Fields...))
}

// ToWait sends a running job back to the front of its line and answers for
// how many ms the rate limit holds (BullMQ: moveJobFromActiveToWait).
func (q *Queue) ToWait(ctx context.Context, jobID, token string) (int64, error) {
	return q.number(ctx, moveToWait, jobID, q.base, jobID, token)
}

// ToWaitingChildren parks a running job until its children have ended, or the
// one with childKey; false when there is nothing to wait for.
func (q *Queue) ToWaitingChildren(ctx context.Context, jobID string, nowMs int64, token, childKey string) (bool, error) {
	n, err := q.number(ctx, moveToWaitingChildren, jobID, q.base, jobID, decimal(nowMs), token, childKey)
	return err == nil && n == 0, err
}
