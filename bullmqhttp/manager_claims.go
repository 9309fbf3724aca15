package bullmqhttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Claim is a job that a worker has. The worker, the id and the token together allow the calls that end
// the claim, in any process.
type Claim struct {
	JobID string `json:"id"`
	// Token is the token of the job's lock. It contains the name of the worker.
	Token  string `json:"token"`
	Worker string `json:"worker"`
	// Expires is when the claim is stale unless it is extended.
	Expires time.Time `json:"expires"`
	// Job is the job, as it was when it was claimed. It is nil in the result of Extend.
	Job *JobInfo `json:"job,omitempty"`
}

// Failure is why an attempt of a worker failed. It is an error.
type Failure struct {
	// Reason becomes the failedReason of the job.
	Reason string `json:"reason"`
	// Permanent fails the job without a retry.
	Permanent bool `json:"permanent,omitempty"`
	// RetryAfter is the wait before the next attempt, if one is left.
	// Defaults to 0: as ManagerOptions.Retry, or the options of the job, say.
	RetryAfter time.Duration `json:"-"`
}

func (f *Failure) Error() string { return f.Reason }

// verdict decides about a retry.
func verdict(retry RetryStrategy, classify func(error, *bullmq.Job) bullmq.Verdict, err error, job *bullmq.Job) bullmq.Verdict {
	var failure *Failure
	switch {
	case errors.As(err, &failure) && failure.RetryAfter > 0:
		return bullmq.RetryAfter(failure.RetryAfter)
	case retry != nil:
		wait, again := retry(job.AttemptsMade+1, job, err)
		if !again {
			return bullmq.Permanent()
		}
		return bullmq.RetryAfter(wait)
	case classify != nil:
		return classify(err, job)
	default:
		return bullmq.Transient()
	}
}

// hasCustomBackoff reports whether only a BackoffStrategy knows the backoff of a job.
func hasCustomBackoff(job *bullmq.Job) bool {
	backoff := job.Options.Backoff
	return backoff != nil && backoff.Type != "fixed" && backoff.Type != "exponential"
}

// maxWorker is the maximum length of a worker's name, in bytes.
const maxWorker = 100

// checkWorker checks the identity of a worker.
func (m *Manager) checkWorker(ctx context.Context, worker string) error {
	if worker == "" || len(worker) > maxWorker || !isPrintable(worker) {
		return problem(http.StatusBadRequest, CodeInvalidWorker, "the name of a worker has 1 to %d bytes, and no control characters", maxWorker)
	}
	if m.o.CheckWorker == nil {
		return nil
	}
	err := m.o.CheckWorker(ctx, worker)
	var own *Problem
	if err == nil || errors.As(err, &own) && own.Status != 0 {
		return err
	}
	return problem(http.StatusForbidden, CodeForbidden, "the worker is not allowed").by(err)
}

// Claim claims up to most jobs for a worker, at most ManagerOptions.MaxClaim. If no job is ready, it waits
// for one until the wait is over, and then returns none. The jobs are those that a worker of BullMQ would
// take next. A claim lasts for FetcherOptions.LockDuration.
//
// Jobs that were cancelled, or must fail for another reason, are failed on the way.
func (m *Manager) Claim(ctx context.Context, worker string, most int, wait time.Duration) ([]*Claim, error) {
	if err := m.checkWorker(ctx, worker); err != nil {
		return nil, err
	}
	if most < 1 || wait < 0 {
		return nil, problem(http.StatusBadRequest, CodeInvalidRequest, "a worker claims 1 job or more, and waits for 0 seconds or more")
	}
	f, done, err := m.workers.use(ctx, worker)
	if err != nil {
		return nil, refusal(ctx, "", err)
	}
	defer done()
	claims := []*Claim{}
	for end := time.Now().Add(min(wait, m.o.MaxWait)); ; {
		for len(claims) < min(most, m.o.MaxClaim) && ctx.Err() == nil {
			claim, err := m.claimOne(ctx, f, worker)
			switch {
			case err != nil && len(claims) == 0:
				return nil, refusal(ctx, "", err)
			case err != nil:
				m.o.Logger.WarnContext(ctx, "a worker gets less jobs than it wants, because a fetch failed", "worker", worker, "error", err)
			}
			if claim == nil {
				break
			}
			claims = append(claims, claim)
		}
		pause := min(m.o.PollInterval, time.Until(end))
		switch {
		case len(claims) > 0:
			return claims, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case pause <= 0:
			return claims, nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-m.closed.Done():
			return claims, nil
		}
	}
}

// claimOne claims a job. It returns nil if none is ready, or if ctx ends.
func (m *Manager) claimOne(ctx context.Context, f *bullmq.Fetcher, worker string) (*Claim, error) {
	left := ctx.Done()
	ctx = context.WithoutCancel(ctx) // a client that leaves must not end a call that may have claimed a job
	for {
		select {
		case <-left:
			return nil, nil
		default:
		}
		begun := time.Now()
		job, err := f.TryFetch(ctx)
		switch {
		case errors.Is(err, bullmq.ErrNoJob):
			return nil, nil
		case err != nil:
			return nil, err
		}
		reason := m.unfit(job)
		if reason == "" {
			return &Claim{
				JobID: job.ID, Token: job.Token(), Worker: worker, Expires: begun.Add(m.o.Fetcher.LockDuration).UTC(), Job: infoOf(job, Running),
			}, nil
		}
		if err := f.Fail(ctx, job, bullmq.Unrecoverable(errors.New(reason))); err != nil {
			return nil, err
		}
	}
}

