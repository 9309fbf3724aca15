package bullmq

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/internal/testjob"
)

func init() { testjob.New = newRecordedJob }

// jobNotes is where the progress, the data and the log of a job are stored: the store of
// its queue, or the recorder of a job of package bullmqtest.
type jobNotes interface {
	UpdateProgress(ctx context.Context, jobID, progress string) error
	UpdateData(ctx context.Context, jobID, data string) error
	AddLog(ctx context.Context, jobID, row string, keep int) (int, error)
	ClearLogs(ctx context.Context, jobID string, keep int) error
}

// notes returns where the notes of the job are stored.
func (j *Job) notes(verb string) (jobNotes, error) {
	if r := j.recorder(); r != nil {
		return r, nil
	}
	c, err := j.coreFor(verb)
	if err != nil {
		return nil, err
	}
	return c.store, nil
}

// recorder returns what records the calls on a job of package bullmqtest; nil for other
// jobs.
func (j *Job) recorder() testjob.Recorder {
	if j == nil || j.core == nil {
		return nil
	}
	return j.core.recorder
}

// newRecordedJob is [testjob.New]. The job's core has no store.
func newRecordedJob(spec testjob.Spec) (any, error) {
	k, err := newKeys("", spec.QueueName)
	if err != nil {
		return nil, err
	}
	c := &core{keys: k, now: func() time.Time { return spec.Now }, jobs: &sync.Mutex{}, recorder: spec.Recorder}
	var o JobOptions
	if options, _ := spec.Options.(*JobOptions); options != nil {
		o = *options
	}
	parent := o.Parent
	o.Parent = nil // whose queue would have to be checked
	added, _, err := (&Queue{core: c}).prepare(spec.Name, spec.Data, &o)
	if err != nil {
		return nil, fmt.Errorf("bullmq: make job %.80q: %w", spec.Name, err)
	}
	if added.ID == "" {
		added.ID = spec.ID
	}
	record := &backend.JobRecord{
		ID: added.ID, Name: added.Name, Data: added.Data, Opts: string(added.RawOptions),
		Timestamp: added.Timestamp, Priority: added.Priority, AttemptsStarted: 1, ProcessedOn: spec.Now,
		SchedulerID: added.SchedulerID, DeduplicationID: added.DeduplicationID,
	}
	if parent != nil {
		o.Parent = parent
		record.Parent, record.ParentPolicy = parent.ref(), []byte(childOf(parent, &o))
	}
	return c.newJob(record), nil
}
