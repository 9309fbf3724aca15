package bullmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/safe"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// DeadLetterOptions configure what WorkerOptions.DeadLetters moves, and where to.
type DeadLetterOptions struct {
	// QueueName is the queue for the dead letters. It has the prefix of the worker's
	// queue and, on a cluster, the same hash tag. Several queues may share it.
	QueueName string
	// OnMoved is called for each job that this worker has moved, one call at a time. The
	// methods of DeadLetter.Letter work until the worker is closed.
	//
	// It is called at most once for a letter, and not at all if the process ends, or the
	// reply of Redis is lost, after the job was moved. A worker on the queue for dead
	// letters runs each of them at least once.
	OnMoved func(ctx context.Context, letter DeadLetter)
	// IncludeCancelled moves jobs that failed because [Queue.Cancel] has cancelled them
	// as well.
	// Defaults to false: they stay failed.
	IncludeCancelled bool
	// Interval is how often the worker looks for jobs that others have failed. A job
	// that it has failed itself is moved within a second.
	// Defaults to 5 seconds.
	Interval time.Duration
}

// fill checks the options of a worker and sets the defaults.
func (o *DeadLetterOptions) fill(failed Retention) error {
	o.Interval = cmp.Or(o.Interval, 5*time.Second)
	if err := checkMillis("DeadLetters.Interval", o.Interval, time.Millisecond); err != nil {
		return err
	}
	if !failed.IsZero() && failed.rule.keep.Count == backend.Int(0) {
		return errors.New("KeepFailed removes a job when it fails, so it can't become a dead letter; leave KeepFailed out, since DeadLetters takes failed jobs out of the queue")
	}
	return nil
}

// deadLetters moves the failed jobs of a worker's queue to the queue for dead letters.
type deadLetters struct {
	w      *queueWorker
	o      DeadLetterOptions
	mover  *failedMover
	failed chan struct{} // wakes run after a failure
	dirty  atomic.Bool   // the worker has failed a job that no pass has moved
	passes sync.Mutex    // held during a pass

	// Guarded by passes.
	since    time.Time // the next pass looks at jobs that failed since then; zero for all
	reviewed time.Time // when the last pass began that looked at all

	warnRemoved sync.Once
}

func newDeadLetters(w *queueWorker, o DeadLetterOptions) (*deadLetters, error) {
	mover, err := w.core.failedMover(o.QueueName)
	if err != nil {
		return nil, fmt.Errorf("bullmq: worker of queue %s: DeadLetters: %w", w.QueueName(), err)
	}
	mover.cancelled, mover.records = o.IncludeCancelled, true
	// A call that is cut off may have moved jobs, for which OnMoved is then not called.
	mover.bound = func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timing.CallTimeout)
		callCtx, forget := w.untilClosed(ctx)
		return callCtx, func() { forget(); cancel() }
	}
	return &deadLetters{w: w, o: o, mover: mover, failed: make(chan struct{}, 1)}, nil
}

// noteFailure makes run look for failed jobs soon.
func (d *deadLetters) noteFailure(job *Job, err error) {
	if !d.o.IncludeCancelled && isCancelled(job, err) {
		return
	}
	if keep := d.w.keep(job, decision{action: fail}); keep.Count == backend.Int(0) {
		d.warnRemoved.Do(func() {
			d.w.core.log.Warn("a job was removed when it failed, by its own options, so it did not become a dead letter; add it without KeepFailed (removeOnFail)",
				logJob, job.ID, logName, job.Name)
		})
		return
	}
	d.dirty.Store(true)
	select {
	case d.failed <- struct{}{}:
	default:
	}
}

// run looks for failed jobs at once, after a failure, and every Interval, until ctx ends.
func (d *deadLetters) run(ctx context.Context) {
	var outage timing.Backoff
	for {
		pause := d.o.Interval
		if d.pass(ctx) {
			outage.Succeeded()
		} else {
			pause = min(pause, outage.Next())
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-d.failed:
			timer.Stop()
			// Jobs often fail together, and one call moves many.
			timing.Sleep(ctx, timing.DeadLetterPause)
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// pass moves failed jobs until there are no more or ctx ends. It reports whether no call
// failed.
func (d *deadLetters) pass(ctx context.Context) bool {
	d.passes.Lock()
	defer d.passes.Unlock()
	return ctx.Err() == nil && d.move(ctx)
}

// move makes a pass. The caller holds passes.
//
// Cancelled jobs stay in the state failed, and may be many. So a pass looks only at jobs
// that have failed since the last one, as long as no other job is to be moved later.
func (d *deadLetters) move(ctx context.Context) bool {
	d.dirty.Store(false)
	begun, pending := d.w.core.now(), 0
	if time.Since(d.reviewed) >= timing.DeadLetterReview {
		d.since = time.Time{}
	}
	if d.since.IsZero() {
		d.reviewed = time.Now()
	}
	err := d.mover.move(ctx, d.since, 0, func(moved backend.MovedFailed) {
		pending += moved.Pending
		for _, record := range moved.Records {
			if letter, isLetter := d.mover.to.newJob(record).DeadLetter(); isLetter {
				d.moved(ctx, letter)
			}
		}
	})
	d.since = time.Time{}
	if err == nil && pending == 0 {
		d.since = begun.Add(-timing.DeadLetterOverlap)
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		d.dirty.Store(true) // finish goes on
	case d.w.closed.Err() == nil:
		d.w.fault(err, "failed jobs could not be moved to the queue for dead letters; they are moved later")
	}
	return err == nil
}

func (d *deadLetters) moved(ctx context.Context, letter DeadLetter) {
	d.w.core.log.Info("a failed job was moved to the queue for dead letters; Queue.ReplayDeadLetter puts it back",
		logJob, letter.JobID, logName, letter.Name, logLetter, letter.Letter.ID)
	if d.o.OnMoved != nil {
		d.w.guard("OnMoved", func() { d.o.OnMoved(d.w.core.trace.outliving(ctx), letter) })
	}
}

// finish moves the jobs that have failed since the last pass of run, until the deadline
// at the latest.
func (d *deadLetters) finish(deadline time.Time) {
	last := safe.Go(context.Background(), func(ctx context.Context) {
		d.passes.Lock() // waits for a pass of run
		defer d.passes.Unlock()
		if d.dirty.Load() {
			d.move(ctx)
		}
	})
	last.Wait(deadline)
	last.Cancel()
}
