package scripts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

var (
	updateJobScheduler = load("updateJobScheduler")
	addJobScheduler    = load("addJobScheduler")
	removeJobScheduler = load("removeJobScheduler")
	pauseJobScheduler  = load("pauseJobScheduler")
)

// UpdateJobScheduler adds the next job of a scheduler.
func (q *Store) UpdateJobScheduler(ctx context.Context, run backend.NextRun) (jobID string, err error) {
	every := ""
	if run.EveryMillis != 0 {
		every = strconv.FormatFloat(run.EveryMillis, 'f', -1, 64)
	}
	message, err := q.run(ctx, updateJobScheduler, q.base, run.SchedulerID, decimal(run.Now.UnixMilli()), run.ProducerID,
		optionalTime(run.Due), every, run.Opts, run.Data)
	var refused *rueidis.RedisError
	if errors.As(err, &refused) && strings.Contains(refused.Error(), "UNREADABLE") {
		return "", fmt.Errorf("%w: %w", backend.ErrUnreadable, err)
	}
	if err != nil || message.IsNil() {
		return "", err
	}
	return text(message), nil
}

// AddJobScheduler creates or updates a scheduler.
func (q *Store) AddJobScheduler(ctx context.Context, s backend.SchedulerAdd) (jobID string, delay time.Duration, err error) {
	r := s.Repeat
	offset := ""
	if r.Every != 0 {
		offset = optionalMillis(r.Offset)
	}
	message, err := q.run(ctx, addJobScheduler, q.base, s.ID, decimal(s.Now.UnixMilli()), s.Name, s.Data, s.Template, s.Opts,
		optionalTime(s.Due), optionalMillis(r.Every), r.Pattern, r.TimeZone, optionalNumber(r.Limit), optionalTime(r.StartDate),
		optionalTime(r.EndDate), offset, flag(s.Resume))
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
	reply := texts(message)
	if len(reply) != 2 {
		return "", 0, q.unexpected(addJobScheduler, nil)
	}
	delayMs, _ := strconv.ParseInt(reply[1], 10, 64)
	if reply[0] == "" && delayMs == 0 {
		return "", 0, backend.ErrSchedulerNotPaused
	}
	if reply[0] == "" {
		return "", 0, nil
	}
	return reply[0], time.Duration(delayMs) * time.Millisecond, nil
}

// RemoveJobScheduler removes a scheduler.
func (q *Store) RemoveJobScheduler(ctx context.Context, id string) (bool, error) {
	n, err := q.number(ctx, removeJobScheduler, "", q.base, id)
	return err == nil && n == 0, err
}

// PauseJobScheduler takes a scheduler out of the queue and keeps its record.
func (q *Store) PauseJobScheduler(ctx context.Context, id string, now time.Time) (bool, error) {
	n, err := q.number(ctx, pauseJobScheduler, "", q.base, id, decimal(now.UnixMilli()))
	return err == nil && n != 1, err
}

// PausedJobSchedulers reads the paused schedulers.
func (q *Store) PausedJobSchedulers(ctx context.Context, ids ...string) (_ []*backend.SchedulerRecord, err error) {
	defer q.about("the paused schedulers", &err)
	key := strings.TrimSuffix(q.base, ":") + "@x:paused-schedulers"
	stored := map[string]string{}
	if len(ids) == 0 {
		stored, err = q.client.Do(ctx, q.client.B().Hgetall().Key(key).Build()).AsStrMap()
		if err != nil {
			return nil, err
		}
	}
	for _, id := range ids {
		text, err := q.client.Do(ctx, q.client.B().Hget().Key(key).Field(id).Build()).ToString()
		switch {
		case err == nil:
			stored[id] = text
		case !rueidis.IsRedisNil(err):
			return nil, err
		}
	}
	var reads []rueidis.Completed
	ids = slices.Sorted(maps.Keys(stored))
	for _, id := range ids {
		reads = append(reads, q.client.B().Zscore().Key(q.keyOf("repeat")).Member(id).Build())
	}
	var paused []*backend.SchedulerRecord
	for i, result := range q.client.DoMulti(ctx, reads...) {
		if err := result.Error(); err == nil {
			continue // there is a new one with this id
		} else if !rueidis.IsRedisNil(err) {
			return nil, err
		}
		var parts []string
		if json.Unmarshal([]byte(stored[ids[i]]), &parts) != nil || len(parts) < 2 {
			continue // not written by this SDK
		}
		record := map[string]string{}
		for n := 2; n+1 < len(parts); n += 2 {
			record[parts[n]] = parts[n+1]
		}
		due, _ := strconv.ParseFloat(parts[0], 64)
		scheduler := readScheduler(ids[i], record, due)
		scheduler.PausedAt = wire.ParseTime(parts[1])
		paused = append(paused, scheduler)
	}
	return paused, nil
}

