package bullmq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// ErrMaybeAdded is returned by Add when the reply was lost: the job may or may not
// have been added. The connection broke, or the context ended, after the command may
// have been sent. After any other error of Add, nothing was added. A job with a JobID
// can safely be added again.
var ErrMaybeAdded = errors.New("bullmq: the answer was lost, so it may have been added or not")

// lostAnswer is the error of a call whose outcome is unknown.
type lostAnswer struct{ cause error }

func (l *lostAnswer) Error() string   { return ErrMaybeAdded.Error() + ": " + l.cause.Error() }
func (l *lostAnswer) Unwrap() []error { return []error{ErrMaybeAdded, l.cause} }

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
// was not returned by an add.
//
// With QueueOptions.AddWait an add may be retried after its reply was lost.
// AlreadyExists and Deduplicated may then refer to the job that the first attempt of
// the same call has added.
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

// addAgain retries an add that has failed, within the queue's AddWait. It retries
// only if that cannot add the job twice.
func (q *Queue) addAgain(ctx context.Context, begun time.Time, job *Job, add *backend.Add, err error) (backend.AddResult, error) {
	p := q.patience(ctx, begun)
	lost := mayHaveRun(err)
	for p.hopes(job.Opts, lost, err) && p.wait() {
		result := q.core.store.AddBatch(ctx, []*backend.Add{add})[0]
		if result.Err == nil {
			return result, nil
		}
		err, lost = result.Err, lost || mayHaveRun(result.Err)
	}
	return backend.AddResult{}, p.verdict(lost, err)
}

// addManyAgain is addAgain for the jobs of a bulk that were not added. It replaces
// their results.
func (q *Queue) addManyAgain(ctx context.Context, begun time.Time, jobs []*Job, adds []*backend.Add, results []backend.AddResult) {
	p := q.patience(ctx, begun)
	lost := make([]bool, len(jobs))
	for {
		var at []int
		var rest []*backend.Add
		for i := range results {
			err := results[i].Err
			lost[i] = lost[i] || mayHaveRun(err)
			if p.hopes(jobs[i].Opts, lost[i], err) {
				at, rest = append(at, i), append(rest, adds[i])
			}
		}
		if len(rest) == 0 || !p.wait() {
			break
		}
		more := q.core.store.AddBatch(ctx, rest)
		for n, i := range at {
			results[i] = more[n]
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
			final[f] = p.verdict(f.lost, f.err)
		}
		results[i].Err = final[f]
	}
}

// withinAddWait returns ctx with a deadline of AddWait after begun. The deadline also
// ends a call that gets no reply.
func (q *Queue) withinAddWait(ctx context.Context, begun time.Time) (context.Context, context.CancelFunc) {
	if q.addWait <= 0 {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, begun.Add(q.addWait), q.addWaitOver)
}

// patience decides whether and when one call retries an add.
type patience struct {
	ctx    context.Context // from withinAddWait
	health backend.HealthWatch
	begun  time.Time // when the call began
	most   time.Duration
	pause  timing.Backoff
}

func (q *Queue) patience(ctx context.Context, begun time.Time) *patience {
	return &patience{ctx: ctx, health: q.core.conn.Health(), begun: begun, most: q.addWait}
}

// hopes reports whether an add that failed with err may be retried. lost reports
// whether an attempt may have added the job.
func (p *patience) hopes(o JobOptions, lost bool, err error) bool {
	switch {
	case p.most <= 0 || p.ctx.Err() != nil || err == nil || errors.Is(err, ErrClosed):
		return false
	case lost && !p.repeatable(o):
		return false
	default:
		failure := classify(err)
		return failure != backend.Refused && failure != backend.Forbidden
	}
}

// repeatable reports whether a second add of a job changes nothing. That is so if
// the job has a JobID and is retained after it finishes, or if it owns its
// deduplication id until the retries end.
func (p *patience) repeatable(o JobOptions) bool {
	if o.JobID != "" {
		return o.KeepCompleted.staysAll() && o.KeepFailed.staysAll()
	}
	d := o.Deduplication
	return d != nil && !d.Replace && !d.KeepLastIfActive && !d.Reschedule && time.Since(p.begun)+timing.DeduplicationMargin < d.TTL
}

// wait waits until a retry may succeed. It returns false if the context ends before.
func (p *patience) wait() bool {
	timing.Sleep(p.ctx, p.pause.Next())
	if recovered := p.health.Recovered(); recovered != nil {
		select {
		case <-recovered:
		case <-p.ctx.Done():
		}
	}
	return p.ctx.Err() == nil
}

// verdict returns the final error of an add.
func (p *patience) verdict(lost bool, err error) error {
	// The connection has the same deadline and may report it shortly before the context does.
	if at, ok := p.ctx.Deadline(); ok && time.Until(at) < timing.ShortestPause && errors.Is(err, context.DeadlineExceeded) {
		<-p.ctx.Done()
	}
	if p.most > 0 && p.ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(p.ctx), err)
	}
	if lost {
		return &lostAnswer{err}
	}
	return err
}
