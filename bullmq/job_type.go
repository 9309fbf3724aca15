package bullmq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
	"github.com/17a2ac88/bullmq-go/internal/jsontext"
)

// JobType is a kind of job: a name, the Go types of its data and its result, and its
// default options. Producers and workers share it. [Define] makes one. It is safe for
// concurrent use.
//
// Data and results are stored as JSON, in the same way as [Queue.Add] and a [Handler]
// store them. So Node reads and writes them as well.
type JobType[D, R any] struct {
	name     string
	defaults JobOptions
}

// Define returns a JobType. options are the default options of its jobs; at most one
// may be given. They take precedence over the DefaultJobOptions of a queue:
//
//	var Welcome = bullmq.Define[Email, Receipt]("welcome", bullmq.JobOptions{Attempts: 3})
//
// Define panics if name is empty or the options are invalid.
func Define[D, R any](name string, options ...JobOptions) *JobType[D, R] {
	t := &JobType[D, R]{name: name}
	if name == "" {
		panic("bullmq: define a job type: the name is empty")
	}
	if len(options) > 1 {
		panic(fmt.Sprintf("bullmq: define job type %s: %d options are given; give at most one", name, len(options)))
	}
	if len(options) == 1 {
		if err := options[0].checkDefaults(); err != nil {
			panic(fmt.Sprintf("bullmq: define job type %s: %v", name, err))
		}
		t.defaults = options[0].asDefaults()
	}
	return t
}

// Name returns the name of the jobs.
func (t *JobType[D, R]) Name() string { return t.name }

// Add adds a job to a queue, as [Queue.Add] does. options take precedence over those of
// the type, and may be nil.
func (t *JobType[D, R]) Add(ctx context.Context, queue *Queue, data D, options *JobOptions) (*Job, error) {
	return queue.Add(ctx, t.name, data, t.options(options))
}

// Bulk returns a job for [Queue.AddBulk]. options are used as by [JobType.Add].
func (t *JobType[D, R]) Bulk(data D, options *JobOptions) BulkJob {
	return BulkJob{Name: t.name, Data: data, Options: t.options(options)}
}

// Flow returns a job for [FlowProducer.Add], with its children. options are used as by
// [JobType.Add].
func (t *JobType[D, R]) Flow(queueName string, data D, options *JobOptions, children ...Flow) Flow {
	return Flow{Name: t.name, QueueName: queueName, Data: data, Options: t.options(options), Children: children}
}

// Template returns the template of a scheduler's jobs, for [Queue.UpsertScheduler]. options
// are used as by [JobType.Add].
func (t *JobType[D, R]) Template(data D, options *JobOptions) JobTemplate {
	return JobTemplate{Name: t.name, Data: data, Options: t.options(options)}
}

// Schedule creates or updates a job scheduler, as [Queue.UpsertScheduler] does. options
// are used as by [JobType.Add].
func (t *JobType[D, R]) Schedule(ctx context.Context, queue *Queue, schedulerID string, repeat Repeat, data D, options *JobOptions) (*Job, error) {
	template := t.Template(data, options)
	return queue.UpsertScheduler(ctx, schedulerID, repeat, &template)
}

// Wait waits until a job has finished and returns its result. It returns the errors of
// [Queue.WaitForJob], and also an error if the result does not fit R.
func (t *JobType[D, R]) Wait(ctx context.Context, queue *Queue, jobID string) (result R, err error) {
	value, err := queue.WaitForJob(ctx, jobID)
	if err != nil {
		return result, err
	}
	return t.result(jobID, value)
}

// Data returns the data of a job, or an error if it does not fit D. If a value has the
// wrong type, the error names the JSON path of that value.
func (t *JobType[D, R]) Data(job *Job) (data D, err error) {
	if err := job.Decode(&data); err != nil {
		return data, fmt.Errorf("%w%s", err, at(job.Data, err))
	}
	return data, nil
}

// Result returns the result of a completed job, or an error if it does not fit R. If a
// value has the wrong type, the error names the JSON path of that value.
func (t *JobType[D, R]) Result(job *Job) (R, error) { return t.result(job.ID, job.ReturnValue) }

func (t *JobType[D, R]) result(jobID string, value json.RawMessage) (result R, err error) {
	if err := wire.DecodeJSON(value, &result); err != nil {
		return result, fmt.Errorf("bullmq: result of job %s (%s) doesn't fit %T: %w%s", jobID, t.name, result, err, at(value, err))
	}
	return result, nil
}

// options returns the options of a job: its own, and the defaults of the type.
func (t *JobType[D, R]) options(own *JobOptions) *JobOptions {
	switch {
	case t.defaults.plain():
		return own
	case own == nil:
		return &t.defaults
	}
	o := own.withDefaults(t.defaults)
	return &o
}

// at returns the position of a decoding error in the JSON text, such as
// " at $.items[2].price". It returns "" if the error has no position.
func at(text []byte, err error) string {
	var mismatch *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &mismatch):
		return " at " + jsontext.Path(text, mismatch.Offset)
	case errors.As(err, &syntax):
		return fmt.Sprintf(" at byte %d", syntax.Offset)
	}
	return ""
}
