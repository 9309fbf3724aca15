package bullmq

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/safe"
)

// WorkerEvents contains functions that a [Worker] calls when a job or the worker
// changes. Any of them may be nil. [Worker.Events] delivers the same events on a
// channel.
//
// The worker waits for each call: it starts no other job in place of a finished one before
// the functions for the finished one have returned, and UpdateProgress waits for Progress.
// Each call runs in its own goroutine. A panic is recovered and logged.
type WorkerEvents struct {
	Active    func(job *Job)
	Completed func(job *Job, returnValue any)
	// Failed is also called when the job will be retried. Its FinishedOn is then
	// the zero time.
	Failed func(job *Job, err error)
	// Progress is called with the argument of [Job.UpdateProgress] for a job that
	// this worker fetched.
	Progress func(job *Job, progress any)
	Stalled  func(jobID string)
	Drained  func()
	// Paused is called once for each pause, before Pause or PauseNow returns.
	// Resumed is called when the pause ends.
	Paused  func()
	Resumed func()
	// LocksRenewed is called with the jobs whose locks were renewed (BullMQ:
	// locksRenewed). LocksLost is called with the jobs whose locks expired or belong
	// to another worker (BullMQ: lockRenewalFailed).
	LocksRenewed func(jobIDs []string)
	LocksLost    func(jobIDs []string)
	// Error is called with errors that no handler returned, such as an outage of
	// Redis or a result that could not be written.
	Error func(err error)
	// Closing is called when the worker stops fetching jobs. Closed is called when
	// Run is about to return.
	Closing func()
	Closed  func()
}

// Types of events that only workers emit. Workers also emit EventActive,
// EventCompleted, EventFailed, EventProgress, EventStalled, EventDrained, EventPaused
// and EventResumed.
const (
	EventLocksRenewed EventType = "locksRenewed"
	EventLocksLost    EventType = "lockRenewalFailed"
	EventError        EventType = "error"
	EventClosing      EventType = "closing"
	EventClosed       EventType = "closed"
)

// WorkerEvent is an event of a [Worker] or a [MultiWorker]. Its Type determines which
// fields are set.
type WorkerEvent struct {
	Type EventType
	// QueueName is the queue that the event concerns. It is empty for events of a
	// MultiWorker that concern no single queue, such as paused and closing.
	QueueName string
	// Job is a snapshot of the job (active, completed, failed, progress).
	Job *Job
	// Value is the handler's return value (completed) or the progress (progress).
	Value any
	// Err is the error (failed, error).
	Err error
	// JobIDs are the ids of the affected jobs (stalled, locksRenewed,
	// lockRenewalFailed).
	JobIDs []string
	// Missed is the number of events before this one that were dropped because the
	// channel was full.
	Missed int
}

// emit emits an event that concerns the queue.
func (w *queueWorker) emit(e WorkerEvent) {
	e.QueueName = w.QueueName()
	w.host.emit(e)
}

// emit calls the function for an event and sends it to all channels.
func (h *host) emit(e WorkerEvent) {
	if e.QueueName == "" {
		e.QueueName = h.queueName
	}
	h.readers.emit(e)
	if call := h.options.Events.of(e); call != nil {
		h.guard(string(e.Type), call)
	}
}

// of returns a closure that calls the function for an event, or nil if that function is
// not set.
func (f *WorkerEvents) of(e WorkerEvent) func() {
	switch {
	case e.Type == EventActive && f.Active != nil:
		return func() { f.Active(e.Job) }
	case e.Type == EventCompleted && f.Completed != nil:
		return func() { f.Completed(e.Job, e.Value) }
	case e.Type == EventFailed && f.Failed != nil:
		return func() { f.Failed(e.Job, e.Err) }
	case e.Type == EventProgress && f.Progress != nil:
		return func() { f.Progress(e.Job, e.Value) }
	case e.Type == EventStalled && f.Stalled != nil:
		return func() { f.Stalled(e.JobIDs[0]) }
	case e.Type == EventDrained && f.Drained != nil:
		return f.Drained
	case e.Type == EventPaused && f.Paused != nil:
		return f.Paused
	case e.Type == EventResumed && f.Resumed != nil:
		return f.Resumed
	case e.Type == EventLocksRenewed && f.LocksRenewed != nil:
		return func() { f.LocksRenewed(e.JobIDs) }
	case e.Type == EventLocksLost && f.LocksLost != nil:
		return func() { f.LocksLost(e.JobIDs) }
	case e.Type == EventError && f.Error != nil:
		return func() { f.Error(e.Err) }
	case e.Type == EventClosing && f.Closing != nil:
		return f.Closing
	case e.Type == EventClosed && f.Closed != nil:
		return f.Closed
	}
	return nil
}

