package bullmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/redisconn"
)

// DefaultURL is the address of Redis if the options give none.
const DefaultURL = "redis://127.0.0.1:6379"

// Connection is a connection to Redis, Valkey or a compatible server. Any number of
// Queues, Workers, QueueEvents and FlowProducers share it: give it to them as
// Connection in their options. It is safe for concurrent use.
//
// Whoever made a Connection closes it. Closing a Queue or a Worker leaves it open.
//
// A Connection has up to four sockets for commands, to each node of a cluster. A
// Worker that runs, a loop over [QueueEvents.All], a [Worker.GetNextJob] that
// waits, and a Queue on which [Queue.WaitForJob] was called, open two more each,
// since they wait at the server. A Worker also opens one for each call at the same
// time that finishes jobs, mostly one or two. Nothing has to be sized for that; see
// [ConnectClient] for the exception.
type Connection struct {
	address string
	// use returns the connection for a user of it, and whether it is the user's to
	// close. It is a function, so that printing by reflection finds no password.
	use    func(ctx context.Context) (conn *redisconn.Conn, owned bool, err error)
	client func() *redisconn.Client // of the Connection itself
}

// Connect connects to a redis://, rediss:// (TLS) or unix:// address, with user,
// password and database in the address. An empty address is [DefaultURL]. It
// returns when ctx ends, and within five seconds. ctx does not limit the life of
// the Connection.
func Connect(ctx context.Context, url string) (*Connection, error) {
	url = cmp.Or(url, DefaultURL)
	conn, err := dialURL(ctx, url)
	return newConnection(redisconn.HidePassword(url), conn, err)
}

// ConnectOption is like [Connect] with an option of rueidis, for Sentinel, clusters
// and TLS configurations. The name of the connection and the settings that waiting
// needs are set by this SDK.
func ConnectOption(ctx context.Context, option rueidis.ClientOption) (*Connection, error) {
	conn, err := redisconn.Dial(ctx, option)
	return newConnection(strings.Join(option.InitAddress, ","), conn, err)
}

// ConnectClient makes a Connection of a client that exists already. Closing the
// Connection leaves the client open.
//
// Each Worker that runs, each loop over [QueueEvents.All], each Queue on which
// [Queue.WaitForJob] was called, and each [Worker.GetNextJob] that waits, holds a
// connection of the client's pool (BlockingPoolSize), on each node of a cluster.
// Those that find none free poll five times a second until there is one, and log a
// warning with the number needed.
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

// Close closes the Connection. Calls of all who use it return [ErrClosed] then,
// also calls in flight. Workers that run go on until they are stopped, but get no
// jobs, so stop them first. Close returns nil.
func (c *Connection) Close() error {
	c.client().Close()
	return nil
}

// Health returns whether Redis can be reached, as all who use the Connection know
// it. It makes no call.
func (c *Connection) Health() Health { return Health(c.client().Conn().State()) }

// Ping asks Redis now, by a small command, and returns nil if Redis replies and can
// serve. It returns when ctx ends at the latest, so give ctx a deadline.
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

// connectionFor returns the connection that options name, and whether it is the
// user's own.
func connectionFor(ctx context.Context, c *Connection, url string) (conn *redisconn.Conn, owned bool, err error) {
	switch {
	case c == nil:
		conn, err = dialURL(ctx, cmp.Or(url, DefaultURL))
		return conn, true, err
	case url != "":
		return nil, false, errors.New("bullmq: the options have both a Connection and a URL: set one of them")
	case c.use == nil:
		return nil, false, errors.New("bullmq: the Connection is empty: make it by Connect, ConnectOption or ConnectClient")
	}
	return c.use(ctx)
}
