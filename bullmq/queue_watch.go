package bullmq

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// WatchJob returns an iterator over the events of one job. The iterator ends when the job
// has completed, has failed or is removed, or when ctx ends. All watches and waits of a
// Queue share one connection.
//
// The first event describes the present state of the job. It has no ID and no Fields. Its
// Type is EventWaiting for a waiting or prioritized job, or else EventActive, EventDelayed,
// EventWaitingChildren, EventCompleted or EventFailed. Name and Progress are set. If the
// job has finished, ReturnValue or FailedReason is set too. All later events of the job
// follow, each once and in order.
//
// Whenever an event has one of these types, State(event.Type) is the new state of the job,
// except that a prioritized job is shown as waiting. Other types, such as EventProgress,
// tell nothing about the state.
//
// The last event is EventCompleted, EventFailed or EventRemoved. For a job that has
// already finished, this is the only event. Later events of the job, such as
// EventRetriesExhausted, are not delivered. A failed attempt that is retried does not end
// the loop.
//
// While Redis is unreachable or can't serve, WatchJob continues to wait. If events may
// have been lost, because the stream was trimmed meanwhile or the loop was too slow,
// WatchJob yields the present state again. Some jobs end without an event: those that
// [Queue.Drain] removes, and all jobs of a queue without events. WatchJob notices such an
// end within five seconds.
//
// The iterator yields at most one error, and ends with it: [ErrJobNotFound] if there is no
// such job, [ErrClosed] if the Queue is closed, or the error of a read that fails
// permanently. It yields no error when ctx ends.
func (q *Queue) WatchJob(ctx context.Context, id string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		err := q.watch(ctx, id, "", func(event Event) bool { return yield(event, nil) && ctx.Err() == nil })
		if err != nil && ctx.Err() == nil {
			yield(Event{}, err)
		}
	}
}

// WatchJobAfter is like [Queue.WatchJob], but continues after an event that an earlier loop
// has yielded, perhaps in another process. lastEventID is the Event.ID of that event. The
// present state is not yielded first. All events of the job after that one follow, each
// once and in order.
//
// If the event is no longer in the stream, later events may be missing. WatchJobAfter then
// begins with the present state, as WatchJob does. If the job has ended with that event or
// before, WatchJobAfter yields only its present state.
func (q *Queue) WatchJobAfter(ctx context.Context, id, lastEventID string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if !wire.IsEventID(lastEventID) {
			yield(Event{}, fmt.Errorf("bullmq: watch job %s of queue %s: %.80q is not the id of an event: use an Event's ID, such as 1700000000000-0", id, q.Name(), lastEventID))
			return
		}
		err := q.watch(ctx, id, lastEventID, func(event Event) bool { return yield(event, nil) && ctx.Err() == nil })
		if err != nil && ctx.Err() == nil {
			yield(Event{}, err)
		}
	}
}

// watch yields the events of a job: all from its present state on, or those after an event.
// It returns nil if yield has returned false.
func (q *Queue) watch(ctx context.Context, id, after string, yield func(Event) bool) error {
	if q.closed.Load() {
		return ErrClosed
	}
	r := reader{tail: q.results, id: id}
	w, start, err := q.results.watch(ctx, &r)
	if err != nil {
		return err
	}
	defer q.results.unwatch(id, w)
	known, show := false, true
	if after != "" {
		earlier, complete, err := q.eventsAfter(ctx, &r, w, after)
		if err != nil {
			return err
		}
		if complete && !yieldUntilEnd(earlier, yield) {
			return nil
		}
		show, known = !complete, len(earlier) > 0
	}
	for {
		present, last, err := q.present(ctx, &r)
		if err != nil {
			return err
		}
		if !show && endsJob(present) {
			more, err := q.yieldRest(ctx, w, start, last, yield)
			if err != nil || !more {
				return err
			}
		}
		if present.Type == EventRemoved {
			return q.watchMissing(ctx, &r, w, start, known, yield)
		}
		if show {
			q.results.skip(w, last)
		}
		if show || endsJob(present) {
			if !yield(present) || endsJob(present) {
				return nil
			}
		}
		known = true
		more, lost, err := q.yieldEvents(ctx, w, q.results.pollInterval, yield)
		if err != nil || !more {
			return err
		}
		show = lost
	}
}

