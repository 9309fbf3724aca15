package bullmq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// Wait waits until the job has finished and returns its return value as JSON (BullMQ:
// waitUntilFinished). It returns a [*JobFailedError] if the job failed,
// [ErrJobNotFound] if it was removed before it finished, and the cause of ctx if ctx
// ends first.
//
// If the job has finished before the call, Wait returns at once. The job may even have been
// removed when it finished, as long as its last event is still in the events stream.
//
// While Redis is unreachable or can't serve, Wait continues to wait. If ctx ends
// meanwhile, the error wraps the cause of ctx and the error of Redis.
func (j *Job) Wait(ctx context.Context, queue *Queue) (json.RawMessage, error) {
	switch {
	case j == nil:
		return nil, fmt.Errorf("bullmq: wait for a nil Job: %w", ErrNoQueue)
	case queue == nil || queue.core == nil:
		return nil, fmt.Errorf("bullmq: wait for job %q: Wait needs the Queue of the job, from NewQueue", j.ID)
	}
	if j.core != nil && j.core.keys.base != queue.core.keys.base {
		return nil, fmt.Errorf("bullmq: wait for job %q of queue %s: Wait was given the queue %s; give it the Queue of the job", j.ID, j.QueueName(), queue.Name())
	}
	return queue.WaitForJob(ctx, j.ID)
}

// WaitForJob waits until a job of the queue has finished, as [Job.Wait] does. All waits
// of a Queue share one connection.
func (q *Queue) WaitForJob(ctx context.Context, id string) (json.RawMessage, error) {
	if q.closed.Load() {
		return nil, ErrClosed
	}
	r := reader{tail: q.results, id: id}
	ending, leave, err := q.results.join(ctx, &r)
	if err != nil {
		return nil, err
	}
	defer leave()
	// Subscribing before reading the state ensures that no event is missed.
	for {
		var outcome backend.Outcome
		err := r.read(ctx, func(ctx context.Context) (err error) {
			outcome, err = q.core.store.Outcome(ctx, id)
			return err
		})
		switch {
		case err != nil:
			return nil, err
		case outcome.State == backend.Completed:
			return rawJSON(outcome.Value), nil
		case outcome.State == backend.Failed:
			return nil, q.failure(id, outcome.Value)
		case outcome.State == backend.Unknown:
			return q.endOfMissing(ctx, &r, ending)
		}
		event, err := r.next(ctx, ending)
		if err != nil {
			return nil, err
		}
		if event.Type != "" && event.Type != EventCleaned { // the job may be among those cleaned
			return q.endOf(event)
		}
	}
}

func (q *Queue) failure(id, reason string) error {
	return &JobFailedError{QueueName: q.Name(), JobID: id, Reason: reason}
}

func (q *Queue) endOf(event Event) (json.RawMessage, error) {
	switch event.Type {
	case EventCompleted:
		return event.ReturnValue, nil
	case EventFailed:
		return nil, q.failure(event.JobID, event.FailedReason)
	default:
		return nil, &Error{Code: backend.JobNotFound, Command: "WaitForJob", QueueName: q.core.keys.queue, QueueKey: q.core.keys.qualifiedName(), JobID: event.JobID, Detail: "removed while it was waited for"}
	}
}

// endOfMissing searches for the end of a job that no longer exists: first in the events
// that the tail has read meanwhile, then backwards in the stream.
func (q *Queue) endOfMissing(ctx context.Context, r *reader, ending <-chan Event) (json.RawMessage, error) {
	select {
	case event := <-ending:
		if event.Type != EventCleaned {
			return q.endOf(event)
		}
	default:
	}
	var end *backend.Event
	err := r.read(ctx, func(ctx context.Context) (err error) {
		end, err = q.core.store.FindEnd(ctx, r.id)
		return err
	})
	if err != nil {
		return nil, err
	}
	if end != nil {
		return q.endOf(readEvent(end.ID, end.Fields))
	}
	return nil, &Error{Code: backend.JobNotFound, Command: "WaitForJob", QueueName: q.core.keys.queue, QueueKey: q.core.keys.qualifiedName(), JobID: r.id}
}

