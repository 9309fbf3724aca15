// Package redisconn connects to Redis. It dials, makes calls that end with their
// context, waits on separate connections, classifies failures and watches whether the
// server can be reached. It has no knowledge of queues.
package redisconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/safe"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// Conn is a connection to a server or a cluster. The clients that [Conn.NewClient]
// returns share it.
type Conn struct {
	client  rueidis.Client
	option  func() rueidis.ClientOption // nil for a caller's client; it is a function so that printing a Conn shows no password
	address string
	sockets *sockets
	opened  time.Time
	server  serverInfo

	closed   atomic.Bool
	inFlight atomic.Int64 // calls in flight

	dedicated      atomic.Int64 // calls in flight over dedicated connections
	dedicatedPause atomic.Int64 // no dedicated connection is used until this time (Unix nanoseconds), because one has failed

	mu       sync.Mutex
	users    map[*Client]struct{}
	lost     time.Time // the beginning of the last outage that Noted has recorded
	blocking map[*Blocking]struct{}

	sharing sync.Mutex
	shared  map[any]any
}

// Dial connects with the given rueidis options. It returns when ctx ends, and within nine
// seconds at the latest. The client may take up to [timing.DialTimeout] to connect. The
// first command may then take up to [timing.ConnectTimeout].
func Dial(ctx context.Context, option rueidis.ClientOption) (*Conn, error) {
	if len(option.InitAddress) == 0 {
		return nil, errors.New("bullmq: connect: the options name no server: set InitAddress, such as 127.0.0.1:6379")
	}
	option.DisableCache = true
	if option.Dialer.Timeout == 0 {
		option.Dialer.Timeout = timing.ConnectTimeout
	}
	if option.WriteBufferEachConn == 0 {
		option.WriteBufferEachConn = writeBuffer
	}
	if option.RetryDelay == nil {
		option.RetryDelay = retryReads
	}
	c := &Conn{option: func() rueidis.ClientOption { return option }, address: strings.Join(option.InitAddress, ","), sockets: newSockets()}
	var err error
	if c.client, err = dial(ctx, option, c.sockets); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("bullmq: connect to Redis at %s: %w", c.address, err)
		}
		return nil, fmt.Errorf("bullmq: connect to Redis at %s: %w; %s", c.address, hidePasswords(c.option, err), advice(err, option.TLSConfig != nil))
	}
	return c.open(ctx)
}

// Wrap returns a Conn that uses a caller's client. Closing the Conn does not close the
// client.
func Wrap(ctx context.Context, client rueidis.Client) (*Conn, error) {
	if client == nil {
		return nil, errors.New("bullmq: connect: the client is nil")
	}
	return (&Conn{client: client, address: "the given client's address", sockets: newSockets()}).open(ctx)
}

