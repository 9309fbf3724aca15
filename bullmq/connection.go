package bullmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/redisconn"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/safe"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
	"github.com/17a2ac88/bullmq-go/bullmq/scripts"
)

// DefaultURL is the address of Redis if the options give none.
const DefaultURL = "redis://127.0.0.1:6379"

// Connection is a connection to Redis, Valkey or a compatible server. Any number of
// Queues, Workers, QueueEvents and FlowProducers can share it; set it as Connection in
// their options. It is safe for concurrent use.
//
// The creator of a Connection must close it. Closing a Queue or a Worker leaves it open.
//
// A Connection has up to four sockets for commands, and on a cluster up to four sockets for
// each node. Some of its users wait at the server. Each of these users opens two more
// sockets:
//
//   - a Worker that runs
//   - a loop over [QueueEvents.All]
//   - a [Fetcher.Fetch] that waits
//   - a Queue on which [Queue.WaitForJob], [Job.Wait] or [Queue.WatchJob] was called
//
// A Worker also opens a socket for each of its concurrent calls that finish jobs. There are
// mostly one or two such calls. You need to configure the size of a pool only for
// [ConnectClient].
type Connection struct {
	address string
	// use returns the connection for a user, and whether the user must close it. It is
	// a function, so that printing by reflection finds no password.
	use    func(ctx context.Context) (conn *redisconn.Conn, owned bool, err error)
	client func() *redisconn.Client // of the Connection itself
}

// Connect connects to a redis://, rediss:// (TLS) or unix:// address, with user,
// password and database in the address. An empty address is [DefaultURL]. Connect
// returns when ctx ends, and after nine seconds at the latest. If no server can be
// reached, it returns within five seconds. ctx does not limit the life of the Connection.
func Connect(ctx context.Context, url string) (*Connection, error) {
	url = cmp.Or(url, DefaultURL)
	conn, err := dialURL(ctx, url)
	return newConnection(redisconn.HidePassword(url), conn, err)
}

// ConnectOption is like [Connect] with an option of rueidis, for Sentinel, clusters
// and TLS configurations. This SDK sets the name of the connection, and the settings that
// it needs to wait at the server.
func ConnectOption(ctx context.Context, option rueidis.ClientOption) (*Connection, error) {
	conn, err := redisconn.Dial(ctx, option)
	return newConnection(strings.Join(option.InitAddress, ","), conn, err)
}

// ConnectClient returns a Connection that uses an existing client. Closing the
// Connection leaves the client open.
//
// Some users of the Connection wait at the server. Each of these holds a connection of the
// client's pool (BlockingPoolSize), on each node of a cluster:
//
//   - a Worker that runs
//   - a loop over [QueueEvents.All]
//   - a [Fetcher.Fetch] that waits
//   - a Queue on which [Queue.WaitForJob], [Job.Wait] or [Queue.WatchJob] was called
//
// If the pool has no free connection, such a user polls Redis five times a second until
// there is one. It logs a warning with the number of connections that are needed.
//
// During an outage the client's RetryDelay decides how long a call that only reads is
// repeated. By default rueidis repeats the call until the outage ends, the call's context
// ends or the Connection is closed. To limit this time, give calls a deadline, or set
// RetryDelay to a function that returns a negative duration after some attempts.
func ConnectClient(ctx context.Context, client rueidis.Client) (*Connection, error) {
	conn, err := redisconn.Wrap(ctx, client)
	return newConnection("the given client's address", conn, err)
}

func dialURL(ctx context.Context, url string) (*redisconn.Conn, error) {
	option, err := redisconn.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return redisconn.Dial(ctx, option)
}

func newConnection(address string, conn *redisconn.Conn, err error) (*Connection, error) {
	if err != nil {
		return nil, err
	}
	// Its probe goes to a key of no queue.
	client := conn.NewClient(DefaultPrefix, true)
	return &Connection{
		address: address,
		use:     func(context.Context) (*redisconn.Conn, bool, error) { return conn, false, nil },
		client:  func() *redisconn.Client { return client },
	}, nil
}

// sharedConnection returns the connection of the core for other users.
func (c *core) sharedConnection() *Connection { return connectionOf(c.client) }

// connectionOf returns the connection of a client for other users.
func connectionOf(client *redisconn.Client) *Connection {
	conn := client.Conn()
	return &Connection{
		address: conn.Address(),
		use:     func(context.Context) (*redisconn.Conn, bool, error) { return conn, false, nil },
		client:  func() *redisconn.Client { return client },
	}
}

// openRegistry returns the store of a registry, its connection for other users, and the
// function that closes what it has opened.
func openRegistry(ctx context.Context, k *keys, connection *Connection, url string) (store backend.Registry, shared *Connection, closing func(), err error) {
	conn, owned, err := connectionFor(ctx, connection, url)
	if err != nil {
		return nil, nil, nil, err
	}
	client := conn.NewClient(k.qualifiedName()+"@x:probe", owned) // a key that never exists
	if err := checkHashTag(conn, k.prefix, k.queue); err != nil {
		client.Close()
		return nil, nil, nil, err
	}
	return scripts.NewRegistry(client, k.prefix, k.queue), connectionOf(client), client.Close, nil
}

// sharing identifies the queues of a connection that share adds: those with equal values.
type sharing struct {
	slotTag   string // the hash tag, on a cluster
	dialect   Dialect
	batchSize int
}

// sharedAdds returns what makes the adds of the queue, together with others of the
// connection.
func (c *core) sharedAdds(batchSize int) *sharedAdds {
	conn, with := c.client.Conn(), sharing{dialect: c.dialect, batchSize: batchSize}
	if conn.IsCluster() {
		with.slotTag = wire.HashTag(c.keys.base)
	}
	return conn.Shared(with, func() any {
		client := conn.NewClient(c.keys.named("meta"), false)
		return newSharedAdds(scripts.NewGroup(client, c.store.(*scripts.Store).Dialect), batchSize)
	}).(*sharedAdds)
}

