package bullmq

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// Job is a job of a queue, as it was when it was read. Its methods act on the stored
// job and are safe for concurrent use. A method that changes a stored value
// also sets the field, so don't read that field at the same time.
//
// A Job literal, such as in the test of a handler, belongs to no queue. [Job.Decode] and
// [Job.MarshalJSON] work for it. Methods that act on the stored job return [ErrNoQueue].
type Job struct {
	ID   string
	Name string
	// Data is the payload, JSON, byte for byte as its producer wrote it.
	Data json.RawMessage
	// Options are the job's options. RawOptions are the options as they are stored.
	Options    JobOptions
	RawOptions json.RawMessage

	Timestamp time.Time     // when it was added
	Delay     time.Duration // 0 once it is ready
	Priority  int

	// AttemptsMade is the number of attempts that have ended (BullMQ: attemptsMade,
	// field atm). AttemptsStarted is how often the job was started (attemptsStarted,
	// ats). StalledCounter is how often it has stalled (stalledCounter, stc).
	AttemptsMade    int
	AttemptsStarted int
	StalledCounter  int
	// ProcessedOn is when the job was last started, and FinishedOn is when it completed
	// or failed. ProcessedBy is the name of the worker (field pb).
	ProcessedOn time.Time
	FinishedOn  time.Time
	ProcessedBy string

	Progress    json.RawMessage // JSON; nil if none was reported
	ReturnValue json.RawMessage // JSON; nil unless it completed
	// FailedReason is the error of the last failed attempt, plain text. As in BullMQ,
	// it stays while the job waits for the next attempt, and after that attempt has
	// completed. Use [Job.State] to find out whether a job has failed. [Job.Retry] and
	// [Queue.RetryJobs] remove it from a failed job.
	FailedReason string
	StackTrace   []string // one for each failed attempt, the newest last

	// ParentKey is the key of the parent, <prefix>:<queue>:<id>. RawParent contains the
	// parent and the job's OnFailure, as they are stored.
	ParentKey string
	RawParent json.RawMessage
	// SchedulerID is the id of the scheduler that added the job (BullMQ: repeatJobKey,
	// field rjk). DeduplicationID is the job's deduplication id (field deid).
	SchedulerID     string
	DeduplicationID string
	// DeferredFailure is the reason why the job must fail without running: it stalled
	// too often, or a child failed (defa).
	DeferredFailure string

	// cancelled reports that the job has the field cancelled. See [Job.Cancelled].
	cancelled bool

	core    *core
	outcome AddOutcome // of the add that returned this Job
	token   string
	// attemptsSince is the number of attempts in addition to AttemptsMade. It is not 0 if
	// BullMQ 4 or older has counted the first attempts, in another field.
	attemptsSince int
	// lacksDelay and lacksPriority report that the stored job has no such field. Jobs of
	// other clients may lack them. MarshalJSON then writes these fields as Node does.
	lacksDelay, lacksPriority bool
	// invalid is the reason why the job can't run: its data is not JSON, or its record is
	// missing.
	invalid error
	hint    backend.Hint // from the fetch; 0 for a job of a Fetcher, which another worker may finish
	// isRef reports that the job is known by its id alone. Its other fields are not
	// set.
	isRef bool
	// schedulerPending reports that the next run of its scheduler has not been added.
	schedulerPending bool
}

// coreFor returns the core of the job's queue, for a call that verb names. It returns an
// error for a job that belongs to no queue.
func (j *Job) coreFor(verb string) (*core, error) {
	switch {
	case j == nil:
		return nil, fmt.Errorf("bullmq: %s a nil Job: %w", verb, ErrNoQueue)
	case j.core == nil:
		return nil, fmt.Errorf("bullmq: %s job %q: %w", verb, j.ID, ErrNoQueue)
	case j.core.recorder != nil:
		return nil, fmt.Errorf("bullmq: %s job %q, which bullmqtest.NewJob made: it records only progress, data and logs; run the handler by bullmqtest.Work: %w", verb, j.ID, ErrNoQueue)
	}
	return j.core, nil
}