// unfit returns the reason why a job must fail without running, or "". A worker has the same rules.
func (m *Manager) unfit(job *bullmq.Job) string {
	limit := m.o.Fetcher.MaxStartedAttempts
	switch {
	case job.DeferredFailure != "":
		return job.DeferredFailure
	case job.Name == "":
		return "the job has no name; its record is missing or incomplete"
	case !json.Valid(job.Data):
		return "the job's data is not JSON; its producer must write JSON into the field data"
	case limit > 0 && job.AttemptsStarted > limit:
		return "job started more than allowable limit" // BullMQ's text
	default:
		return ""
	}
}

// held returns the job of a claim, for a call. It checks the worker, and that the claim is the worker's.
func (m *Manager) held(ctx context.Context, c *Claim) (*bullmq.Job, error) {
	if c == nil {
		return nil, problem(http.StatusBadRequest, CodeInvalidRequest, "there is no claim")
	}
	if err := m.checkWorker(ctx, c.Worker); err != nil {
		return nil, err
	}
	if err := checkID(c.JobID); err != nil {
		return nil, err
	}
	if c.Token == "" {
		return nil, problem(http.StatusBadRequest, CodeInvalidRequest, "the claim has no token").about(c.JobID)
	}
	if worker, ok := workerOf(c.Token); !ok || worker != c.Worker {
		return nil, conflict(CodeAlreadyAssigned, c.JobID, "the claim belongs to another worker").by(bullmq.ErrLockMismatch)
	}
	return m.main.JobRef(c.JobID).WithToken(c.Token), nil
}

// ended returns the problem for an error of a call that ends a claim.
func (m *Manager) ended(ctx context.Context, id string, err error) error {
	if errors.Is(err, bullmq.ErrLockNotFound) || errors.Is(err, bullmq.ErrLockMismatch) || errors.Is(err, bullmq.ErrNotInState) {
		return m.noClaim(ctx, id)
	}
	return refusal(ctx, id, err)
}

// extend extends the lock of a job. It returns the error that wraps a [*bullmq.CancelledError] if the job
// is cancelled.
func (m *Manager) extend(ctx context.Context, job *bullmq.Job, by time.Duration) (cancelled, err error) {
	ok, err := job.ExtendLock(ctx, by)
	switch {
	case !ok && err == nil:
		return nil, m.noClaim(ctx, job.ID)
	case errors.Is(err, bullmq.ErrCancelled):
		return err, nil
	default:
		return nil, refusal(ctx, job.ID, err)
	}
}

// Extend makes a claim last for a duration from now, or for FetcherOptions.LockDuration if by is 0. It
// returns the claim with the new time, without the job. Unless progress is nil, it becomes the job's
// progress, as JSON.
//
// If the job was cancelled, Extend returns [ErrCancelled], and the claim is extended. The worker must stop
// and call Fail, which fails the job as cancelled, whatever the failure is.
func (m *Manager) Extend(ctx context.Context, c *Claim, by time.Duration, progress any) (*Claim, error) {
	job, err := m.held(ctx, c)
	if err != nil {
		return nil, err
	}
	if by == 0 {
		by = m.o.Fetcher.LockDuration
	}
	if by = by.Truncate(time.Millisecond); by <= 0 || by > m.o.MaxClaimFor {
		return nil, problem(http.StatusBadRequest, CodeInvalidRequest, "a claim can be extended by a millisecond to %v", m.o.MaxClaimFor).about(c.JobID)
	}
	begun := time.Now()
	cancelled, err := m.extend(ctx, job, by)
	if err != nil {
		return nil, err
	}
	if cancelled != nil {
		return nil, problem(http.StatusGone, CodeCancelled, "the job is cancelled; stop, and fail it").about(c.JobID).by(cancelled)
	}
	if progress != nil {
		if err := job.UpdateProgress(ctx, progress); err != nil {
			return nil, refusal(ctx, c.JobID, err)
		}
	}
	return &Claim{JobID: c.JobID, Token: c.Token, Worker: c.Worker, Expires: begun.Add(by).UTC()}, nil
}

// Succeed completes the job of a claim with a result, which is stored as JSON.
func (m *Manager) Succeed(ctx context.Context, c *Claim, result any) (*JobInfo, error) {
	job, err := m.held(ctx, c)
	if err != nil {
		return nil, err
	}
	text, err := marshal(result)
	if err != nil {
		return nil, problem(http.StatusBadRequest, CodeInvalidRequest, "the result can't be written as JSON: %v", err).about(c.JobID).by(err)
	}
	if err := m.main.Complete(ctx, job, text); err != nil {
		return nil, m.ended(ctx, c.JobID, err)
	}
	return infoOf(job, Succeeded), nil
}

