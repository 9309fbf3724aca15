package bullmq

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// blockingConn is a connection to wait on, under a name by which BullMQ finds
// it in CLIENT LIST. It is opened at its first use, and again after a fault.
type blockingConn struct {
	core *core
	name string

	client  rueidis.Client
	owned   bool
	conn    rueidis.DedicatedClient // nil on a cluster, where rueidis finds the node
	release func()
	id      atomic.Int64 // of the connection, to end a wait; 0 where CLIENT is forbidden
}

const (
	longestBlock = 10 * time.Second
	blockMargin  = time.Second // what an answer may be late
	unblockWait  = time.Second // what an answer may take after CLIENT UNBLOCK
)

func (b *blockingConn) connect() error {
	if b.client == nil {
		client, owned, err := b.core.link.blocking(b.name)
		if err != nil {
			return err
		}
		b.client, b.owned = client, owned
	}
	if b.conn != nil || b.client.Mode() == rueidis.ClientModeCluster {
		return nil
	}
	b.conn, b.release = b.client.Dedicate()
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	id, err := b.conn.Do(ctx, b.conn.B().ClientId().Build()).AsInt64()
	if _, refused := rueidis.IsRedisErr(err); err != nil && !refused {
		b.drop()
		return err
	}
	b.id.Store(id)
	if !b.owned {
		b.conn.Do(ctx, b.conn.B().ClientSetname().ConnectionName(b.name).Build())
	}
	return nil
}

// wait sends a command that blocks at the server for a time. It ends when ctx
// does, and in any case soon after that time, even when the server, or the way
// to it, falls silent.
func (b *blockingConn) wait(ctx context.Context, block time.Duration, build func(rueidis.Builder) rueidis.Completed) rueidis.RedisResult {
	if err := b.connect(); err != nil {
		return rueidis.NewErrorResult(err)
	}
	// A context with a deadline would not end the wait on an idle connection.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(block+blockMargin, cancel).Stop()
	var result rueidis.RedisResult
	if b.conn != nil {
		result = b.conn.Do(ctx, build(b.conn.B()))
	} else {
		result = b.client.Do(ctx, build(b.client.B()))
	}
	if err := result.NonRedisError(); err != nil {
		b.drop()
	}
	return result
}

// unblock asks Redis to end a wait now, from another goroutine. ended is false
// when nothing is blocked there (yet), possible is false where Redis can't be
// asked.
func (b *blockingConn) unblock(ctx context.Context) (ended, possible bool) {
	id := b.id.Load()
	if id == 0 || ctx.Err() != nil {
		return false, false
	}
	n, err := b.core.client.Do(ctx, b.core.client.B().ClientUnblock().ClientId(id).Build()).AsInt64()
	return n == 1, err == nil
}

// drop gives the connection up; the next wait opens another.
func (b *blockingConn) drop() {
	if b.conn != nil {
		b.conn.Close()
		b.release()
		b.conn = nil
		b.id.Store(0)
	}
}

func (b *blockingConn) close() {
	b.drop()
	if b.owned {
		b.client.Close()
	}
}
