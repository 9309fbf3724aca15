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
)

// isBare is the hint that a job had only the fields that every job has when it was
// fetched.
const isBare backend.Hint = 1

// workerArgs returns the arguments lockMs, name, limitMax and limitMs.
func workerArgs(w backend.Worker) [4]string {
	args := [4]string{decimal(w.LockDuration.Milliseconds()), w.Name}
	if w.Limit.Max > 0 {
		args[2], args[3] = decimal(int64(w.Limit.Max)), decimal(w.Limit.Duration.Milliseconds())
	}
	return args
}

// MoveToActive fetches the next jobs, one for each lock token.
func (q *Store) MoveToActive(ctx context.Context, now time.Time, worker backend.Worker, tokens ...string) ([]backend.Taken, error) {
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
	taken, serverUs := takenEach(parts, len(tokens), worker.Name)
	q.clock.observe(serverUs, begun)
	return taken, nil
}

// WhenWoken returns the command of a fetch that is sent behind a blocking wait for
// the marker, on the same connection. aheadUs is by how many microseconds the
// caller's clock is ahead of the server's. From before on, by the caller's clock, the
// command fetches nothing. withText sends the script itself, which is needed by a
// server that has replied NOSCRIPT ([IsNoScript]).
func (q *Store) WhenWoken(b rueidis.Builder, withText bool, aheadUs int64, before time.Time, worker backend.Worker, token string) rueidis.Completed {
	options := workerArgs(worker)
	args := append(make([]string, 0, 4+len(options)), q.base, decimal(aheadUs), decimal(before.UnixMilli()), token)
	return q.call(b, moveToActiveWhenWoken, withText, append(args, options[:]...))
}

// ReadWhenWoken reads the reply to WhenWoken.
func (q *Store) ReadWhenWoken(result rueidis.RedisResult, worker backend.Worker) (backend.Taken, error) {
	message, err := result.ToMessage()
	if err != nil {
		return backend.Taken{}, q.failed(moveToActiveWhenWoken, err)
	}
	return q.takenOne(moveToActiveWhenWoken, message, worker)
}

// takenOne reads the reply to a command that may have fetched a job. It is that of a
// fetch, or a number if nothing was fetched and nothing is known of further jobs.
func (q *Store) takenOne(c *command, message rueidis.RedisMessage, worker backend.Worker) (backend.Taken, error) {
	if !message.IsArray() {
		return backend.Taken{Unknown: true}, nil
	}
	parts, err := message.ToArray()
	if err != nil {
		return backend.Taken{}, q.unexpected(c, err)
	}
	if len(parts) < 3 {
		return backend.Taken{Unknown: true}, nil
	}
	taken, _ := takenEach(parts, 1, worker.Name)
	return taken[0], nil
}

// takenEach reads the reply to a fetch for a number of tokens. It also returns the
// server's time in microseconds, or 0 if the reply does not contain it.
func takenEach(parts []rueidis.RedisMessage, tokens int, workerName string) (taken []backend.Taken, serverUs int64) {
	taken = make([]backend.Taken, tokens)
	if len(parts) < 3 { // moveToFinished leaves out that there is no job at all
		return taken, 0
	}
	jobs, _ := parts[0].ToArray()
	none := backend.Taken{Unknown: len(jobs) > 0}
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
	for i := range taken {
		taken[i] = none
		if len(jobs) < 2 {
			continue
		}
		job, bare, rest := last.next(jobs)
		jobs = rest
		if job.record == nil || job.record.ID == "" {
			continue
		}
		taken[i] = backend.Taken{Job: job.started(startedOn, workerName)}
		if bare {
			taken[i].Hint = isBare
		}
	}
	return taken, serverUs
}
