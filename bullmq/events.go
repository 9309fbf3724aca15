package bullmq

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/safe"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// EventType is what happened. Others than these, which producers may publish,
// are passed through under their own names.
type EventType string

// The events of BullMQ 6.7.0, with the fields of Event that each fills beside
// JobID.
const (
	EventAdded            EventType = "added"             // Name
	EventWaiting          EventType = "waiting"           // Prev, unless it is new
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
	EventWaitingChildren  EventType = "waiting-children"  // Prev, unless it is new
	EventCleaned          EventType = "cleaned"           // Count; no job
	EventDrained          EventType = "drained"           // no job
	EventPaused           EventType = "paused"            // no job
	EventResumed          EventType = "resumed"           // no job
)

// Event is an entry of a queue's events stream.
type Event struct {
	ID    string // in the stream; a later reader can start after it
	Type  EventType
	JobID string // "" for events about the queue

	Name              string          // the job's name
	Prev              State           // where the job stood before
	Progress          json.RawMessage // JSON
	ReturnValue       json.RawMessage // JSON
	FailedReason      string          // plain text
	DelayedUntil      time.Time
	AttemptsMade      int
	Count             int
	DeduplicationID   string
	DeduplicatedJobID string // the job that was dropped

	// Missed is at least how many events before this one were trimmed away before
	// they could be read, because the reader was slower than the queue's other
	// clients by more than MaxEvents, or was away for so long. Events that were
	// removed otherwise don't count. It is 1 where the number isn't known: for a
	// reader that starts after the ID of an event which is gone from the stream,
	// and on Redis before 7.0. Nothing is reported where a user may not call
	// XINFO STREAM.
	Missed int

	// Fields is the whole entry in its order, field, value, field, value …, the
	// field event first.
	Fields []string
}

// Field is the text of one field of the entry; "" where there is none.
func (e Event) Field(name string) string {
	for i := 0; i+1 < len(e.Fields); i += 2 {
		if e.Fields[i] == name {
			return e.Fields[i+1]
		}
	}
	return ""
}

// Time is when Redis wrote the entry.
func (e Event) Time() time.Time {
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

// QueueEventsOptions configure a QueueEvents; nil and the zero value hold the
// defaults.
type QueueEventsOptions struct {
	// Connection is shared with others that use it. Whoever made it closes it.
	// Defaults to a connection of its own, to URL.
	Connection *Connection
	// URL is the address of Redis, for a connection of its own, instead of a
	// Connection. It is printed as it is, with a password.
	// Defaults to [DefaultURL].
	URL string
	// Prefix is the first part of all keys; "bull" unless given.
	Prefix string
	// LastEventID is the entry to start after: "0-0" for all that the stream
	// still holds, an Event's ID to go on from there. Unless given, or with "$",
	// events count from when NewQueueEvents was called.
	LastEventID string
	// BlockingTimeout is how long one read waits at the server; 10 s unless
	// given, and at most that (BullMQ: blockingTimeout).
	BlockingTimeout time.Duration
	// OnHealth is called when Redis gets out of reach and when it is back, one
	// call at a time.
	OnHealth func(Health)
	// Logger receives log lines. Defaults to none.
	Logger Logger
}

// QueueEvents reads a queue's events stream, as written by all its clients
// (BullMQ: QueueEvents). The last id is its only state: it survives the loss
// of its connection without missing or repeating an event, as long as the
// stream still holds what comes next.
type QueueEvents struct {
	core      *core
	o         QueueEventsOptions
	loop      chan struct{} // full while a loop of All runs, which alone reads from the stream
	stream    backend.EventStream
	overtaken func() // called, if not nil, when events may have been missed

	mu     sync.Mutex
	last   string
	closed context.Context
	close  context.CancelFunc
}

// NewQueueEvents connects to a queue's events and fixes where reading starts. ctx
// bounds the call, not the life of the QueueEvents.
func NewQueueEvents(ctx context.Context, queue string, options *QueueEventsOptions) (*QueueEvents, error) {
	var o QueueEventsOptions
	if options != nil {
		o = *options
	}
	if err := checkMillis("BlockingTimeout", o.BlockingTimeout, 0); err != nil { // Redis would wait without end
		return nil, fmt.Errorf("bullmq: events of queue %s: %w; 0 means 10 s", queue, err)
	}
	fromNow := o.LastEventID == "" || o.LastEventID == "$"
	if !fromNow && !wire.IsEventID(o.LastEventID) {
		return nil, fmt.Errorf("bullmq: events of queue %s: LastEventID %.80q is no id of an event: give an Event's ID, such as 1700000000000-0, or 0-0 for all", queue, o.LastEventID)
	}
	if o.BlockingTimeout == 0 || o.BlockingTimeout > timing.LongestBlock {
		o.BlockingTimeout = timing.LongestBlock
	}
	c, err := newCore(ctx, queue, o.Prefix, o.Connection, o.URL, nil, V6, o.Logger.with(logQueue, queue))
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
			return nil, fmt.Errorf("bullmq: can't read the events of %s: %w", queue, err)
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

// LastEventID is the id of the last event handed out; a QueueEvents made with
// it goes on after it.
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

// Close ends All and the connections; it may be called within the loop.
func (e *QueueEvents) Close() error {
	e.close()
	e.release()
	return nil
}

// release ends the connections of a reader that is closed, unless a loop still
// runs: that does so when it has ended.
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

// All hands out events until ctx ends or Close is called. An error is handed
// out when Redis can't be read; go on with the loop and reading is tried
// again, after a short wait, from the last event on. Leave the loop to give up.
// One loop runs at a time; another waits for its end and goes on from there.
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
				if !yield(Event{}, fmt.Errorf("bullmq: reading the events of %s: %w", e.core.keys.queue, err)) {
					return
				}
				timing.Sleep(ctx, outage.Next())
				continue
			}
			outage.Succeeded()
			for _, event := range events {
				e.setLast(event.ID)
				e.stream.Passed(event.ID)
				if !yield(event, nil) || over() {
					return
				}
			}
		}
	}
}

// read waits for what comes after the last event.
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

// PublishOptions configure [Queue.Publish]. Nil and the zero value hold the defaults.
type PublishOptions struct {
	// MaxEvents is about how many entries the events stream keeps afterwards, of all
	// events. NoEvents keeps none.
	// Defaults to what QueueOptions.MaxEvents has stored in Redis, or DefaultMaxEvents.
	MaxEvents int
}

// Publish writes a custom event to the events stream, for the QueueEvents of all
// clients, and returns its ID. fields are names and values in turn. options may be nil
// (BullMQ: QueueEventsProducer.publishEvent, which keeps 1000 entries by default).
func (q *Queue) Publish(ctx context.Context, event EventType, options *PublishOptions, fields ...string) (string, error) {
	maxEvents := 0
	if options != nil {
		maxEvents = options.MaxEvents
	}
	if len(fields)%2 != 0 {
		return "", fmt.Errorf("bullmq: event %s: %d fields and values don't make pairs", event, len(fields))
	}
	if maxEvents < NoEvents {
		return "", fmt.Errorf("bullmq: event %s: the stream can't keep %d events: give a number, 0 for the queue's own, or NoEvents", event, maxEvents)
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
