package bullmqtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// DrainOptions configures [Kit.Drain]. A nil pointer and the zero value select the
// defaults.
type DrainOptions struct {
	// FollowDelays makes Drain also run the jobs that become ready within this time:
	// delayed jobs, retries, jobs of schedulers, and jobs that a rate limit holds back. The
	// time of the Kit moves from job to job. At the end it has moved by FollowDelays.
	// Defaults to 0: only jobs that are ready now.
	FollowDelays time.Duration
	// MaxAttempts is how many attempts may run. The test fails if another one starts.
	// Defaults to 1000.
	MaxAttempts int
	// Worker are the options of the worker. An option that is not set is taken from
	// [Kit.WorkerOptions].
	Worker *bullmq.WorkerOptions
}

// Attempt is an attempt that [Kit.Drain] has run.
type Attempt struct {
	Job *bullmq.Job // as the worker knew it after the attempt
	Err error       // of the handler; a [*bullmq.PanicError] after a panic
	At  time.Time   // by the clock of the Kit, when the attempt ended
}

// Drain runs the jobs of a queue until none is ready or running, and returns the attempts
// in the order in which they ended. Jobs that a handler adds to the queue run too. The
// worker has ended when Drain returns. options may be nil.
//
// Jobs stay where they are if the queue is paused, or if a rate limit holds them back for
// longer than FollowDelays. So do jobs that a handler has handed over
// ([bullmq.ErrHandedOver]). A failed attempt does not fail the test. The test fails if ctx
// ends before Drain is done, if more than MaxAttempts attempts start, or if jobs are left to
// run but no attempt starts, runs or ends for 10 seconds.
func (k *Kit) Drain(ctx context.Context, queueName string, handler bullmq.Handler, options *DrainOptions) []Attempt {
	k.t.Helper()
	d := &drain{kit: k, queueName: queueName, changed: make(chan struct{}, 1), handed: map[string]bool{}}
	if options != nil {
		d.o = *options
	}
	if d.o.MaxAttempts == 0 {
		d.o.MaxAttempts = 1000
	}
	if d.o.FollowDelays < 0 || d.o.FollowDelays%time.Millisecond != 0 {
		k.t.Fatalf("bullmqtest: drain queue %s: FollowDelays %v must be whole milliseconds, and not negative", queueName, d.o.FollowDelays)
	}
	if err := d.run(ctx, handler); err != nil {
		k.t.Fatalf("bullmqtest: drain queue %s: after %d attempts: %v", queueName, len(d.attempts), err)
	}
	return d.attempts
}

// drainPatience is the maximum time in which no attempt starts, runs or ends, although jobs are
// left to run.
const drainPatience = 10 * time.Second

// drain is one call of Drain.
type drain struct {
	kit       *Kit
	queueName string
	o         DrainOptions
	changed   chan struct{} // signals that an attempt has started or ended

	mu       sync.Mutex
	attempts []Attempt
	started  int
	running  int
	handed   map[string]bool // ids of the jobs that handlers have handed over
}

func (d *drain) run(ctx context.Context, handler bullmq.Handler) error {
	o := d.kit.workerOptions(d.o.Worker)
	d.observe(&o)
	worker, err := bullmq.NewWorker(ctx, d.queueName, d.wrap(handler), &o)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- worker.Run(running) }()
	err = d.untilQuiet(ctx, o)
	stop()
	if stopped := <-done; err == nil {
		err = stopped
	}
	return err
}

// untilQuiet returns when no job is left to run.
func (d *drain) untilQuiet(ctx context.Context, o bullmq.WorkerOptions) error {
	k := d.kit
	end := k.Now().Add(d.o.FollowDelays)
	lastChange := time.Now()
	checked := o.SkipStalledCheck // if false, the worker's first check may still requeue a job
	for {
		w, err := k.workload(ctx, d.queueName, o.Limiter)
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return err
		}
		if err := d.withoutHandedOver(ctx, &w); err != nil {
			return err
		}
		now := k.Now()
		d.mu.Lock()
		started, running := d.started, d.running
		d.mu.Unlock()
		next, wait := w.next(now)
		checked = checked || w.checked
		wait = wait || !checked
		switch {
		case started > d.o.MaxAttempts:
			return fmt.Errorf("jobs are still ready; MaxAttempts is %d", d.o.MaxAttempts)
		case running > 0:
			lastChange = time.Now()
		case wait:
		case next.IsZero() || next.After(end):
			k.Advance(max(end.Sub(now), 0).Truncate(time.Millisecond))
			return nil
		default:
			k.Advance(next.Sub(now).Round(time.Millisecond))
			lastChange = time.Now()
			continue
		}
		if time.Since(lastChange) > drainPatience {
			return fmt.Errorf("nothing has happened for %v, with %d jobs ready and %d running elsewhere", drainPatience, w.ready, w.running)
		}
		select {
		case <-d.changed:
			lastChange = time.Now()
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// withoutHandedOver leaves the jobs that handlers have handed over out of the number of running
// jobs.
func (d *drain) withoutHandedOver(ctx context.Context, w *workload) error {
	d.mu.Lock()
	ids := slices.Collect(maps.Keys(d.handed))
	d.mu.Unlock()
	for _, id := range ids {
		state, err := d.kit.Queue(d.queueName).JobState(ctx, id)
		if err != nil && !errors.Is(err, bullmq.ErrJobNotFound) {
			return err
		}
		if state == bullmq.StateActive {
			w.running--
		}
	}
	return nil
}

func (d *drain) wrap(handler bullmq.Handler) bullmq.Handler {
	return func(ctx context.Context, job *bullmq.Job) (any, error) {
		d.mu.Lock()
		d.started++
		d.running++
		delete(d.handed, job.ID)
		excess := d.started > d.o.MaxAttempts
		d.mu.Unlock()
		d.signal()
		over := false
		defer func() {
			d.mu.Lock()
			d.running--
			if over {
				d.handed[job.ID] = true
			}
			d.mu.Unlock()
		}()
		if excess {
			return nil, bullmq.ErrSnoozed
		}
		value, err := handler(ctx, job)
		over = errors.Is(err, bullmq.ErrHandedOver)
		d.record(job, err)
		return value, err
	}
}

// observe makes the worker report failures of jobs whose handler did not return.
func (d *drain) observe(o *bullmq.WorkerOptions) {
	own := o.Events.Failed
	o.Events.Failed = func(job *bullmq.Job, err error) {
		d.record(job, err)
		if own != nil {
			own(job, err)
		}
	}
}

// record records the end of an attempt, once.
func (d *drain) record(job *bullmq.Job, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, attempt := range d.attempts {
		if attempt.Job == job {
			return
		}
	}
	d.attempts = append(d.attempts, Attempt{Job: job, Err: err, At: d.kit.Now()})
	d.signal()
}

func (d *drain) signal() {
	select {
	case d.changed <- struct{}{}:
	default:
	}
}
