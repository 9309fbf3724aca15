package scripts

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

var (
	updateJobScheduler = load("updateJobScheduler")
	addJobScheduler    = load("addJobScheduler")
	removeJobScheduler = load("removeJobScheduler")
)

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

// ErrUnreadable says that the options of a scheduler's job are JSON that Redis
// can't work with: nested too deeply, or with numbers beyond all counting.
var ErrUnreadable = errors.New("bullmq: Redis can't work with the options of the scheduler's job")

// Advance adds the next job of a scheduler and answers its id; "" when there
// is none to add. It may be repeated.
func (q *Store) Advance(ctx context.Context, a Advance) (string, error) {
	due := ""
	if a.DueMs != 0 {
		due = decimal(a.DueMs)
	}
	message, err := q.run(ctx, updateJobScheduler, q.base, a.Scheduler, decimal(a.NowMs), a.Producer, due, a.EveryMs, a.Opts, a.Data)
	var refused *rueidis.RedisError
	if errors.As(err, &refused) && strings.Contains(refused.Error(), "UNREADABLE") {
		return "", fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	if err != nil || message.IsNil() {
		return "", err
	}
	return text(message), nil
}

// Scheduler is a scheduler as it is made or changed; "" where nothing is set.
type Scheduler struct {
	ID       string
	NowMs    int64
	Name     string
	Data     string // JSON
	Template string // options of its jobs, JSON
	Opts     string // options of the next job, JSON
	DueMs    int64  // next time of a pattern; 0 for an interval

	Every, Pattern, TimeZone, Limit, StartDate, EndDate, Offset string
}

// Upsert makes or changes a scheduler and answers the id and the delay (ms) of
// its next job.
func (q *Store) Upsert(ctx context.Context, s Scheduler) (jobID string, delayMs int64, err error) {
	due := ""
	if s.DueMs != 0 {
		due = decimal(s.DueMs)
	}
	message, err := q.run(ctx, addJobScheduler, q.base, s.ID, decimal(s.NowMs), s.Name, s.Data, s.Template, s.Opts, due,
		s.Every, s.Pattern, s.TimeZone, s.Limit, s.StartDate, s.EndDate, s.Offset)
	if err != nil {
		return "", 0, err
	}
	if !message.IsArray() {
		code, err := message.AsInt64()
		if err != nil {
			return "", 0, q.unexpected(addJobScheduler, err)
		}
		return "", 0, q.refusal(addJobScheduler, code, "", "scheduler "+s.ID)
	}
	answer := texts(message)
	if len(answer) != 2 {
		return "", 0, q.unexpected(addJobScheduler, nil)
	}
	delayMs, _ = strconv.ParseInt(answer[1], 10, 64)
	return answer[0], delayMs, nil
}

// RemoveScheduler removes a scheduler; false when there was none.
func (q *Store) RemoveScheduler(ctx context.Context, id string) (bool, error) {
	n, err := q.number(ctx, removeJobScheduler, "", q.base, id)
	return err == nil && n == 0, err
}

// SchedulerRecord reads a scheduler's record and its next time; "" when there
// is no such scheduler.
func (q *Store) SchedulerRecord(ctx context.Context, id string) (record map[string]string, next string, err error) {
	defer q.about("scheduler "+id, &err)
	at := q.keyOf("repeat")
	results := q.client.DoMulti(ctx,
		q.client.B().Hgetall().Key(at+":"+id).Build(), q.client.B().Zscore().Key(at).Member(id).Build())
	if record, err = results[0].AsStrMap(); err != nil {
		return nil, "", err
	}
	score, err := results[1].AsFloat64()
	if rueidis.IsRedisNil(err) {
		return record, "", nil
	}
	return record, strconv.FormatFloat(score, 'f', -1, 64), err
}

// Schedulers reads a range of schedulers' ids with their next times (ms).
func (q *Store) Schedulers(ctx context.Context, from, to int64, ascending bool) (ids []string, next []float64, err error) {
	defer q.about("the schedulers", &err)
	at := q.keyOf("repeat")
	query := q.client.B().Zrevrange().Key(at).Start(from).Stop(to).Withscores().Build()
	if ascending {
		query = q.client.B().Zrange().Key(at).Min(decimal(from)).Max(decimal(to)).Withscores().Build()
	}
	members, err := q.client.Do(ctx, query).AsZScores()
	for _, member := range members {
		ids, next = append(ids, member.Member), append(next, member.Score)
	}
	return ids, next, err
}

// CountSchedulers counts the schedulers.
func (q *Store) CountSchedulers(ctx context.Context) (n int64, err error) {
	defer q.about("counting the schedulers", &err)
	return q.client.Do(ctx, q.client.B().Zcard().Key(q.keyOf("repeat")).Build()).AsInt64()
}
