package bullmq

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/safe"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// EventType identifies an event. Custom types, which producers may publish, pass through
// unchanged.
type EventType string

// The events of BullMQ 6.7.0, with the fields of Event that each sets in addition to
// JobID.
const (
	EventAdded            EventType = "added"             // Name
	EventWaiting          EventType = "waiting"           // Prev, unless the job is new
	EventActive           EventType = "active"            // Prev
	EventProgress         EventType = "progress"          // Progress
	EventCompleted        EventType = "completed"         // ReturnValue, Prev
	EventFailed           EventType = "failed"            // FailedReason, Prev
	EventDelayed          EventType = "delayed"           // DelayedUntil
	EventStalled          EventType = "stalled"           //
	EventRemoved          EventType = "removed"           // Prev
	EventDuplicated       EventType = "duplicated"        // JobID is the job that exists
	EventDeduplicated     EventType = "deduplicated"      // DeduplicationID, DeduplicatedJobID; JobID is the owner
	EventDebounced        EventType = "debounced"         // BullMQ 5 only, before deduplicated
	EventRetriesExhausted EventType = "retries-exhausted" // AttemptsMade
	EventWaitingChildren  EventType = "waiting-children"  // Prev, unless the job is new
	EventCleaned          EventType = "cleaned"           // Count; no job
	EventDrained          EventType = "drained"           // no job
	EventPaused           EventType = "paused"            // no job
	EventResumed          EventType = "resumed"           // no job
)

// Event is an entry of a queue's events stream.
type Event struct {
	ID    string // id in the stream; a later reader can start after it
	Type  EventType
	JobID string // "" for events about the queue

	Name              string          // the job's name
	Prev              State           // previous state of the job
	Progress          json.RawMessage // JSON
	ReturnValue       json.RawMessage // JSON
	FailedReason      string          // plain text
	DelayedUntil      time.Time
	AttemptsMade      int
	Count             int
	DeduplicationID   string
	DeduplicatedJobID string // the job that was dropped

	// Missed is the minimum number of events that are missing before this event. They
	// were trimmed before they could be read, because the reader was too slow, or was
	// disconnected while more than MaxEvents events were added. Events removed in
	// other ways do not count.
	//
	// Missed is 1 if the number is unknown: on Redis before 7.0, and if the reader
	// started after the ID of an event that is no longer in the stream. It is always 0
	// if the Redis user may not call XINFO STREAM.
	Missed int

	// Fields is the complete entry in its order: field, value, field, value … The
	// first field is event.
	Fields []string
}

// Field returns the text of a field of the entry, or "" if there is none.
func (e Event) Field(name string) string {
	for i := 0; i+1 < len(e.Fields); i += 2 {
		if e.Fields[i] == name {
			return e.Fields[i+1]
		}
	}
	return ""
}

// Time returns when Redis wrote the entry.
func (e Event) Time() time.Time {
	if e.ID == "" {
		return time.Time{}
	}
	ms, _ := wire.ParseNumber(e.ID)
	return time.UnixMilli(ms)
}

func readEvent(id string, fields []string) Event {
	e := Event{ID: id, Fields: fields}
	for i := 0; i+1 < len(fields); i += 2 {
		value := fields[i+1]
		switch fields[i] {
		case "event":
			e.Type = EventType(value)
		case "jobId":
			e.JobID = value
		case "name":
			e.Name = value
		case "prev":
			e.Prev = State(value)
			if value == "wait" {
				e.Prev = StateWaiting
			}
		case "data":
			e.Progress = rawJSON(value)
		case "returnvalue":
			e.ReturnValue = rawJSON(value)
		case "failedReason":
			e.FailedReason = value
		case "delay":
			e.DelayedUntil = wire.ParseTime(value)
		case "attemptsMade":
			e.AttemptsMade = parseInt(value)
		case "count":
			e.Count = parseInt(value)
		case "deduplicationId", "debounceId":
			e.DeduplicationID = value
		case "deduplicatedJobId":
			e.DeduplicatedJobID = value
		}
	}
	return e
}

