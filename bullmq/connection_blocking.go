package bullmq

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// blockingConn is a connection to wait on, under a name by which BullMQ finds
// it in CLIENT LIST. It is opened at its first use, and again after a fault.
type blockingConn struct {
	core *core
	name string

	closed context.Context
	end    context.CancelFunc

	mu      sync.Mutex  // of what follows: one goroutine waits, others may end that
	opening *opening    // nil, or the last one, unless its outcome has been returned
	pool    *clientPool // nil unless the client is a caller's
	left    bool        // the pool
	client  rueidis.Client
	sockets *sockets                // of client, also while it is opened; not used by a caller's own
	conn    rueidis.DedicatedClient // nil on a cluster, where rueidis finds the node
	release func()
	id      int64 // of the connection, to end a wait; 0 where CLIENT is forbidden
}

const (
	longestBlock = 10 * time.Second
	blockMargin  = time.Second // what an answer may be late
	unblockWait  = time.Second // what an answer may take after CLIENT UNBLOCK
)

// errSilent is what a wait tells of a Redis that has not ended it in time.
var errSilent = errors.New("no answer from Redis in time")

func newBlockingConn(c *core, name string) *blockingConn {
	b := &blockingConn{core: c, name: name}
	b.closed, b.end = context.WithCancel(context.Background())
	return b
}

// opening is the way to a connection. It may take seconds where Redis is
// silent, and can't be cut short: so it goes on when nobody waits for it.
type opening struct {
	begun time.Time
	done  chan struct{}
	err   error
}

