package bullmqtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// WorkOptions configures [Work] and [WorkJob]. A nil pointer and the zero value select the
// defaults.
type WorkOptions struct {
	// Queue is the queue to which Work adds the job.
	// Defaults to a new queue for each call.
	Queue string
	// Job are the options of the job, as for [bullmq.JobType.Add].
	Job *bullmq.JobOptions
	// Worker are the options of the worker. An option that is not set is taken from
	// [Kit.WorkerOptions]. Concurrency is always 1.
	Worker *bullmq.WorkerOptions
	// FetchTimeout is how long the worker may take to fetch the job, before the test
	// fails. The handler has no time limit.
	// Defaults to 10 seconds.
	FetchTimeout time.Duration
}

// Result is the result of one attempt of a job.
type Result[R any] struct {
	// Job is the job as it is stored after the attempt. If the job was removed when it
	// finished, Job is the job as the worker last knew it.
	Job *bullmq.Job
	// State is the state of the job after the attempt. A job that will be retried is
	// delayed or waiting. A job that was handed over ([bullmq.ErrHandedOver]) is active.
	State bullmq.State
	// Value is the return value of a job that completed, decoded from its JSON.
	Value R
	// Err is the error of the attempt, for errors.Is and errors.As. It is the error that the
	// handler returned, a [*bullmq.PanicError], or the reason why the job failed without
	// running.
	Err error
	// NextAttempt is when the job runs again. For a delayed job that is the end of its
	// delay, for a waiting job now. For other jobs it is the zero time.
	NextAttempt time.Time
	// Progress are the values given to UpdateProgress during the attempt, as JSON.
	Progress []json.RawMessage
	// Logs are the rows that all attempts have added to the job's log, the oldest first. With
	// JobLog of the worker's or the server's options, they include the lines of the handler's
	// logger.
	Logs []string
}

// Work adds a job and runs one attempt of it with a worker. So the job has a lock, its data
// and its result are stored as JSON, and the context has the job. handler is a handler or the
// ServeJob method of a Mux. Work does not wait for a delay of the job. The worker has ended
// when Work returns. options may be nil.
//
// A failed attempt does not fail the test.
func Work[D, R any](t testing.TB, k *Kit, handler bullmq.Handler, jobType *bullmq.JobType[D, R], data D, options *WorkOptions) *Result[R] {
	t.Helper()
	var o WorkOptions
	if options != nil {
		o = *options
	}
	if o.Queue == "" {
		o.Queue = k.newQueueName()
	}
	job, err := jobType.Add(t.Context(), k.Queue(o.Queue), data, o.Job)
	if err != nil {
		t.Fatalf("bullmqtest: work: %v", err)
	}
	return WorkJob(t, k, handler, jobType, job, &o)
}

// WorkJob runs the next attempt of a waiting or delayed job, as [Work] does. The job runs
// before the other jobs of its queue. If it is delayed, its delay ends at once, and the time of
// the Kit stays the same. options may be nil.
func WorkJob[D, R any](t testing.TB, k *Kit, handler bullmq.Handler, jobType *bullmq.JobType[D, R], job *bullmq.Job, options *WorkOptions) *Result[R] {
	t.Helper()
	var o WorkOptions
	if options != nil {
		o = *options
	}
	if o.FetchTimeout == 0 {
		o.FetchTimeout = 10 * time.Second
	}
	ctx := t.Context()
	queue := k.Queue(job.QueueName())
	fail := func(err error) {
		t.Helper()
		t.Fatalf("bullmqtest: run job %s (%s) of queue %s: %v", job.ID, job.Name, job.QueueName(), err)
	}
	if err := k.makeNext(ctx, queue, job.ID); err != nil {
		fail(err)
	}
	a, err := k.runOnce(ctx, queue.Name(), handler, o, job.ID)
	if err != nil {
		fail(err)
	}
	r := &Result[R]{Err: a.err, Progress: a.progress}
	stored, err := queue.Job(ctx, job.ID)
	switch {
	case errors.Is(err, bullmq.ErrJobNotFound):
		r.Job, r.State = a.job, a.end
	case err != nil:
		fail(err)
	default:
		r.Job = stored
		if r.State, err = queue.JobState(ctx, job.ID); err != nil {
			fail(err)
		}
		if r.Logs, _, err = queue.JobLogs(ctx, job.ID, bullmq.AllEntries()); err != nil {
			fail(err)
		}
	}
	switch r.State {
	case bullmq.StateCompleted:
		if r.Value, err = jobType.Result(r.Job); err != nil {
			fail(err)
		}
	case bullmq.StateWaiting, bullmq.StatePrioritized, bullmq.StatePaused:
		r.NextAttempt = k.Now()
	case bullmq.StateDelayed:
		if r.NextAttempt, err = k.dueTime(ctx, queue.Name(), job.ID); err != nil {
			fail(err)
		}
	}
	return r
}

