package bullmq

import (
	"context"
	"errors"
	"sync/atomic"
)

// ErrResumed answers a Pause that Resume has ended before the jobs were done.
var ErrResumed = errors.New("bullmq: the worker was resumed before its jobs were done")

// pause is the time from Pause to Resume.
type pause struct {
	resumed context.Context // ends with Resume
	drained chan struct{}   // closed once no job is being taken
	idle    chan struct{}   // closed once none runs either
	emitted atomic.Bool
}

func (p *pause) emit(w *Worker) {
	if p.emitted.CompareAndSwap(false, true) {
		w.emit(WorkerEvent{Type: EventPaused})
	}
}

// Pause stops this worker, and no other, from taking jobs, and waits until
// those that run are done: then it answers nil. The worker stays paused until
// Resume, also when ctx ends first, whose cause is answered then. Jobs that run
// keep their locks; stalled jobs are left to other workers. A worker may be
// paused before it is run.
//
// A handler or a function in Events that calls Pause would wait for itself: it
// calls PauseNow. Queue.Pause stops all workers of a queue. (BullMQ:
// worker.pause)
func (w *Worker) Pause(ctx context.Context) (err error) {
	ctx, span := w.core.trace.start(ctx, SpanInternal, "pause")
	defer span.end(&err)
	w.describe(span)
	p := w.slots.pauseNow()
	return w.awaitPause(ctx, p, p.idle)
}

// PauseNow is Pause without waiting for the jobs that run. It does wait, until
// ctx ends, for Redis to answer the take that an idle worker has sent ahead; a
// job that comes with that answer is run. Once PauseNow has answered nil no job
// is taken until Resume (BullMQ: worker.pause(true)).
func (w *Worker) PauseNow(ctx context.Context) (err error) {
	ctx, span := w.core.trace.start(ctx, SpanInternal, "pause")
	defer span.end(&err)
	w.describe(span)
	set(span, attrWorkerDoNotWait, true)
	p := w.slots.pauseNow()
	return w.awaitPause(ctx, p, p.drained)
}

func (w *Worker) awaitPause(ctx context.Context, p *pause, reached <-chan struct{}) error {
	w.lookAgain()
	defer p.emit(w)
	var err error
	select {
	case <-reached:
	case <-p.resumed.Done():
		err = ErrResumed
	case <-w.ended:
		err = ErrClosed
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	select {
	case <-reached: // whatever has happened beside
		return nil
	default:
		return err
	}
}

// Resume ends a pause: the worker takes jobs again at once. It does nothing
// unless the worker is paused, and doesn't start one that isn't run (BullMQ:
// worker.resume).
func (w *Worker) Resume() {
	w.slots.mu.Lock()
	p := w.slots.pause
	w.slots.mu.Unlock()
	if p == nil {
		return
	}
	_, span := w.core.trace.start(context.Background(), SpanInternal, "resume")
	defer span.done()
	w.describe(span)
	p.emit(w) // before a Pause that waits can, or it would come after the resumption
	if w.slots.resume(p) {
		w.lookAgain()
		w.emit(WorkerEvent{Type: EventResumed})
	}
}

// IsPaused says whether the worker itself is paused, not its queue (BullMQ:
// worker.isPaused).
func (w *Worker) IsPaused() bool {
	paused, _ := w.slots.paused()
	return paused
}

// IsRunning says whether Run has begun and not ended, be the worker paused or
// not (BullMQ: isRunning, which says no of a paused worker without jobs).
func (w *Worker) IsRunning() bool {
	if w.current() == nil {
		return false
	}
	select {
	case <-w.ended:
		return false
	default:
		return true
	}
}

// current is the runner of a worker whose Run has begun; nil before.
func (w *Worker) current() *runner {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runner
}

// lookAgain lets a worker that runs notice what has changed about its slots.
func (w *Worker) lookAgain() {
	if r := w.current(); r != nil {
		r.markDirty()
		r.signal()
	}
}
