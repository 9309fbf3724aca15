package scripts

import (
	"context"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

var (
	updateProgress         = load("updateProgress")
	updateData             = load("updateData")
	addLog                 = load("addLog")
	promote                = load("promote")
	changeDelay            = load("changeDelay")
	changePriority         = load("changePriority")
	reprocessJob           = load("reprocessJob")
	getState               = load("getState")
	getJob                 = load("getJob")
	isFinished             = load("isFinished")
	removeJob              = load("removeJob")
	removeDeduplicationKey = load("removeDeduplicationKey")
)

// Job reads a job. It returns nil if there is none.
func (q *Store) Job(ctx context.Context, jobID string) (record *backend.JobRecord, err error) {
	defer q.about("job "+jobID, &err)
	return readRecord(jobID, q.client.Do(ctx, q.client.B().Hgetall().Key(q.base+jobID).Build()))
}

// summary has the fields that Summary reads.
var summary = []string{"name", "opts", "atm", "attemptsMade", "ats", "processedOn", "deid", "stc"}

// Summary reads a job without its data and its results. It returns nil if there is none.
func (q *Store) Summary(ctx context.Context, jobID string) (record *backend.JobRecord, err error) {
	defer q.about("job "+jobID, &err)
	at := q.base + jobID
	results := q.client.DoMulti(ctx,
		q.client.B().Hmget().Key(at).Field(summary...).Build(), q.client.B().Exists().Key(at).Build())
	values, err := results[0].ToArray()
	if err != nil {
		return nil, err
	}
	var hash []string
	for i, value := range values[:min(len(values), len(summary))] {
		if !value.IsNil() {
			hash = append(hash, summary[i], text(value))
		}
	}
	if number, err := results[1].AsInt64(); err != nil || number == 0 {
		return nil, err
	}
	return Record(jobID, hash), nil
}

// State returns the state of a job.
func (q *Store) State(ctx context.Context, jobID string) (backend.State, error) {
	message, err := q.run(ctx, getState, q.base, jobID)
	if err != nil {
		return "", err
	}
	return backend.State(text(message)), nil
}

// JobAndState reads a job and its state as of one moment. If position is set, it also returns
// the id of the last event. The record is nil if there is no such job.
func (q *Store) JobAndState(ctx context.Context, jobID string, position bool) (*backend.JobRecord, backend.State, string, error) {
	message, err := q.run(ctx, getJob, q.base, jobID, flag(position))
	if err != nil {
		return nil, "", "", err
	}
	reply, err := message.ToArray()
	if err != nil || len(reply) < 3 {
		return nil, "", "", q.unexpected(getJob, err)
	}
	var record *backend.JobRecord
	if hash := texts(reply[1]); len(hash) > 0 {
		record = Record(jobID, hash)
	}
	return record, backend.State(text(reply[0])), text(reply[2]), nil
}

// outcomes are the replies of isFinished.
var outcomes = map[int64]backend.State{-1: backend.Unknown, 1: backend.Completed, 2: backend.Failed}

// Outcome returns the outcome of a job (BullMQ: isFinished).
func (q *Store) Outcome(ctx context.Context, jobID string) (backend.Outcome, error) {
	message, err := q.run(ctx, isFinished, q.base, jobID)
	if err != nil {
		return backend.Outcome{}, err
	}
	reply, err := message.ToArray()
	if err != nil || len(reply) == 0 {
		return backend.Outcome{}, q.unexpected(isFinished, err)
	}
	n, err := reply[0].AsInt64()
	if err != nil {
		return backend.Outcome{}, q.unexpected(isFinished, err)
	}
	outcome := backend.Outcome{State: outcomes[n]}
	if len(reply) > 1 {
		outcome.Value = text(reply[1])
	}
	return outcome, nil
}

// UpdateProgress replaces a job's progress.
func (q *Store) UpdateProgress(ctx context.Context, jobID, progress string) error {
	_, err := q.number(ctx, updateProgress, jobID, q.base, jobID, progress)
	return err
}

// UpdateData replaces a job's data.
func (q *Store) UpdateData(ctx context.Context, jobID, data string) error {
	_, err := q.number(ctx, updateData, jobID, q.base, jobID, data)
	return err
}

// AddLog adds a row to a job's log and returns the number of rows.
func (q *Store) AddLog(ctx context.Context, jobID, row string, keep int) (int, error) {
	kept := ""
	if keep > 0 {
		kept = decimal(int64(keep))
	}
	n, err := q.number(ctx, addLog, jobID, q.base, jobID, row, kept)
	return int(n), err
}

// Logs reads a range of a job's log, oldest first, and the total number of rows.
func (q *Store) Logs(ctx context.Context, jobID string, from, to int) (rows []string, total int, err error) {
	defer q.about("the log of job "+jobID, &err)
	at := q.base + jobID + ":logs"
	results := q.client.DoMulti(ctx,
		q.client.B().Lrange().Key(at).Start(int64(from)).Stop(int64(to)).Build(), q.client.B().Llen().Key(at).Build())
	if rows, err = results[0].AsStrSlice(); err != nil {
		return nil, 0, err
	}
	n, err := results[1].AsInt64()
	return rows, int(n), err
}

// ClearLogs removes a job's log except the newest keep rows.
func (q *Store) ClearLogs(ctx context.Context, jobID string, keep int) (err error) {
	defer q.about("clearing the log of job "+jobID, &err)
	at := q.base + jobID + ":logs"
	if keep > 0 {
		return q.client.Do(ctx, q.client.B().Ltrim().Key(at).Start(-int64(keep)).Stop(-1).Build()).Error()
	}
	return q.client.Do(ctx, q.client.B().Del().Key(at).Build()).Error()
}

// Promote makes a delayed job ready at once.
func (q *Store) Promote(ctx context.Context, jobID string) error {
	_, err := q.number(ctx, promote, jobID, q.base, jobID)
	return err
}

// ChangeDelay gives a delayed job another delay, counted from now.
func (q *Store) ChangeDelay(ctx context.Context, jobID string, now time.Time, delay time.Duration) error {
	_, err := q.number(ctx, changeDelay, jobID, q.base, jobID, decimal(now.UnixMilli()), wire.FormatMillis(delay))
	return err
}

// ChangePriority gives a job another priority.
func (q *Store) ChangePriority(ctx context.Context, jobID string, priority int, lifo bool) error {
	_, err := q.number(ctx, changePriority, jobID, q.base, jobID, decimal(int64(priority)), flag(lifo))
	return err
}

// Reprocess moves a finished job back to waiting.
func (q *Store) Reprocess(ctx context.Context, jobID string, r backend.Reprocess) error {
	result := "returnvalue"
	if r.From == backend.Failed {
		result = "failedReason"
	}
	_, err := q.number(ctx, reprocessJob, jobID, q.base, jobID, string(r.From), result, pushEnd(r.LIFO),
		flag(r.ResetAttemptsMade), flag(r.ResetAttemptsStarted))
	return err
}

// Remove removes a job and, if children is set, its children.
func (q *Store) Remove(ctx context.Context, jobID string, children bool) (backend.RemoveOutcome, error) {
	n, err := q.number(ctx, removeJob, jobID, q.base, jobID, flag(children))
	return backend.RemoveOutcome(n), err
}

// RemoveDeduplicationKey frees a deduplication id if the job owns it.
func (q *Store) RemoveDeduplicationKey(ctx context.Context, deduplicationID, jobID string) (bool, error) {
	n, err := q.number(ctx, removeDeduplicationKey, jobID, q.base, deduplicationID, jobID)
	return n > 0, err
}