// connect sees to it that there is a connection, or that ctx has ended. It returns
// errNoConnection where the pool of a caller's client has none to give for the
// moment: the next call may find one.
func (b *blockingConn) connect(ctx context.Context) error {
	b.mu.Lock()
	if b.ready() {
		b.mu.Unlock()
		return nil
	}
	if b.closed.Err() != nil {
		b.mu.Unlock()
		return ErrClosed
	}
	if b.pool == nil && b.core.link.option == nil {
		b.pool = joinPool(b.core.link.client.Client)
	}
	o := b.opening
	if o == nil {
		o = &opening{begun: time.Now(), done: make(chan struct{})}
		b.opening = o
		go b.open(o, b.client)
	}
	pool := b.pool
	b.mu.Unlock()
	if pool != nil && !o.endsBy(ctx, o.begun.Add(poolPatience)) && ctx.Err() == nil {
		// A Redis that is out of reach holds connections up as well.
		if time.Since(o.begun) >= shortAfter && b.core.link.health.inDoubt() == nil {
			pool.warn(b.core.log)
		}
		return errNoConnection
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

// endsBy waits for the end of the opening until a time, or until ctx has ended.
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

// ready says whether there is a connection; the caller holds mu.
func (b *blockingConn) ready() bool {
	return b.conn != nil || b.client != nil && b.client.Mode() == rueidis.ClientModeCluster
}

func (b *blockingConn) open(o *opening, client rueidis.Client) {
	defer close(o.done)
	if client == nil {
		open := newSockets()
		b.mu.Lock()
		b.sockets = open
		if b.closed.Err() != nil {
			open.cut()
		}
		b.mu.Unlock()
		client, o.err = b.core.link.blocking(b.name, open)
	}
	var got dedicated
	var id int64
	if o.err == nil && client.Mode() != rueidis.ClientModeCluster {
		got, id, o.err = b.dedicate(client)
	}
	b.mu.Lock()
	if o.err == nil {
		b.opening = nil
	}
	if client != nil && b.client == nil {
		b.client = client
	}
	if got.conn != nil {
		b.conn, b.release, b.id = got.conn, got.release, id
	}
	b.mu.Unlock()
	if b.closed.Err() != nil {
		b.close()
	}
}

func (b *blockingConn) dedicate(client rueidis.Client) (got dedicated, id int64, err error) {
	if b.pool == nil {
		got.conn, got.release = client.Dedicate()
	} else if got, err = b.pool.take(b.closed); err != nil {
		return dedicated{}, 0, ErrClosed
	}
	conn := got.conn
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	id, err = conn.Do(ctx, conn.B().ClientId().Build()).AsInt64()
	if err != nil && !forbidden(err) {
		conn.Close()
		got.release()
		return dedicated{}, 0, err
	}
	// Where CLIENT is forbidden, the connection just isn't listed.
	conn.Do(ctx, conn.B().ClientSetname().ConnectionName(b.name).Build())
	return got, id, nil
}

// wait sends a command that blocks at the server for a time, and others behind
// it, which the server carries out as soon as the first has ended. It ends in any
// case soon after that time, even when the server, or the way to it, falls
// silent, and when ctx does. A context that can't end makes the shorter way
// through the client: the goroutine that calls reads the answer itself. Then
// drop is what ends the wait.
func (b *blockingConn) wait(ctx context.Context, block time.Duration, build func(rueidis.Builder) []rueidis.Completed) []rueidis.RedisResult {
	health := b.core.link.health
	if err := b.connect(ctx); err != nil {
		health.heard(err)
		return []rueidis.RedisResult{rueidis.NewErrorResult(err)}
	}
	var cancel context.CancelFunc
	ended := ctx
	if ctx.Done() == nil {
		ctx, cancel = context.WithTimeout(ctx, block+blockMargin)
		defer cancel()
	} else {
		// A deadline, be it a parent's, would keep an earlier end from being noticed.
		ctx, cancel = context.WithCancel(context.WithoutCancel(ended))
		defer cancel()
		defer context.AfterFunc(ended, cancel)()
		defer time.AfterFunc(block+blockMargin, func() { health.heard(errSilent); cancel() }).Stop()
	}
	b.mu.Lock()
	conn := b.conn
	b.mu.Unlock()
	var results []rueidis.RedisResult
	if conn != nil {
		results = conn.DoMulti(ctx, build(conn.B())...)
	} else {
		for _, command := range build(b.client.B()) {
			result := b.client.Do(ctx, command)
			if result.NonRedisError() != nil && ctx.Err() != nil && ended.Err() == nil && b.starved(ended) {
				result = rueidis.NewErrorResult(errNoConnection)
			}
			results = append(results, result)
		}
	}
	for _, result := range results {
		health.heard(result.Error())
		if result.NonRedisError() != nil {
			b.drop()
			break
		}
	}
	return results
}

// starved reports whether a wait that was never answered has been for a connection,
// since the pool of a caller's client has too few: Redis answers otherwise.
func (b *blockingConn) starved(ctx context.Context) bool {
	health := b.core.link.health
	if b.pool == nil {
		return false
	}
	if doubt := health.inDoubt(); doubt != nil {
		timer := time.NewTimer(blockMargin)
		defer timer.Stop()
		select {
		case <-doubt:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
	if !health.now().Reachable {
		return false
	}
	b.pool.warn(b.core.log)
	return true
}

// canUnblock says whether Redis can be asked to end a wait.
func (b *blockingConn) canUnblock() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.id != 0
}

// unblock asks Redis to end a wait now, from another goroutine. ended is false
// when nothing is blocked there (yet), possible is false where Redis can't be
// asked.
func (b *blockingConn) unblock(ctx context.Context) (ended, possible bool) {
	b.mu.Lock()
	id := b.id
	b.mu.Unlock()
	if id == 0 || ctx.Err() != nil {
		return false, false
	}
	// Redis before 8.2 crashes when it is to unblock a command that CLIENT PAUSE, as
	// part of a failover too, holds up. A write before it is held up as well, and
	// keeps it from being looked at until the pause is over.
	client, meta := b.core.client, b.core.keys.of("meta")
	results := client.DoMulti(ctx, client.B().Hdel().Key(meta).Field("").Build(), client.B().ClientUnblock().ClientId(id).Build())
	n, err := results[1].AsInt64()
	return n == 1, err == nil
}

// drop gives the connection up, from any goroutine; a wait on it ends with an
// error, and the next opens another.
func (b *blockingConn) drop() {
	b.mu.Lock()
	conn, release := b.conn, b.release
	b.conn, b.id = nil, 0
	b.mu.Unlock()
	if conn != nil {
		conn.Close()
		release()
	}
}

// close ends it for good, also the way to a connection that is under way.
func (b *blockingConn) close() {
	b.mu.Lock()
	b.end()
	client, open, pool := b.client, b.sockets, b.pool
	if pool != nil && !b.left {
		b.left = true
		pool.leave()
	}
	b.mu.Unlock()
	if open == nil {
		return // it was never used
	}
	open.close(func() {
		b.drop()
		if client != nil && b.core.link.option != nil {
			client.Close()
		}
	})
}
