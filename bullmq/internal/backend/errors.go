package backend

import (
	"errors"
	"fmt"
	"strings"
)

// Code is the number with which a command refuses, the same on every client
// of a queue. It is an error of its own, for errors.Is.
type Code int

// The codes (BullMQ: ErrorCode), the only place where their numbers stand.
const (
	JobNotFound          Code = -1
	LockNotFound         Code = -2
	NotInState           Code = -3
	PendingChildren      Code = -4
	ParentNotFound       Code = -5
	LockMismatch         Code = -6
	ParentNotReplaceable Code = -7
	SchedulerJob         Code = -8
	FailedChildren       Code = -9
	SchedulerIDTaken     Code = -10
	SchedulerSlotsTaken  Code = -11
)

var codeTexts = map[Code]string{
	JobNotFound:          "there is no such job: it was removed, or never added",
	LockNotFound:         "its lock is gone: it expired before it was renewed, or was deleted; the job may be run again by another worker",
	NotInState:           "it is not in the state that this call starts from",
	PendingChildren:      "it has children that have not ended yet",
	ParentNotFound:       "its parent does not exist; add the parent first, or add both as a flow",
	LockMismatch:         "its lock belongs to another token: another worker runs it now",
	ParentNotReplaceable: "it already has another parent, which still exists",
	SchedulerJob:         "it belongs to a job scheduler; remove the scheduler instead",
	FailedChildren:       "at least one of its children failed",
	SchedulerIDTaken:     "a job with the id of the scheduler's next run exists already",
	SchedulerSlotsTaken:  "the scheduler's next slots are all taken by existing jobs",
}

func (c Code) Error() string {
	if text, ok := codeTexts[c]; ok {
		return text
	}
	return fmt.Sprintf("unknown code %d", int(c))
}

// Error is a command's refusal. Nothing that the command would have written
// has been written, except where its file says so.
type Error struct {
	Code    Code
	Command string // the script
	Queue   string // the queue's key prefix, bull:orders:
	JobID   string // "" where the call is about no single job
	Detail  string // the parent's key, the state wanted; may be ""
}

func (e *Error) Error() string {
	about := strings.TrimSuffix(e.Queue, ":")
	if e.JobID != "" {
		about = fmt.Sprintf("job %s of %s", e.JobID, about)
	}
	if e.Detail != "" {
		about += " (" + e.Detail + ")"
	}
	return fmt.Sprintf("bullmq: %s refused for %s: %s (code %d)", e.Command, about, e.Code.Error(), int(e.Code))
}

// Unwrap makes errors.Is(err, JobNotFound) and the like work.
func (e *Error) Unwrap() error { return e.Code }

// ServerError is an error that the server gave for one job of a call that was
// carried out for others.
type ServerError struct {
	JobID string
	Text  string
}

func (e *ServerError) Error() string { return "job " + e.JobID + ": " + e.Text }

// ErrNotSent means that a job of a batch was not sent, because jobs before it had
// failed.
var ErrNotSent = errors.New("bullmq: not sent, since jobs before it could not be added")
