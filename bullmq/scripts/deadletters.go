package scripts

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

var (
	moveFailed        = load("moveFailed")
	findDeadLetter    = load("findDeadLetter")
	replayDeadLetters = load("replayDeadLetters")
)

var _ backend.DeadLetters = (*Store)(nil)

// MoveFailed moves failed jobs of another queue to this one.
func (q *Store) MoveFailed(ctx context.Context, m backend.MoveFailed) (moved backend.MovedFailed, err error) {
	since := "-inf"
	if !m.Since.IsZero() {
		since = wire.FormatTime(m.Since)
	}
	message, err := q.run(ctx, moveFailed, q.base, m.From.String()+":", since, strconv.Itoa(m.Count), strconv.Itoa(m.Skip),
		wire.FormatTime(m.Now), flag(m.Cancelled), flag(m.Records))
	if err != nil {
		return moved, err
	}
	reply, err := message.ToArray()
	if err == nil && len(reply) < 3 {
		err = fmt.Errorf("%d values, not at least 3", len(reply))
	}
	if err != nil {
		return moved, q.unexpected(moveFailed, err)
	}
	moved.Seen, moved.Stay, moved.Pending = integer(reply[0]), integer(reply[1]), integer(reply[2])
	reply = reply[3:]
	for len(reply) > 0 {
		id := text(reply[0])
		reply = reply[1:]
		moved.IDs = append(moved.IDs, id)
		if m.Records && len(reply) > 0 {
			moved.Records = append(moved.Records, Record(id, texts(reply[0])))
			reply = reply[1:]
		}
	}
	return moved, nil
}

func integer(message rueidis.RedisMessage) int {
	n, _ := message.AsInt64()
	return int(n)
}

// FindDeadLetter returns the newest letter of a job of another queue; nil if there is none.
func (q *Store) FindDeadLetter(ctx context.Context, job backend.JobRef) (*backend.JobRecord, error) {
	message, err := q.run(ctx, findDeadLetter, q.base, backend.QueueRef{Prefix: job.Prefix, Name: job.Queue}.String(), job.ID)
	if err != nil {
		return nil, err
	}
	reply, err := message.ToArray()
	switch {
	case err != nil:
		return nil, q.unexpected(findDeadLetter, err)
	case len(reply) == 0:
		return nil, nil
	case len(reply) != 2:
		return nil, q.unexpected(findDeadLetter, fmt.Errorf("%d values, not 2", len(reply)))
	}
	return Record(text(reply[0]), texts(reply[1])), nil
}

// JobOptions reads the options of a page of the jobs in a state.
func (q *Store) JobOptions(ctx context.Context, page backend.Page, state backend.State) (options []string, err error) {
	ids, err := q.JobIDs(ctx, page, state)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	defer q.about("reading the options of jobs", &err)
	calls := make([]rueidis.Completed, len(ids))
	for i, id := range ids {
		calls[i] = q.client.B().Hget().Key(q.base + id).Field("opts").Build()
	}
	options = make([]string, len(ids))
	for i, result := range q.client.DoMulti(ctx, calls...) {
		message, err := result.ToMessage()
		if reply, is := rueidis.IsRedisErr(err); err != nil && (!is || !reply.IsNil() && !strings.HasPrefix(reply.Error(), "WRONGTYPE")) {
			return nil, err
		}
		options[i] = text(message)
	}
	return options, nil
}

// ReplayDeadLetters puts dead letters of another queue back into this one.
func (q *Store) ReplayDeadLetters(ctx context.Context, from backend.QueueRef, letters []backend.Letter) ([]backend.ReplayOutcome, error) {
	args := make([]string, 0, 2+2*len(letters))
	args = append(args, q.base, from.String()+":")
	for _, letter := range letters {
		args = append(args, letter.ID, letter.JobID)
	}
	codes, err := q.numbers(ctx, replayDeadLetters, len(letters), args...)
	if err != nil {
		return nil, err
	}
	outcomes := make([]backend.ReplayOutcome, len(codes))
	for i, code := range codes {
		outcomes[i] = backend.ReplayOutcome(code)
	}
	return outcomes, nil
}
