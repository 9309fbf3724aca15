package backend

import (
	"context"
	"time"
)

// Events writes and reads the queue's events.
type Events interface {
	// Publish writes an event and returns its id. The fields are field, value, field,
	// value …, and keep their order. About maxEvents events are kept; see [NoEvents].
	Publish(ctx context.Context, maxEvents int, fields []string) (id string, err error)
	// TrimEvents removes the oldest events until about keep are left, and returns how
	// many were removed.
	TrimEvents(ctx context.Context, keep int) (int, error)
	// LastEvent returns the position after which the next event will be.
	LastEvent(ctx context.Context) (EventPosition, error)
	// FindEnd returns the last event that a job has completed or failed; nil if there
	// is none.
	FindEnd(ctx context.Context, jobID string) (*Event, error)
}

// Event is an event as it is stored.
type Event struct {
	ID     string
	Fields []string // field, value, field, value …, in their order
}

// EventPosition is a position between two events.
type EventPosition struct {
	ID string // of the event before it
	// Added counts the events up to it, also those that were removed; -1 if that is
	// not known.
	Added int
}

// EventStream reads the events of a queue in their order, on a connection of its
// own. StartAt or StartAfter fixes where reading starts. One goroutine uses it, but
// any may call Close.
type EventStream interface {
	// StartAt starts after a position that [Events.LastEvent] has returned.
	StartAt(last EventPosition)
	// StartAfter starts after an event that a caller names by its id, which the
	// stream may no longer have.
	StartAfter(id string)
	// Resume follows a time in which nothing was read, and precedes Read.
	Resume()
	// Read waits for events for at most a time, and returns those that come after
	// the position. It moves the position only if the stream began anew.
	Read(ctx context.Context, block time.Duration) (EventPage, error)
	// Passed moves the position to an event that was read.
	Passed(id string)
	// Close closes the connection.
	Close()
}

// EventPage is what a read of events returns.
type EventPage struct {
	Events []Event
	// Missed is at least how many events before the first one were removed before
	// they could be read.
	Missed int
	// MaybeMissed reports that the caller can't know all events since the last page.
	MaybeMissed bool
	// Restart is the id of the event after which reading goes on in a stream that
	// began anew; "" otherwise.
	Restart string
}