// eventsAfter returns the events of a job after an event. w collects those that follow.
// complete is false if some may be missing.
func (q *Queue) eventsAfter(ctx context.Context, r *reader, w *watcher, after string) (events []Event, complete bool, err error) {
	// The watch has begun after its own position, so it may lack the events since then.
	last, err := q.results.position(ctx, r)
	if err != nil {
		return nil, false, err
	}
	if wire.EventComesAfter(after, last.ID) { // the stream was deleted meanwhile
		return nil, false, nil
	}
	var stored []backend.Event
	var whole bool
	err = r.read(ctx, func(ctx context.Context) (err error) {
		stored, whole, err = q.core.store.JobEvents(ctx, r.id, after, last.ID)
		return err
	})
	if err != nil { // the call may still run, and set stored and whole
		return nil, false, err
	}
	q.results.skip(w, last.ID)
	for _, event := range stored {
		events = append(events, readEvent(event.ID, event.Fields))
	}
	return events, whole, nil
}

// present returns the state of the job as an event, and the id of the last event in the
// stream at that moment. The returned event is EventRemoved if there is no such job.
func (q *Queue) present(ctx context.Context, r *reader) (Event, string, error) {
	var record *backend.JobRecord
	var state backend.State
	var last string
	err := r.read(ctx, func(ctx context.Context) (err error) {
		record, state, last, err = q.core.store.JobAndState(ctx, r.id, true)
		return err
	})
	if err != nil {
		return Event{}, "", err
	}
	event := Event{JobID: r.id}
	if record == nil || state == backend.Unknown {
		event.Type = EventRemoved
		return event, last, nil
	}
	job := q.core.newJob(record)
	event.Name, event.Progress = job.Name, job.Progress
	switch State(state) {
	case StateCompleted:
		event.Type, event.ReturnValue = EventCompleted, job.ReturnValue
	case StateFailed:
		event.Type, event.FailedReason = EventFailed, job.FailedReason
	case StateActive:
		event.Type = EventActive
	case StateDelayed:
		event.Type = EventDelayed
	case StateWaitingChildren:
		event.Type = EventWaitingChildren
	default:
		event.Type = EventWaiting
	}
	return event, last, nil
}

// watchMissing yields the end of a job that does not exist any more. known reports whether
// it existed during the watch.
func (q *Queue) watchMissing(ctx context.Context, r *reader, w *watcher, start string, known bool, yield func(Event) bool) error {
	if events, _, _ := q.results.take(w); !yieldUntilEnd(events, yield) {
		return nil
	}
	var end *backend.Event
	err := r.read(ctx, func(ctx context.Context) (err error) {
		end, err = q.core.store.FindEnd(ctx, r.id)
		return err
	})
	switch {
	case err != nil:
		return err
	case end != nil && (!known || wire.EventComesAfter(end.ID, start)):
		yield(readEvent(end.ID, end.Fields))
	case known:
		yield(Event{Type: EventRemoved, JobID: r.id})
	default:
		return fmt.Errorf("bullmq: watch a job: %w", q.core.noJob("WatchJob", r.id))
	}
	return nil
}

// yieldRest yields the events before the end of the job. It waits a short time for events
// that have not been read yet. start is the id of the last event before the watch. last is
// the id of the last event that must have been read. more is false if the end itself was
// among the events.
func (q *Queue) yieldRest(ctx context.Context, w *watcher, start, last string, yield func(Event) bool) (more bool, err error) {
	for latest := time.Now().Add(timing.EventLag); ; {
		complete := q.results.hasRead(start, last)
		events, _, lost := q.results.take(w)
		if !yieldUntilEnd(events, yield) {
			return false, nil
		}
		left := time.Until(latest)
		if complete || lost || left <= 0 {
			return true, nil
		}
		more, lost, err := q.yieldEvents(ctx, w, left, yield)
		if err != nil || !more || lost {
			return more, err
		}
	}
}