// Fail ends the attempt of a claim. If an attempt is left, the job is retried, unless the failure is
// permanent, ManagerOptions.Retry refuses it, or the type of the job's backoff is unknown. JobInfo.State
// is then Retrying, and JobInfo.Due is when, or zero if the job is retried at once. Otherwise the state is
// Failed, or Cancelled if the job was cancelled.
func (m *Manager) Fail(ctx context.Context, c *Claim, failure Failure) (*JobInfo, error) {
	job, err := m.held(ctx, c)
	if err != nil {
		return nil, err
	}
	if failure.RetryAfter < 0 {
		return nil, problem(http.StatusBadRequest, CodeInvalidRequest, "RetryAfter is less than 0").about(c.JobID)
	}
	cancelled, err := m.extend(ctx, job, m.o.Fetcher.LockDuration)
	if err != nil {
		return nil, err
	}
	var reason error = &failure
	switch {
	case cancelled != nil:
		reason = fmt.Errorf("%s: %w", failure.Reason, cancelled)
	case failure.Permanent:
		reason = bullmq.Unrecoverable(reason)
	}
	begun := m.o.Fetcher.Now()
	if err := m.main.Fail(ctx, job, reason); err != nil {
		return nil, m.ended(ctx, c.JobID, err)
	}
	if job.FinishedOn.IsZero() {
		info := infoOf(job, Retrying)
		// Fail does not set the delay. Meanwhile another worker may have run the job.
		if stored, err := m.queue.Job(ctx, c.JobID); err == nil && stored.AttemptsMade == job.AttemptsMade && stored.Delay > 0 {
			info.Due = begun.Add(stored.Delay).UTC().Truncate(time.Millisecond) // not later than the stored time
		}
		return info, nil
	}
	if cancelled != nil {
		return infoOf(job, Cancelled), nil
	}
	return infoOf(job, Failed), nil
}

// Release gives the job of a claim back, without using an attempt. It is the next one that is claimed, or,
// with a wait, it is due after that.
func (m *Manager) Release(ctx context.Context, c *Claim, wait time.Duration) error {
	job, err := m.held(ctx, c)
	if err != nil {
		return err
	}
	if wait < 0 {
		return problem(http.StatusBadRequest, CodeInvalidRequest, "the wait is less than 0").about(c.JobID)
	}
	if wait = wait.Truncate(time.Millisecond); wait > 0 {
		err = job.MoveToDelayed(ctx, m.o.Fetcher.Now().Add(wait))
	} else {
		err = job.MoveToWait(ctx)
	}
	if err != nil {
		return m.ended(ctx, c.JobID, err)
	}
	return nil
}

// StaleClaims returns up to limit running jobs whose lock has expired, so that nobody can end them, those
// that started first. It examines the jobs of other workers too, one by one.
func (m *Manager) StaleClaims(ctx context.Context, limit int) ([]*JobInfo, error) {
	if limit < 1 {
		return nil, problem(http.StatusBadRequest, CodeInvalidRequest, "the limit %d is less than 1", limit)
	}
	ids, err := m.queue.JobIDs(ctx, bullmq.Page{Limit: -1, Ascending: true}, bullmq.StateActive)
	if err != nil {
		return nil, refusal(ctx, "", err)
	}
	stale := []*JobInfo{}
	for _, id := range ids {
		if len(stale) == limit {
			break
		}
		held, err := m.isHeld(ctx, id)
		if held {
			continue
		}
		var job *bullmq.Job
		var state bullmq.State
		if err == nil {
			job, state, err = m.queue.JobAndState(ctx, id)
		}
		switch {
		case errors.Is(err, bullmq.ErrJobNotFound): // it was removed meanwhile
		case err != nil:
			return nil, refusal(ctx, id, err)
		case state == bullmq.StateActive: // it has not ended meanwhile
			stale = append(stale, infoOf(job, Running))
		}
	}
	return stale, nil
}

// isHeld reports whether a job has a lock. It asks for a call that needs the lock, with a token that no
// worker has, so that the call is refused in any case.
func (m *Manager) isHeld(ctx context.Context, id string) (bool, error) {
	err := m.main.JobRef(id).WithToken(newToken("")).MoveToWait(ctx)
	switch {
	case errors.Is(err, bullmq.ErrLockMismatch):
		return true, nil
	case errors.Is(err, bullmq.ErrLockNotFound):
		return false, nil
	default:
		return false, err
	}
}

// RecoverStale makes the check for stalled jobs: jobs that two checks have found without a lock are ready
// again, the next ones to be claimed. It returns their ids. Each such expiry is counted, and a job that
// stalls more often than FetcherOptions.MaxStalledCount fails. All workers of the queue together
// make at most one check per StalledInterval; other calls have no effect. [Manager.Run] calls it
// regularly, and so do workers of BullMQ.
func (m *Manager) RecoverStale(ctx context.Context) (jobIDs []string, err error) {
	ids, err := m.main.CheckStalled(ctx)
	if err != nil {
		return nil, refusal(ctx, "", err)
	}
	return append([]string{}, ids...), nil
}
