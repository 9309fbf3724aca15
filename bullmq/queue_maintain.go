package bullmq

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// Errors of [Queue.Obliterate].
var (
	// ErrNotPaused means that another client resumed the queue during the call.
	ErrNotPaused = backend.ErrNotPaused
	// ErrActiveJobs means that jobs run. ObliterateOptions.Force removes them too.
	ErrActiveJobs = backend.ErrActiveJobs
)

// DrainOptions configures [Queue.Drain]. A nil pointer and the zero value select the
// defaults.
type DrainOptions struct {
	// Delayed removes delayed jobs too.
	Delayed bool
}

// Drain removes all waiting and prioritized jobs. Running jobs and the next job of each
// scheduler are not removed. options may be nil (BullMQ: drain).
//
// Drain removes about 5,000 jobs in each call to Redis, so that other clients are served
// in between. It also removes jobs that are added meanwhile.
func (q *Queue) Drain(ctx context.Context, options *DrainOptions) (err error) {
	var o DrainOptions
	if options != nil {
		o = *options
	}
	ctx, span := q.core.trace.start(ctx, SpanInternal, "drain")
	defer span.end(&err)
	setAttr(span, attrQueueDrainDelayed, o.Delayed)
	for {
		if again, err := q.core.store.Drain(ctx, o.Delayed, drainPage); err != nil || !again {
			return err
		}
	}
}

// cleanStates are the states that Clean supports.
var cleanStates = []State{StateCompleted, StateFailed, StateWaiting, StateActive, StateDelayed, StatePrioritized, StateWaitingChildren, StatePaused}

// Numbers of jobs in a call to Redis.
const (
	cleanPage = 10000
	drainPage = 5000
)

// CleanOptions configures [Queue.Clean]. A nil pointer and the zero value select the
// defaults.
type CleanOptions struct {
	// State is the state of the jobs. On a queue of BullMQ 5, waiting jobs are in StatePaused
	// while the queue is paused; StateWaiting does not include them, as in BullMQ.
	// Defaults to StateCompleted.
	State State
	// Grace is the minimum age of the jobs, in whole milliseconds.
	// Defaults to 0: jobs of any age.
	Grace time.Duration
	// Limit is the maximum number of jobs to remove.
	// Defaults to 0: all.
	Limit int
}

// Clean removes jobs of one state, the oldest first, and returns their ids. Active jobs
// are removed only if no worker holds them. options may be nil (BullMQ: clean).
//
// Clean examines up to 10,000 jobs in each call to Redis, and no more than Limit in all. As
// in BullMQ, it ends after a call that did not remove all the jobs that it examined. A job
// is not removed if it is younger than Grace, if a worker holds it, or if it is the next
// job of a scheduler. The jobs that were not examined then stay as well.
func (q *Queue) Clean(ctx context.Context, options *CleanOptions) (removed []string, err error) {
	var o CleanOptions
	if options != nil {
		o = *options
	}
	ctx, span := q.core.trace.start(ctx, SpanInternal, "clean")
	defer span.end(&err)
	grace, limit, state := o.Grace, o.Limit, cmp.Or(o.State, StateCompleted)
	given := state
	defer func() { describeClean(span, grace, limit, given, len(removed)) }()
	if state == "wait" {
		state = StateWaiting
	}
	if !slices.Contains(cleanStates, state) {
		return nil, fmt.Errorf("bullmq: jobs can't be cleaned by the state %q; use one of %v", state, cleanStates)
	}
	if err := cmp.Or(checkMillis("Grace", grace, 0), checkCount("Limit", limit, "all")); err != nil {
		return nil, fmt.Errorf("bullmq: queue %s was not cleaned: %w", q.Name(), err)
	}
	before := time.UnixMilli(q.core.nowMs() - grace.Milliseconds())
	removed = []string{}
	for limit == 0 || len(removed) < limit {
		page := cleanPage
		if limit > 0 {
			page = min(page, limit-len(removed))
		}
		ids, err := q.core.store.Clean(ctx, backend.State(state), before, page)
		removed = append(removed, ids...)
		if err != nil || len(ids) < page {
			return removed, err
		}
	}
	return removed, nil
}

func describeClean(s span, grace time.Duration, limit int, state State, removed int) {
	setAttr(s, attrQueueGrace, grace.Milliseconds())
	setAttr(s, attrJobType, string(state))
	if limit > 0 {
		setAttr(s, attrQueueCleanLimit, limit)
	} else {
		setAttr(s, attrQueueCleanLimit, math.Inf(1)) // BullMQ's value for no limit
	}
	setAttr(s, attrQueueCleanCount, removed)
}

