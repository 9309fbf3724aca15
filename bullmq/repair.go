package bullmq

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/17a2ac88/bullmq-go/bullmq/scripts"
)

// FindStrandedJobs answers jobs that were to run and stand in no state of the
// queue, so that no worker will ever find them; oldest first. Clients of BullMQ 5
// leave such jobs behind where BullMQ 6 or its like works on the same queue: their
// pause and resume rename the lists wait and paused over each other, and what
// stood in the list that goes is lost from both. It looks at all keys of the
// server, and changes nothing.
//
// Unlike FindOrphanedJobs it passes over jobs that have ended, and remains of
// jobs without a name, data and a timestamp.
func (q *Queue) FindStrandedJobs(ctx context.Context) ([]string, error) {
	var found []scripts.Stranded
	err := q.eachJobID(ctx, 0, func(ids []string) (bool, error) {
		if len(ids) == 0 {
			return true, nil
		}
		stranded, err := q.core.store.Stranded(ctx, ids, false)
		found = append(found, stranded...)
		return true, err
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(found, func(a, b scripts.Stranded) int {
		// Ids made by the queue are numbers, and grow; among equal times the shorter is older.
		return cmp.Or(parseTime(a.Timestamp).Compare(parseTime(b.Timestamp)), cmp.Compare(len(a.JobID), len(b.JobID)), strings.Compare(a.JobID, b.JobID))
	})
	ids := make([]string, len(found))
	for i, job := range found {
		ids[i] = job.JobID
	}
	return ids, nil
}

// RepairPaused puts the jobs that FindStrandedJobs finds back to run, before all
// that wait, oldest first, and answers which they were. It also brings together
// what stands apart: jobs in the list paused of a queue that isn't paused, where
// no worker looks, go to wait; and with V5, while the queue is paused, those in
// wait go to paused, for BullMQ 5 would overwrite them when it resumes. An idle
// worker is woken for what waits.
//
// It may be called while clients work. Stop those of BullMQ 5 from pausing and
// resuming, or it happens again.
func (q *Queue) RepairPaused(ctx context.Context) ([]string, error) {
	if _, err := q.core.store.JoinPaused(ctx); err != nil {
		return nil, err
	}
	ids, err := q.FindStrandedJobs(ctx)
	if err != nil {
		return nil, err
	}
	var back []string
	// From the newest on, since each goes in front of the one before it.
	slices.Reverse(ids)
	for some := range slices.Chunk(ids, 1000) {
		put, err := q.core.store.Stranded(ctx, some, true)
		for _, job := range put {
			back = append(back, job.JobID)
		}
		if err != nil {
			return back, err
		}
	}
	slices.Reverse(back)
	return back, nil
}
