package scripts

import (
	"context"
	"time"
)

var findTaken = load("findTaken")

// FindTaken settles a call whose answer was lost. undone says that jobID is
// still active under the token, so the call may be made again; taken is the
// job that the call took under the token, if any. jobID is "" for a call that
// was only to take a job.
func (q *Store) FindTaken(ctx context.Context, token, jobID string) (undone bool, taken Taken, err error) {
	message, err := q.run(ctx, findTaken, q.base, token, jobID)
	if err != nil {
		return false, Taken{}, err
	}
	answer, err := message.ToArray()
	if err != nil || len(answer) == 0 {
		return false, Taken{}, q.unexpected(findTaken, err)
	}
	if n, _ := answer[0].AsInt64(); n == 1 {
		return true, Taken{}, nil
	}
	if len(answer) == 3 {
		return false, Taken{JobID: text(answer[1]), Hash: texts(answer[2])}, nil
	}
	return false, Taken{NothingSet: true}, nil
}

// PutMarker gives back a marker that was popped and not used. One that has been
// set meanwhile, for an earlier time, stays.
func (q *Store) PutMarker(ctx context.Context, member string, score float64) (err error) {
	defer q.about("the marker", &err)
	return q.client.Do(ctx, q.client.B().Zadd().Key(q.keyOf("marker")).Lt().ScoreMember().ScoreMember(score, member).Build()).Error()
}

// StartRateLimit stops the queue for a time.
func (q *Store) StartRateLimit(ctx context.Context, wait time.Duration) (err error) {
	defer q.about("the rate limit", &err)
	return q.client.Do(ctx, q.client.B().Set().Key(q.keyOf("limiter")).Value("9007199254740991").PxMilliseconds(wait.Milliseconds()).Build()).Error()
}