// stored returns a job that has its options and attempts. For a JobRef it reads them.
// Otherwise it returns the job itself.
func (j *Job) stored(ctx context.Context) (*Job, error) {
	if !j.isRef {
		return j, nil
	}
	record, err := j.core.store.Summary(ctx, j.ID)
	switch {
	case err != nil:
		return nil, err
	case record == nil:
		return nil, j.core.noJob("Job", j.ID)
	}
	return j.core.newJob(record), nil
}

// load reads the record of a JobRef into it.
func (j *Job) load(ctx context.Context) error {
	if !j.isRef {
		return nil
	}
	read, err := j.core.job(ctx, j.ID)
	if err == nil {
		j.update(func() {
			token := j.token
			*j = *read
			j.token = token
		})
	}
	return err
}

// unread returns the error of a call that needs the record of a JobRef.
func (j *Job) unread(verb string) error {
	return fmt.Errorf("bullmq: %s job %s of queue %s: a JobRef has no record; read the job with Queue.Job or Worker.Job", verb, j.ID, j.QueueName())
}

// update calls change, which sets fields of the job, while no other goroutine does.
func (j *Job) update(change func()) {
	j.core.jobs.Lock()
	defer j.core.jobs.Unlock()
	change()
}

// snapshot returns a copy that later changes do not affect. The copy of nil is nil.
func (j *Job) snapshot() *Job {
	if j == nil {
		return nil
	}
	var copied Job
	j.update(func() { copied = *j })
	return &copied
}

// QueueName returns the name of the job's queue, or "" if it belongs to none.
func (j *Job) QueueName() string {
	if j == nil || j.core == nil {
		return ""
	}
	return j.core.keys.queue
}

// Key returns the key of the job's hash, which parents store for their children. It
// is "" for a job that belongs to no queue.
func (j *Job) Key() string {
	if j == nil || j.core == nil {
		return ""
	}
	return j.core.keys.jobKey(j.ID)
}

// AsParent returns a reference to this job for [JobOptions].Parent of its children. It
// has the id of the job and the key of its queue (BullMQ: queueQualifiedName). If the
// job belongs to no queue, the reference has no QueueKey, and adding a child with it
// fails.
func (j *Job) AsParent() *ParentRef {
	switch {
	case j == nil:
		return &ParentRef{}
	case j.core == nil:
		return &ParentRef{ID: j.ID}
	}
	return &ParentRef{ID: j.ID, QueueKey: j.core.keys.qualifiedName()}
}

// Token returns the lock token with which the job was fetched. It is "" for a job that
// was not fetched, such as one from [Queue.Job].
func (j *Job) Token() string {
	if j == nil {
		return ""
	}
	return j.token
}

// WithToken returns a copy of the job whose calls use the lock token. Use it if another
// part of the program, or another process, has fetched the job, and you have only its id
// and its token. A job that a [Worker] or a [Fetcher] returned has its token.
//
// As in BullMQ, the token "0" owns every lock. With it a program can finish or move a
// job that another program holds.
func (j *Job) WithToken(token string) *Job {
	if j == nil {
		return nil
	}
	copied := *j
	if j.core != nil {
		copied = *j.snapshot()
	}
	copied.token = token
	return &copied
}

// locked returns the core of the job's queue, for a call that needs the job's lock.
func (j *Job) locked(verb string) (*core, error) {
	c, err := j.coreFor(verb)
	switch {
	case err != nil:
		return nil, err
	case j.token == "":
		return nil, fmt.Errorf("bullmq: %s job %s of queue %s: the job has no lock token; use the job that a Worker or a Fetcher returned, or give it the token of its lock with Job.WithToken", verb, j.ID, j.QueueName())
	}
	return c, nil
}

// checkToken returns an error for tokens with which no job may be fetched. For "0",
// BullMQ's scripts skip the check of the lock.
func checkToken(token string) error {
	if token == "" || token == "0" {
		return fmt.Errorf(`the lock token %q would own every lock; use a unique text such as a UUID`, token)
	}
	return nil
}