// resultTail reads the events stream for all waits and watches of one Queue, on one
// connection. It starts with the first wait or watch and ends when the Queue is closed.
type resultTail struct {
	core         *core
	closing      chan struct{} // closed by close
	ending       sync.Once     // in close
	pollInterval time.Duration

	mu        sync.Mutex
	waiting   map[string]map[chan Event]string // by job: the channels of waits, and the last event before each wait
	watching  map[string]map[*watcher]bool     // by job
	read      string                           // the id of the last event that the watches have collected
	stop      context.CancelFunc
	done      chan struct{}
	closed    bool
	polled    time.Time   // when all waits last read the states of their jobs
	pollTimer *time.Timer // runs until the next time

	faults   faultLog     // of the reader of events
	watchers atomic.Int64 // the number of watchers in watching
}

func newResultTail(c *core) *resultTail {
	return &resultTail{
		core: c, closing: make(chan struct{}), pollInterval: timing.ResultPollInterval,
		waiting: map[string]map[chan Event]string{}, watching: map[string]map[*watcher]bool{},
	}
}

// join subscribes to the end of a job. No event after the call is missed. An event before
// the call, such as the end of a run that was retried, is not delivered, even if the tail
// reads it later.
func (t *resultTail) join(ctx context.Context, r *reader) (<-chan Event, func(), error) {
	last, err := t.position(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	id := r.id
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.startLocked(last); err != nil {
		return nil, nil, err
	}
	ending := make(chan Event, 1)
	if t.waiting[id] == nil {
		t.waiting[id] = map[chan Event]string{}
	}
	t.waiting[id][ending] = last.ID
	return ending, func() { t.leave(id, ending) }, nil
}

// position returns the position of the last event.
func (t *resultTail) position(ctx context.Context, r *reader) (backend.EventPosition, error) {
	var last backend.EventPosition
	err := r.read(ctx, func(ctx context.Context) (err error) {
		last, err = t.core.store.LastEvent(ctx)
		return err
	})
	if err != nil { // the call may still run, and set last
		return backend.EventPosition{}, err
	}
	return last, nil
}

// startLocked starts to read events after a position, if they are not read yet.
func (t *resultTail) startLocked(last backend.EventPosition) error {
	if t.closed {
		return ErrClosed
	}
	if t.stop == nil {
		run, stop := context.WithCancel(context.Background())
		t.stop, t.done = stop, make(chan struct{})
		go t.follow(run, last, t.done)
	}
	return nil
}

func (t *resultTail) leave(id string, ending chan Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.waiting[id], ending)
	if len(t.waiting[id]) == 0 {
		delete(t.waiting, id)
	}
}

func (t *resultTail) follow(ctx context.Context, last backend.EventPosition, done chan struct{}) {
	defer close(done)
	closed, closeAll := context.WithCancel(context.Background())
	defer closeAll()
	e := &QueueEvents{
		core: t.core, o: QueueEventsOptions{BlockingTimeout: timing.LongestBlock}, closed: closed, close: closeAll, loop: make(chan struct{}, 1),
		last: last.ID, stream: t.core.newEventStream(), overtaken: t.pollNow,
	}
	e.stream.StartAt(last)
	defer e.stream.Close()
	for event, err := range e.All(ctx) {
		if err != nil {
			switch {
			case errors.Is(err, ErrClosed): // the Connection is closed; all waits notice when they read
				t.pollNow()
			case !errors.Is(err, context.Canceled) && !t.isClosed():
				t.faults.write(t.core.log, slog.LevelWarn, t.core.health().Reachable, "waiting for results failed; retrying", err)
			}
			continue
		}
		t.collect(event)
		switch event.Type {
		case EventCompleted, EventFailed, EventRemoved:
			t.deliver(event.JobID, event)
		case EventCleaned:
			t.deliverAll(event)
		}
	}
}

// pollNow makes all waits read the states of their jobs, because events may have been
// missed.
func (t *resultTail) pollNow() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.pollTimer != nil {
		return
	}
	t.pollTimer = time.AfterFunc(time.Until(t.polled.Add(timing.ResultCheckInterval)), func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.polled, t.pollTimer = time.Now(), nil
		for _, waits := range t.waiting {
			for ending := range waits {
				notify(ending, Event{Type: EventCleaned})
			}
		}
		t.pollWatchersLocked(true)
	})
}

// notify delivers an event to a wait.
func notify(ending chan Event, event Event) {
	select {
	case ending <- event:
	default: // an unread event already makes the wait read the state
	}
}

// deliver delivers an event to all waits for a job.
func (t *resultTail) deliver(id string, event Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deliverLocked(id, event)
}