// emitAsync emits EventClosing or EventClosed in a goroutine, because the user's
// function may wait for the worker to end.
func (h *host) emitAsync(event EventType) *safe.Background {
	return safe.Go(context.Background(), func(context.Context) { h.emit(WorkerEvent{Type: event}) })
}

// fault logs an error that no handler returned, see [faultLog], and emits it as an event.
// That the Connection is closed is logged once, since it stays closed.
func (w *queueWorker) fault(err error, message string, fields ...any) {
	w.host.reportFault(w.core.log, w.QueueName(), err, message, fields...)
}

// reportFault is [queueWorker.fault] with the logger and the name of a queue. The name is
// empty if the error concerns no single queue.
func (h *host) reportFault(log *slog.Logger, queueName string, err error, message string, fields ...any) {
	if errors.Is(err, ErrClosed) && h.closed.Err() == nil {
		h.warnClosed.Do(func() {
			log.Error("the Connection of a running worker is closed, so the worker runs no more jobs; stop workers before you close their Connection", logError, err)
		})
		h.emit(WorkerEvent{Type: EventError, QueueName: queueName, Err: err})
		return
	}
	h.faults.write(log, slog.LevelError, h.Health().Reachable, message, err, fields...)
	h.emit(WorkerEvent{Type: EventError, QueueName: queueName, Err: err})
}

// Events returns a channel that delivers the worker's events from now on. These are
// the events for which the functions in WorkerOptions.Events are called. Each call
// returns a new channel.
//
// A slow reader does not block the worker. The channel buffers up to buffer events, at
// least one, and events that arrive while it is full are dropped. The next event that
// is delivered has the number of dropped events in Missed.
//
// EventClosed is the last event and is never dropped. The channel is closed after it,
// or without it when ctx ends.
func (h *host) Events(ctx context.Context, buffer int) <-chan WorkerEvent {
	return h.readers.add(ctx, max(buffer, 1))
}

// eventSubscribers holds the channels that Worker.Events has returned.
type eventSubscribers struct {
	count atomic.Int32 // len(all), to skip the mutex if there are none

	mu    sync.Mutex
	all   map[*eventSubscriber]bool
	ended bool
}

type eventSubscriber struct {
	buffer int
	out    chan WorkerEvent // has additional room for EventClosed
	missed int
	forget func() bool // cancels the AfterFunc that removes the channel
}

func (rs *eventSubscribers) add(ctx context.Context, buffer int) <-chan WorkerEvent {
	r := &eventSubscriber{buffer: buffer, out: make(chan WorkerEvent, buffer+1)}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.ended {
		close(r.out)
		return r.out
	}
	if rs.all == nil {
		rs.all = map[*eventSubscriber]bool{}
	}
	rs.all[r] = true
	rs.count.Add(1)
	r.forget = context.AfterFunc(ctx, func() { rs.remove(r) })
	return r.out
}

func (rs *eventSubscribers) remove(r *eventSubscriber) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.all[r] {
		delete(rs.all, r)
		rs.count.Add(-1)
		close(r.out)
	}
}

// emit sends an event to all channels. EventClosed is the last one.
func (rs *eventSubscribers) emit(e WorkerEvent) {
	last := e.Type == EventClosed
	if rs.count.Load() == 0 && !last {
		return
	}
	e.Job = e.Job.snapshot()
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for r := range rs.all {
		if len(r.out) >= r.buffer && !last {
			r.missed++
			continue
		}
		e.Missed, r.missed = r.missed, 0
		r.out <- e
		if last {
			r.forget()
			close(r.out)
		}
	}
	if last {
		rs.ended, rs.all = true, nil
		rs.count.Store(0)
	}
}