// QueueEventsOptions configures a [QueueEvents]. A nil pointer and the zero value
// select the defaults.
type QueueEventsOptions struct {
	// Connection is a connection to share with other queues and workers. Its
	// creator closes it.
	// Defaults to a separate connection to URL.
	Connection *Connection
	// URL is the address of Redis, used if Connection is nil. Printing the options
	// shows it in full, including a password.
	// Defaults to [DefaultURL].
	URL string
	// Prefix is the first part of all keys. All clients of a queue must use the
	// same one.
	// Defaults to [DefaultPrefix].
	Prefix string
	// LastEventID is the id of the event to start after. "0-0" starts with the oldest
	// event in the stream, and "$" with the first one after the call of
	// NewQueueEvents.
	// Defaults to "$".
	LastEventID string
	// BlockingTimeout is how long one read waits at the server, at most 10 seconds
	// (BullMQ: blockingTimeout).
	// Defaults to 10 seconds.
	BlockingTimeout time.Duration
	// OnHealth is called when Redis becomes unreachable and when it is reachable
	// again. Calls do not overlap.
	OnHealth func(Health)
	// Logger receives log lines.
	// Defaults to none.
	Logger Logger
}

// QueueEvents reads a queue's events stream, which all clients of the queue write
// (BullMQ: QueueEvents). After the loss of its connection it continues after the last
// event. No event is missed or repeated, as long as the next events are still in the
// stream.
type QueueEvents struct {
	core      *core
	o         QueueEventsOptions
	loop      chan struct{} // full while a loop over All runs; only that loop reads from the stream
	stream    backend.EventStream
	overtaken func() // called, if not nil, when events may have been missed

	mu     sync.Mutex
	last   string
	closed context.Context
	close  context.CancelFunc
}

// NewQueueEvents connects to a queue's events and determines where reading starts. ctx
// bounds this call only. options may be nil.
func NewQueueEvents(ctx context.Context, queueName string, options *QueueEventsOptions) (*QueueEvents, error) {
	var o QueueEventsOptions
	if options != nil {
		o = *options
	}
	if err := checkMillis("BlockingTimeout", o.BlockingTimeout, 0); err != nil { // Redis would wait without end
		return nil, fmt.Errorf("bullmq: events of queue %s: %w; 0 means 10 s", queueName, err)
	}
	fromNow := o.LastEventID == "" || o.LastEventID == "$"
	if !fromNow && !wire.IsEventID(o.LastEventID) {
		return nil, fmt.Errorf("bullmq: events of queue %s: LastEventID %.80q is not the id of an event: use an Event's ID, such as 1700000000000-0, or 0-0 for all", queueName, o.LastEventID)
	}
	if o.BlockingTimeout == 0 || o.BlockingTimeout > timing.LongestBlock {
		o.BlockingTimeout = timing.LongestBlock
	}
	c, err := newCore(ctx, queueName, o.Prefix, o.Connection, o.URL, nil, V6, o.Logger.with(logQueue, queueName))
	if err != nil {
		return nil, err
	}
	c.watchHealth(o.OnHealth)
	e := &QueueEvents{core: c, o: o, stream: c.newEventStream(), loop: make(chan struct{}, 1)}
	if fromNow {
		ctx, cancel := context.WithTimeout(ctx, timing.ConnectTimeout)
		defer cancel()
		last, err := c.store.LastEvent(ctx)
		if err != nil {
			c.conn.Close()
			return nil, fmt.Errorf("bullmq: read the events of %s: %w", queueName, err)
		}
		e.last = last.ID
		e.stream.StartAt(last)
	} else {
		e.last = o.LastEventID
		e.stream.StartAfter(e.last)
	}
	e.closed, e.close = context.WithCancel(context.Background())
	return e, nil
}

// LastEventID returns the id of the last event that was delivered. A QueueEvents that
// starts with it continues after that event.
func (e *QueueEvents) LastEventID() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last
}

func (e *QueueEvents) setLast(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = id
}