// finishPatience is how long WaitFinished and WaitState wait.
const finishPatience = 30 * time.Second

// WaitFinished waits until a job has finished, and returns it with its result. A worker or
// server must be running. If the job failed, Err of the result is a [*bullmq.JobFailedError],
// and the test does not fail. The result has no Progress; the last progress is in
// Job.Progress.
//
// The test fails if the job is removed before it finishes, or if it has not finished within 30
// seconds. While the time of the Kit stands still, delayed jobs and retries do not run.
func WaitFinished[D, R any](t testing.TB, k *Kit, queueName string, jobType *bullmq.JobType[D, R], jobID string) *Result[R] {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), finishPatience)
	defer cancel()
	queue := k.Queue(queueName)
	fail := func(err error) {
		t.Helper()
		if state, stateErr := queue.JobState(t.Context(), jobID); stateErr == nil && ctx.Err() != nil {
			err = fmt.Errorf("it is %s after %v: %w", state, finishPatience, err)
		}
		t.Fatalf("bullmqtest: wait for job %s (%s) of queue %s: %v", jobID, jobType.Name(), queueName, err)
	}
	value, err := queue.WaitForJob(ctx, jobID)
	var failed *bullmq.JobFailedError
	if err != nil && !errors.As(err, &failed) {
		fail(err)
	}
	r := &Result[R]{State: bullmq.StateCompleted, Err: err, Job: &bullmq.Job{ID: jobID, Name: jobType.Name(), ReturnValue: value}}
	if failed != nil {
		r.State, r.Job.FailedReason = bullmq.StateFailed, failed.Reason
	}
	stored, err := queue.Job(ctx, jobID)
	switch {
	case errors.Is(err, bullmq.ErrJobNotFound): // it was removed when it finished
	case err != nil:
		fail(err)
	default:
		r.Job = stored
		if r.Logs, _, err = queue.JobLogs(ctx, jobID, bullmq.AllEntries()); err != nil {
			fail(err)
		}
	}
	if r.State == bullmq.StateCompleted {
		if r.Value, err = jobType.Result(r.Job); err != nil {
			fail(err)
		}
	}
	return r
}

// WaitState waits until a job is in a state, and returns the job. For instance, a test waits
// for [bullmq.StateActive] before it cancels the job.
//
// The test fails if the job does not exist, or if it has not reached the state within 30
// seconds. WaitState may miss a state that lasts only for a short time.
func (k *Kit) WaitState(queueName, jobID string, state bullmq.State) *bullmq.Job {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), finishPatience)
	defer cancel()
	last := bullmq.State("unknown")
	for queue := k.Queue(queueName); ; time.Sleep(5 * time.Millisecond) {
		job, now, err := queue.JobAndState(ctx, jobID)
		switch {
		case ctx.Err() != nil:
			k.t.Fatalf("bullmqtest: wait until job %s of queue %s is %s: it is %s after %v", jobID, queueName, state, last, finishPatience)
		case err != nil:
			k.t.Fatalf("bullmqtest: wait until job %s of queue %s is %s: %v", jobID, queueName, state, err)
		case now == state:
			return job
		}
		last = now
	}
}

