package bullmq

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/redisconn"
)

// DefaultURL is where Redis is looked for when no Connection is given.
const DefaultURL = "redis://127.0.0.1:6379"

// Connection says how to reach Redis, Valkey or a compatible server. Make one
// with URL, Options or Client; the zero Connection is DefaultURL. Printed, it
// shows the address, and never a password.
type Connection struct{ target *target }

// target has a function where a password is known, so that nothing that prints
// values by reflection finds one.
type target struct {
	shown string
	open  func(ctx context.Context) (*redisconn.Conn, error)
}

// URL connects to redis://, rediss:// (TLS) or unix:// addresses, with user,
// password and database in the address; "" is DefaultURL.
func URL(url string) Connection {
	if url == "" {
		return Connection{}
	}
	return Connection{&target{redisconn.HidePassword(url), func(ctx context.Context) (*redisconn.Conn, error) {
		option, err := redisconn.ParseURL(url)
		if err != nil {
			return nil, err
		}
		return redisconn.Dial(ctx, option)
	}}}
}

// Options connects as rueidis is told to, for sentinels, clusters or a TLS
// configuration of one's own. The name of the connection and the settings
// that a blocking connection needs are set by this SDK.
func Options(option rueidis.ClientOption) Connection {
	return Connection{&target{strings.Join(option.InitAddress, ","), func(ctx context.Context) (*redisconn.Conn, error) {
		return redisconn.Dial(ctx, option)
	}}}
}

// Client uses a client that exists already, which stays the caller's to close.
// Each Worker, each QueueEvents, each Queue on which WaitForJob is called, and
// each call of GetNextJob that waits, holds a connection of the client's pool to
// block on (BlockingPoolSize). Those that find none free poll five times a second
// until there is one, and a warning is logged that names the number needed. A
// client of a cluster needs them on each node.
func Client(client rueidis.Client) Connection {
	return Connection{&target{"the given client's address", func(ctx context.Context) (*redisconn.Conn, error) {
		return redisconn.Wrap(ctx, client)
	}}}
}

// String is the address, without user and password.
func (c Connection) String() string {
	if c.target == nil {
		return DefaultURL
	}
	return c.target.shown
}

// GoString is String, for %#v.
func (c Connection) GoString() string { return fmt.Sprintf("bullmq.Connection(%s)", c) }

func (c Connection) open(ctx context.Context) (*redisconn.Conn, error) {
	if c.target == nil {
		c = URL(DefaultURL)
	}
	return c.target.open(ctx)
}
