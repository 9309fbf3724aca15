package bullmq

import (
	"errors"
	"strings"
)

// childrenFailure returns err, or, where it is the refusal of a call on this very
// job because of its children, a failure that says so in BullMQ's words, for both
// sides to find the same text in failedReason. A job with a failed child fails for
// good, whatever attempts are left: BullMQ's call throws an UnrecoverableError.
func childrenFailure(job *Job, err error) error {
	refused := ownRefusal(job, err)
	if refused == nil {
		return err
	}
	reason := "Job " + job.ID + " has pending dependencies. " + refused.Command
	if refused.Code == ErrFailedChildren {
		reason = "Cannot complete job " + job.ID + " because it has at least one failed child. " + refused.Command
	}
	err = reworded{strings.ReplaceAll(err.Error(), refused.Error(), reason), err}
	if refused.Code == ErrFailedChildren {
		err = Unrecoverable(err)
	}
	return err
}

// ownRefusal finds in err the refusal of a call on a job because of its children;
// nil where there is none, or those of other jobs only.
func ownRefusal(job *Job, err error) *Error {
	switch e := err.(type) {
	case *Error:
		if refusedForChildren(e) && e.JobID == job.ID && e.QueueKey == job.core.keys.qualifiedName() {
			return e
		}
	case interface{ Unwrap() error }:
		return ownRefusal(job, e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, wrapped := range e.Unwrap() {
			if found := ownRefusal(job, wrapped); found != nil {
				return found
			}
		}
	}
	return nil
}

func refusedForChildren(err error) bool {
	return errors.Is(err, ErrPendingChildren) || errors.Is(err, ErrFailedChildren)
}

// reworded is an error with another text.
type reworded struct {
	text  string
	cause error
}

func (r reworded) Error() string { return r.text }
func (r reworded) Unwrap() error { return r.cause }
