package bullmq

import (
	"context"
	"fmt"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// TimingQuery selects the jobs whose timings [Queue.Timings] reads. The zero value selects the
// newest 1,000.
type TimingQuery struct {
	// Limit is the maximum number of jobs to read.
	// Defaults to 1,000.
	Limit int
	// Since leaves out jobs that finished before this time.
	// Defaults to no limit.
	Since time.Time
}

// QueueTimings are the timings of finished jobs of a queue.
type QueueTimings struct {
	// Jobs are the jobs, the one that finished last first.
	Jobs []JobTiming
	// More reports that older jobs were left out because of Limit.
	More bool
	// Unknown is the number of jobs that were left out because their times are not stored, such
	// as those that failed without being started.
	Unknown int
}

// JobTiming tells how long a finished job has waited and run.
type JobTiming struct {
	ID, Name     string // Name has at most the first 500 bytes
	State        State  // StateCompleted or StateFailed
	AttemptsMade int
	ProcessedOn  time.Time // start of the last attempt
	FinishedOn   time.Time
	// Wait is the time from when the job was ready until ProcessedOn. A job is ready when it is
	// added, or at the end of the delay with which it was added. So if AttemptsMade is more than
	// 1, Wait includes the earlier attempts and the backoff, and for a parent it includes the
	// wait for the children. Redis stores no other times.
	Wait time.Duration
	// Run is the time from ProcessedOn to FinishedOn: the duration of the last attempt.
	Run time.Duration
}

const (
	timingsLimit   = 1000
	timingsPerCall = 1000
)

// Timings returns how long the newest finished jobs of the queue have waited and run, for
// percentiles by time and by name. It reads only a few fields of each job, by one call for
// 1,000 jobs. It also works on queues that only Node clients use.
//
// It is based on the completed and failed jobs that the queue still has. With a small
// KeepCompleted or KeepFailed these are few jobs, and none with [KeepNone]. If completed jobs
// are kept for a shorter time than failed ones, the older part consists of failed jobs only.
// For lasting measurements use a [Telemetry]. The times are those of the clocks of the
// programs that added and ran the jobs; a negative duration counts as 0.
func (q *Queue) Timings(ctx context.Context, query TimingQuery) (*QueueTimings, error) {
	if err := checkCount("Limit", query.Limit, "1,000"); err != nil {
		return nil, fmt.Errorf("bullmq: timings of queue %s were not read: %w", q.Name(), err)
	}
	limit := query.Limit
	if limit == 0 {
		limit = timingsLimit
	}
	timings, seen := &QueueTimings{More: true}, map[string]bool{} // a job may be read again if others finish in the meantime
	for from := (backend.TimingsFrom{}); limit > 0; {
		max := min(limit, timingsPerCall)
		jobs, next, err := q.core.store.Timings(ctx, from, max)
		if err != nil {
			return nil, err
		}
		for _, job := range jobs {
			if job.FinishedOn.Before(query.Since) {
				timings.More = false
				return timings, nil
			}
			if !seen[job.ID] {
				seen[job.ID] = true
				timings.add(job)
			}
		}
		looked := next.Completed - from.Completed + next.Failed - from.Failed
		if looked < max {
			timings.More = false
			return timings, nil
		}
		limit, from = limit-looked, next
	}
	return timings, nil
}

func (t *QueueTimings) add(job backend.JobTiming) {
	if job.Ready.IsZero() || job.ProcessedOn.IsZero() || job.FinishedOn.IsZero() {
		t.Unknown++
		return
	}
	t.Jobs = append(t.Jobs, JobTiming{
		ID: job.ID, Name: job.Name, State: State(job.State), AttemptsMade: job.AttemptsMade, ProcessedOn: job.ProcessedOn, FinishedOn: job.FinishedOn,
		Wait: max(job.ProcessedOn.Sub(job.Ready), 0), Run: max(job.FinishedOn.Sub(job.ProcessedOn), 0),
	})
}
