package bullmq

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/safe"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// Registry is a list of queues in Redis. It is for queues that are not known in advance,
// such as one queue for each tenant. A queue enters the registry when a producer first
// uses the queue. A [MultiWorker] with MultiWorkerOptions.Registry then serves the queue
// within moments. A Registry is safe for concurrent use.
//
// Its queues are ordinary queues. A client of BullMQ announces a queue with one command,
// ZADD <prefix>:<registry>@x:new 0 <queue name>. A worker with the registry then registers
// the queue.
//
// Workers remove a queue from the registry if none of its keys is left, an hour after its
// last registration.
type Registry struct {
	keys       *keys // of a queue that has the name of the registry; it need not exist
	store      backend.Registry
	connection *Connection
	options    QueueOptions
	closing    func()

	mu     sync.Mutex
	queues map[string]*Queue
	closed bool
}

// RegistryOptions configures a [Registry]. A nil pointer and the zero value select the
// defaults.
type RegistryOptions struct {
	// Connection is a connection to share with queues and workers. Its creator closes it.
	// Defaults to a separate connection to URL.
	Connection *Connection
	// URL is the address of Redis, used if Connection is nil. Printing the options
	// shows it in full, including a password.
	// Defaults to [DefaultURL].
	URL string
	// Prefix is the first part of all keys, of the registry and of its queues.
	// Defaults to [DefaultPrefix].
	Prefix string
	// QueueOptions are the options of the queues that [Registry.Queue] opens. Connection,
	// URL and Prefix of QueueOptions must not be set. ShareCalls is always set.
	// Defaults to the defaults of [NewQueue].
	QueueOptions *QueueOptions
}

// NewRegistry connects and returns a Registry. name must not contain a colon. A queue may
// have the same name as a registry. options may be nil. ctx bounds this call only. If Redis
// can't be reached, NewRegistry returns an error within 5 seconds.
//
// On a cluster, the name or the prefix must contain a hash tag.
func NewRegistry(ctx context.Context, name string, options *RegistryOptions) (*Registry, error) {
	var o RegistryOptions
	if options != nil {
		o = *options
	}
	r := &Registry{queues: map[string]*Queue{}}
	if o.QueueOptions != nil {
		r.options = *o.QueueOptions
	}
	if r.options.Connection != nil || r.options.URL != "" || r.options.Prefix != "" {
		return nil, fmt.Errorf("bullmq: registry %s: its QueueOptions have a Connection, a URL or a Prefix: set them in RegistryOptions", name)
	}
	var err error
	if r.keys, err = newKeys(o.Prefix, name); err != nil {
		return nil, err
	}
	if r.store, r.connection, r.closing, err = openRegistry(ctx, r.keys, o.Connection, o.URL); err != nil {
		return nil, err
	}
	r.options.Connection, r.options.Prefix, r.options.ShareCalls = r.connection, o.Prefix, true
	return r, nil
}

// Name returns the registry's name, without its prefix.
func (r *Registry) Name() string { return r.keys.queue }

// Queue returns a queue of the registry. The first call for a queue opens it, as [NewQueue]
// does, and registers it. Later calls return the same Queue. ctx bounds this call only.
//
// Adds to the queues of a registry share calls to Redis, see QueueOptions.ShareCalls. While
// the Queue adds jobs, it renews its registration every 5 minutes. [Queue.Obliterate]
// removes the queue from the registry. The next add registers it again.
//
// [Registry.Close] closes the Queue. A program with many short-lived queues can close each
// of them earlier. The next call of Registry.Queue for that name opens it again.
func (r *Registry) Queue(ctx context.Context, queueName string) (*Queue, error) {
	if q, err := r.opened(queueName); q != nil || err != nil {
		return q, err
	}
	o := r.options
	q, err := NewQueue(ctx, queueName, &o)
	if err != nil {
		return nil, err
	}
	q.entry = &registryEntry{registry: r, name: queueName}
	err = q.entry.register(ctx)
	first := q
	if err == nil {
		first, err = r.keep(q)
	}
	if first != q || err != nil {
		_ = q.Close()
	}
	if err != nil {
		return nil, err
	}
	return first, nil
}

