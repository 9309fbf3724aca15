package scripts

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

var (
	moveToActive          = load("moveToActive")
	moveToActiveWhenWoken = load("moveToActiveWhenWoken")
	resolveFetch          = load("resolveFetch")
)

// onlyBaseFields is the hint that a job had only the base fields when it was fetched.
const onlyBaseFields backend.Hint = 1

// workerArgs returns the arguments lockMs, name, limitMax and limitMs.
func workerArgs(w backend.Worker) [4]string {
	args := [4]string{decimal(w.LockDuration.Milliseconds()), w.Name}
	if w.Limit.Max > 0 {
		args[2], args[3] = decimal(int64(w.Limit.Max)), decimal(w.Limit.Duration.Milliseconds())
	}
	return args
}

// MoveToActive fetches the next jobs, one for each lock token.
func (q *Store) MoveToActive(ctx context.Context, now time.Time, worker backend.Worker, tokens ...string) ([]backend.Fetched, error) {
	options := workerArgs(worker)
	args := append(make([]string, 0, 2+len(options)+len(tokens)), q.base, decimal(now.UnixMilli()))
	args = append(append(args, options[:]...), tokens...)
	begun := time.Now()
	message, err := q.run(ctx, moveToActive, args...)
	if err != nil {
		return nil, err
	}
	parts, err := message.ToArray()
	if err != nil {
		return nil, q.unexpected(moveToActive, err)
	}
	fetched, serverUs := readFetches(parts, len(tokens), worker.Name)
	q.clock.observe(serverUs, begun)
	return fetched, nil
}

// WhenWoken returns the command of a fetch that is sent together with a blocking wait for the
// marker, on the same connection. aheadUs is how far the caller's clock is ahead of the
// server's, in microseconds. before is a time by the caller's clock. From that time on, the
// command fetches nothing. If withText is set, the command contains the script itself. That is
// necessary if the server has replied NOSCRIPT ([IsNoScript]).
func (q *Store) WhenWoken(b rueidis.Builder, withText bool, aheadUs int64, before time.Time, worker backend.Worker, token string) rueidis.Completed {
	options := workerArgs(worker)
	args := append(make([]string, 0, 4+len(options)), q.base, decimal(aheadUs), decimal(before.UnixMilli()), token)
	return q.call(b, moveToActiveWhenWoken, withText, append(args, options[:]...))
}

// ReadWhenWoken reads the reply to WhenWoken.
func (q *Store) ReadWhenWoken(result rueidis.RedisResult, worker backend.Worker) (backend.Fetched, error) {
	message, err := result.ToMessage()
	if err != nil {
		return backend.Fetched{}, q.failed(moveToActiveWhenWoken, err)
	}
	return q.readFetch(moveToActiveWhenWoken, message, worker)
}

// readFetch reads the reply to a command that may have fetched a job. The reply is that of a
// fetch. It is a number if nothing was fetched and nothing is known of further jobs.
func (q *Store) readFetch(c *command, message rueidis.RedisMessage, worker backend.Worker) (backend.Fetched, error) {
	if !message.IsArray() {
		return backend.Fetched{Unknown: true}, nil
	}
	parts, err := message.ToArray()
	if err != nil {
		return backend.Fetched{}, q.unexpected(c, err)
	}
	if len(parts) < 3 {
		return backend.Fetched{Unknown: true}, nil
	}
	fetched, _ := readFetches(parts, 1, worker.Name)
	return fetched[0], nil
}

// readFetches reads the reply to a fetch for a number of tokens. It also returns the
// server's time in microseconds, or 0 if the reply does not contain it.
func readFetches(parts []rueidis.RedisMessage, tokens int, workerName string) (fetched []backend.Fetched, serverUs int64) {
	fetched = make([]backend.Fetched, tokens)
	if len(parts) < 3 { // the short form of moveToFinished if there is no job
		return fetched, 0
	}
	jobs, _ := parts[0].ToArray()
	none := backend.Fetched{Unknown: len(jobs) > 0}
	limitedMs, _ := parts[1].AsInt64()
	none.LimitedFor = time.Duration(limitedMs) * time.Millisecond
	if dueMs, _ := parts[2].AsInt64(); dueMs > 0 {
		none.NextDue = time.UnixMilli(dueMs)
	}
	var startedOn time.Time
	if len(parts) > 3 {
		if len(jobs) > 0 {
			startedOn = wire.ParseTime(text(parts[3]))
		} else {
			serverUs, _ = parts[3].AsInt64()
		}
	}
	var last commonFields
	for i := range fetched {
		fetched[i] = none
		if len(jobs) < 2 {
			continue
		}
		job, isBase, rest := last.next(jobs)
		jobs = rest
		if job.record == nil || job.record.ID == "" {
			continue
		}
		fetched[i] = backend.Fetched{Job: job.started(startedOn, workerName)}
		if isBase {
			fetched[i].Hint = onlyBaseFields
		}
	}
	return fetched, serverUs
}

// ResolveFetch determines the outcome of a call whose reply was lost.
func (q *Store) ResolveFetch(ctx context.Context, token, jobID string) (undone bool, fetched backend.Fetched, err error) {
	message, err := q.run(ctx, resolveFetch, q.base, token, jobID)
	if err != nil {
		return false, backend.Fetched{}, err
	}
	reply, err := message.ToArray()
	if err != nil || len(reply) == 0 {
		return false, backend.Fetched{}, q.unexpected(resolveFetch, err)
	}
	if n, _ := reply[0].AsInt64(); n == 1 {
		return true, backend.Fetched{}, nil
	}
	if len(reply) == 3 {
		if id := text(reply[1]); id != "" {
			return false, backend.Fetched{Job: Record(id, texts(reply[2]))}, nil
		}
	}
	return false, backend.Fetched{Unknown: true}, nil
}

// PutMarker puts back a marker that was popped and not used. If a marker for an earlier time
// was set in the meantime, that marker stays.
func (q *Store) PutMarker(ctx context.Context, member string, score float64) (err error) {
	defer q.about("the marker", &err)
	return q.client.Do(ctx, q.client.B().Zadd().Key(q.keyOf("marker")).Lt().ScoreMember().ScoreMember(score, member).Build()).Error()
}