// Decode decodes the data into target. Numbers in interfaces are decoded exactly, as
// [json.Number]. It returns an error for a job from [Queue.JobRef], which has no data.
func (j *Job) Decode(target any) error {
	switch {
	case j == nil:
		return fmt.Errorf("bullmq: decode the data of a nil Job: %w", ErrNoQueue)
	case j.isRef && j.Data == nil:
		return j.unread("decode the data of")
	}
	err := wire.DecodeJSON(j.Data, target)
	switch {
	case err == nil:
		return nil
	case j.core == nil:
		return fmt.Errorf("bullmq: data of job %s (%s) doesn't fit %T: %w", j.ID, j.Name, target, err)
	}
	return fmt.Errorf("bullmq: data of job %s (%s) of queue %s doesn't fit %T: %w", j.ID, j.Name, j.QueueName(), target, err)
}

// newJob returns the job of a record. If the job can't run, it sets invalid, which the
// worker reports.
func (c *core) newJob(r *backend.JobRecord) *Job {
	j := &Job{
		ID: r.ID, Name: r.Name, Data: r.Data, RawOptions: rawText(r.Opts),
		Timestamp: r.Timestamp, Delay: r.Delay, Priority: r.Priority,
		AttemptsMade: r.AttemptsMade, AttemptsStarted: r.AttemptsStarted, StalledCounter: r.StalledCounter,
		ProcessedOn: r.ProcessedOn, FinishedOn: r.FinishedOn, ProcessedBy: r.ProcessedBy,
		Progress: r.Progress, ReturnValue: r.ReturnValue, FailedReason: r.FailedReason, StackTrace: r.StackTrace,
		ParentKey: r.Parent.String(), RawParent: r.ParentPolicy,
		SchedulerID: r.SchedulerID, DeduplicationID: r.DeduplicationID, DeferredFailure: r.DeferredFailure, cancelled: r.Cancelled,
		core: c, attemptsSince: r.AttemptsSince, lacksDelay: r.LacksDelay, lacksPriority: r.LacksPriority,
	}
	switch text := string(j.RawOptions); {
	case text == "":
	case text == noOptions:
		j.Options.noAttempts = true
	case j.Options.UnmarshalJSON(j.RawOptions) != nil:
		j.Options = JobOptions{}
	default:
		delete(j.Options.Extra, schedulerOption) // which is SchedulerID
	}
	switch {
	case len(j.Data) == 0:
		j.Data = json.RawMessage("{}")
	case !json.Valid(j.Data):
		j.invalid = fmt.Errorf("the job's data is not JSON: %.80q; its producer must write JSON into the field data", j.Data)
	}
	if r.Incomplete {
		j.invalid = fmt.Errorf("the job's hash %s is missing or incomplete: it has no name, so the job can't run", c.keys.jobKey(r.ID))
	}
	return j
}

// parseInt parses a count. It is limited to the integers of JavaScript: a larger one
// would overflow when it is incremented.
func parseInt(text string) int {
	n, _ := wire.ParseNumber(text)
	return int(min(max(n, -wire.MaxSafeInteger), wire.MaxSafeInteger))
}

// rawText returns text as stored JSON, or nil if it is "".
func rawText(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

// rawJSON returns text if it is JSON, nil otherwise.
func rawJSON(text string) json.RawMessage {
	if text == "" || !json.Valid([]byte(text)) {
		return nil
	}
	return json.RawMessage(text)
}

// childOf returns the field parent: the job's parent, and the effect of the job's failure
// on it.
func childOf(parent *ParentRef, o *JobOptions) string {
	policies := o.policies()
	text, _ := wire.EncodeJSON(struct { // strings and booleans
		ID       string `json:"id"`
		QueueKey string `json:"queueKey"`
		Fail     bool   `json:"fpof,omitempty"`
		Continue bool   `json:"cpof,omitempty"`
		Ignore   bool   `json:"idof,omitempty"`
		Remove   bool   `json:"rdof,omitempty"`
	}{
		parent.ID, parent.QueueKey,
		slices.Contains(policies, FailParent), slices.Contains(policies, ContinueParent),
		slices.Contains(policies, IgnoreDependency), slices.Contains(policies, RemoveDependency),
	})
	return strings.TrimSpace(text)
}
