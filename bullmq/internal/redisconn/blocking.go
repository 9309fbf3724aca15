package redisconn

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// Blocking is a connection for blocking commands. It has a name by which BullMQ finds
// it in CLIENT LIST. It is opened on first use, and again after a failure.
type Blocking struct {
	client *Client
	name   string
	warn   func(needed int)

	closed context.Context
	end    context.CancelFunc

	mu       sync.Mutex  // guards the fields below: one goroutine waits, others may interrupt it
	opening  *opening    // the latest opening, until its outcome has been returned; otherwise nil
	pool     *clientPool // nil unless the client is a caller's
	leftPool bool
	blocking rueidis.Client          // that conn belongs to; the caller's client if there is one
	sockets  *sockets                // of blocking, also while that is being opened; unused with a caller's client
	conn     rueidis.DedicatedClient // nil on a cluster, where rueidis selects the node
	release  func()
	id       int64 // of the connection, to end a wait; 0 if CLIENT is forbidden
}

// NewBlocking returns a connection for blocking commands. warn is called if a caller's
// client has too few connections, with the number that is needed.
func (c *Client) NewBlocking(name string, warn func(needed int)) *Blocking {
	b := &Blocking{client: c, name: name, warn: warn}
	b.closed, b.end = context.WithCancel(context.Background())
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	c.conn.blocking[b] = struct{}{}
	if c.conn.closed.Load() {
		b.end()
	}
	return b
}

// opening is a connection that is being opened. That may take seconds if the server does
// not reply. It can't be interrupted, so it continues even if nothing waits for it any more.
type opening struct {
	begun time.Time
	done  chan struct{}
	err   error
}

