package bullmq

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// NewJob is a job that is about to be added. An [AddMiddleware] may change Data and
// Options.
type NewJob struct {
	QueueName string
	Name      string
	Data      any
	// Options are a copy of the options that the caller passed, or nil if there are none.
	// The defaults of the queue are added later.
	Options *JobOptions
	// SchedulerID is the id of the scheduler if this is the template of a scheduler's
	// jobs, and "" otherwise.
	SchedulerID string

	job *Job // as the add has returned it; nil before that and after an error
}

// Added returns the job that was added. A middleware can call it after next has returned.
// Added returns nil if this job was not added, because of an error, because a job with
// its JobID exists, or because it was deduplicated. If next returns an error for a bulk,
// some of the jobs may still have been added. Added always returns nil for the template of
// a scheduler.
func (n *NewJob) Added() *Job {
	if n.job.AddOutcome() != Added {
		return nil
	}
	return n.job
}

// SetExtra sets an option of the job that this SDK does not know, such as requestId. It
// is stored as JSON, and Node reads it as job.opts.requestId. A handler finds it in
// JobOptions.Extra.
func (n *NewJob) SetExtra(option string, value any) error {
	text, err := wire.EncodeJSON(value)
	if err != nil {
		return fmt.Errorf("bullmq: set option %s of job %.80q: %w", option, n.Name, err)
	}
	var o JobOptions
	if n.Options != nil {
		o = *n.Options
	}
	if o.Extra = maps.Clone(o.Extra); o.Extra == nil {
		o.Extra = map[string]json.RawMessage{}
	}
	o.Extra[option] = json.RawMessage(text)
	n.Options = &o
	return nil
}

// EncodeData returns Data as it is stored: as JSON, nil as an empty object.
func (n *NewJob) EncodeData() (json.RawMessage, error) {
	if n.Data == nil {
		return json.RawMessage("{}"), nil
	}
	text, err := wire.EncodeJSON(n.Data)
	if err != nil {
		return nil, fmt.Errorf("bullmq: encode the data of job %.80q: %w", n.Name, err)
	}
	return json.RawMessage(text), nil
}

// AddFunc adds jobs in one call. jobs contains the one job of [Queue.Add], the jobs of
// [Queue.AddBulk], all jobs of the flows of a [FlowProducer], or the template of
// [Queue.UpsertScheduler].
type AddFunc func(ctx context.Context, jobs []*NewJob) error

// AddMiddleware wraps an [AddFunc], to run code before and after jobs are added. It must
// either call next with all jobs, or return an error without a call of next. In the second
// case no job is added. After next has returned, [NewJob.Added] tells which jobs were
// added.
type AddMiddleware func(next AddFunc) AddFunc

var errNotAdded = errors.New("bullmq: a middleware has not added the job: it must call next or return an error")

// wrapAdd returns an AddFunc with middleware around it. The first middleware is the
// outermost one. It returns nil without middleware.
func wrapAdd(add AddFunc, middleware []AddMiddleware) AddFunc {
	if len(middleware) == 0 {
		return nil
	}
	for i := len(middleware) - 1; i >= 0; i-- {
		add = middleware[i](add)
	}
	return add
}

func newJob(queueName, name string, data any, options *JobOptions) *NewJob {
	n := &NewJob{}
	n.set(queueName, name, data, options)
	return n
}

func (n *NewJob) set(queueName, name string, data any, options *JobOptions) {
	n.QueueName, n.Name, n.Data = queueName, name, data
	if options != nil {
		o := *options
		n.Options = &o
	}
}

// addNew adds a job after all middleware.
func (q *Queue) addNew(ctx context.Context, jobs []*NewJob) (err error) {
	if len(jobs) != 1 {
		return fmt.Errorf("bullmq: a middleware adds %d jobs instead of one: it must call next with the jobs that it gets", len(jobs))
	}
	n := jobs[0]
	n.job, err = q.add(ctx, n.Name, n.Data, n.Options)
	return err
}

// addNewBulk is addNew for the jobs of Queue.AddBulk.
func (q *Queue) addNewBulk(ctx context.Context, jobs []*NewJob) error {
	bulk := make([]BulkJob, len(jobs))
	for i, n := range jobs {
		bulk[i] = BulkJob{Name: n.Name, Data: n.Data, Options: n.Options}
	}
	added, err := q.addBulk(ctx, bulk)
	for i, job := range added {
		jobs[i].job = job
	}
	return err
}

// addThrough adds a job through the queue's middleware.
func (q *Queue) addThrough(ctx context.Context, name string, data any, options *JobOptions) (*Job, error) {
	var job struct { // one allocation
		NewJob
		list [1]*NewJob
	}
	n := &job.NewJob
	n.set(q.Name(), name, data, options)
	job.list[0] = n
	err := q.addOne(ctx, job.list[:])
	if err == nil && n.job == nil {
		err = errNotAdded
	}
	if err != nil {
		return nil, err
	}
	return n.job, nil
}

// addBulkThrough adds jobs through the queue's middleware.
func (q *Queue) addBulkThrough(ctx context.Context, bulk []BulkJob) ([]*Job, error) {
	jobs := make([]*NewJob, len(bulk))
	for i, b := range bulk {
		jobs[i] = newJob(q.Name(), b.Name, b.Data, b.Options)
	}
	return addedBy(jobs, q.addMany(ctx, jobs))
}

// addedBy returns the jobs of a bulk that was added through middleware.
func addedBy(jobs []*NewJob, err error) ([]*Job, error) {
	added := make([]*Job, len(jobs))
	for i, n := range jobs {
		if n.job == nil { // none was added
			return nil, cmp.Or(err, errNotAdded)
		}
		added[i] = n.job
	}
	return added, err
}

// flowMiddleware adds the jobs of flows through a middleware. add gets copies of the
// flows, as the middleware has changed them, and returns their nodes.
func flowMiddleware(ctx context.Context, flows []Flow, middleware []AddMiddleware, add func(context.Context, []Flow) ([]*FlowNode, error)) error {
	var jobs []*NewJob
	var copied func(flows []Flow) []Flow
	var nodes []*Flow // of jobs
	copied = func(flows []Flow) []Flow {
		flows = slices.Clone(flows)
		for i := range flows {
			f := &flows[i]
			nodes, jobs = append(nodes, f), append(jobs, newJob(f.QueueName, f.Name, f.Data, f.Options))
			f.Children = copied(f.Children)
		}
		return flows
	}
	flows = copied(flows)
	called := false
	err := wrapAdd(func(ctx context.Context, passed []*NewJob) error {
		called = true
		for i, n := range jobs {
			nodes[i].Data, nodes[i].Options = n.Data, n.Options
		}
		added, err := add(ctx, flows)
		setAdded(jobs, added)
		return err
	}, middleware)(ctx, jobs)
	if err == nil && !called {
		err = errNotAdded
	}
	return err
}

// setAdded sets the added job of each NewJob. jobs are in the order in which
// flowMiddleware lists the nodes and their children. setAdded returns the jobs that come
// after those of the given nodes.
func setAdded(jobs []*NewJob, nodes []*FlowNode) []*NewJob {
	for _, node := range nodes {
		jobs[0].job = node.Job
		jobs = setAdded(jobs[1:], node.Children)
	}
	return jobs
}
