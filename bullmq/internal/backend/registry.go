package backend

import (
	"context"
	"time"
)

// Registry is a list of queues, by their names. Listeners are notified when a queue is
// added or removed. It is safe for concurrent use.
type Registry interface {
	// Register adds queues, or renews their entries.
	Register(ctx context.Context, names []string) error
	// Unregister removes queues.
	Unregister(ctx context.Context, names []string) error
	// Queues returns the names of all queues.
	Queues(ctx context.Context) ([]string, error)

	// Listen reads the queues for a listener. From then on until the lease has passed, a
	// [GroupWaiter] with [Registry.WakeKeys] returns when queues were added or removed.
	Listen(ctx context.Context, l Listen) (Listened, error)
	// WakeKeys returns the keys for which a listener waits.
	WakeKeys(listener string) []string
	// StopListening ends the lease of a listener.
	StopListening(ctx context.Context, listener string) error

	// RemoveVanished removes queues that no longer have keys and were last registered at
	// least age ago, and returns their names. All callers together remove queues at most
	// once per interval.
	RemoveVanished(ctx context.Context, interval, age time.Duration) ([]string, error)
}

// Listen is the request of [Registry.Listen].
type Listen struct {
	Listener string // its unique id
	Lease    time.Duration
	// Since is Listened.At of the last call. If it is zero, all queues are read.
	Since time.Time
	// Wake is what the wait has returned; zero without a wait.
	Wake GroupWake
}

// Listened is the result of [Registry.Listen].
type Listened struct {
	// Names are the queues that were registered since Listen.Since, or all queues.
	Names []string
	// All reports whether Names are all queues. It is set after a queue was removed.
	All bool
	// At is the time of the call.
	At time.Time
}
