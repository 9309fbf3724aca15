package bullmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// ErrMaybeAdded is returned by Add when the reply was lost: the job may or may not
// have been added. The connection broke, or the context ended, after the command may
// have been sent. After any other error of Add, nothing was added. You can safely add a
// job with a JobID again, unless it may have finished and been removed in the meantime.
var ErrMaybeAdded = errors.New("bullmq: the reply was lost; the job may or may not have been added")

// maybeAdded is the error of an add whose outcome is unknown.
type maybeAdded struct{ cause error }

func (m *maybeAdded) Error() string   { return ErrMaybeAdded.Error() + ": " + m.cause.Error() }
func (m *maybeAdded) Unwrap() []error { return []error{ErrMaybeAdded, m.cause} }

// AddOutcome is the outcome of an add.
type AddOutcome string

// The outcomes of an add. Only Added means that a job was added.
const (
	Added         AddOutcome = "added"
	AlreadyExists AddOutcome = "already exists" // a job with the same JobID exists
	Deduplicated  AddOutcome = "deduplicated"   // another job owns the deduplication id
)

// AddOutcome returns the outcome of the add that returned this Job. If it is not
// Added, the Job has the id of the existing job. AddOutcome returns "" for a Job that
// was not returned by an add, and for a nil Job, which an add returns with an error.
//
// With QueueOptions.AddWait an add may be retried after its reply was lost. If the retry
// finds a job with the name, data, options and time of this add, an earlier attempt has
// added that job, and the outcome is Added. An earlier attempt is not recognized if the
// add has a JobOptions.Timestamp, or if the data of the job has changed in the meantime.
// The outcome is then AlreadyExists or Deduplicated.
func (j *Job) AddOutcome() AddOutcome {
	if j == nil {
		return ""
	}
	return j.outcome
}

// added sets the job's id and outcome from the result of its add.
func (j *Job) added(result backend.AddResult) {
	j.ID = result.JobID
	switch result.Outcome {
	case backend.AlreadyExists:
		j.outcome = AlreadyExists
	case backend.Deduplicated:
		j.outcome = Deduplicated
	default:
		j.outcome = ""
		if j.ID != "" {
			j.outcome = Added
		}
	}
}

// addOnce makes one attempt to add a job. A plain job shares its call with others.
func (q *Queue) addOnce(ctx context.Context, add backend.Add) (backend.AddResult, error) {
	var result backend.AddResult
	var err error
	switch {
	case !add.IsPlain():
		result = q.core.store.AddBatch(ctx, []*backend.Add{&add})[0]
	case q.shared == nil:
		result, err = q.adds.Do(ctx, add)
	case q.closed.Load():
		err = ErrClosed
	default:
		result, err = q.shared.do(ctx, q.core, add)
	}
	return result, cmp.Or(err, result.Err)
}

// sendAdds adds a batch of jobs in one call.
func (q *Queue) sendAdds(ctx context.Context, adds []*backend.Add) (read func() ([]backend.AddResult, error)) {
	results := q.core.store.AddBatch(ctx, adds)
	return func() ([]backend.AddResult, error) { return results, nil }
}

func sizeOfAdd(a *backend.Add) int { return len(a.Name) + len(a.Data) + len(a.Opts) }

// sendBulk adds prepared jobs, with an AddWait that began at begun.
func (q *Queue) sendBulk(ctx context.Context, begun time.Time, wait addWait, jobs []*Job, adds []*backend.Add) []backend.AddResult {
	if slices.ContainsFunc(jobs, func(job *Job) bool { return job.Options.Target != nil }) {
		return q.sendToRoutes(ctx, begun, wait, jobs, adds)
	}
	results := q.core.store.AddBatch(ctx, adds)
	if bulkError(results) != nil {
		q.addManyAgain(wait.retry(ctx, q.core, begun), jobs, adds, results)
	}
	return results
}

// addAgain retries an add that has failed, within its AddWait. It retries only if that
// cannot add the job twice.
func (q *Queue) addAgain(r *addRetry, job *Job, add *backend.Add, err error) (backend.AddResult, error) {
	lost := mayHaveRun(err)
	for r.allowed(!lost || r.repeatable(job.Options), err) && r.wait() {
		result := q.core.store.AddBatch(r.ctx, []*backend.Add{add})[0]
		if result.Err == nil {
			if lost {
				_ = q.recognize(r.ctx, job, add, &result) // the job exists in any case
			}
			return result, nil
		}
		err, lost = result.Err, lost || mayHaveRun(result.Err)
	}
	return backend.AddResult{}, r.finalError(lost, err)
}

