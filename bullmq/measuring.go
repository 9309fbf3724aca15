package bullmq

import (
	"context"
	"strings"
)

// counted are the counters of what has become of jobs, by its name.
var counted = map[string]Metric{}

func init() {
	for _, state := range []string{"completed", "failed", "delayed", "retried", "waiting", "waiting-children"} {
		counted[state] = Metric{
			Name: "bullmq.jobs." + strings.ReplaceAll(state, "-", "_"), Description: "Number of jobs " + state, Unit: "1",
		}
	}
}

var (
	attemptsFailed = Metric{Name: "bullmq.jobs.attempts.failed", Description: "Number of failed attempts of jobs", Unit: "1"}

	jobDuration = Metric{Name: "bullmq.job.duration", Description: "Job processing duration", Unit: "ms", Kind: MetricHistogram}
	jobsByState = Metric{Name: "bullmq.queue.jobs", Description: "Number of jobs in the queue by state", Unit: "{jobs}", Kind: MetricGauge}
)

// measure counts what has become of a job, and how long it had run until then.
func (c *core) measure(ctx context.Context, job *Job, state string) {
	t := c.trace
	if t.telemetry == nil {
		return
	}
	if read, err := job.stored(ctx, "name", "processedOn"); err == nil {
		job = read
	}
	about := c.measured(job, state)
	t.telemetry.Record(ctx, counted[state], 1, about...)
	if !job.ProcessedOn.IsZero() {
		t.telemetry.Record(ctx, jobDuration, float64(c.nowMs()-job.ProcessedOn.UnixMilli()), about...)
	}
}

// measureFailure is measure, for an attempt that has failed. The counter of these
// is our own: in BullMQ's, a delay after a failure looks like any other.
func (c *core) measureFailure(ctx context.Context, job *Job, state string) {
	c.measure(ctx, job, state)
	if t := c.trace; t.telemetry != nil {
		t.telemetry.Record(ctx, attemptsFailed, 1, c.measured(job, state)...)
	}
}

// measured are the attributes of what has become of a job.
func (c *core) measured(job *Job, state string) []Attribute {
	return []Attribute{{attrQueueName, c.trace.queue}, {attrJobName, job.Name}, {attrJobState, state}}
}

// measureEnd is measure, for what a worker has decided.
func (w *Worker) measureEnd(ctx context.Context, job *Job, a action) {
	switch a {
	case complete:
		w.core.measure(ctx, job, "completed")
	case fail:
		w.core.measureFailure(ctx, job, "failed")
	case retryNow:
		w.core.measureFailure(ctx, job, "retried")
	case retryLater:
		w.core.measureFailure(ctx, job, "delayed")
	case giveBackLater, heldBack:
		w.core.measure(ctx, job, "delayed")
	case limited, giveBack:
		w.core.measure(ctx, job, "waiting")
	}
}

// RecordCounts is Counts, and has the queue's Telemetry measure the numbers as
// the gauge bullmq.queue.jobs; call it from time to time (BullMQ:
// recordJobCountsMetric).
func (q *Queue) RecordCounts(ctx context.Context, states ...State) (map[State]int64, error) {
	counts, err := q.Counts(ctx, states...)
	if t := q.core.trace; t.telemetry != nil {
		for state, n := range counts {
			t.telemetry.Record(ctx, jobsByState, float64(n), Attribute{attrQueueName, t.queue}, Attribute{attrQueueJobsState, string(state)})
		}
	}
	return counts, err
}
