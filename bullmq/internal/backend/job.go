package backend

import (
	"strings"
	"time"
)

// State is the state of a job.
type State string

// The states, with BullMQ's names.
const (
	Waiting         State = "waiting"
	Active          State = "active"
	Delayed         State = "delayed"
	Prioritized     State = "prioritized"
	WaitingChildren State = "waiting-children"
	Completed       State = "completed"
	Failed          State = "failed"
	Paused          State = "paused"  // BullMQ 5 only: waiting jobs of a paused queue
	Unknown         State = "unknown" // there is no such job
)

// JobRef identifies a job of any queue.
type JobRef struct {
	Prefix, Queue string
	ID            string
}

// String returns the key by which jobs refer to each other: <prefix>:<queue>:<id>.
func (r JobRef) String() string {
	switch {
	case r.Queue == "":
		return r.ID
	case r.Prefix == "":
		return r.Queue + ":" + r.ID
	}
	return r.Prefix + ":" + r.Queue + ":" + r.ID
}

// IsZero reports whether the reference is empty.
func (r JobRef) IsZero() bool { return r == JobRef{} }

// IsComplete reports whether the reference has a prefix, a queue and an id. It is false
// if [ParseJobRef] has parsed a key of another form.
func (r JobRef) IsComplete() bool { return r.Prefix != "" && r.Queue != "" && r.ID != "" }

// ParseJobRef parses the key of a job, <prefix>:<queue>:<id>. The prefix may contain
// colons. For a key of another form, [JobRef.String] returns that key.
func ParseJobRef(key string) JobRef {
	last := strings.LastIndexByte(key, ':')
	if last <= 0 {
		return JobRef{ID: key}
	}
	middle := strings.LastIndexByte(key[:last], ':')
	switch {
	case middle == last-1 || middle == 0:
		return JobRef{ID: key}
	case middle < 0:
		return JobRef{Queue: key[:last], ID: key[last+1:]}
	}
	return JobRef{Prefix: key[:middle], Queue: key[middle+1 : last], ID: key[last+1:]}
}

// JobRecord is a stored job. A field that is not stored, or cannot be parsed, has the
// zero value.
type JobRecord struct {
	ID   string
	Name string
	Data []byte // JSON, byte for byte as it was added
	Opts string // JSON

	Timestamp time.Time
	Delay     time.Duration
	Priority  int

	AttemptsMade    int
	AttemptsStarted int
	StalledCounter  int
	// AttemptsSince is for a job whose first attempts were counted by BullMQ 4 or older, in
	// a field with another name. AttemptsMade then has that count, and AttemptsSince counts
	// the attempts after it.
	AttemptsSince int

	ProcessedOn time.Time
	FinishedOn  time.Time
	ProcessedBy string

	Progress     []byte // JSON
	ReturnValue  []byte // JSON
	FailedReason string
	StackTrace   []string

	Parent          JobRef
	ParentPolicy    []byte // JSON
	SchedulerID     string
	DeduplicationID string
	DeferredFailure string
	// Cancelled means that Cancel has cancelled the job, in its last run or in an earlier
	// one. It stays when the job has finished.
	Cancelled bool

	// Incomplete means that the job has no name, because its record is missing or
	// incomplete.
	Incomplete bool
	// LacksDelay means that no delay is stored, and LacksPriority that no priority is
	// stored. Other clients may have left out these fields.
	LacksDelay, LacksPriority bool
}

// Page is a range of a list. From and To are inclusive. Negative positions count from the
// end: -1 is the last.
type Page struct {
	From, To  int
	Ascending bool // oldest first
}
