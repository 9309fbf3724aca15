package scripts

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

var (
	moveFailed        = load("moveFailed")
	replayDeadLetters = load("replayDeadLetters")
)

var _ backend.DeadLetters = (*Store)(nil)

// MoveFailed moves failed jobs of another queue to this one.
func (q *Store) MoveFailed(ctx context.Context, m backend.MoveFailed) (moved backend.MovedFailed, err error) {
	message, err := q.run(ctx, moveFailed, q.base, m.From.String()+":", strconv.Itoa(m.Count), strconv.Itoa(m.Skip),
		wire.FormatTime(m.Now), flag(m.Records))
	if err != nil {
		return moved, err
	}
	reply, err := message.ToArray()
	if err == nil && len(reply) < 2 {
		err = fmt.Errorf("%d values, not at least 2", len(reply))
	}
	if err != nil {
		return moved, q.unexpected(moveFailed, err)
	}
	moved.Seen, moved.Stay = integer(reply[0]), integer(reply[1])
	reply = reply[2:]
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
