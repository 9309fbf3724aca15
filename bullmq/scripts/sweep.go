package scripts

import (
	"context"
	"strconv"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

var (
	drain          = load("drain")
	clean          = load("clean")
	obliterate     = load("obliterate")
	removeUnused   = load("removeUnused")
	moveJobsToWait = load("moveJobsToWait")
)

// Drain removes all waiting jobs.
func (q *Store) Drain(ctx context.Context, delayed bool, count int) (again bool, err error) {
	n, err := q.number(ctx, drain, "", q.base, flag(delayed), strconv.Itoa(count))
	return n == 1, err
}

// Clean removes old jobs of a state.
func (q *Store) Clean(ctx context.Context, state backend.State, before time.Time, limit int) ([]string, error) {
	return q.strings(ctx, clean, q.base, decimal(before.UnixMilli()), strconv.Itoa(limit), stateKey(state))
}

// Obliterate removes the paused queue with all its jobs.
func (q *Store) Obliterate(ctx context.Context, count int, force bool) (again bool, err error) {
	message, err := q.run(ctx, obliterate, q.base, strconv.Itoa(count), flag(force))
	if err != nil {
		return false, err
	}
	switch n, err := message.AsInt64(); {
	case err != nil:
		return false, q.unexpected(obliterate, err)
	case n == -1:
		return false, backend.ErrNotPaused
	case n == -2:
		return false, backend.ErrActiveJobs
	default:
		return n == 1, nil
	}
}

// RemoveUnused removes a queue without schedulers and jobs.
func (q *Store) RemoveUnused(ctx context.Context, count int, finished bool) (used, again bool, err error) {
	n, err := q.number(ctx, removeUnused, "", q.base, strconv.Itoa(count), flag(finished))
	return n == 2, n == 1, err
}

// MoveJobsToWait moves jobs of a state back to waiting.
func (q *Store) MoveJobsToWait(ctx context.Context, m backend.MoveJobs) (again bool, err error) {
	until := "+inf"
	if !m.Until.IsZero() {
		until = decimal(m.Until.UnixMilli())
	}
	n, err := q.number(ctx, moveJobsToWait, "", q.base, stateKey(m.From), strconv.Itoa(m.Count), until,
		flag(m.ResetAttemptsMade), flag(m.ResetAttemptsStarted))
	return n == 1, err
}