// recognize sets the outcome of a retried add to Added if an earlier attempt has added the
// job that the retry found. It reads that job.
func (q *Queue) recognize(ctx context.Context, job *Job, add *backend.Add, result *backend.AddResult) error {
	_, timed := job.Options.Extra["timestamp"]
	if result.Outcome == backend.Added || timed || !job.Options.Timestamp.IsZero() {
		return nil
	}
	stored, err := q.core.store.Job(ctx, result.JobID)
	if err != nil || stored == nil {
		return err
	}
	if stored.Timestamp.Equal(add.Timestamp) && stored.Name == add.Name && string(stored.Data) == add.Data && stored.Opts == add.Opts {
		result.Outcome = backend.Added
	}
	return nil
}

// addManyAgain is addAgain for the jobs of a bulk that were not added. It replaces
// their results.
func (q *Queue) addManyAgain(r *addRetry, jobs []*Job, adds []*backend.Add, results []backend.AddResult) {
	lost := make([]bool, len(jobs))
	for {
		var at []int
		var rest []*backend.Add
		for i := range results {
			err := results[i].Err
			lost[i] = lost[i] || mayHaveRun(err)
			if r.allowed(!lost[i] || r.repeatable(jobs[i].Options), err) {
				at, rest = append(at, i), append(rest, adds[i])
			}
		}
		if len(rest) == 0 || !r.wait() {
			break
		}
		more := q.core.store.AddBatch(r.ctx, rest)
		var unread error
		for n, i := range at {
			results[i] = more[n]
			if lost[i] && results[i].Err == nil && unread == nil {
				unread = q.recognize(r.ctx, jobs[i], adds[i], &results[i])
			}
		}
	}
	// Jobs that failed with the same error must share its final form, because
	// BulkError.Unwrap returns each error once.
	type failure struct {
		err  error
		lost bool
	}
	final := map[failure]error{}
	for i := range results {
		err := results[i].Err
		if err == nil {
			continue
		}
		f := failure{err, lost[i]}
		if final[f] == nil {
			final[f] = r.finalError(f.lost, f.err)
		}
		results[i].Err = final[f]
	}
}

// addWait is the AddWait of a queue or of a flow producer.
type addWait struct {
	limit time.Duration
	over  error // the cause of a context that it has ended
}

func newAddWait(limit time.Duration) addWait {
	return addWait{limit, fmt.Errorf("the AddWait of %v is over", limit)}
}

// within returns ctx with a deadline of AddWait after begun. The deadline also ends a
// call that gets no reply.
func (w addWait) within(ctx context.Context, begun time.Time) (context.Context, context.CancelFunc) {
	if w.limit <= 0 {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, begun.Add(w.limit), w.over)
}

// retry returns an addRetry for a call that has begun at begun. ctx is from within.
func (w addWait) retry(ctx context.Context, c *core, begun time.Time) *addRetry {
	return &addRetry{ctx: ctx, health: c.conn.Health(), begun: begun, limit: w.limit}
}

// addRetry decides whether and when one call retries an add.
type addRetry struct {
	ctx    context.Context // from addWait.within
	health backend.HealthWatch
	begun  time.Time     // when the call began
	limit  time.Duration // AddWait
	pause  timing.Backoff
}

// allowed reports whether a call that failed with err may be retried. safe says that
// another attempt can't add a job twice.
func (r *addRetry) allowed(safe bool, err error) bool {
	if r.limit <= 0 || r.ctx.Err() != nil || err == nil || errors.Is(err, ErrClosed) || !safe {
		return false
	}
	failure := classify(err)
	return failure != backend.Refused && failure != backend.Forbidden
}

// repeatable reports whether a second add of a job changes nothing. That is so if
// the job has a JobID and is retained after it finishes, or if it owns its
// deduplication id until the retries end.
func (r *addRetry) repeatable(o JobOptions) bool {
	if o.JobID != "" {
		return o.KeepCompleted.keepsAll() && o.KeepFailed.keepsAll()
	}
	d := o.Deduplication
	return d != nil && !d.Replace && !d.KeepLastIfActive && !d.Reschedule && time.Since(r.begun)+timing.DeduplicationMargin < d.TTL
}

// wait waits until a retry may succeed. It returns false if the context ends before.
func (r *addRetry) wait() bool {
	timing.Sleep(r.ctx, r.pause.Next())
	if recovered := r.health.Recovered(); recovered != nil {
		select {
		case <-recovered:
		case <-r.ctx.Done():
		}
	}
	return r.ctx.Err() == nil
}

// finalError returns the error of an add that is not retried again.
func (r *addRetry) finalError(lost bool, err error) error {
	// The connection has the same deadline and may report it shortly before the context does.
	if at, ok := r.ctx.Deadline(); ok && time.Until(at) < timing.ShortestPause && errors.Is(err, context.DeadlineExceeded) {
		<-r.ctx.Done()
	}
	if r.limit > 0 && r.ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(r.ctx), err)
	}
	if lost {
		return &maybeAdded{err}
	}
	return err
}
