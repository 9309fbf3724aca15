package bullmq

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/safe"
)

// WorkerEvents are functions that a Worker calls as things happen. Those about
// one job are called before the next job starts in its place, and Progress while
// the handler reports it. Each call has a goroutine of its own: a panic in one is
// logged, and neither that nor a runtime.Goexit goes any further. Any may be nil.
// Worker.Events tells the same over a channel.
type WorkerEvents struct {
	Active    func(job *Job)
	Completed func(job *Job, returnValue any)
	// Failed is also called when the job will be tried again: then it has no
	// FinishedOn.
	Failed func(job *Job, err error)
	// Progress tells what was given to UpdateProgress of a job that this worker
	// has handed out.
	Progress func(job *Job, progress any)
	Stalled  func(jobID string)
	Drained  func()
	// Paused is called before Pause or PauseNow returns, once for each pause;
	// Resumed when it is over.
	Paused  func()
	Resumed func()
	// LocksRenewed tells of jobs that are still this worker's, LocksLost of jobs
	// whose lock another has or nobody (BullMQ: locksRenewed, lockRenewalFailed).
	LocksRenewed func(jobIDs []string)
	LocksLost    func(jobIDs []string)
	// Error tells of what went wrong beside the jobs: Redis out of reach, a
	// result that could not be written.
	Error func(err error)
	// Closing is called when no new job will be taken any more, Closed when Run is
	// about to return.
	Closing func()
	Closed  func()
}

// Types of worker events beside those that the queue's events have too:
// EventActive, EventCompleted, EventFailed, EventProgress, EventStalled,
// EventDrained, EventPaused and EventResumed.
const (
	EventLocksRenewed EventType = "locksRenewed"
	EventLocksLost    EventType = "lockRenewalFailed"
	EventError        EventType = "error"
	EventClosing      EventType = "closing"
	EventClosed       EventType = "closed"
)

// WorkerEvent is what has happened in a Worker, with the fields that its Type
// has.
type WorkerEvent struct {
	Type EventType
	// Job is the job as it was then: of active, completed, failed and progress.
	Job *Job
	// Value is what the handler returned (completed) or reported (progress).
	Value any
	// Err is why: of failed and error.
	Err error
	// JobIDs are the jobs in question: of stalled, locksRenewed and
	// lockRenewalFailed.
	JobIDs []string
	// Missed is how many events before this one its reader was too slow for.
	Missed int
}

// emit calls the function for an event and sends it to all channels.
func (w *Worker) emit(e WorkerEvent) {
	w.readers.emit(e)
	if call := w.o.Events.of(e); call != nil {
		w.guard(string(e.Type), call)
	}
}

// of is the call of the function that there is for an event; nil without one.
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

// emitAsync emits an event of the worker's own end from a goroutine, since a
// function for it may wait for that end.
func (w *Worker) emitAsync(event EventType) *safe.Background {
	return safe.Go(context.Background(), func(context.Context) { w.emit(WorkerEvent{Type: event}) })
}

// Events tells over a channel what happens in the worker from now on: what the
// functions in WorkerOptions.Events are told, each job as it was then. A reader
// never holds the worker up: buffer events, at least one, wait for it, and
// those that come while all of these are unread are dropped. How many were
// dropped is told by the next event that is not, in Missed. EventClosed is
// never dropped: it is the last, and the channel is closed after it. It is
// closed without it once ctx has ended.
//
// Each call makes a channel of its own; one that nobody reads any more costs
// little, and goes with its context or the worker.
func (w *Worker) Events(ctx context.Context, buffer int) <-chan WorkerEvent {
	return w.readers.add(ctx, max(buffer, 1))
}

// eventReaders are those who listen to a worker by a channel.
type eventReaders struct {
	count atomic.Int32 // so that nobody listening costs nothing

	mu    sync.Mutex
	all   map[*eventReader]bool
	ended bool
}

type eventReader struct {
	buffer int
	out    chan WorkerEvent // has room for one more, the last
	missed int
	forget func() bool // that ctx ends it
}

func (rs *eventReaders) add(ctx context.Context, buffer int) <-chan WorkerEvent {
	r := &eventReader{buffer: buffer, out: make(chan WorkerEvent, buffer+1)}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.ended {
		close(r.out)
		return r.out
	}
	if rs.all == nil {
		rs.all = map[*eventReader]bool{}
	}
	rs.all[r] = true
	rs.count.Add(1)
	r.forget = context.AfterFunc(ctx, func() { rs.remove(r) })
	return r.out
}

func (rs *eventReaders) remove(r *eventReader) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.all[r] {
		delete(rs.all, r)
		rs.count.Add(-1)
		close(r.out)
	}
}

// emit sends an event to all channels. EventClosed is the last one.
func (rs *eventReaders) emit(e WorkerEvent) {
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
