package bullmq

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// JobOptions say how a job is run. The zero value, and nil, is a job that
// runs once, at once, in its turn. Durations count in milliseconds on the wire.
type JobOptions struct {
	// JobID is the job's id instead of the queue's next number. Adding an id
	// that exists adds nothing. Not a whole number, not "0", not "0:…", and no
	// colon unless there are exactly two. (BullMQ: jobId)
	JobID string
	// Delay is how long after Timestamp the job becomes ready, in whole
	// milliseconds: round what time.Until returns with Round(time.Millisecond). A
	// negative one, as time.Until may return, is none.
	Delay time.Duration
	// Priority puts the job behind all jobs without one; lower numbers go
	// first. From 1 to 2,097,151; 0 is none.
	Priority int
	// LIFO lets the job run next instead of last in line. (BullMQ: lifo)
	LIFO bool
	// Attempts is how often the job may fail before it counts as failed. 0 and
	// 1 both mean once.
	Attempts int
	// Backoff is the wait between attempts; nil retries at once.
	Backoff *Backoff
	// KeepCompleted and KeepFailed say what stays of ended jobs. They go
	// before the worker's own.
	KeepCompleted Retention
	KeepFailed    Retention
	// KeepLogs is how many rows of the job's log stay; 0 for all.
	KeepLogs int
	// StackTraceLimit is how many stack traces stay; 0 for all, NoStackTraces
	// for none.
	StackTraceLimit int
	// SizeLimit refuses data of more bytes (JSON, UTF-8); 0 for no limit.
	SizeLimit int
	// Timestamp is when the job was made; the zero time is now.
	Timestamp time.Time
	// Deduplication drops or merges adds with the same id.
	Deduplication *Deduplication
	// Parent makes the job a child of an existing job.
	Parent *ParentRef
	// What the parent does when this job fails for good; at most one. These are
	// options of the child: a job without a parent ignores them, as in Node.
	FailParentOnFailure       bool // it fails too
	ContinueParentOnFailure   bool // it runs at once
	IgnoreDependencyOnFailure bool // it runs when no child is pending, and can read the reason
	RemoveDependencyOnFailure bool // it runs when no child is pending, as if this job had never been

	noAttempts bool // attempts: 0 was read, which a default doesn't replace
	foreign    bool // it was read from JSON, with values that a program may not set

	// Telemetry is the trace to which the job belongs. A Queue or FlowProducer with a
	// Telemetry fills it in.
	Telemetry *JobTelemetry
	// Extra holds options that this SDK doesn't know, by their names on the
	// wire: what another client wrote is kept, what is put here is written. An
	// option that has a field may stand here too, by either of its names, with a
	// value that the field can't express: {"delay": 0} is an explicit zero, which
	// a default of the queue doesn't replace. The field, where set, takes
	// precedence. A value that BullMQ could not use either, such as a jobId that is
	// a number, is refused when the job is added. Extra adds to the Extra of the defaults, name by name, and null
	// leaves an option out, the default's value included.
	Extra map[string]json.RawMessage
	// Reset names options, as BullMQ spells them (delay, lifo, keepLogs), that the
	// queue's DefaultJobOptions must not set for this job. It is not stored.
	// (BullMQ: an option that is undefined)
	Reset []string
}

// NoStackTraces is the value of JobOptions.StackTraceLimit that keeps no stack
// traces (BullMQ: 0).
const NoStackTraces = -1

// Deduplication drops an add while another job owns its id (BullMQ:
// deduplication). Without TTL the id is taken until its owner ends.
type Deduplication struct {
	// ID is what makes two adds the same.
	ID string
	// TTL frees the id after that time, whether the owner has ended or not.
	TTL time.Duration
	// Extend starts the TTL anew with each dropped add.
	Extend bool
	// Replace lets the newer add take the place of an owner that is still delayed.
	Replace bool
	// KeepLastIfActive queues the newest add that came while the owner ran,
	// when the owner ends.
	KeepLastIfActive bool
	// Reschedule moves an owner that is delayed to the dropped add's delay. (6.7)
	Reschedule bool

	rest rest
}

// ParentRef names the job that waits for this one (BullMQ: parent).
type ParentRef struct {
	ID string
	// Queue is the parent's queue with its prefix: bull:orders.
	QueueKey string
}

// ref returns the job that the parent is. A QueueKey that is not a prefix and a name
// is kept in Queue.
func (p *ParentRef) ref() backend.JobRef {
	at := strings.LastIndexByte(p.QueueKey, ':')
	if at <= 0 || at == len(p.QueueKey)-1 {
		return backend.JobRef{Queue: p.QueueKey, ID: p.ID}
	}
	return backend.JobRef{Prefix: p.QueueKey[:at], Queue: p.QueueKey[at+1:], ID: p.ID}
}

// JobTelemetry is what a job carries of a trace (BullMQ: telemetry {metadata,
// omitContext}).
type JobTelemetry struct {
	// Metadata is the context, as Telemetry.Inject has written it.
	Metadata string
	// OmitContext leaves the context of who adds the job out, so that the job
	// starts a trace of its own.
	OmitContext bool
}
