package redisconn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// Commands makes calls to Redis.
type Commands interface {
	B() rueidis.Builder
	Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult
	DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult
}

// Client makes the calls of one user of a Conn. Calls return when their context ends.
// Calls after Close, and calls that are in flight during Close, return
// [backend.ErrClosed], even if the Conn stays open.
type Client struct {
	health   *HealthWatch
	isDown   bool // the last change that Noted has recorded is an outage; guarded by conn.mu
	conn     *Conn
	ownsConn bool
	key      string // of a hash, for calls that change nothing
	closed   atomic.Bool
	closing  sync.Once
	cutOff   chan struct{} // closed soon after the Client or its Conn, to end calls over a caller's client
}

// NewClient returns a client of the Conn. key is the key of a hash that the user may
// write to; the probe writes there without changing it. If ownsConn is set, the Conn is
// closed with the client.
func (c *Conn) NewClient(key string, ownsConn bool) *Client {
	client := &Client{conn: c, ownsConn: ownsConn, key: key, cutOff: make(chan struct{})}
	client.health = newHealthWatch(c.opened, client.probe, func(err error) error { return hidePasswords(c.option, err) })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users[client] = struct{}{}
	if c.closed.Load() {
		client.endCalls()
	}
	return client
}

// probe checks that the server accepts writes, by a write that changes nothing.
func (c *Client) probe(ctx context.Context) error {
	call, cancel, _ := c.conn.outlasting(ctx)
	return inTime(ctx, rueidis.NewErrorResult, func() rueidis.RedisResult {
		defer cancel()
		return c.conn.client.Do(call, c.noop(c.conn.client.B()))
	}).Error()
}

func (c *Client) noop(b rueidis.Builder) rueidis.Completed {
	return b.Hdel().Key(c.key).Field("").Build()
}

// Health watches whether the server can be reached.
func (c *Client) Health() backend.HealthWatch { return c.health }

// Ping returns nil if the server accepts writes.
func (c *Client) Ping(ctx context.Context) error {
	err := c.Do(ctx, c.noop(c.B())).Error()
	if err == nil || refusedAs(err, forbidden) { // the server has replied nevertheless
		return nil
	}
	return fmt.Errorf("ping Redis at %s: %w", c.conn.address, hidePasswords(c.conn.option, err))
}

// Conn is the connection of the client.
func (c *Client) Conn() *Conn { return c.conn }

// IsCluster reports whether the server is a cluster.
func (c *Client) IsCluster() bool { return c.conn.IsCluster() }

// Close ends the client.
func (c *Client) Close() {
	c.closed.Store(true)
	c.endCalls()
	c.conn.mu.Lock()
	delete(c.conn.users, c)
	c.conn.mu.Unlock()
	if c.ownsConn {
		c.conn.Close()
	}
}

// endCalls ends the probes. Over a caller's client it also ends the calls in flight. They
// have as much time to receive their replies as on a connection that is closed.
func (c *Client) endCalls() {
	c.health.close()
	if c.conn.option == nil {
		c.closing.Do(func() { time.AfterFunc(timing.CloseTimeout, func() { close(c.cutOff) }) })
	}
}

func (c *Client) begin() bool { return !c.closed.Load() && c.conn.begin() }

// B returns a builder of commands.
func (c *Client) B() rueidis.Builder { return c.conn.client.B() }

// Do makes a call.
func (c *Client) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	if !c.begin() {
		return rueidis.NewErrorResult(backend.ErrClosed)
	}
	if !c.mayOutlast(ctx) {
		return c.do(ctx, command)
	}
	call, cancel, abandon := c.conn.outlasting(ctx, command)
	return inTimeUnless(ctx, c.cutOff, abandon, rueidis.NewErrorResult, func() rueidis.RedisResult {
		defer cancel()
		return c.do(call, command)
	})
}

func (c *Client) do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	defer c.conn.end()
	return c.hear(c.conn.client.Do(ctx, command))
}

// DoMulti makes several calls in one round trip.
func (c *Client) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	if !c.begin() {
		return failed(backend.ErrClosed, len(commands))
	}
	if !c.mayOutlast(ctx) {
		return c.doMulti(ctx, commands)
	}
	call, cancel, abandon := c.conn.outlasting(ctx, commands...)
	return inTimeUnless(ctx, c.cutOff, abandon,
		func(err error) []rueidis.RedisResult { return failed(err, len(commands)) },
		func() []rueidis.RedisResult {
			defer cancel()
			return c.doMulti(call, commands)
		})
}

func (c *Client) doMulti(ctx context.Context, commands []rueidis.Completed) []rueidis.RedisResult {
	defer c.conn.end()
	if c.conn.option == nil && len(commands) > 1 {
		// rueidis would send a long pipeline over the client's pool, whose connections may
		// all be in use.
		commands[0] = commands[0].ToPipe()
	}
	results := c.conn.client.DoMulti(ctx, commands...)
	for i := range results {
		results[i] = c.hear(results[i])
	}
	return results
}

// failed returns the results of n calls that failed with the same error.
func failed(err error, n int) []rueidis.RedisResult {
	return slices.Repeat([]rueidis.RedisResult{rueidis.NewErrorResult(err)}, n)
}

