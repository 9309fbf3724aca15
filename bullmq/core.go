package bullmq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/batch"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/redisconn"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/redisstore"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
	"github.com/17a2ac88/bullmq-go/bullmq/scripts"
	"github.com/17a2ac88/bullmq-go/internal/testjob"
)

// core holds what all types of one queue share: its keys, its store, a connection, a
// clock, a logger and a tracer.
type core struct {
	keys  *keys
	store backend.Store
	// registry has the workers of all queues; nil if the backend has none.
	registry backend.WorkerRegistry
	conn     backend.Connection
	client   *redisconn.Client // the same as conn, to make stores and waiters
	now      func() time.Time
	isReal   bool    // now is the clock of this machine
	dialect  Dialect // V6 or V5
	log      *slog.Logger
	trace    tracer

	jobs *sync.Mutex // held while a method of a Job sets its fields

	// recorder is set for a job of package bullmqtest, which has no store.
	recorder testjob.Recorder

	// Set by a worker, nil otherwise.
	progressed func(job *Job, progress any)
	locks      *lockKeeper
}

func newCore(ctx context.Context, queue, prefix string, connection *Connection, url string, now func() time.Time, dialect Dialect, log *slog.Logger) (*core, error) {
	k, err := newKeys(prefix, queue)
	if err != nil {
		return nil, err
	}
	conn, owned, err := connectionFor(ctx, connection, url)
	if err != nil {
		return nil, err
	}
	isReal := now == nil
	if isReal {
		now = time.Now
	}
	client := conn.NewClient(k.named("meta"), owned)
	c := &core{
		keys: k, store: newStore(client, k, dialect), registry: scripts.NewWorkerRegistry(client),
		conn: client, client: client, now: now, isReal: isReal, log: log, jobs: &sync.Mutex{},
		trace: tracer{queue: queue},
	}
	if err := c.prepare(ctx, dialect); err != nil {
		client.Close()
		return nil, err
	}
	return c, nil
}

// newStore returns the store of a queue, over a client.
func newStore(client scripts.Client, k *keys, dialect Dialect) *scripts.Store {
	store := scripts.NewStore(client, k.base, k.named)
	store.SetDialect(dialect.major())
	return store
}

// prepare checks that the server can hold the queue, and sets the dialect.
func (c *core) prepare(ctx context.Context, dialect Dialect) error {
	conn := c.client.Conn()
	if err := c.checkHashTag(c.keys.prefix, c.keys.queue); err != nil {
		return err
	}
	if policy := conn.EvictionPolicy(); policy != "" {
		c.log.Warn("Redis may evict jobs and locks when its memory is full; the queue is used all the same; set maxmemory-policy noeviction",
			logAddress, conn.Address(), logPolicy, policy)
	}
	return c.setDialect(ctx, dialect)
}

// checkHashTag returns an error if the keys of a queue are not in one slot of a cluster.
func (c *core) checkHashTag(prefix, queue string) error {
	return checkHashTag(c.client.Conn(), prefix, queue)
}

func checkHashTag(conn *redisconn.Conn, prefix, queue string) error {
	if conn.IsCluster() && wire.HashTag(baseOf(prefix, queue)) == "" {
		return fmt.Errorf("bullmq: on a cluster all keys of a queue must be in one hash slot: put braces around the prefix ({%s}) or the queue's name ({%s}), on every client of the queue", prefix, queue)
	}
	return nil
}

// sibling returns the core of another queue on the same connection, in the same
// dialect. It has no worker.
func (c *core) sibling(prefix, queue string) (*core, error) {
	k, err := newKeys(prefix, queue)
	if err != nil {
		return nil, err
	}
	return c.withKeys(k, c.dialect), nil
}

// withKeys returns the core of another queue on the same connection. It has no worker, and
// the logger of c.
func (c *core) withKeys(k *keys, dialect Dialect) *core {
	other := *c
	other.keys, other.store, other.trace.queue, other.dialect = k, newStore(c.client, k, dialect), k.queue, dialect
	other.progressed, other.locks = nil, nil
	return &other
}

