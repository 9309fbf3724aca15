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

// deadLetters moves the failed jobs of one queue to the queue for dead letters.
type deadLetters struct {
	h     *host
	core  *core // of the queue
	o     DeadLetterOptions
	mover *failedMover
	noted func() // called after a failure whose job is to be moved soon

	// Guarded by the passes of the loop.
	since    time.Time // the next pass looks at jobs that failed since then; zero for all
	reviewed time.Time // when the last pass began that looked at all

	warnRemoved sync.Once
}

func newDeadLetters(h *host, c *core, o DeadLetterOptions, noted func()) (*deadLetters, error) {
	mover, err := c.failedMover(o.QueueName)
	if err != nil {
		return nil, fmt.Errorf("bullmq: worker of queue %s: DeadLetters: %w", c.keys.queue, err)
	}
	mover.cancelled, mover.records = o.IncludeCancelled, true
	// A call that is cut off may have moved jobs, for which OnMoved is then not called.
	mover.bound = func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timing.CallTimeout)
		callCtx, forget := h.untilClosed(ctx)
		return callCtx, func() { forget(); cancel() }
	}
	return &deadLetters{h: h, core: c, o: o, mover: mover, noted: noted}, nil
}

// noteFailure makes the loop move a job of the queue that has failed for good. keep tells which
// failed jobs the queue keeps.
func (d *deadLetters) noteFailure(job *Job, err error, keep backend.Keep) {
	if !d.o.IncludeCancelled && isCancelled(job, err) {
		return
	}
	if keep.Count == backend.Int(0) {
		d.warnRemoved.Do(func() {
			d.core.log.Warn("a job was removed when it failed, by its own options, so it did not become a dead letter; add it without KeepFailed (removeOnFail)",
				logJob, job.ID, logName, job.Name)
		})
		return
	}
	d.noted()
}

// move moves failed jobs until there are no more or ctx ends. The caller holds the passes of
// the loop.
//
// Cancelled jobs stay in the state failed, and may be many. So move looks only at jobs that
// have failed since the last call, as long as no other job is to be moved later.
func (d *deadLetters) move(ctx context.Context) error {
	begun, pending := d.core.now(), 0
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
	if err != nil && ctx.Err() == nil && d.h.closed.Err() == nil {
		d.h.reportFault(d.core.log, d.core.keys.queue, err, "failed jobs could not be moved to the queue for dead letters; they are moved later")
	}
	return err
}

func (d *deadLetters) moved(ctx context.Context, letter DeadLetter) {
	d.core.log.Info("a failed job was moved to the queue for dead letters; Queue.ReplayDeadLetter puts it back",
		logJob, letter.JobID, logName, letter.Name, logLetter, letter.Letter.ID)
	if d.o.OnMoved != nil {
		d.h.guard("OnMoved", func() { d.o.OnMoved(d.core.trace.outliving(ctx), letter) })
	}
}

// letterLoop makes the passes that move the failed jobs of a worker, one at a time.
type letterLoop struct {
	// pass moves failed jobs. It returns after which time the next pass must begin, and
	// whether no call failed.
	pass func(ctx context.Context) (pause time.Duration, ok bool)
	last func(ctx context.Context) // moves the jobs that have failed since the last pass

	failed chan struct{} // wakes run after a failure
	passes sync.Mutex    // held during a pass
}

// run makes a pass at once, after a failure, and after the pause of the last one, until ctx
// ends.
func (l *letterLoop) run(ctx context.Context) {
	var outage timing.Backoff
	for {
		pause, ok := l.next(ctx)
		if ok {
			outage.Succeeded()
		} else {
			pause = min(pause, outage.Next())
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-l.failed:
			timer.Stop()
			// Jobs often fail together, and one call moves many.
			timing.Sleep(ctx, timing.DeadLetterPause)
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

func (l *letterLoop) next(ctx context.Context) (pause time.Duration, ok bool) {
	l.passes.Lock()
	defer l.passes.Unlock()
	if ctx.Err() != nil {
		return 0, false
	}
	return l.pass(ctx)
}

// finish moves the jobs that have failed since the last pass of run, until the deadline
// at the latest.
func (l *letterLoop) finish(deadline time.Time) {
	last := safe.Go(context.Background(), func(ctx context.Context) {
		l.passes.Lock() // waits for a pass of run
		defer l.passes.Unlock()
		l.last(ctx)
	})
	last.Wait(deadline)
	last.Cancel()
}

// prepareLetters prepares the loop of a worker of one queue.
func (w *Worker) prepareLetters(o DeadLetterOptions) (err error) {
	var dirty atomic.Bool // the worker has failed a job that no pass has moved
	l := &letterLoop{failed: make(chan struct{}, 1)}
	w.letters, err = newDeadLetters(&w.host, w.core, o, func() {
		dirty.Store(true)
		rouse(l.failed)
	})
	if err != nil {
		return err
	}
	l.pass = func(ctx context.Context) (time.Duration, bool) {
		dirty.Store(false)
		err := w.letters.move(ctx)
		if ctx.Err() != nil {
			dirty.Store(true) // finish goes on
		}
		return o.Interval, err == nil
	}
	l.last = func(ctx context.Context) {
		if dirty.Load() {
			_, _ = l.pass(ctx)
		}
	}
	w.letterLoop = l
	return nil
}