// yieldEvents yields events until the job must be read, because no event has come for the
// duration patience, or because the job may have ended without an event. lost reports that
// events are missing. more reports whether the loop goes on.
func (q *Queue) yieldEvents(ctx context.Context, w *watcher, patience time.Duration, yield func(Event) bool) (more, lost bool, err error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case <-w.ready:
			events, read, lost := q.results.take(w)
			if !yieldUntilEnd(events, yield) {
				return false, false, nil
			}
			if read || lost {
				return true, lost, nil
			}
			timer.Reset(patience)
		case <-timer.C:
			return true, false, nil
		case <-q.results.closing:
			return false, false, ErrClosed
		case <-ctx.Done():
			return false, false, context.Cause(ctx)
		}
	}
}

// yieldUntilEnd yields events. It reports whether the loop goes on.
func yieldUntilEnd(events []Event, yield func(Event) bool) bool {
	for _, event := range events {
		if !yield(event) || endsJob(event) {
			return false
		}
	}
	return true
}

func endsJob(event Event) bool {
	return event.Type == EventCompleted || event.Type == EventFailed || event.Type == EventRemoved
}

// watcher collects the events of a job for one loop. Its fields are guarded by the mu of
// the resultTail, except ready.
type watcher struct {
	events []Event
	read   bool          // the job must be read
	lost   bool          // events are missing, and the job must be read
	last   string        // id of an event; only later events are collected
	ready  chan struct{} // signals that a field has changed
}

// maxWatched is how many events a watcher collects for a loop that is slow.
const maxWatched = 1000

// watch starts to collect the events of a job after the one with the id start.
func (t *resultTail) watch(ctx context.Context, r *reader) (w *watcher, start string, err error) {
	last, err := t.position(ctx, r)
	if err != nil {
		return nil, "", err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.startLocked(last); err != nil {
		return nil, "", err
	}
	w = &watcher{last: last.ID, ready: make(chan struct{}, 1)}
	if t.watching[r.id] == nil {
		t.watching[r.id] = map[*watcher]bool{}
	}
	t.watching[r.id][w] = true
	t.watchers.Add(1)
	return w, last.ID, nil
}

func (t *resultTail) unwatch(id string, w *watcher) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.watching[id], w)
	if len(t.watching[id]) == 0 {
		delete(t.watching, id)
	}
	t.watchers.Add(-1)
}

// skip drops the collected events up to an id.
func (t *resultTail) skip(w *watcher, last string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if wire.EventComesAfter(last, w.last) {
		w.last = last
	}
	for len(w.events) > 0 && !wire.EventComesAfter(w.events[0].ID, last) {
		w.events = w.events[1:]
	}
}

// hasRead reports whether a watch that began after start has collected all its events up to
// last.
func (t *resultTail) hasRead(start, last string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !wire.EventComesAfter(last, start) || !wire.EventComesAfter(last, t.read)
}

// take returns the events collected so far, and whether the job must be read or events are
// missing.
func (t *resultTail) take(w *watcher) (events []Event, read, lost bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	events, read, lost = w.events, w.read, w.lost
	w.events, w.read, w.lost = nil, false, false
	return events, read, lost
}

// collect adds an event to the watches of its job.
func (t *resultTail) collect(event Event) {
	if t.watchers.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.read = event.ID
	if event.Type == EventCleaned { // any job may be among those cleaned
		t.pollWatchersLocked(false)
		return
	}
	for w := range t.watching[event.JobID] {
		if !wire.EventComesAfter(event.ID, w.last) {
			continue
		}
		w.last = event.ID
		if len(w.events) == maxWatched {
			w.events, w.lost = nil, true
		}
		w.events = append(w.events, event)
		w.signal()
	}
}

// pollWatchersLocked makes all watches read their jobs.
func (t *resultTail) pollWatchersLocked(lost bool) {
	for _, watchers := range t.watching {
		for w := range watchers {
			w.read, w.lost = true, w.lost || lost
			w.signal()
		}
	}
}

func (w *watcher) signal() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}