// newQueueName returns the name of a queue that nobody else uses.
func (k *Kit) newQueueName() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.works++
	return fmt.Sprintf("work-%d", k.works)
}

// makeNext makes a job the next one that a worker fetches.
func (k *Kit) makeNext(ctx context.Context, queue *bullmq.Queue, jobID string) error {
	state, err := queue.JobState(ctx, jobID)
	if err != nil {
		return err
	}
	if state == bullmq.StateDelayed {
		if err := queue.JobRef(jobID).Promote(ctx); err != nil {
			return err
		}
		if state, err = queue.JobState(ctx, jobID); err != nil {
			return err
		}
	}
	if state != bullmq.StateWaiting && state != bullmq.StatePrioritized {
		return fmt.Errorf("the job is %s, and can't run", state)
	}
	return k.first(ctx, queue.Name(), jobID)
}

// attempt is what Work and WorkJob observe of one attempt of a job.
type attempt struct {
	mu       sync.Mutex
	job      *bullmq.Job  // the job of the worker; nil if none was fetched
	end      bullmq.State // StateCompleted, StateFailed, or "" if neither event was emitted
	returned bool         // the handler has returned
	err      error
	progress []json.RawMessage
}

// runOnce runs one attempt of the next job of a queue. That must be the job with the given id.
func (k *Kit) runOnce(ctx context.Context, queueName string, handler bullmq.Handler, options WorkOptions, jobID string) (*attempt, error) {
	o := k.workerOptions(options.Worker)
	o.Concurrency, o.SkipStalledCheck = 1, true
	if options.Worker == nil || options.Worker.ShutdownTimeout == 0 {
		o.ShutdownTimeout = 24 * time.Hour // the worker stops when the handler starts
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	a := &attempt{}
	a.observe(&o, stop)
	var other string
	worker, err := bullmq.NewWorker(ctx, queueName, func(ctx context.Context, job *bullmq.Job) (any, error) {
		stop()
		if job.ID != jobID {
			other = job.ID
			return nil, bullmq.ErrSnoozed
		}
		a.started(job)
		value, err := handler(ctx, job)
		a.returns(err)
		return value, err
	}, &o)
	if err != nil {
		return nil, err
	}
	timer := time.AfterFunc(options.FetchTimeout, stop)
	defer timer.Stop()
	if err := worker.Run(running); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case other != "":
		return nil, fmt.Errorf("the worker fetched job %s instead", other)
	case a.job == nil:
		return nil, fmt.Errorf("no worker fetched it within %v: is its queue paused, limited, or Redis down?", options.FetchTimeout)
	}
	return a, nil
}

// observe makes the functions for the worker's events record the attempt. stop is called
// when the job has finished, because it may fail without running.
func (a *attempt) observe(o *bullmq.WorkerOptions, stop func()) {
	own := o.Events
	o.Events.Completed = func(job *bullmq.Job, value any) {
		a.ends(job, bullmq.StateCompleted, nil)
		if own.Completed != nil {
			own.Completed(job, value)
		}
	}
	o.Events.Failed = func(job *bullmq.Job, err error) {
		a.ends(job, bullmq.StateFailed, err)
		stop()
		if own.Failed != nil {
			own.Failed(job, err)
		}
	}
	o.Events.Progress = func(job *bullmq.Job, progress any) {
		a.mu.Lock()
		a.progress = append(a.progress, job.Progress)
		a.mu.Unlock()
		if own.Progress != nil {
			own.Progress(job, progress)
		}
	}
}

func (a *attempt) started(job *bullmq.Job) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.job = job
}

func (a *attempt) returns(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err, a.returned = err, true
}

func (a *attempt) ends(job *bullmq.Job, state bullmq.State, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.job, a.end = job, state
	if !a.returned || a.err == nil {
		a.err = err
	}
}
