package scripts

import "context"

var updateJobScheduler = load("updateJobScheduler")

// Advance is the next job of a scheduler.
type Advance struct {
	Scheduler string // its id
	NowMs     int64
	Producer  string // id of the job that starts
	DueMs     int64  // of a pattern; 0 for an interval
	EveryMs   string // of the job's own options; "" for a pattern
	Opts      string // JSON
	Data      string // of the producer, JSON
}

// Advance adds the next job of a scheduler and answers its id; "" when there
// is none to add. It may be repeated.
func (q *Queue) Advance(ctx context.Context, a Advance) (string, error) {
	due := ""
	if a.DueMs != 0 {
		due = decimal(a.DueMs)
	}
	message, err := q.run(ctx, updateJobScheduler, q.base, a.Scheduler, decimal(a.NowMs), a.Producer, due, a.EveryMs, a.Opts, a.Data)
	if err != nil || message.IsNil() {
		return "", err
	}
	return text(message), nil
}
