package bullmq

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// blockingConn is a connection to wait on, under a name by which BullMQ finds
// it in CLIENT LIST. It is opened at its first use, and again after a fault.
type blockingConn struct {
	core *core
	name string

	mu      sync.Mutex // of what follows: one goroutine waits, others may end that
	client  rueidis.Client
	owned   bool
	conn    rueidis.DedicatedClient // nil on a cluster, where rueidis finds the node
	release func()
	id      int64 // of the connection, to end a wait; 0 where CLIENT is forbidden
}

const (
	longestBlock = 10 * time.Second
	blockMargin  = time.Second // what an answer may be late
	unblockWait  = time.Second // what an answer may take after CLIENT UNBLOCK
)

func (b *blockingConn) connect() error {
	b.mu.Lock()
	client, known := b.client, b.conn != nil
	b.mu.Unlock()
	owned := false
	if client == nil {
		var err error
		if client, owned, err = b.core.link.blocking(b.name); err != nil {
			return err
		}
		b.mu.Lock()
		b.client, b.owned = client, owned
		b.mu.Unlock()
	}
	if known || client.Mode() == rueidis.ClientModeCluster {
		return nil
	}
	conn, release := client.Dedicate()
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	id, err := conn.Do(ctx, conn.B().ClientId().Build()).AsInt64()
	if _, refused := rueidis.IsRedisErr(err); err != nil && !refused {
		conn.Close()
		release()
		return err
	}
	// Where CLIENT is forbidden, the connection just isn't listed.
	conn.Do(ctx, conn.B().ClientSetname().ConnectionName(b.name).Build())
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conn, b.release, b.id = conn, release, id
	return nil
}

// wait sends a command that blocks at the server for a time. It ends in any
// case soon after that time, even when the server, or the way to it, falls
// silent, and when ctx does. A context that can't end makes the shorter way
// through the client: the goroutine that calls reads the answer itself. Then
// drop is what ends the wait.
func (b *blockingConn) wait(ctx context.Context, block time.Duration, build func(rueidis.Builder) rueidis.Completed) rueidis.RedisResult {
	if err := b.connect(); err != nil {
		return rueidis.NewErrorResult(err)
	}
	var cancel context.CancelFunc
	if ctx.Done() == nil {
		ctx, cancel = context.WithTimeout(ctx, block+blockMargin)
		defer cancel()
	} else {
		// A deadline, be it a parent's, would keep an earlier end from being noticed.
		ended := ctx
		ctx, cancel = context.WithCancel(context.WithoutCancel(ended))
		defer cancel()
		defer context.AfterFunc(ended, cancel)()
		defer time.AfterFunc(block+blockMargin, cancel).Stop()
	}
	b.mu.Lock()
	conn := b.conn
	b.mu.Unlock()
	var result rueidis.RedisResult
	if conn != nil {
		result = conn.Do(ctx, build(conn.B()))
	} else {
		result = b.client.Do(ctx, build(b.client.B()))
	}
	if err := result.NonRedisError(); err != nil {
		b.drop()
	}
	return result
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
	n, err := b.core.client.Do(ctx, b.core.client.B().ClientUnblock().ClientId(id).Build()).AsInt64()
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

func (b *blockingConn) close() {
	b.drop()
	b.mu.Lock()
	client, owned := b.client, b.owned
	b.mu.Unlock()
	if owned {
		client.Close()
	}
}
