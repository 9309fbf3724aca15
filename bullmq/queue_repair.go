package bullmq

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// repairer returns the queue's store as one that can be repaired.
func (q *Queue) repairer() (backend.Repairer, error) {
	if repairer, ok := q.core.store.(backend.Repairer); ok {
		return repairer, nil
	}
	return nil, fmt.Errorf("bullmq: repair queue %s: only a queue in Redis can lose jobs from its states; there is nothing to repair here", q.Name())
}

// FindOrphanedJobs returns the ids of jobs that have a hash or related keys but are in
// no state of the queue. An interrupted Obliterate, or clients of different versions, may
// leave such jobs. The jobs of [Queue.FindStrandedJobs] are among them. It scans all keys
// of the server. The states and the keys of a job are read at the same moment, so jobs that
// run or are removed meanwhile are not found.
//
// As in BullMQ, a job is not found if a scheduler has the same id. A job with the id 0 or 1
// is not found while the queue has a marker of that name.
func (q *Queue) FindOrphanedJobs(ctx context.Context) ([]string, error) {
	return q.orphans(ctx, 1000, 0, false)
}

// RemoveOrphanedJobsOptions configures [Queue.RemoveOrphanedJobs]. A nil pointer and
// the zero value select the defaults.
type RemoveOrphanedJobsOptions struct {
	// Count is the number of keys scanned in each call to Redis.
	// Defaults to 1000.
	Count int
	// Limit is the maximum number of jobs to remove.
	// Defaults to 0: all.
	Limit int
}

// RemoveOrphanedJobs removes the jobs that [Queue.FindOrphanedJobs] finds and returns
// their ids. It can't be undone, so check the result of FindOrphanedJobs first. options
// may be nil (BullMQ: removeOrphanedJobs).
func (q *Queue) RemoveOrphanedJobs(ctx context.Context, options *RemoveOrphanedJobsOptions) ([]string, error) {
	var o RemoveOrphanedJobsOptions
	if options != nil {
		o = *options
	}
	return q.orphans(ctx, o.Count, o.Limit, true)
}

func (q *Queue) orphans(ctx context.Context, count, limit int, remove bool) ([]string, error) {
	if err := cmp.Or(checkCount("Count", count, "1000 per call"), checkCount("Limit", limit, "all")); err != nil {
		return nil, fmt.Errorf("bullmq: no orphaned jobs of %s were removed: %w", q.Name(), err)
	}
	repairer, err := q.repairer()
	if err != nil {
		return nil, err
	}
	var found []string
	err = q.eachJobID(ctx, count, func(ids []string) (more bool, err error) {
		if left := limit - len(found); limit > 0 && len(ids) > left {
			// All of them may be orphans, so they are counted before some are removed.
			if ids, err = repairer.RemoveOrphanedJobs(ctx, ids, false); err != nil {
				return false, err
			}
			ids = ids[:min(left, len(ids))]
		}
		if len(ids) > 0 {
			orphans, err := repairer.RemoveOrphanedJobs(ctx, ids, remove)
			found = append(found, orphans...)
			if err != nil {
				return false, err
			}
		}
		return limit <= 0 || len(found) < limit, nil
	})
	return found, err
}

// eachJobID scans all keys of the server, count keys in each call. It passes the ids of the
// queue's jobs to each, and no id twice. It ends when each returns false. count defaults
// to 1000.
func (q *Queue) eachJobID(ctx context.Context, count int, each func(ids []string) (more bool, err error)) error {
	if count <= 0 {
		count = 1000
	}
	repairer, err := q.repairer()
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for cursor := uint64(0); ; {
		keys, next, err := repairer.ScanKeys(ctx, cursor, count)
		if err != nil {
			return err
		}
		var ids []string
		for _, key := range keys {
			if id, ok := q.core.keys.jobIDOf(key); ok && !seen[id] {
				seen[id] = true
				ids = append(ids, id)
			}
		}
		more, err := each(ids)
		if err != nil || !more {
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// FindStrandedJobs returns the ids of unfinished jobs that are in no state of the queue,
// oldest first. No worker can fetch them. Clients of BullMQ 5 cause such jobs if clients
// of BullMQ 6 or of this package use the same queue. To pause or resume a queue, BullMQ 5
// renames the list "wait" to "paused" or the reverse. This overwrites the jobs that other
// clients have put into the target list.
//
// FindStrandedJobs scans all keys of the server and changes nothing. Unlike
// [Queue.FindOrphanedJobs] it ignores finished jobs and incomplete records without a
// name, data and a timestamp.
func (q *Queue) FindStrandedJobs(ctx context.Context) ([]string, error) {
	repairer, err := q.repairer()
	if err != nil {
		return nil, err
	}
	var found []backend.StrandedJob
	err = q.eachJobID(ctx, 0, func(ids []string) (bool, error) {
		if len(ids) == 0 {
			return true, nil
		}
		stranded, err := repairer.StrandedJobs(ctx, ids, false)
		found = append(found, stranded...)
		return true, err
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(found, func(a, b backend.StrandedJob) int {
		// Generated ids are increasing numbers, so at equal times the shorter id is older.
		return cmp.Or(a.Timestamp.Compare(b.Timestamp), cmp.Compare(len(a.ID), len(b.ID)), strings.Compare(a.ID, b.ID))
	})
	ids := make([]string, len(found))
	for i, job := range found {
		ids[i] = job.ID
	}
	return ids, nil
}

// RepairPaused moves the jobs that [Queue.FindStrandedJobs] finds to the front of the
// waiting jobs, oldest first, and returns their ids.
//
// It also moves jobs that are in the wrong list:
//
//   - If the queue is not paused, jobs in the list "paused" move to "wait", because no
//     worker reads "paused".
//   - If the queue is paused, jobs in "wait" move to "paused" in the dialect [V5], because
//     BullMQ 5 would overwrite them when it resumes the queue.
//
// If jobs wait afterwards, an idle worker is woken.
//
// You can call RepairPaused while clients use the queue. Make sure that clients of BullMQ 5
// no longer pause and resume the queue, or jobs will be lost again.
func (q *Queue) RepairPaused(ctx context.Context) ([]string, error) {
	repairer, err := q.repairer()
	if err != nil {
		return nil, err
	}
	if err := repairer.JoinPaused(ctx); err != nil {
		return nil, err
	}
	ids, err := q.FindStrandedJobs(ctx)
	if err != nil {
		return nil, err
	}
	var back []string
	// Begin with the newest, because each job is placed before the previous one.
	slices.Reverse(ids)
	for some := range slices.Chunk(ids, 1000) {
		put, err := repairer.StrandedJobs(ctx, some, true)
		for _, job := range put {
			back = append(back, job.ID)
		}
		if err != nil {
			return back, err
		}
	}
	slices.Reverse(back)
	return back, nil
}
