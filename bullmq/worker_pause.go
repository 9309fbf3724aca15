package bullmq

import (
	"context"
	"errors"
	"sync/atomic"
)

// ErrResumed is returned by [Worker.Pause] if [Worker.Resume] was called before the
// running jobs finished.
var ErrResumed = errors.New("bullmq: the worker was resumed before its jobs were done")

// pause is the state of a worker between Pause and Resume.
type pause struct {
	resumed context.Context // ends with Resume
	drained chan struct{}   // closed once no job is being fetched
	idle    chan struct{}   // closed once, in addition, no job runs
	emitted atomic.Bool
}

func (p *pause) emit(h *host) {
	if p.emitted.CompareAndSwap(false, true) {
		h.emit(WorkerEvent{Type: EventPaused})
	}
}

// Pause stops this worker from fetching jobs and waits until the running jobs have
// finished (BullMQ: worker.pause). To stop all workers of a queue, use [Queue.Pause].
//
// If ctx ends first, Pause returns its cause and the worker stays paused. Only
// [Worker.Resume] ends the pause; a Pause that still waits then returns
// [ErrResumed]. The locks of running jobs are still renewed. The worker does not check
// for stalled jobs. A worker may be paused before it is run.
//
// Do not call Pause from a handler or a function in Events, since it would wait for
// itself. Call [Worker.PauseNow] instead.
func (h *host) Pause(ctx context.Context) (err error) {
	ctx, span := h.home.trace.start(ctx, SpanInternal, "pause")
	defer span.end(&err)
	h.describe(span)
	p := h.slots.pauseNow()
	return h.awaitPause(ctx, p, p.idle)
}

// PauseNow pauses the worker without waiting for the running jobs (BullMQ:
// worker.pause(true)). It waits only for a fetch already in flight, or until ctx ends.
// A job returned by that fetch still runs. After PauseNow has returned nil, no job is
// fetched until [Worker.Resume].
func (h *host) PauseNow(ctx context.Context) (err error) {
	ctx, span := h.home.trace.start(ctx, SpanInternal, "pause")
	defer span.end(&err)
	h.describe(span)
	setAttr(span, attrWorkerDoNotWait, true)
	p := h.slots.pauseNow()
	return h.awaitPause(ctx, p, p.drained)
}

func (h *host) awaitPause(ctx context.Context, p *pause, reached <-chan struct{}) error {
	h.recheck()
	defer p.emit(h)
	var err error
	select {
	case <-reached:
	case <-p.resumed.Done():
		err = ErrResumed
	case <-h.ended:
		err = ErrClosed
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	select {
	case <-reached: // takes precedence over the other events
		return nil
	default:
		return err
	}
}

// Resume ends a pause. The worker fetches jobs again at once. Resume does nothing if
// the worker is not paused, and does not start a worker that was not run (BullMQ:
// worker.resume).
func (h *host) Resume() {
	h.slots.mu.Lock()
	p := h.slots.pause
	h.slots.mu.Unlock()
	if p == nil {
		return
	}
	_, span := h.home.trace.start(context.Background(), SpanInternal, "resume")
	defer span.end(nil)
	h.describe(span)
	p.emit(h) // a waiting Pause could emit the event only after EventResumed
	if h.slots.resume(p) {
		h.recheck()
		h.emit(WorkerEvent{Type: EventResumed})
	}
}

// IsPaused reports whether this worker is paused, regardless of its queue (BullMQ:
// worker.isPaused).
func (h *host) IsPaused() bool {
	paused, _ := h.slots.paused()
	return paused
}

// IsRunning reports whether Run has begun and has not ended, even if the worker is
// paused (BullMQ: isRunning, which returns false for a paused worker without jobs).
func (h *host) IsRunning() bool {
	if h.current() == nil {
		return false
	}
	select {
	case <-h.ended:
		return false
	default:
		return true
	}
}

// current returns the runner, or nil if Run has not been called.
func (h *host) current() *runner {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runner
}

// recheck makes a running worker check its slots again.
func (h *host) recheck() {
	if r := h.current(); r != nil {
		r.feed.markDirty()
		r.signal()
	}
}
