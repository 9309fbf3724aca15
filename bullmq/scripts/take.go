package scripts

import (
	"context"

	"github.com/redis/rueidis"
)

var (
	moveToActive          = load("moveToActive")
	moveToActiveWhenWoken = load("moveToActiveWhenWoken")
)

// Worker is who takes a job: what the lock and the limiter of a take need.
type Worker struct {
	Token   string // of the lock; "" is refused by nobody, so callers check it
	LockMs  int64
	Name    string // field pb; "" for none
	Limit   int64  // jobs a window; 0 for no limiter of the worker's own
	LimitMs int64
}

func (w Worker) args() []string {
	limit, limitMs := "", ""
	if w.Limit > 0 {
		limit, limitMs = decimal(w.Limit), decimal(w.LimitMs)
	}
	return []string{decimal(w.LockMs), w.Name, limit, limitMs}
}

// Taken is what a take found: a job, or why there is none.
type Taken struct {
	JobID      string   // "" when there is no job
	Hash       []string // field, value, field, value …
	LimitedMs  int64    // the rate limit holds for so long
	NextDueMs  int64    // when the first delayed job is due; 0 for none
	ServerUs   int64    // the server's time in microseconds, told by takes that found no job; 0 for untold
	NothingSet bool     // the command said nothing about the next look
}

// Take takes the next job, if there is one (BullMQ: moveToActive).
func (q *Queue) Take(ctx context.Context, nowMs int64, worker Worker) (Taken, error) {
	args := append([]string{q.base, decimal(nowMs), worker.Token}, worker.args()...)
	message, err := q.run(ctx, moveToActive, args...)
	if err != nil {
		return Taken{}, err
	}
	return q.taken(moveToActive, message)
}

// WhenWoken is the command of a take that is sent behind a blocked wait on the
// marker, on the same connection. aheadUs is by how many microseconds the
// caller's clock is ahead of the server's; from beforeMs on, by the caller's
// clock, the command takes nothing. inFull sends the script itself, which a
// server needs that has answered NOSCRIPT (IsNoScript) before.
func (q *Queue) WhenWoken(b rueidis.Builder, inFull bool, aheadUs, beforeMs int64, worker Worker) rueidis.Completed {
	return q.call(b, moveToActiveWhenWoken, inFull,
		append([]string{q.base, decimal(aheadUs), decimal(beforeMs), worker.Token}, worker.args()...))
}

// WhenWokenAnswer reads the answer to WhenWoken.
func (q *Queue) WhenWokenAnswer(result rueidis.RedisResult) (Taken, error) {
	message, err := result.ToMessage()
	if err != nil {
		return Taken{}, q.failed(moveToActiveWhenWoken, err)
	}
	return q.taken(moveToActiveWhenWoken, message)
}

// taken reads the answer of a command that may have taken a job: a list of
// four, or a number where it had nothing to tell.
func (q *Queue) taken(c *command, message rueidis.RedisMessage) (Taken, error) {
	if !message.IsArray() {
		return Taken{NothingSet: true}, nil
	}
	parts, err := message.ToArray()
	if err != nil {
		return Taken{}, q.unexpected(c, err)
	}
	var taken Taken
	if len(parts) > 3 {
		taken.LimitedMs, _ = parts[2].AsInt64()
		taken.NextDueMs, _ = parts[3].AsInt64()
	}
	if len(parts) > 4 {
		taken.ServerUs, _ = parts[4].AsInt64()
	}
	if len(parts) > 1 && parts[0].IsArray() {
		taken.JobID = text(parts[1])
		taken.Hash = texts(parts[0])
	}
	return taken, nil
}
