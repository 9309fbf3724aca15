package redisconn

import (
	"context"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// mayOutlast reports whether a call may continue after ctx has ended:
//   - rueidis ignores ctx while another call opens the connection, which takes up to
//     ten seconds if Redis accepts connections but does not reply.
//   - A call over a caller's client gets another context, see [Conn.outlasting].
func (c *Client) mayOutlast(ctx context.Context) bool {
	return ctx.Done() != nil && (c.conn.option == nil || c.conn.sockets.opening.Load() > 0 || c.health.isProbing.Load())
}

// outlasting returns the context for a call of rueidis which is abandoned when ctx
// ends. Over a caller's client it ends some time after ctx: if the call opens a
// connection, ctx ends meanwhile and the server has sent something unrequested, such as
// its refusal of one client too many, rueidis panics. Connections of the SDK prevent
// that, see [socket.Read]. A blocking command keeps ctx, because it could remove an entry
// that is then never delivered. cancel must be called after the call.
func (c *Conn) outlasting(ctx context.Context, commands ...rueidis.Completed) (call context.Context, cancel func()) {
	blocks := func(command rueidis.Completed) bool { return command.IsBlock() }
	if c.option != nil || slices.ContainsFunc(commands, blocks) {
		return ctx, func() {}
	}
	call, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(timing.AbandonedCall, end) })
	return call, func() { stop(); end() }
}

// inTime makes a call and abandons it if ctx ends first.
func inTime[R any](ctx context.Context, ended func(error) R, call func() R) R {
	done := make(chan R, 1)
	go func() { done <- call() }()
	select {
	case result := <-done:
		return result
	case <-ctx.Done():
	}
	select {
	case result := <-done: // prefer the result if both are ready
		return result
	default:
		return ended(ctx.Err())
	}
}
