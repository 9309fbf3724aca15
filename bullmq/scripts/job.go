package scripts

import (
	"context"

	"github.com/redis/rueidis"
)

var (
	updateProgress = load("updateProgress")
	updateData     = load("updateData")
	addLog         = load("addLog")
	promote        = load("promote")
	changeDelay    = load("changeDelay")
	changePriority = load("changePriority")
	reprocessJob   = load("reprocessJob")
	getState       = load("getState")
	isFinished     = load("isFinished")
)

// UpdateProgress writes how far a job is; progress is JSON.
func (q *Store) UpdateProgress(ctx context.Context, jobID, progress string) error {
	_, err := q.number(ctx, updateProgress, jobID, q.base, jobID, progress)
	return err
}

// UpdateData replaces a job's data; data is JSON.
func (q *Store) UpdateData(ctx context.Context, jobID, data string) error {
	_, err := q.number(ctx, updateData, jobID, q.base, jobID, data)
	return err
}

// AddLog adds a row to a job's log, keeps the newest keep rows (0 for all),
// and answers how many there are.
func (q *Store) AddLog(ctx context.Context, jobID, row string, keep int64) (int64, error) {
	kept := ""
	if keep > 0 {
		kept = decimal(keep)
	}
	return q.number(ctx, addLog, jobID, q.base, jobID, row, kept)
}

// Promote makes a delayed job ready now.
func (q *Store) Promote(ctx context.Context, jobID string) error {
	_, err := q.number(ctx, promote, jobID, q.base, jobID)
	return err
}

// ChangeDelay gives a delayed job another delay, counted from now.
func (q *Store) ChangeDelay(ctx context.Context, jobID string, nowMs int64, delayMs string) error {
	_, err := q.number(ctx, changeDelay, jobID, q.base, jobID, decimal(nowMs), delayMs)
	return err
}

// ChangePriority gives a job another priority, 0 for none.
func (q *Store) ChangePriority(ctx context.Context, jobID string, priority int64, lifo bool) error {
	_, err := q.number(ctx, changePriority, jobID, q.base, jobID, decimal(priority), flag(lifo))
	return err
}

// Reprocess sends a job that has ended back to run again. failed says in
// which of the two states it is.
func (q *Store) Reprocess(ctx context.Context, jobID string, failed, next, resetMade, resetStarted bool) error {
	state, field := "completed", "returnvalue"
	if failed {
		state, field = "failed", "failedReason"
	}
	_, err := q.number(ctx, reprocessJob, jobID, q.base, jobID, state, field, pushEnd(next), flag(resetMade), flag(resetStarted))
	return err
}

// State answers where a job stands: completed, failed, delayed, prioritized,
// active, waiting, waiting-children or unknown.
func (q *Store) State(ctx context.Context, jobID string) (string, error) {
	message, err := q.run(ctx, getState, q.base, jobID)
	if err != nil {
		return "", err
	}
	return text(message), nil
}

// Outcome is how a job ended.
type Outcome int

// The answers of Finished.
const (
	Missing   Outcome = -1
	Pending   Outcome = 0
	Completed Outcome = 1
	Failed    Outcome = 2
)

// Finished answers whether and how a job has ended, with its return value
// (JSON) or its reason (plain text).
func (q *Store) Finished(ctx context.Context, jobID string) (Outcome, string, error) {
	message, err := q.run(ctx, isFinished, q.base, jobID)
	if err != nil {
		return 0, "", err
	}
	answer, err := message.ToArray()
	if err != nil || len(answer) == 0 {
		return 0, "", q.unexpected(isFinished, err)
	}
	outcome, err := answer[0].AsInt64()
	if err != nil {
		return 0, "", q.unexpected(isFinished, err)
	}
	value := ""
	if len(answer) > 1 {
		value = text(answer[1])
	}
	return Outcome(outcome), value, nil
}

// Logs reads a range of a job's log, oldest first, and how many rows there are.
func (q *Store) Logs(ctx context.Context, jobID string, from, to int64) (rows []string, count int64, err error) {
	defer q.about("the log of job "+jobID, &err)
	at := q.base + jobID + ":logs"
	results := q.client.DoMulti(ctx,
		q.client.B().Lrange().Key(at).Start(from).Stop(to).Build(), q.client.B().Llen().Key(at).Build())
	if rows, err = results[0].AsStrSlice(); err != nil {
		return nil, 0, err
	}
	count, err = results[1].AsInt64()
	return rows, count, err
}

// ClearLogs removes a job's log but for the newest keep rows.
func (q *Store) ClearLogs(ctx context.Context, jobID string, keep int64) (err error) {
	defer q.about("clearing the log of job "+jobID, &err)
	at := q.base + jobID + ":logs"
	if keep > 0 {
		return q.client.Do(ctx, q.client.B().Ltrim().Key(at).Start(-keep).Stop(-1).Build()).Error()
	}
	return q.client.Do(ctx, q.client.B().Del().Key(at).Build()).Error()
}

// Hash reads a job's hash; empty when there is no such job.
func (q *Store) Hash(ctx context.Context, jobID string) (hash []string, err error) {
	defer q.about("job "+jobID, &err)
	return fieldsOf(q.client.Do(ctx, q.client.B().Hgetall().Key(q.base+jobID).Build()))
}

// Fields reads some fields of a job's hash, those that it has, as field, value …;
// found is false when there is no such job.
func (q *Store) Fields(ctx context.Context, jobID string, fields ...string) (hash []string, found bool, err error) {
	defer q.about("job "+jobID, &err)
	at := q.base + jobID
	results := q.client.DoMulti(ctx,
		q.client.B().Hmget().Key(at).Field(fields...).Build(), q.client.B().Exists().Key(at).Build())
	values, err := results[0].ToArray()
	if err != nil {
		return nil, false, err
	}
	for i, value := range values[:min(len(values), len(fields))] {
		if !value.IsNil() {
			hash = append(hash, fields[i], text(value))
		}
	}
	number, err := results[1].AsInt64()
	return hash, number > 0, err
}

// Hashes reads the hashes of jobs, of any queues, by their keys.
func (q *Store) Hashes(ctx context.Context, keys []string) (hashes [][]string, err error) {
	defer q.about("reading jobs for a job", &err)
	commands := make([]rueidis.Completed, len(keys))
	for i, key := range keys {
		commands[i] = q.client.B().Hgetall().Key(key).Build()
	}
	hashes = make([][]string, len(keys))
	for i, result := range q.client.DoMulti(ctx, commands...) {
		if hashes[i], err = fieldsOf(result); err != nil {
			return nil, err
		}
	}
	return hashes, nil
}

// fieldsOf are a hash's fields: name, value, name, value …
func fieldsOf(result rueidis.RedisResult) ([]string, error) {
	fields, err := result.AsStrMap()
	if err != nil {
		return nil, err
	}
	hash := make([]string, 0, 2*len(fields))
	for field, value := range fields {
		hash = append(hash, field, value)
	}
	return hash, nil
}