// ObliterateOptions configures [Queue.Obliterate]. A nil pointer and the zero value
// select the defaults.
type ObliterateOptions struct {
	// Force removes the queue even while jobs run.
	Force bool
	// Count is the number of jobs removed in each call to Redis.
	// Defaults to 1000.
	Count int
}

// Obliterate pauses the queue and removes it with all its data (BullMQ: obliterate). It
// returns [ErrActiveJobs] while jobs run, unless ObliterateOptions.Force is set. options
// may be nil. A queue of a [Registry] also leaves the registry.
func (q *Queue) Obliterate(ctx context.Context, options *ObliterateOptions) (err error) {
	ctx, span := q.core.trace.start(ctx, SpanInternal, "obliterate")
	defer span.end(&err)
	var o ObliterateOptions
	if options != nil {
		o = *options
	}
	if err := checkCount("Count", o.Count, "1000 per call"); err != nil {
		return fmt.Errorf("bullmq: queue %s was not obliterated: %w", q.Name(), err)
	}
	if o.Count == 0 {
		o.Count = 1000
	}
	if err := q.Pause(ctx); err != nil {
		return err
	}
	for {
		again, err := q.core.store.Obliterate(ctx, o.Count, o.Force)
		if err != nil {
			return err
		}
		if !again {
			return q.entry.remove(ctx)
		}
	}
}

// RetryJobsOptions configures [Queue.RetryJobs]. A nil pointer and the zero value select
// the defaults.
type RetryJobsOptions struct {
	// State is StateFailed or StateCompleted.
	// Defaults to StateFailed.
	State State
	// Until selects the jobs that finished before this time.
	// Defaults to now.
	Until time.Time
	// Count is the number of jobs moved in each call to Redis.
	// Defaults to 1000.
	Count int
	// ResetAttemptsMade and ResetAttemptsStarted reset the jobs' counts of attempts
	// and starts, as RetryOptions do for one job. BullMQ has these options for one job
	// only. Without ResetAttemptsMade, a job without attempts left gets one more.
	ResetAttemptsMade    bool
	ResetAttemptsStarted bool
}

// text returns the options that are set, as JSON.
func (o *RetryJobsOptions) text() string {
	var given struct {
		State                State `json:"state,omitempty"`
		Count                int   `json:"count,omitempty"`
		Timestamp            int64 `json:"timestamp,omitempty"`
		ResetAttemptsMade    bool  `json:"resetAttemptsMade,omitempty"`
		ResetAttemptsStarted bool  `json:"resetAttemptsStarted,omitempty"`
	}
	if o != nil {
		given.State, given.Count, given.Timestamp = o.State, o.Count, dateMillis(o.Until)
		given.ResetAttemptsMade, given.ResetAttemptsStarted = o.ResetAttemptsMade, o.ResetAttemptsStarted
	}
	text, _ := json.Marshal(given) // can't fail
	return string(text)
}

// RetryJobs moves all jobs that have failed, or completed, back to waiting, regardless of
// their priority (BullMQ: retryJobs). By default the attempts made still count, so a
// failed job gets one more attempt. With ResetAttemptsMade it gets all attempts again.
// options may be nil.
func (q *Queue) RetryJobs(ctx context.Context, options *RetryJobsOptions) (err error) {
	ctx, span := q.core.trace.start(ctx, SpanProducer, "retryJobs")
	defer span.end(&err)
	if span.isRecording() {
		setAttr(span, attrQueueOptions, options.text())
	}
	o := RetryJobsOptions{}
	if options != nil {
		o = *options
	}
	if o.State == "" {
		o.State = StateFailed
	}
	if o.State != StateFailed && o.State != StateCompleted {
		return fmt.Errorf("bullmq: jobs can be retried from %s and %s, not from %q", StateFailed, StateCompleted, o.State)
	}
	if o.Until.IsZero() {
		o.Until = q.core.now()
	}
	return q.moveAll(ctx, o)
}

// PromoteJobsOptions configures [Queue.PromoteJobs]. A nil pointer and the zero value
// select the defaults.
type PromoteJobsOptions struct {
	// Count is the number of jobs moved in each call to Redis.
	// Defaults to 1000.
	Count int
}

// PromoteJobs makes all delayed jobs ready at once. options may be nil (BullMQ:
// promoteJobs).
func (q *Queue) PromoteJobs(ctx context.Context, options *PromoteJobsOptions) (err error) {
	count := 0
	if options != nil {
		count = options.Count
	}
	ctx, span := q.core.trace.start(ctx, SpanInternal, "promoteJobs")
	defer span.end(&err)
	if span.isRecording() {
		setAttr(span, attrQueueOptions, (&RetryJobsOptions{Count: count}).text())
	}
	return q.moveAll(ctx, RetryJobsOptions{State: StateDelayed, Count: count})
}