func (t *resultTail) deliverAll(event Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range t.waiting {
		t.deliverLocked(id, event)
	}
}

func (t *resultTail) deliverLocked(id string, event Event) {
	for ending, last := range t.waiting[id] {
		if !wire.EventComesAfter(event.ID, last) {
			continue
		}
		notify(ending, event)
	}
}

func (t *resultTail) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// refuse makes the tail accept no more waits and log no more failures.
func (t *resultTail) refuse() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
}

// close ends all waits. It may be called again.
func (t *resultTail) close() { t.ending.Do(t.end) }

func (t *resultTail) end() {
	t.refuse()
	t.mu.Lock()
	close(t.closing)
	if t.pollTimer != nil {
		t.pollTimer.Stop()
	}
	stop, done := t.stop, t.done
	t.stop = nil
	t.mu.Unlock()
	if stop != nil {
		stop()
		<-done
	}
}

// reader reads from Redis for one wait. While Redis is unreachable or can't serve, it
// retries until the wait's context ends or the Queue is closed. All readers of a Queue
// rely on its Health, so that only one probe checks whether Redis can serve again.
type reader struct {
	tail *resultTail
	id   string // of the job
	last error  // of the last read; nil if it succeeded
}

// read repeats call, a function that reads from Redis, until it succeeds or fails
// permanently. If ctx ends first, call may still be running.
func (r *reader) read(ctx context.Context, call func(ctx context.Context) error) error {
	var outage timing.Backoff
	for {
		begun, done := time.Now(), make(chan error, 1)
		go func() { done <- call(ctx) }() // while a connection is being opened, ctx does not end a call
		var err error
		select {
		case err = <-done:
		case <-r.tail.closing:
			return ErrClosed
		case <-ctx.Done():
			if r.last == nil && time.Since(begun) > timing.BlockMargin {
				r.last = backend.ErrSilent
			}
			return r.ended(ctx)
		}
		switch {
		case err == nil:
			r.last = nil
			return nil
		case ctx.Err() != nil:
			return r.ended(ctx)
		case errors.Is(err, ErrClosed):
			return ErrClosed
		case !isTransient(err), classify(err) == backend.ClientClosed && outage.AtLongest(): // the caller's own client is closed
			return fmt.Errorf("bullmq: waiting for job %s: %w", r.id, err)
		}
		r.last = err
		if err := r.untilServed(ctx, outage.Next()); err != nil {
			return err
		}
	}
}

// untilServed waits for a pause, and then until Redis can serve.
func (r *reader) untilServed(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.tail.closing:
		return ErrClosed
	case <-ctx.Done():
		return r.ended(ctx)
	}
	served := r.tail.core.conn.Health().Recovered()
	if served == nil {
		return nil
	}
	select {
	case <-served:
		return nil
	case <-r.tail.closing:
		return ErrClosed
	case <-ctx.Done():
		return r.ended(ctx)
	}
}

// next returns the next event of the job, or an event without a type when the job itself
// must be read.
func (r *reader) next(ctx context.Context, ending <-chan Event) (Event, error) {
	timer := time.NewTimer(r.tail.pollInterval)
	defer timer.Stop()
	for poll := timer.C; ; {
		var served <-chan struct{}
		if poll == nil {
			if served = r.tail.core.conn.Health().Recovered(); served == nil {
				return Event{}, nil
			}
		}
		select {
		case event := <-ending:
			return event, nil
		case <-poll:
			poll = nil
		case <-served:
		case <-r.tail.closing:
			return Event{}, ErrClosed
		case <-ctx.Done():
			return Event{}, r.ended(ctx)
		}
	}
}

// ended is the error of a wait whose context has ended.
func (r *reader) ended(ctx context.Context) error {
	cause, outage := context.Cause(ctx), r.last
	if health := r.tail.core.health(); outage == nil && !health.Reachable {
		outage = health.Err
	}
	if outage == nil {
		return cause
	}
	return fmt.Errorf("bullmq: waiting for job %s: %w; Redis could not be read: %w", r.id, cause, outage)
}

// isTransient reports whether a failed read may succeed later by itself: the connection
// failed, or the server can't serve at present.
func isTransient(err error) bool {
	switch classify(err) {
	case backend.Lost, backend.ClientClosed, backend.NotSent, backend.Unavailable:
		return true
	default:
		return false
	}
}
