package backend

import "context"

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
