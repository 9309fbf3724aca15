package backend

import (
	"context"
	"time"
)

// Events writes and reads the queue's events.
type Events interface {
	// Publish writes an event and returns its id. fields alternates names and values. They
	// are stored in this order. About maxEvents events are kept; see [NoEvents].
	Publish(ctx context.Context, maxEvents int, fields []string) (id string, err error)
	// TrimEvents removes the oldest events until about keep are left, and returns how
	// many were removed.
	TrimEvents(ctx context.Context, keep int) (int, error)
	// LastEvent returns the position of the last event.
	LastEvent(ctx context.Context) (EventPosition, error)
	// FindEnd returns the last event "completed" or "failed" of a job, or nil if there is no
	// such event.
	FindEnd(ctx context.Context, jobID string) (*Event, error)
	// JobEvents returns the events of a job after the event with the id after, up to the id
	// last. complete reports whether the event with the id after is still stored, so that
	// none of the events between has been removed.
	JobEvents(ctx context.Context, jobID, after, last string) (events []Event, complete bool, err error)
}

// Event is an event as it is stored.
type Event struct {
	ID     string
	Fields []string // names and values alternate, in the order in which they are stored
}

// EventPosition is a position between two events.
type EventPosition struct {
	ID string // of the event before it
	// Added is the number of events added before the position, including events that
	// were removed; -1 if it is unknown.
	Added int
}

// EventStream reads the events of a queue in order, over a separate connection. Call
// StartAt or StartAfter first. Only Close is safe for concurrent use.
type EventStream interface {
	// StartAt starts after a position that [Events.LastEvent] has returned.
	StartAt(last EventPosition)
	// StartAfter starts after the event with this id, which may have been removed from
	// the stream.
	StartAfter(id string)
	// Resume must be called after a pause in reading, before the next Read.
	Resume()
	// Read waits for events after the position, for at most block, and returns them. It
	// moves the position only if the stream was recreated.
	Read(ctx context.Context, block time.Duration) (EventPage, error)
	// Advance moves the position past an event that was read.
	Advance(id string)
	// Close closes the connection.
	Close()
}

// EventPage is what a read of events returns.
type EventPage struct {
	Events []Event
	// Missed is the number of events that would precede Events but were removed before they
	// could be read. The actual number may be higher.
	Missed int
	// MaybeMissed reports that the pages may lack events between the previous one and this one.
	MaybeMissed bool
	// Restart is set if the stream was recreated. It is the id of the event after which
	// reading continues.
	Restart string
}
