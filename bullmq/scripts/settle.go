package scripts

import (
	"context"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

var findTaken = load("findTaken")

// FindTaken resolves a call whose reply was lost.
func (q *Store) FindTaken(ctx context.Context, token, jobID string) (undone bool, taken backend.Taken, err error) {
	message, err := q.run(ctx, findTaken, q.base, token, jobID)
	if err != nil {
		return false, backend.Taken{}, err
	}
	reply, err := message.ToArray()
	if err != nil || len(reply) == 0 {
		return false, backend.Taken{}, q.unexpected(findTaken, err)
	}
	if n, _ := reply[0].AsInt64(); n == 1 {
		return true, backend.Taken{}, nil
	}
	if len(reply) == 3 {
		if id := text(reply[1]); id != "" {
			return false, backend.Taken{Job: Record(id, texts(reply[2]))}, nil
		}
	}
	return false, backend.Taken{Unknown: true}, nil
}

// PutMarker puts back a marker that was popped and not used. A marker that has been
// set since then, for an earlier time, stays.
func (q *Store) PutMarker(ctx context.Context, member string, score float64) (err error) {
	defer q.about("the marker", &err)
	return q.client.Do(ctx, q.client.B().Zadd().Key(q.keyOf("marker")).Lt().ScoreMember().ScoreMember(score, member).Build()).Error()
}

// StartRateLimit stops the queue for a time.
func (q *Store) StartRateLimit(ctx context.Context, wait time.Duration) (err error) {
	defer q.about("the rate limit", &err)
	return q.client.Do(ctx, q.client.B().Set().Key(q.keyOf("limiter")).Value("9007199254740991").PxMilliseconds(wait.Milliseconds()).Build()).Error()
}
