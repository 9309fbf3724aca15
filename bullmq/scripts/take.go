package scripts

import (
	"context"
	"strconv"

	"github.com/redis/rueidis"
)

var (
	moveToActive          = load("moveToActive")
	moveToActiveWhenWoken = load("moveToActiveWhenWoken")
)

// Worker is who takes jobs: what the lock and the limiter of a take need.
type Worker struct {
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
	Bare       bool     // it held nothing but what every job has
	LimitedMs  int64    // the rate limit holds for so long
	NextDueMs  int64    // when the first delayed job is due; 0 for none
	ServerUs   int64    // the server's time in microseconds, told by takes that found no job; 0 for untold
	NothingSet bool     // the command said nothing about the next look
	Shared     bool     // others of the call took jobs; whether there are more is not known
}

// Take takes the next jobs, at most one for each lock token, and answers for
// each token what it found; the jobs come first. A take of several may bring
// fewer than there are. (BullMQ: moveToActive, which takes one)
func (q *Store) Take(ctx context.Context, nowMs int64, worker Worker, tokens ...string) ([]Taken, error) {
	args := append([]string{q.base, decimal(nowMs)}, worker.args()...)
	message, err := q.run(ctx, moveToActive, append(args, tokens...)...)
	if err != nil {
		return nil, err
	}
	parts, err := message.ToArray()
	if err != nil {
		return nil, q.unexpected(moveToActive, err)
	}
	return worker.takenEach(parts, len(tokens)), nil
}

// WhenWoken is the command of a take that is sent behind a blocked wait on the
// marker, on the same connection. aheadUs is by how many microseconds the
// caller's clock is ahead of the server's; from beforeMs on, by the caller's
// clock, the command takes nothing. withText sends the script itself, which a
// server needs that has answered NOSCRIPT (IsNoScript) before.
func (q *Store) WhenWoken(b rueidis.Builder, withText bool, aheadUs, beforeMs int64, worker Worker, token string) rueidis.Completed {
	return q.call(b, moveToActiveWhenWoken, withText,
		append([]string{q.base, decimal(aheadUs), decimal(beforeMs), token}, worker.args()...))
}

// WhenWokenAnswer reads the answer to WhenWoken.
func (q *Store) WhenWokenAnswer(result rueidis.RedisResult, worker Worker) (Taken, error) {
	message, err := result.ToMessage()
	if err != nil {
		return Taken{}, q.failed(moveToActiveWhenWoken, err)
	}
	return q.takenOne(moveToActiveWhenWoken, message, worker)
}

// takenOne reads the answer of a command that may have taken a job: what a take
// answers, or a number where it had nothing to tell.
func (q *Store) takenOne(c *command, message rueidis.RedisMessage, worker Worker) (Taken, error) {
	if !message.IsArray() {
		return Taken{NothingSet: true}, nil
	}
	parts, err := message.ToArray()
	if err != nil {
		return Taken{}, q.unexpected(c, err)
	}
	return worker.takenEach(parts, 1)[0], nil
}

// takenEach reads the answer of a take for so many tokens.
func (w Worker) takenEach(parts []rueidis.RedisMessage, tokens int) []Taken {
	taken := make([]Taken, tokens)
	none := Taken{NothingSet: true}
	var jobs []rueidis.RedisMessage
	var now string
	if len(parts) >= 3 {
		jobs, _ = parts[0].ToArray()
		none = Taken{Shared: len(jobs) > 0}
		none.LimitedMs, _ = parts[1].AsInt64()
		none.NextDueMs, _ = parts[2].AsInt64()
	}
	if len(parts) > 3 {
		if none.Shared {
			now = text(parts[3])
		} else {
			none.ServerUs, _ = parts[3].AsInt64()
		}
	}
	var last commonFields
	for i := range taken {
		taken[i] = none
		if len(jobs) >= 2 {
			id, hash, bare, rest := last.next(jobs)
			taken[i], jobs = Taken{JobID: id, Hash: w.started(hash, now), Bare: bare}, rest
		}
	}
	return taken
}

// started puts in what a take has written into a job's hash since it was read; a
// later value of a field holds.
func (w Worker) started(hash []string, now string) []string {
	starts := int64(1)
	for i := 0; i+1 < len(hash); i += 2 {
		if hash[i] == "ats" {
			before, _ := strconv.ParseFloat(hash[i+1], 64)
			starts = int64(before) + 1
		}
	}
	hash = append(hash, "processedOn", now, "ats", decimal(starts))
	if w.Name != "" {
		hash = append(hash, "pb", w.Name)
	}
	return hash
}