// JobScheduler reads a scheduler.
func (q *Store) JobScheduler(ctx context.Context, id string) (_ *backend.SchedulerRecord, err error) {
	defer q.about("scheduler "+id, &err)
	key := q.keyOf("repeat")
	results := q.client.DoMulti(ctx,
		q.client.B().Hgetall().Key(key+":"+id).Build(), q.client.B().Zscore().Key(key).Member(id).Build())
	record, err := results[0].AsStrMap()
	if err != nil {
		return nil, err
	}
	score, err := results[1].AsFloat64()
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, err
	}
	if err != nil || len(record) == 0 {
		return nil, nil
	}
	return readScheduler(id, record, score), nil
}

// JobSchedulers reads a page of the schedulers.
func (q *Store) JobSchedulers(ctx context.Context, page backend.Page) (_ []*backend.SchedulerRecord, err error) {
	defer q.about("the schedulers", &err)
	key := q.keyOf("repeat")
	from, to := int64(page.From), int64(page.To)
	query := q.client.B().Zrevrange().Key(key).Start(from).Stop(to).Withscores().Build()
	if page.Ascending {
		query = q.client.B().Zrange().Key(key).Min(decimal(from)).Max(decimal(to)).Withscores().Build()
	}
	members, err := q.client.Do(ctx, query).AsZScores()
	if err != nil {
		return nil, err
	}
	reads := make([]rueidis.Completed, len(members))
	for i, member := range members {
		reads[i] = q.client.B().Hgetall().Key(key + ":" + member.Member).Build()
	}
	schedulers := make([]*backend.SchedulerRecord, len(members))
	for i, result := range q.client.DoMulti(ctx, reads...) {
		record, err := result.AsStrMap()
		if err != nil {
			return nil, err
		}
		schedulers[i] = readScheduler(members[i].Member, record, members[i].Score)
	}
	return schedulers, nil
}

// CountJobSchedulers counts the schedulers.
func (q *Store) CountJobSchedulers(ctx context.Context) (_ int, err error) {
	defer q.about("counting the schedulers", &err)
	n, err := q.client.Do(ctx, q.client.B().Zcard().Key(q.keyOf("repeat")).Build()).AsInt64()
	return int(n), err
}

func readScheduler(id string, record map[string]string, next float64) *backend.SchedulerRecord {
	return &backend.SchedulerRecord{
		ID: id, Next: time.UnixMilli(int64(next)), Missing: len(record) == 0,
		Name: record["name"], Iterations: number(record["ic"]),
		Repeat: backend.SchedulerRepeat{
			Pattern: record["pattern"], TimeZone: record["tz"], Every: wire.ParseMillis(record["every"]),
			Offset: wire.ParseMillis(record["offset"]), Limit: number(record["limit"]),
			StartDate: wire.ParseTime(record["startDate"]), EndDate: wire.ParseTime(record["endDate"]),
		},
		HasOffset: record["offset"] != "", Data: validJSON(record["data"]), Opts: validJSON(record["opts"]),
	}
}