// Close closes the Connection. Calls that use it then return [ErrClosed], even if they are
// in flight or waiting. Queues and flow producers may be closed before or after it. Stop
// workers first: a worker that still runs fetches no more jobs and logs that once, but
// continues until it is stopped. Close always returns nil.
func (c *Connection) Close() error {
	c.client().Close()
	return nil
}

// Health returns whether Redis can be reached. Redis is unreachable if any user of the
// Connection can't reach it. Health makes no call.
func (c *Connection) Health() Health { return Health(c.client().Conn().State()) }

// Ping sends a small command and returns nil if Redis replies and can serve. It returns
// when ctx ends, so give ctx a deadline.
func (c *Connection) Ping(ctx context.Context) error {
	if err := c.client().Ping(ctx); err != nil {
		return fmt.Errorf("bullmq: %w", err)
	}
	return nil
}

// String returns the address, without user and password.
func (c *Connection) String() string { return c.address }

// GoString is String, for %#v.
func (c *Connection) GoString() string { return fmt.Sprintf("bullmq.Connection(%s)", c.address) }

// connectionFor returns the connection that options select, and whether its user must
// close it.
func connectionFor(ctx context.Context, c *Connection, url string) (conn *redisconn.Conn, owned bool, err error) {
	switch {
	case c == nil:
		conn, err = dialURL(ctx, cmp.Or(url, DefaultURL))
		return conn, true, err
	case url != "":
		return nil, false, errors.New("bullmq: the options have both a Connection and a URL: set one of them")
	case c.use == nil:
		return nil, false, errors.New("bullmq: the Connection is empty: make it with Connect, ConnectOption or ConnectClient")
	}
	return c.use(ctx)
}

// Health is whether a Queue, a Worker, a QueueEvents or a FlowProducer can reach
// Redis. It is derived from the results of other calls. While these succeed, no calls are
// made for it. When a call fails, a small command is sent about once a second until Redis
// can serve. A connection that was lost and reopened at once does not count as an
// outage.
//
// An idle Queue notices an outage with its next call. An idle Worker or
// QueueEvents notices a broken connection at once and a silent server after 11
// seconds. [Queue.Ping] checks at once.
type Health struct {
	// Reachable reports whether Redis replies and can serve. It is also false while
	// Redis loads its data, is a read-only replica, is busy with a script, or lacks
	// part of its cluster. A Redis that has run out of memory is reachable.
	Reachable bool
	// Since is when this state began. For an outage, it is when the first call failed.
	// Before the first outage, it is when the connection was opened.
	Since time.Time
	// Err is the error of the current outage, or of the last one if Redis is reachable
	// again. It is nil before the first outage. Its text contains no passwords.
	Err error
}

func (h Health) String() string {
	switch since := h.Since.Format(time.RFC3339); {
	case !h.Reachable:
		return fmt.Sprintf("Redis is unreachable since %s: %v", since, h.Err)
	case h.Err != nil:
		return fmt.Sprintf("Redis is reachable again since %s, after: %v", since, h.Err)
	default:
		return "Redis is reachable since " + since
	}
}

// Health returns whether Redis can be reached. It makes no call.
func (q *Queue) Health() Health { return q.core.health() }

// Ping sends a small command on the queue's connection and returns nil if Redis replies
// and can serve. It returns when ctx ends, so give ctx a deadline. A process that makes
// no other calls detects an outage only by Ping. The result of Ping updates Health.
func (q *Queue) Ping(ctx context.Context) error {
	if err := q.core.conn.Ping(ctx); err != nil {
		return fmt.Errorf("bullmq: queue %s: %w", q.Name(), err)
	}
	return nil
}

// Health returns whether Redis can be reached. It makes no call.
func (h *host) Health() Health { return h.home.health() }

// Health returns whether Redis can be reached. It makes no call.
func (e *QueueEvents) Health() Health { return e.core.health() }

// Health returns whether Redis can be reached. It makes no call.
func (p *FlowProducer) Health() Health { return p.core.health() }

func (c *core) health() Health { return Health(c.conn.Health().State()) }

// watchHealth logs outages and calls onHealth, which may be nil.
func (c *core) watchHealth(onHealth func(Health)) {
	c.conn.Health().OnChange(func(h backend.Health) {
		c.logHealth(h)
		if onHealth == nil {
			return
		}
		if p, stack := safe.Call(func() { onHealth(Health(h)) }); p != nil {
			c.log.Error("OnHealth panicked; nothing else is affected; fix the function", logFunction, "OnHealth", logPanic, fmt.Sprint(p), logStack, stack)
		}
	})
}

// oneAtATime returns an OnHealth for several users of connections, whose calls do not overlap.
func oneAtATime(onHealth func(Health)) func(Health) {
	if onHealth == nil {
		return nil
	}
	var mu sync.Mutex
	return func(h Health) {
		mu.Lock()
		defer mu.Unlock()
		onHealth(h)
	}
}

// logHealth logs the begin and the end of an outage, once for all users of a connection
// that have a logger.
func (c *core) logHealth(h backend.Health) {
	if !c.log.Enabled(context.Background(), slog.LevelError) {
		return
	}
	switch alone, outage := c.client.Noted(h); {
	case !alone:
	case h.Reachable:
		c.log.Warn("Redis is reachable again; work continues", logOutage, outage.Milliseconds())
	default:
		c.log.Error("Redis is unreachable; workers and event readers retry, other calls fail or wait; check the server and the network", logError, h.Err)
	}
}