// Connect waits until there is a connection or ctx ends. It returns
// [backend.ErrNoConnection] if no connection in the pool of a caller's client is free at
// present. A later call may succeed.
func (b *Blocking) Connect(ctx context.Context) error {
	b.mu.Lock()
	if b.closed.Err() != nil {
		b.mu.Unlock()
		return backend.ErrClosed
	}
	if b.ready() {
		b.mu.Unlock()
		return nil
	}
	if b.pool == nil && b.client.conn.option == nil {
		b.pool = joinPool(b.client.conn.client)
	}
	o := b.opening
	if o == nil {
		o = &opening{begun: time.Now(), done: make(chan struct{})}
		b.opening = o
		go b.open(o, b.blocking)
	}
	pool := b.pool
	b.mu.Unlock()
	if pool != nil && !o.endsBy(ctx, o.begun.Add(timing.PoolWait)) && ctx.Err() == nil {
		// If the server is unreachable, the delay does not mean that the pool is too small.
		if time.Since(o.begun) >= timing.ShortageWarning && b.client.health.Recovered() == nil {
			pool.warn(b.warn)
		}
		return backend.ErrNoConnection
	}
	select {
	case <-o.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.opening == o {
		b.opening = nil
	}
	return o.err
}

// endsBy waits until the opening has ended, a deadline has passed or ctx ends.
func (o *opening) endsBy(ctx context.Context, until time.Time) bool {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	select {
	case <-o.done:
	case <-ctx.Done():
	}
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}

// ready reports whether there is a connection; the caller holds mu.
func (b *Blocking) ready() bool {
	return b.conn != nil || b.blocking != nil && b.blocking.Mode() == rueidis.ClientModeCluster
}

func (b *Blocking) open(o *opening, client rueidis.Client) {
	defer close(o.done)
	if client == nil {
		open := newSockets()
		b.mu.Lock()
		b.sockets = open
		if b.closed.Err() != nil {
			open.cut()
		}
		b.mu.Unlock()
		if client = b.client.conn.client; b.client.conn.option != nil {
			client, o.err = b.client.conn.dialBlocking(b.name, open)
		}
	}
	var got dedicated
	var id int64
	if o.err == nil && client.Mode() != rueidis.ClientModeCluster {
		got, id, o.err = b.dedicate(client)
	}
	if o.err != nil && b.closed.Err() != nil { // Close ended the dial
		o.err = backend.ErrClosed
	}
	b.mu.Lock()
	if o.err == nil {
		b.opening = nil
	}
	if client != nil && b.blocking == nil {
		b.blocking = client
	}
	if got.conn != nil {
		b.conn, b.release, b.id = got.conn, got.release, id
	}
	b.mu.Unlock()
	if b.closed.Err() != nil {
		b.Close()
	}
}

func (b *Blocking) dedicate(client rueidis.Client) (got dedicated, id int64, err error) {
	if b.pool == nil {
		got.conn, got.release = client.Dedicate()
	} else if got, err = b.pool.take(b.closed); err != nil {
		return dedicated{}, 0, backend.ErrClosed
	}
	conn := got.conn
	ctx, cancel := context.WithTimeout(context.Background(), timing.ConnectTimeout)
	defer cancel()
	id, err = conn.Do(ctx, conn.B().ClientId().Build()).AsInt64()
	if err != nil && !Classify(err).Lasting() {
		conn.Close()
		got.release()
		return dedicated{}, 0, err
	}
	// If CLIENT is forbidden, the connection has no name, so BullMQ does not list it.
	conn.Do(ctx, conn.B().ClientSetname().ConnectionName(b.name).Build())
	return got, id, nil
}

// Wait sends a blocking command. In the same write it sends further commands, which the
// server runs as soon as the blocking command has ended. Wait returns when ctx ends. Even if
// the server does not reply, it returns soon after block.
//
// If ctx never ends, the calling goroutine reads the reply itself, which is faster. Only
// [Blocking.Drop] ends such a wait early. A wait that Close ends returns ErrCutOff.
func (b *Blocking) Wait(ctx context.Context, block time.Duration, build func(rueidis.Builder) []rueidis.Completed) []rueidis.RedisResult {
	health := b.client.health
	if err := b.Connect(ctx); err != nil {
		health.Heard(err)
		return []rueidis.RedisResult{rueidis.NewErrorResult(err)}
	}
	var cancel context.CancelFunc
	ended := ctx
	if ctx.Done() == nil {
		ctx, cancel = context.WithTimeout(ctx, block+timing.BlockMargin)
		defer cancel()
	} else {
		// If the context of the call had a deadline, even one of a parent, rueidis would not
		// notice that ctx ends earlier.
		ctx, cancel = context.WithCancel(context.WithoutCancel(ended))
		defer cancel()
		defer context.AfterFunc(ended, cancel)()
		defer time.AfterFunc(block+timing.BlockMargin, func() { health.Heard(backend.ErrSilent); cancel() }).Stop()
	}
	b.mu.Lock()
	conn, shared := b.conn, b.pool != nil
	b.mu.Unlock()
	var results []rueidis.RedisResult
	if conn != nil {
		commands := build(conn.B())
		if shared && len(commands) > 1 {
			// A caller's client may repeat reads. It would then send commands again that it has already
			// recycled, and panic. Pinned commands are not recycled.
			for i, command := range commands {
				commands[i] = command.Pin()
			}
		}
		results = conn.DoMulti(ctx, commands...)
	} else {
		for _, command := range build(b.blocking.B()) {
			result := b.doOnCluster(ctx, command)
			if result.NonRedisError() != nil && ctx.Err() != nil && ended.Err() == nil && b.starved(ended) {
				result = rueidis.NewErrorResult(backend.ErrNoConnection)
			}
			results = append(results, result)
		}
	}
	broken := false
	for i, result := range results {
		if result.NonRedisError() != nil {
			broken = true
			if b.closed.Err() != nil {
				results[i] = rueidis.NewErrorResult(backend.ErrCutOff)
			}
		}
		health.Heard(results[i].Error())
	}
	if broken {
		b.Drop()
	}
	return results
}

func (b *Blocking) doOnCluster(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	if b.pool != nil {
		return b.client.Do(ctx, command)
	}
	return b.blocking.Do(ctx, command)
}

// starved reports whether a wait has received no reply because it got no connection: the pool
// of a caller's client has too few. If the server can be reached, there is no other reason.
func (b *Blocking) starved(ctx context.Context) bool {
	health := b.client.health
	if b.pool == nil {
		return false
	}
	if recovered := health.Recovered(); recovered != nil {
		timer := time.NewTimer(timing.BlockMargin)
		defer timer.Stop()
		select {
		case <-recovered:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
	if !health.State().Reachable {
		return false
	}
	b.pool.warn(b.warn)
	return true
}

// ID returns the id of the connection in CLIENT LIST. It is 0 if there is no connection, if
// CLIENT is forbidden, and on a cluster.
func (b *Blocking) ID() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.id
}

// CanUnblock reports whether CLIENT UNBLOCK can end a wait.
func (b *Blocking) CanUnblock() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.id != 0
}

// Unblock asks the server to end a wait of another goroutine. ended is false if the
// connection is not waiting at the server, or not waiting yet. possible is false if CLIENT
// UNBLOCK can't be used.
func (b *Blocking) Unblock(ctx context.Context) (ended, possible bool) {
	b.mu.Lock()
	id := b.id
	b.mu.Unlock()
	if id == 0 || ctx.Err() != nil {
		return false, false
	}
	// Redis before 8.2 crashes if CLIENT UNBLOCK ends a command that CLIENT PAUSE has
	// suspended. A failover also pauses clients. So a write is sent before CLIENT UNBLOCK:
	// during a pause it is suspended too, and CLIENT UNBLOCK waits until the pause has ended.
	c := b.client
	results := c.DoMulti(ctx, c.noop(c.B()), c.B().ClientUnblock().ClientId(id).Build())
	n, err := results[1].AsInt64()
	return n == 1, err == nil
}

// Drop closes the connection. A wait on it ends with an error, and the next wait opens
// another connection. It may be called from any goroutine.
func (b *Blocking) Drop() {
	b.mu.Lock()
	conn, release := b.conn, b.release
	b.conn, b.id = nil, 0
	b.mu.Unlock()
	if conn != nil {
		conn.Close()
		release()
	}
}

// Close closes the connection permanently, including one that is being opened.
func (b *Blocking) Close() {
	b.mu.Lock()
	b.end()
	client, open, pool := b.blocking, b.sockets, b.pool
	if pool != nil && !b.leftPool {
		b.leftPool = true
		pool.leave()
	}
	b.mu.Unlock()
	b.client.conn.forget(b)
	if open == nil {
		return // the connection was never used
	}
	open.close(func() {
		b.Drop()
		if client != nil && b.client.conn.option != nil {
			client.Close()
		}
	})
}

func (c *Conn) forget(b *Blocking) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.blocking, b)
}
