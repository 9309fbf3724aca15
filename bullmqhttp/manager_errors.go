package bullmqhttp

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Codes of the problems of a [Manager], besides [CodeInvalidRequest], [CodeForbidden], [CodeJobNotFound],
// [CodeMethodNotAllowed], [CodeCancelled], [CodeTooLarge], [CodeUnsupportedType], [CodeUnavailable] and
// [CodeMaybeAdded].
const (
	CodeInvalidJob      = "INVALID_JOB"      // 400: a submitted job has no name, or invalid data or options
	CodeInvalidJobID    = "INVALID_JOB_ID"   // 400
	CodeInvalidWorker   = "INVALID_WORKER"   // 400: the name of a worker is empty, too long or not printable
	CodeNotFound        = "NOT_FOUND"        // 404: there is no such call
	CodeJobExists       = "JOB_EXISTS"       // 409: a job with the id of a submitted one exists
	CodeAlreadyAssigned = "ALREADY_ASSIGNED" // 409: another worker, or another claim, has the job
	CodeClaimExpired    = "CLAIM_EXPIRED"    // 409: the claim was not extended in time; the job will run again
	CodeWrongStatus     = "WRONG_STATUS"     // 409: the job's status does not allow the call
	CodeRetryDelay      = "RETRY_DELAY"      // 409: the job waits until it is due; see Retry-After
	CodePendingChildren = "PENDING_CHILDREN" // 409: the job has children that have not finished
	CodeFailedChildren  = "FAILED_CHILDREN"  // 409: a child has failed the job
)

// Errors of a [Manager], for errors.Is. The error itself is a [*Problem] with the code and the details.
var (
	ErrInvalidRequest  error = &Problem{Code: CodeInvalidRequest}
	ErrInvalidJob      error = &Problem{Code: CodeInvalidJob}
	ErrInvalidJobID    error = &Problem{Code: CodeInvalidJobID}
	ErrInvalidWorker   error = &Problem{Code: CodeInvalidWorker}
	ErrForbidden       error = &Problem{Code: CodeForbidden}
	ErrJobNotFound     error = &Problem{Code: CodeJobNotFound}
	ErrJobExists       error = &Problem{Code: CodeJobExists}
	ErrAlreadyAssigned error = &Problem{Code: CodeAlreadyAssigned}
	ErrClaimExpired    error = &Problem{Code: CodeClaimExpired}
	ErrWrongStatus     error = &Problem{Code: CodeWrongStatus}
	ErrRetryDelay      error = &Problem{Code: CodeRetryDelay}
	ErrPendingChildren error = &Problem{Code: CodePendingChildren}
	ErrFailedChildren  error = &Problem{Code: CodeFailedChildren}
	ErrCancelled       error = &Problem{Code: CodeCancelled}
	ErrUnavailable     error = &Problem{Code: CodeUnavailable}
	ErrMaybeAdded      error = &Problem{Code: CodeMaybeAdded}
)

// Is reports whether target is the variable for the code of the problem, such as [ErrWrongStatus].
func (p *Problem) Is(target error) bool {
	t, ok := target.(*Problem)
	return ok && t.Status == 0 && t.Code == p.Code
}

// Unwrap returns the error of package bullmq, or nil.
func (p *Problem) Unwrap() error { return p.cause }

// by returns the problem with its cause.
func (p *Problem) by(cause error) *Problem {
	p.cause = cause
	return p
}

func conflict(code, id, detail string, args ...any) *Problem {
	return problem(http.StatusConflict, code, detail, args...).about(id)
}

func unavailable(err error) *Problem {
	return problem(http.StatusServiceUnavailable, CodeUnavailable, "Redis can't be reached; try again later").after(outagePause).by(err)
}

// refusal returns the problem for an error of package bullmq. An error of ctx is returned as it is.
func refusal(ctx context.Context, id string, err error) error {
	var own *Problem
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own) && own.Status != 0:
		return own
	case errors.Is(err, bullmq.ErrJobNotFound):
		return notFound().about(id).by(err)
	case errors.Is(err, bullmq.ErrLockMismatch), errors.Is(err, bullmq.ErrJobLocked):
		return conflict(CodeAlreadyAssigned, id, "a worker has the job").by(err)
	case errors.Is(err, bullmq.ErrLockNotFound):
		return conflict(CodeClaimExpired, id, "the claim has expired").by(err)
	case errors.Is(err, bullmq.ErrNotInState):
		return conflict(CodeWrongStatus, id, "the job is in another state").by(err)
	case errors.Is(err, bullmq.ErrSchedulerJob):
		return conflict(CodeWrongStatus, id, "the job is the next one of a scheduler").by(err)
	case errors.Is(err, bullmq.ErrPendingChildren):
		return conflict(CodePendingChildren, id, "the job has children that have not finished").by(err)
	case errors.Is(err, bullmq.ErrFailedChildren):
		return conflict(CodeFailedChildren, id, "a child has failed the job").by(err)
	case ctx.Err() != nil:
		return err
	default:
		return unavailable(err)
	}
}

// noClaim returns the problem for a job of which a call has said that the claim is not valid.
func (m *Manager) noClaim(ctx context.Context, id string) error {
	job, state, err := m.queue.JobAndState(ctx, id)
	if err != nil {
		return refusal(ctx, id, err)
	}
	switch state {
	case bullmq.StateActive:
		held, err := m.isHeld(ctx, id)
		switch {
		case err != nil:
			return refusal(ctx, id, err)
		case held:
			return conflict(CodeAlreadyAssigned, id, "another claim has the job").by(bullmq.ErrLockMismatch)
		default:
			return conflict(CodeClaimExpired, id, "the claim has expired, and the job will run again").by(bullmq.ErrLockNotFound)
		}
	case bullmq.StateDelayed:
		return conflict(CodeRetryDelay, id, "the job is %s; it can be claimed when it is due", lifecycle(job, state)).
			after(max(job.Delay, time.Second)).by(bullmq.ErrLockNotFound)
	default:
		return conflict(CodeWrongStatus, id, "the job is %s, not claimed", lifecycle(job, state)).by(bullmq.ErrLockNotFound)
	}
}