// opened returns the open Queue of this name; nil if there is none.
func (r *Registry) opened(queueName string) (*Queue, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, fmt.Errorf("bullmq: queue %s of registry %s: %w", queueName, r.Name(), ErrClosed)
	}
	return r.queues[queueName], nil
}

// keep adds a Queue to the open ones and returns it, or the one that another call has opened
// meanwhile.
func (r *Registry) keep(q *Queue) (*Queue, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, fmt.Errorf("bullmq: queue %s of registry %s: %w", q.Name(), r.Name(), ErrClosed)
	}
	if other := r.queues[q.Name()]; other != nil {
		return other, nil
	}
	r.queues[q.Name()] = q
	return q, nil
}

// Register adds queues to the registry, so that workers serve them. It is for queues that
// [Registry.Queue] does not open, such as those of a flow. The queues need not exist, but
// workers remove a queue without keys after an hour.
func (r *Registry) Register(ctx context.Context, queueNames ...string) error {
	for _, name := range queueNames {
		if _, err := newKeys(r.keys.prefix, name); err != nil {
			return fmt.Errorf("bullmq: registry %s: none of %d queues was registered: %w", r.Name(), len(queueNames), err)
		}
	}
	return r.store.Register(ctx, queueNames)
}

// Unregister removes queues from the registry, so that workers stop serving them. Jobs stay
// in their queues, and jobs that run still finish. Unregister ignores queues that are not
// registered.
//
// If a producer goes on adding to a Queue from [Registry.Queue], it registers the queue
// again: with the next add in this process, and within 5 minutes in other processes.
func (r *Registry) Unregister(ctx context.Context, queueNames ...string) error {
	if err := r.store.Unregister(ctx, queueNames); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range queueNames {
		if q := r.queues[name]; q != nil {
			q.entry.due.Store(0)
		}
	}
	return nil
}

// Queues returns the names of all queues of the registry, sorted. They include queues that
// a client of BullMQ has announced.
func (r *Registry) Queues(ctx context.Context) ([]string, error) { return r.store.Queues(ctx) }

// Close closes the queues that Registry.Queue has opened. It also closes the connection of
// the registry, unless the caller passed it in. Close always returns nil.
func (r *Registry) Close() error {
	r.mu.Lock()
	queues, closed := r.queues, r.closed
	r.queues, r.closed = nil, true
	r.mu.Unlock()
	if closed {
		return nil
	}
	var calls []func()
	for _, q := range queues {
		calls = append(calls, func() { _ = q.Close() })
	}
	safe.Together(calls...)
	r.closing()
	return nil
}

// forget removes a Queue that is closed from the open ones.
func (r *Registry) forget(q *Queue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queues[q.Name()] == q {
		delete(r.queues, q.Name())
	}
}

// registryEntry is the registration of a Queue that was opened through a [Registry]. It is
// nil for any other Queue.
type registryEntry struct {
	registry *Registry
	name     string
	due      atomic.Int64 // when to renew it, in Unix nanoseconds
}

// register registers the queue, and sets the time of the next renewal.
func (r *registryEntry) register(ctx context.Context) error {
	err := r.registry.store.Register(ctx, []string{r.name})
	if err == nil {
		r.due.Store(time.Now().Add(timing.RegistrationAge).UnixNano())
	}
	return err
}

// renew renews the registration if it is due. An add calls it first, and goes on if it
// fails. Then a later add tries again.
func (r *registryEntry) renew(ctx context.Context) {
	if r == nil {
		return
	}
	now, due := time.Now(), r.due.Load()
	if now.UnixNano() < due || !r.due.CompareAndSwap(due, now.Add(timing.RegistrationRetry).UnixNano()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timing.RegistrationTimeout)
	defer cancel()
	_ = r.register(ctx)
}

// remove removes the queue from the registry. The next add registers it again.
func (r *registryEntry) remove(ctx context.Context) error {
	if r == nil {
		return nil
	}
	return r.registry.Unregister(ctx, r.name)
}