// Close ends the loop over [QueueEvents.All] and closes the connections. It may be called
// within the loop.
func (e *QueueEvents) Close() error {
	e.close()
	e.release()
	return nil
}

// release closes the connections of a closed reader. If a loop still runs, it calls
// release when it ends.
func (e *QueueEvents) release() {
	if e.closed.Err() == nil {
		return
	}
	select {
	case e.loop <- struct{}{}:
		safe.Together(e.stream.Close, e.core.conn.Close)
		<-e.loop
	default:
	}
}

// All returns an iterator over events. It ends when ctx ends or Close is called. It
// yields an error if Redis can't be read. If the loop continues, reading is retried
// after a short wait, from the last event on. If the [Connection] is closed, All yields
// [ErrClosed] once and ends.
//
// Only one loop runs at a time. A second one waits until the first has ended and
// continues after its last event.
func (e *QueueEvents) All(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		select {
		case e.loop <- struct{}{}:
		case <-ctx.Done():
			return
		case <-e.closed.Done():
			return
		}
		defer e.release()
		defer func() { <-e.loop }()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(e.closed, cancel)()
		over := func() bool { return ctx.Err() != nil || e.closed.Err() != nil }
		e.stream.Resume()
		var outage timing.Backoff
		for !over() {
			events, err := e.read(ctx)
			if over() {
				return
			}
			if err != nil {
				if !yield(Event{}, fmt.Errorf("bullmq: read the events of %s: %w", e.core.keys.queue, err)) || errors.Is(err, ErrClosed) {
					return
				}
				timing.Sleep(ctx, outage.Next())
				continue
			}
			outage.Succeeded()
			for _, event := range events {
				e.setLast(event.ID)
				e.stream.Advance(event.ID)
				if !yield(event, nil) || over() {
					return
				}
			}
		}
	}
}

// read waits for the events after the last one.
func (e *QueueEvents) read(ctx context.Context) ([]Event, error) {
	page, err := e.stream.Read(ctx, e.o.BlockingTimeout)
	if err != nil {
		return nil, err
	}
	if page.Restart != "" {
		e.setLast(page.Restart)
	}
	if page.MaybeMissed && e.overtaken != nil {
		e.overtaken()
	}
	events := make([]Event, len(page.Events))
	for i, event := range page.Events {
		events[i] = readEvent(event.ID, event.Fields)
	}
	if len(events) > 0 {
		events[0].Missed = page.Missed
	}
	return events, nil
}

// PublishOptions configures [Queue.Publish]. A nil pointer and the zero value select
// the defaults.
type PublishOptions struct {
	// MaxEvents is the approximate number of entries that the events stream keeps
	// after the call. NoEvents keeps none.
	// Defaults to the number that QueueOptions.MaxEvents has stored in Redis. If no
	// number is stored, the default is DefaultMaxEvents.
	MaxEvents int
}

// Publish writes a custom event to the events stream, for the QueueEvents of all
// clients, and returns its ID. fields alternates names and values. options may be nil
// (BullMQ: QueueEventsProducer.publishEvent, which keeps 1000 entries by default).
func (q *Queue) Publish(ctx context.Context, event EventType, options *PublishOptions, fields ...string) (string, error) {
	maxEvents := 0
	if options != nil {
		maxEvents = options.MaxEvents
	}
	if len(fields)%2 != 0 {
		return "", fmt.Errorf("bullmq: event %s: %d names and values are not pairs", event, len(fields))
	}
	if maxEvents < NoEvents {
		return "", fmt.Errorf("bullmq: event %s: the stream can't keep %d events: use a positive number, 0 for the queue's default, or NoEvents", event, maxEvents)
	}
	if maxEvents == 0 {
		meta, err := q.core.store.Meta(ctx)
		if err != nil {
			return "", err
		}
		maxEvents = cmp.Or(meta.MaxEvents, DefaultMaxEvents)
	}
	return q.core.store.Publish(ctx, maxEvents, append([]string{"event", string(event)}, fields...))
}