// groups returns what makes calls about several queues, in a dialect: over the shared
// connections, and over those of core.dedicated.
func (c *core) groups(dialect Dialect) (shared, dedicated backend.Group, open func()) {
	written := scripts.V6
	if dialect == V5 {
		written = scripts.V5
	}
	shared = scripts.NewGroup(c.client, written)
	client, ok := c.client.Dedicated()
	if !ok {
		return shared, shared, func() {}
	}
	return shared, scripts.NewGroup(client, written), client.Open
}

// newRegistry returns the store of a registry of queues.
func (c *core) newRegistry(prefix, name string) backend.Registry {
	return scripts.NewRegistry(c.client, prefix, name)
}

// groupWaiters returns a function that makes waiters for many queues, over connections with
// this name. On a cluster they share one.
func (c *core) groupWaiters(name string) func() backend.GroupWaiter {
	var conn *redisconn.Blocking
	return func() backend.GroupWaiter {
		if conn == nil || !c.client.IsCluster() {
			conn = c.newBlocking(name)
		}
		return redisstore.NewGroupWaiter(c.client, conn)
	}
}

// newFleet returns what finds the workers of all queues with a prefix.
func newFleet(connection *Connection, prefix string) fleet {
	client := connection.client()
	return fleet{prefix: prefix, registry: scripts.NewWorkerRegistry(client), conn: client, cluster: client.IsCluster()}
}

// newQueueFinder returns what finds the queues with a prefix.
func newQueueFinder(connection *Connection) backend.QueueFinder {
	return scripts.NewQueueFinder(connection.client())
}

// newEventsWaiter returns a waiter for the events of many queues, over a connection with this
// name.
func newEventsWaiter(connection *Connection, name string, log *slog.Logger) backend.EventsWaiter {
	client := connection.client()
	return redisstore.NewEventsWaiter(client, newBlocking(client, name, log))
}

// newFlowReader returns what reads the jobs of flows.
func newFlowReader(connection *Connection) backend.FlowReader {
	return scripts.NewFlowReader(connection.client())
}

// dedicated returns a store over dedicated connections. For a caller's client and on a
// cluster it returns the store over the shared ones. open opens the first dedicated
// connection, so that no call has to wait for it.
func (c *core) dedicated() (store backend.Store, open func()) {
	client, ok := c.client.Dedicated()
	if !ok {
		return c.store, func() {}
	}
	return newStore(client, c.keys, c.dialect), client.Open
}

// newSharding returns the generations of the sharded queue with this key prefix.
func (c *core) newSharding(name string) backend.Sharding { return scripts.NewSharding(c.client, name) }

func (c *core) nowMs() int64 { return c.now().UnixMilli() }

// newBlocking returns a connection for blocking commands.
func (c *core) newBlocking(name string) *redisconn.Blocking {
	return newBlocking(c.client, name, c.log)
}

func newBlocking(client *redisconn.Client, name string, log *slog.Logger) *redisconn.Blocking {
	return client.NewBlocking(name, func(needed int) {
		log.Warn("the client has too few connections for blocking commands, so workers and event readers poll; set its BlockingPoolSize to at least the number needed by them, plus those that the program blocks on itself",
			logNeeded, needed)
	})
}

// newEventStream returns a reader of the queue's events.
func (c *core) newEventStream() backend.EventStream {
	return redisstore.NewEventStream(c.client, c.newBlocking(c.keys.clientName(":qe")), c.keys.named("events"))
}

// newWaiter returns a waiter over a connection with this name.
func (c *core) newWaiter(name string) backend.Waiter {
	return redisstore.NewWaiter(c.store.(*scripts.Store), c.newBlocking(name), c.keys.named("marker"), c.isReal)
}

// classify returns the kind of failure of a call, given its error.
func classify(err error) backend.Failure {
	var refused *Error
	var notSent *batch.NotSentError
	switch {
	case errors.As(err, &refused):
		return backend.Refused
	case errors.As(err, &notSent), errors.Is(err, backend.ErrNotSent):
		return backend.NotSent
	}
	return redisconn.Classify(err)
}

// mayHaveRun reports whether a failed call may have been carried out, in full or in part.
// It was not if it was refused before it ran, or not sent.
func mayHaveRun(err error) bool { return err != nil && classify(err).MayHaveRun() }