func (c *Conn) open(ctx context.Context) (*Conn, error) {
	c.opened, c.users, c.blocking = time.Now(), map[*Client]struct{}{}, map[*Blocking]struct{}{}
	if err := c.inspect(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// writeBuffer is small enough that Redis starts to run a long pipeline of commands while
// the rest of it is still being written. The default of rueidis is larger.
const writeBuffer = 16 << 10

// dial is rueidis.NewClient with a timeout and a context.
func dial(ctx context.Context, option rueidis.ClientOption, open *sockets) (rueidis.Client, error) {
	type result struct {
		client rueidis.Client
		err    error
	}
	done := make(chan result, 1)
	open.track(&option)
	go func() {
		client, err := rueidis.NewClient(option)
		done <- result{client, err}
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, timing.DialTimeout, errNoReply)
	defer cancel()
	select {
	case r := <-done:
		if r.err != nil && r.client != nil {
			r.client.Close()
		}
		return r.client, r.err
	case <-ctx.Done():
		open.cut()
		go func() { // closes the client if dialing still succeeds
			if r := <-done; r.client != nil {
				r.client.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}

// retryReads lets rueidis repeat commands that only read, a few times. rueidis never
// repeats commands that may write. Without a limit, reads would hang for as long as an
// outage lasts.
func retryReads(attempts int, _ rueidis.Completed, _ error) time.Duration {
	if attempts > 5 {
		return -1
	}
	return time.Duration(attempts) * timing.ReadRetryPause
}

// Address returns the address of the server, without user and password.
func (c *Conn) Address() string { return c.address }

// IsCluster reports whether the server is a cluster.
func (c *Conn) IsCluster() bool { return c.client.Mode() == rueidis.ClientModeCluster }

// EvictionPolicy returns the server's maxmemory-policy if it may evict keys, otherwise
// "".
func (c *Conn) EvictionPolicy() string { return c.server.evictionPolicy }

// Noted records that the health of one of the Conn's clients has changed. alone reports
// whether no other client of the Conn is in an outage. outage is how long the recorded
// outage had lasted at this change.
func (c *Client) Noted(s State) (alone bool, outage time.Duration) {
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	alone = true
	for user := range c.conn.users {
		alone = alone && (user == c || !user.isDown)
	}
	c.isDown = !s.Reachable
	if alone && c.isDown {
		c.conn.lost = s.Since
	}
	return alone, s.Since.Sub(c.conn.lost)
}

// State returns the state of the server. The server counts as unreachable if any client of
// the Conn can't reach it.
func (c *Conn) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := State{Reachable: true, Since: c.opened}
	for user := range c.users {
		of := user.health.State()
		switch {
		case state.Reachable && !of.Reachable,
			state.Reachable == of.Reachable && of.Err != nil && (state.Err == nil || of.Since.Before(state.Since) != of.Reachable):
			state = of
		}
	}
	return state
}

// Close ends all calls and waits over the connection. It also closes the client, unless
// that is a caller's client.
func (c *Conn) Close() {
	c.closed.Store(true)
	c.mu.Lock()
	var closing []func()
	for user := range c.users {
		user.endCalls()
	}
	for b := range c.blocking {
		closing = append(closing, b.Close)
	}
	c.mu.Unlock()
	if c.option != nil {
		closing = append(closing, func() { c.sockets.close(c.client.Close) })
	}
	safe.Together(closing...)
}

// Shared returns what users of the Conn share under a key, for as long as the Conn exists.
// The first call makes it.
func (c *Conn) Shared(key any, make func() any) any {
	c.sharing.Lock()
	defer c.sharing.Unlock()
	value, found := c.shared[key]
	if !found {
		if c.shared == nil {
			c.shared = map[any]any{}
		}
		value = make()
		c.shared[key] = value
	}
	return value
}

// begin reports whether a call may be made. If so, the caller must call end.
func (c *Conn) begin() bool {
	c.inFlight.Add(1)
	if c.closed.Load() {
		c.end()
		return false
	}
	return true
}

// end closes the client once more after the last call in flight. Otherwise rueidis leaks a
// connection that is being dialed during Close.
func (c *Conn) end() {
	if c.inFlight.Add(-1) == 0 && c.closed.Load() && c.option != nil {
		c.client.Close()
	}
}

// dialBlocking opens a separate client for blocking commands. BullMQ finds workers and event
// readers by the name of a connection, and counts each connection with that name. So only
// the connection that blocks may have the name, and [Blocking] itself names that connection.
// On a cluster rueidis selects the connection, so all connections of the client have the
// name.
func (c *Conn) dialBlocking(name string, open *sockets) (rueidis.Client, error) {
	option := c.option()
	if c.IsCluster() {
		option.ClientName = name
	}
	option.DisableRetry = true // otherwise a reconnect would not be noticed, and events would be lost
	option.RingScaleEachConn = 8
	option.ReadBufferEachConn, option.WriteBufferEachConn = 32<<10, 32<<10
	option.PipelineMultiplex = -1
	client, err := dial(context.Background(), option, open)
	if err != nil {
		return nil, fmt.Errorf("bullmq: connect to Redis at %s: %w", c.address, err)
	}
	return client, nil
}

// maxDedicated returns the maximum number of connections besides the shared ones.
func (c *Conn) maxDedicated() int64 {
	return int64(cmp.Or(c.option().BlockingPoolSize, rueidis.DefaultPoolSize))
}

// hidePasswords removes the passwords of a client from an error's text, because some
// servers repeat the command in their errors.
func hidePasswords(option func() rueidis.ClientOption, err error) error {
	if option == nil {
		return err
	}
	var words []string
	for _, word := range []string{option().Password, option().Sentinel.Password} {
		if word != "" {
			words = append(words, word, "***")
		}
	}
	text := err.Error()
	if hidden := strings.NewReplacer(words...).Replace(text); hidden != text {
		return errors.New(hidden)
	}
	return err
}
