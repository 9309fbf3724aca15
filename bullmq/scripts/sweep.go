package scripts

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

var (
	drain                     = load("drain")
	clean                     = load("clean")
	obliterate                = load("obliterate")
	moveJobsToWait            = load("moveJobsToWait")
	removeJob                 = load("removeJob")
	removeUnprocessedChildren = load("removeUnprocessedChildren")
	removeChildDependency     = load("removeChildDependency")
	removeDeduplicationKey    = load("removeDeduplicationKey")
	removeOrphanedJobs        = load("removeOrphanedJobs")
	strandedJobs              = load("strandedJobs")
	joinPaused                = load("joinPaused")
)

// Drain removes all jobs that wait.
func (q *Store) Drain(ctx context.Context, delayed bool) error {
	_, err := q.number(ctx, drain, "", q.base, flag(delayed))
	return err
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

// MoveJobsToWait moves jobs of a state back to wait.
func (q *Store) MoveJobsToWait(ctx context.Context, m backend.MoveJobs) (again bool, err error) {
	until := "+inf"
	if !m.Until.IsZero() {
		until = decimal(m.Until.UnixMilli())
	}
	n, err := q.number(ctx, moveJobsToWait, "", q.base, stateKey(m.From), strconv.Itoa(m.Count), until,
		flag(m.ResetAttemptsMade), flag(m.ResetAttemptsStarted))
	return n == 1, err
}

// RemoveOutcome is what a removal did.
type RemoveOutcome int

// The outcomes of Remove.
const (
	Locked   RemoveOutcome = 0 // a worker holds the job or one of its children; nothing was removed
	Removed  RemoveOutcome = 1
	NotFound RemoveOutcome = 2 // there is no such job
)

// Remove removes a job and, if children is set, its children.
func (q *Store) Remove(ctx context.Context, jobID string, children bool) (RemoveOutcome, error) {
	n, err := q.number(ctx, removeJob, jobID, q.base, jobID, flag(children))
	return RemoveOutcome(n), err
}

// RemoveUnprocessedChildren removes children that have neither ended nor run.
func (q *Store) RemoveUnprocessedChildren(ctx context.Context, jobID string) error {
	_, err := q.number(ctx, removeUnprocessedChildren, jobID, q.base, jobID)
	return err
}

// RemoveChildDependency ends the bond of a pending child; false without one.
func (q *Store) RemoveChildDependency(ctx context.Context, jobID string) (bool, error) {
	n, err := q.number(ctx, removeChildDependency, jobID, q.base, jobID)
	return err == nil && n == 0, err
}

// RemoveDedup frees a deduplication id, if that job owns it.
func (q *Store) RemoveDedup(ctx context.Context, dedupID, jobID string) (bool, error) {
	n, err := q.number(ctx, removeDeduplicationKey, jobID, q.base, dedupID, jobID)
	return n > 0, err
}

// Orphans answers those of some ids that stand in no state of the queue, and
// deletes what there is of them if told to.
func (q *Store) Orphans(ctx context.Context, ids []string, remove bool) ([]string, error) {
	return q.strings(ctx, removeOrphanedJobs, append([]string{q.base, flag(remove)}, ids...)...)
}

// Stranded is a job that was to run and stands in no state of the queue.
type Stranded struct {
	JobID     string
	Timestamp string // ms, as its hash has it
}

// Stranded answers those of some ids that are stranded; with putBack it makes
// them ready, each in front of the one before it.
func (q *Store) Stranded(ctx context.Context, ids []string, putBack bool) ([]Stranded, error) {
	pairs, err := q.strings(ctx, strandedJobs, append([]string{q.base, flag(putBack)}, ids...)...)
	if err != nil {
		return nil, err
	}
	var found []Stranded
	for i := 0; i+1 < len(pairs); i += 2 {
		found = append(found, Stranded{pairs[i], pairs[i+1]})
	}
	return found, nil
}

// JoinPaused brings the lists wait and paused together where nobody else would,
// and answers how many jobs it moved.
func (q *Store) JoinPaused(ctx context.Context) (int64, error) {
	return q.number(ctx, joinPaused, "", q.base)
}

// Scan answers a page of the queue's keys, as SCAN does.
func (q *Store) Scan(ctx context.Context, cursor uint64, pattern string, count int64) (keys []string, next uint64, err error) {
	page, err := q.client.Do(ctx, q.client.B().Scan().Cursor(cursor).Match(pattern).Count(count).Build()).AsScanEntry()
	if err != nil {
		return nil, 0, fmt.Errorf("bullmq: scan of %s: %w", shown(q.base), err)
	}
	return page.Elements, page.Cursor, nil
}