func (q *Queue) moveAll(ctx context.Context, o RetryJobsOptions) error {
	if err := checkCount("Count", o.Count, "1000 per call"); err != nil {
		return fmt.Errorf("bullmq: no %s jobs of %s were moved: %w", o.State, q.Name(), err)
	}
	if o.Count == 0 {
		o.Count = 1000
	}
	m := backend.MoveJobs{
		From: backend.State(o.State), Until: o.Until, Count: o.Count,
		ResetAttemptsMade: o.ResetAttemptsMade, ResetAttemptsStarted: o.ResetAttemptsStarted,
	}
	for {
		again, err := q.core.store.MoveJobsToWait(ctx, m)
		if err != nil || !again {
			return err
		}
	}
}

// RemoveOptions configures [Queue.Remove]. A nil pointer and the zero value select the
// defaults.
type RemoveOptions struct {
	// KeepChildren leaves the children of the job in their queues (BullMQ:
	// removeChildren: false).
	// Defaults to false, which removes all descendants too.
	KeepChildren bool
}

// Remove removes a job, in any state, and its descendants in a flow. When it removes
// the last pending child of a parent, the parent becomes ready.
//
// It returns [ErrJobNotFound] if there is no such job. It returns [ErrJobLocked] and
// removes nothing if a worker holds the job or a descendant that would be removed.
// options may be nil (BullMQ: remove).
func (q *Queue) Remove(ctx context.Context, jobID string, options *RemoveOptions) error {
	var o RemoveOptions
	if options != nil {
		o = *options
	}
	outcome, err := q.remove(ctx, jobID, !o.KeepChildren)
	return cmp.Or(err, q.core.removalError(jobID, outcome))
}

// remove traces a removal. As in Node, the span has no error if the job was not removed.
func (q *Queue) remove(ctx context.Context, jobID string, children bool) (_ backend.RemoveOutcome, err error) {
	ctx, span := q.core.trace.start(ctx, SpanInternal, "remove")
	defer span.end(&err)
	setAttr(span, attrJobID, jobID)
	if span.isRecording() {
		setAttr(span, attrJobOptions, fmt.Sprintf(`{"removeChildren":%t}`, children))
	}
	return q.core.store.Remove(ctx, jobID, children)
}

// removalError returns the reason why a job was not removed, or nil if it was.
func (c *core) removalError(jobID string, outcome backend.RemoveOutcome) error {
	switch outcome {
	case backend.Removed:
		return nil
	case backend.NotFound:
		return c.noJob("removeJob", jobID)
	default:
		return fmt.Errorf("bullmq: remove job %s of %s: %w", jobID, c.keys.queue, ErrJobLocked)
	}
}

// Remove removes the job and its descendants, as [Queue.Remove] does (BullMQ:
// job.remove).
func (j *Job) Remove(ctx context.Context) error {
	c, err := j.coreFor("remove")
	if err != nil {
		return err
	}
	outcome, err := c.store.Remove(ctx, j.ID, true)
	return cmp.Or(err, c.removalError(j.ID, outcome))
}

// RemoveUnprocessedChildren removes the job's children that have not finished and are
// not running (BullMQ: removeUnprocessedChildren).
func (j *Job) RemoveUnprocessedChildren(ctx context.Context) error {
	c, err := j.coreFor("remove the children of")
	if err != nil {
		return err
	}
	return c.store.RemoveUnprocessedChildren(ctx, j.ID)
}

// RemoveChildDependency detaches the job from its parent, so that the parent no longer
// waits for the job (BullMQ: removeChildDependency). It reports whether the parent was
// waiting for the job. If the job has no parent in Redis, it returns false, where BullMQ
// throws an error. It returns [ErrParentNotFound] if the parent no longer exists.
func (j *Job) RemoveChildDependency(ctx context.Context) (bool, error) {
	c, err := j.coreFor("remove the parent of")
	if err != nil {
		return false, err
	}
	removed, err := c.store.RemoveChildDependency(ctx, j.ID)
	if removed {
		j.update(func() { j.ParentKey, j.RawParent = "", nil })
	}
	return removed, err
}

// RemoveDeduplicationKey frees the job's deduplication id, and reports whether the job
// still owned it (BullMQ: job.removeDeduplicationKey).
func (j *Job) RemoveDeduplicationKey(ctx context.Context) (bool, error) {
	c, err := j.coreFor("free the deduplication id of")
	if err != nil {
		return false, err
	}
	stored, err := j.stored(ctx)
	if err != nil || stored.DeduplicationID == "" {
		return false, err
	}
	return c.store.RemoveDeduplicationKey(ctx, stored.DeduplicationID, j.ID)
}
