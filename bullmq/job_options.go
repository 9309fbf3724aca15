package bullmq

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// A new option also needs a row in job_codec.go (its JSON) and a check in job_check.go.
// docs/architecture.md, "Common changes", lists the rest.

// JobOptions defines how a job runs. With the zero value or nil, the job has one
// attempt, no delay and no priority. Durations must be in whole milliseconds.
type JobOptions struct {
	// JobID is the id of the job (BullMQ: jobId). If a job with this id exists, nothing
	// is added. The id must not be an integer, must not begin with "0:", and must contain
	// either no colon or exactly two.
	// Defaults to the queue's next number.
	JobID string
	// Delay is the time from Timestamp until the job is ready, in whole milliseconds.
	// Round the result of time.Until with Round(time.Millisecond). A negative delay
	// means no delay.
	Delay time.Duration
	// Priority is from 1 to 2,097,151. Jobs with lower numbers run first, and jobs
	// without a priority run before all others.
	// Defaults to 0, no priority.
	Priority int
	// LIFO adds the job at the front of the queue, so that it runs next (BullMQ: lifo).
	LIFO bool
	// Attempts is the maximum number of attempts, including the first one.
	// Defaults to 1.
	Attempts int
	// Backoff defines the wait between attempts.
	// Defaults to no wait.
	Backoff *Backoff
	// KeepCompleted and KeepFailed select which finished jobs stay in Redis (BullMQ:
	// removeOnComplete, removeOnFail).
	// Defaults to the options of the worker.
	KeepCompleted Retention
	KeepFailed    Retention
	// KeepLogs is the maximum number of rows in the job's log.
	// Defaults to 0, no limit.
	KeepLogs int
	// StackTraceLimit is the maximum number of stack traces that the job keeps.
	// [NoStackTraces] keeps none.
	// Defaults to 0, no limit.
	StackTraceLimit int
	// SizeLimit is the maximum size of the job's data, in bytes of JSON. Adding a
	// larger job is an error, a [*SizeLimitError].
	// Defaults to 0, no limit.
	SizeLimit int
	// Timestamp is the time at which the job was created.
	// Defaults to the current time.
	Timestamp time.Time
	// Deduplication drops or merges adds with the same deduplication id.
	Deduplication *Deduplication
	// Target states which workers may run the job. The job is then added to a queue of its
	// own for such jobs, their route. See [Target].
	// Defaults to nil: the workers of the queue.
	Target *Target
	// Parent makes the job a child of an existing job.
	Parent *ParentRef
	// OnFailure selects what happens to the parent if this job fails and has no attempt
	// left. A job without a parent ignores it, as in Node.
	// Defaults to KeepParentWaiting.
	OnFailure ParentPolicy

	noAttempts bool // a parsed "attempts" was 0, so no default replaces it
	foreign    bool // parsed from JSON, so it may have values that a program may not set

	// Telemetry is the trace context of the job. A Queue or FlowProducer with a
	// Telemetry sets it.
	Telemetry *JobTelemetry
	// Extra contains options that this SDK does not know, by their names on the wire.
	// They are stored with the job. Options that another client has written are kept
	// when this SDK writes the options again.
	//
	// If the field of an option can't express a value, set the option here, under its
	// public or stored name. For instance, {"delay": 0} is an explicit zero, which a
	// default of the queue does not replace. If the field is set too, the field takes
	// precedence. A value that BullMQ can't use, such as a number as jobId, is an error
	// when the job is added.
	//
	// Extra is merged with the Extra of the queue's defaults. A null removes an option,
	// even if the queue's defaults set it.
	//
	// If options that were parsed from JSON have several policies for the parent,
	// OnFailure is the one that takes effect, and Extra has the others.
	Extra map[string]json.RawMessage
	// Reset lists the options that the queue's DefaultJobOptions must not set for this
	// job (BullMQ: an option set to undefined). The names are BullMQ's public names, such
	// as delay, lifo and keepLogs. Reset itself is not stored.
	Reset []string
}

// NoStackTraces is the value of JobOptions.StackTraceLimit that keeps no stack
// traces (BullMQ: 0).
const NoStackTraces = -1

// Deduplication drops an add while another job owns its deduplication id (BullMQ:
// deduplication).
type Deduplication struct {
	// ID is the deduplication id. Adds with the same ID are duplicates.
	ID string
	// TTL is how long the job owns the id, in whole milliseconds, whether or not it has
	// finished by then. KeepLastIfActive ignores the TTL.
	// Defaults to 0, which means until the job finishes.
	TTL time.Duration
	// Extend restarts the TTL with each dropped add.
	Extend bool
	// Replace makes the newer job replace an owner that is still delayed.
	Replace bool
	// KeepLastIfActive keeps the last add that was made while the owner runs. Its job is
	// added to the queue when the owner finishes.
	KeepLastIfActive bool
	// Reschedule gives an owner that is still delayed the delay of the dropped add
	// (BullMQ 6.7).
	Reschedule bool

	rest rest
}

// ParentRef identifies the parent of a job (BullMQ: parent).
type ParentRef struct {
	ID string
	// QueueKey is the name of the parent's queue with its prefix, such as bull:orders.
	QueueKey string
}

// ref returns the reference to the parent. If QueueKey is not prefix:name, all of it
// becomes Queue.
func (p *ParentRef) ref() backend.JobRef {
	at := strings.LastIndexByte(p.QueueKey, ':')
	if at <= 0 || at == len(p.QueueKey)-1 {
		return backend.JobRef{Queue: p.QueueKey, ID: p.ID}
	}
	return backend.JobRef{Prefix: p.QueueKey[:at], Queue: p.QueueKey[at+1:], ID: p.ID}
}

// ParentPolicy selects what happens to the parent of a job that has failed. The
// values are the names of BullMQ's options. A job has at most one of these options.
type ParentPolicy string

// The policies for the parent of a failed job.
const (
	// KeepParentWaiting leaves the job pending for its parent. The parent waits until
	// the job is retried and completes, or is removed. (BullMQ: no option)
	KeepParentWaiting ParentPolicy = ""
	// FailParent fails the parent too. Its handler is not called. (BullMQ:
	// failParentOnFailure)
	FailParent ParentPolicy = "failParentOnFailure"
	// ContinueParent runs the parent at once, even if other children are pending. The
	// parent can read the failure. (BullMQ: continueParentOnFailure)
	ContinueParent ParentPolicy = "continueParentOnFailure"
	// IgnoreDependency runs the parent when no other child is pending. The parent can
	// read the failure. (BullMQ: ignoreDependencyOnFailure)
	IgnoreDependency ParentPolicy = "ignoreDependencyOnFailure"
	// RemoveDependency runs the parent when no other child is pending, as if the job had
	// not been its child. (BullMQ: removeDependencyOnFailure)
	RemoveDependency ParentPolicy = "removeDependencyOnFailure"
)

// parentPolicies lists the policies with an option, in the order in which BullMQ looks
// at them if a job has several.
var parentPolicies = []ParentPolicy{FailParent, ContinueParent, IgnoreDependency, RemoveDependency}

// JobTelemetry is the trace context stored with a job (BullMQ: telemetry {metadata,
// omitContext}).
type JobTelemetry struct {
	// Metadata is the trace context, as returned by [Telemetry.Inject].
	Metadata string
	// OmitContext omits the trace context of the add, so that the job starts a new
	// trace.
	OmitContext bool
}
