package scripts

import (
	"context"
	"fmt"
	"strings"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

var (
	removeOrphanedJobs = load("removeOrphanedJobs")
	strandedJobs       = load("strandedJobs")
	joinPaused         = load("joinPaused")
)

// ScanKeys returns a page of the queue's keys, as SCAN does.
func (q *Store) ScanKeys(ctx context.Context, cursor uint64, count int) (keys []string, next uint64, err error) {
	scan := q.client.B().Scan().Cursor(cursor).Match(escapeGlob(q.base) + "*").Count(int64(count))
	page, err := q.client.Do(ctx, scan.Build()).AsScanEntry()
	if err != nil {
		return nil, 0, fmt.Errorf("bullmq: scan of %s: %w", shown(q.base), err)
	}
	return page.Elements, page.Cursor, nil
}

// escapeGlob escapes the characters that have a meaning in a pattern.
func escapeGlob(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}

// RemoveOrphanedJobs returns the ids, among those given, of jobs that have keys and are in no
// state of the queue. If remove is set, it deletes their keys.
func (q *Store) RemoveOrphanedJobs(ctx context.Context, ids []string, remove bool) ([]string, error) {
	return q.strings(ctx, removeOrphanedJobs, append([]string{q.base, flag(remove)}, ids...)...)
}

// StrandedJobs returns the ids, among those given, of unfinished jobs that are in no
// state of the queue. If putBack is set, they become ready, each in front of the previous one.
func (q *Store) StrandedJobs(ctx context.Context, ids []string, putBack bool) ([]backend.StrandedJob, error) {
	pairs, err := q.strings(ctx, strandedJobs, append([]string{q.base, flag(putBack)}, ids...)...)
	if err != nil {
		return nil, err
	}
	var found []backend.StrandedJob
	for i := 0; i+1 < len(pairs); i += 2 {
		found = append(found, backend.StrandedJob{ID: pairs[i], Timestamp: wire.ParseTime(pairs[i+1])})
	}
	return found, nil
}

// JoinPaused joins the lists "wait" and "paused" in cases in which no other client would do so.
func (q *Store) JoinPaused(ctx context.Context) error {
	_, err := q.number(ctx, joinPaused, "", q.base)
	return err
}

// RemovePriorityKey deletes the key in which BullMQ 3 and older kept jobs by
// priority, and reports whether it was there.
func (q *Store) RemovePriorityKey(ctx context.Context) (removed bool, err error) {
	defer q.about("deleting the key priority", &err)
	n, err := q.client.Do(ctx, q.client.B().Del().Key(q.base+"priority").Build()).AsInt64()
	return n > 0, err
}

var _ backend.Repairer = (*Store)(nil)
