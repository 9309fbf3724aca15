package backend

import (
	"errors"
	"fmt"
)

// Code is an error code that a command returns. The codes are part of the wire
// protocol. A Code is an error itself, for errors.Is.
type Code int

// The codes (BullMQ: ErrorCode).
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
	SchedulerTimesTaken  Code = -11
)

var codeTexts = map[Code]string{
	JobNotFound:          "there is no such job: it was removed, or never added",
	LockNotFound:         "its lock is gone: it expired before it was renewed, or was deleted; the job may be run again by another worker",
	NotInState:           "it is not in the state that this call starts from",
	PendingChildren:      "it has children that have not finished yet",
	ParentNotFound:       "its parent does not exist; add the parent first, or add both as a flow",
	LockMismatch:         "its lock belongs to another token: another worker runs it now",
	ParentNotReplaceable: "it already has another parent, which still exists",
	SchedulerJob:         "it belongs to a job scheduler; remove the scheduler instead",
	FailedChildren:       "at least one of its children failed",
	SchedulerIDTaken:     "a job with the id of the scheduler's next run exists already",
	SchedulerTimesTaken:  "jobs with the ids of the scheduler's next runs exist already",
}

func (c Code) Error() string {
	if text, ok := codeTexts[c]; ok {
		return text
	}
	return fmt.Sprintf("unknown code %d", int(c))
}

// Error is the error of a command that was refused. The command has written nothing,
// unless its Lua file documents an exception.
type Error struct {
	Code      Code
	Command   string // BullMQ's name of the command, such as moveToFinished
	QueueName string // without the prefix
	QueueKey  string // with the prefix, such as bull:orders
	JobID     string // "" if the call does not concern a single job
	Detail    string // such as the parent's key or the expected state; may be ""
}

// verbs maps each command to the verb in its error text, named after the call in package
// bullmq that sends it.
var verbs = map[string]string{
	"addDelayedJob": "add", "addParentJob": "add", "addPlainJobs": "add", "addPrioritizedJob": "add", "addStandardJob": "add",
	"addJobScheduler": "upsert the scheduler", "updateJobScheduler": "continue the scheduler",
	"addLog": "log to", "changeDelay": "change the delay of", "changePriority": "change the priority of",
	"extendLock": "extend the lock of", "getState": "read the state of",
	"moveToDelayed": "delay", "moveToFinished": "finish", "moveToWait": "move to wait", "moveToWaitingChildren": "wait for the children of",
	"obliterate": "obliterate", "pause": "pause", "promote": "promote", "removeChildDependency": "remove the parent of",
	"removeJob": "remove", "removeUnused": "remove", "removeUnprocessedChildren": "remove the children of", "reprocessJob": "retry", "retryJob": "retry",
	"replayDeadLetters": "replay dead letter",
	"updateData":        "update the data of", "updateProgress": "update the progress of",
	"Job": "read", "WaitForJob": "wait for",
}

func (e *Error) Error() string {
	verb, known := verbs[e.Command]
	if !known {
		verb = e.Command
	}
	about := "queue " + e.QueueName
	if e.JobID != "" {
		about = fmt.Sprintf("job %s of %s", e.JobID, e.QueueName)
	}
	if e.Detail != "" {
		about += " (" + e.Detail + ")"
	}
	return fmt.Sprintf("bullmq: %s %s: %s (code %d)", verb, about, e.Code.Error(), int(e.Code))
}

// Unwrap returns the code, so that errors.Is(err, JobNotFound) works.
func (e *Error) Unwrap() error { return e.Code }

// ServerError is the server's error for one job of a call. The call was carried out for
// its other jobs.
type ServerError struct {
	JobID string
	Text  string
}

func (e *ServerError) Error() string { return "job " + e.JobID + ": " + e.Text }

// ErrNotSent means that a job of a batch was not sent, because the server or the
// connection failed in a call for jobs before it.
var ErrNotSent = errors.New("bullmq: not sent, because jobs before it could not be added")
