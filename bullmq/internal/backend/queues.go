package backend

import "context"

// QueueFinder finds the queues in a store.
type QueueFinder interface {
	// EachQueue passes the names of the queues with a prefix, such as bull, to each, until
	// each returns false. No name is passed twice. Queues that are added or removed meanwhile
	// may be passed or not.
	EachQueue(ctx context.Context, prefix string, each func(names []string) (more bool)) error
}