// hear reports a failure to the health watch. For a call that Close has cut off, it returns
// ErrCutOff.
func (c *Client) hear(result rueidis.RedisResult) rueidis.RedisResult {
	err := result.Error()
	if err == nil {
		return result
	}
	if result.NonRedisError() != nil && (c.closed.Load() || c.conn.closed.Load()) {
		return rueidis.NewErrorResult(backend.ErrCutOff)
	}
	c.health.Heard(err)
	return result
}

// Heard records the error of a call that another client of the Conn has made for this one
// too.
func (c *Client) Heard(err error) { c.health.Heard(err) }

// Clients returns the clients that CLIENT LIST returns, from each node of a cluster. A
// node that does not permit CLIENT LIST is skipped.
func (c *Client) Clients(ctx context.Context) (found []backend.ConnectedClient, err error) {
	list := func(node Commands) error {
		text, err := node.Do(ctx, node.B().ClientList().Build()).ToString()
		if err != nil && Classify(err).Lasting() {
			return nil
		}
		found = append(found, readClients(text)...)
		return err
	}
	if !c.conn.IsCluster() {
		err = list(c)
		return found, err
	}
	for _, node := range c.conn.client.Nodes() {
		if err := list(node); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// EachKey passes the keys that match a pattern to each, page by page, from each node of a
// cluster. Keys may be passed more than once. It ends when each returns false.
func (c *Client) EachKey(ctx context.Context, pattern string, each func(keys []string) (more bool)) error {
	scan := func(node Commands) (more bool, err error) {
		for cursor := uint64(0); ; {
			page, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(pattern).Count(scanCount).Build()).AsScanEntry()
			if err != nil {
				return false, err
			}
			if len(page.Elements) > 0 && !each(page.Elements) {
				return false, nil
			}
			if cursor = page.Cursor; cursor == 0 {
				return true, nil
			}
		}
	}
	if !c.conn.IsCluster() {
		_, err := scan(c)
		return err
	}
	for _, node := range c.conn.client.Nodes() {
		if more, err := scan(node); err != nil || !more {
			return err
		}
	}
	return nil
}

// ScanKeys returns the keys that [Client.EachKey] finds.
func (c *Client) ScanKeys(ctx context.Context, pattern string) (keys []string, err error) {
	err = c.EachKey(ctx, pattern, func(page []string) bool {
		keys = append(keys, page...)
		return true
	})
	return keys, err
}

// scanCount is how many keys a call of SCAN looks at.
const scanCount = 1000

// readClients reads the reply of CLIENT LIST. It has a line for each client: name=value
// name=value …
func readClients(text string) (found []backend.ConnectedClient) {
	for line := range strings.Lines(text) {
		fields := map[string]string{}
		for _, pair := range strings.Split(strings.TrimRight(line, "\r\n"), " ") {
			name, value, _ := strings.Cut(pair, "=")
			fields[name] = value
		}
		found = append(found, backend.ConnectedClient{Name: fields["name"], Fields: fields})
	}
	return found
}

// Dedicated makes calls over dedicated connections, one for each call in flight. Such a
// call involves no other goroutine, so it is faster. Several commands at once use the shared
// connections. A single call uses them if all dedicated connections are in use, or if one of
// them has just failed. A call that opens a connection ignores its context until the
// connection is open, for at most the Dialer's Timeout.
type Dedicated struct{ client *Client }

// Dedicated returns the client over dedicated connections. ok is false if the client can't
// use any. A caller's client may have too few connections. On a cluster, only the shared
// connections follow slots that move.
func (c *Client) Dedicated() (d *Dedicated, ok bool) {
	return &Dedicated{c}, c.conn.option != nil && !c.conn.IsCluster()
}

// Open opens the first of the connections, so that the first call is not delayed.
func (d *Dedicated) Open() {
	if d.client.begin() {
		defer d.client.conn.end()
		_ = d.client.conn.client.Dedicated(func(rueidis.DedicatedClient) error { return nil })
	}
}

// B returns a builder of commands.
func (d *Dedicated) B() rueidis.Builder { return d.client.B() }

// DoMulti makes several calls over the shared connections.
func (d *Dedicated) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	return d.client.DoMulti(ctx, commands...)
}

// Do makes a call.
func (d *Dedicated) Do(ctx context.Context, command rueidis.Completed) (result rueidis.RedisResult) {
	conn := d.client.conn
	defer conn.dedicated.Add(-1)
	if conn.dedicated.Add(1) > conn.maxDedicated() || d.pausing() { // a wait for a dedicated connection could not be interrupted
		return d.client.Do(ctx, command)
	}
	if !d.client.begin() {
		return rueidis.NewErrorResult(backend.ErrClosed)
	}
	defer conn.end()
	_ = conn.client.Dedicated(func(own rueidis.DedicatedClient) error {
		result = d.client.hear(own.Do(ctx, command))
		return nil
	})
	if err := result.NonRedisError(); err != nil && !errors.Is(err, backend.ErrClosed) {
		conn.dedicatedPause.Store(time.Now().Add(timing.DedicatedPause).UnixNano())
	}
	return result
}

func (d *Dedicated) pausing() bool {
	until := d.client.conn.dedicatedPause.Load()
	return until != 0 && time.Now().UnixNano() < until
}
