package redisconn

import (
	"context"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// mayOutlast reports whether a call may continue after ctx has ended:
//   - rueidis ignores ctx while another call opens the connection. That takes up to ten
//     seconds if Redis accepts connections but does not reply.
//   - A call over a caller's client gets another context, see [Conn.outlasting]. Closing
//     the Client does not close the caller's client. So Close itself must end the call,
//     even if ctx never ends.
func (c *Client) mayOutlast(ctx context.Context) bool {
	return c.conn.option == nil || ctx.Done() != nil && (c.conn.sockets.opening.Load() > 0 || c.health.isProbing.Load())
}

// outlasting returns the context for a call of rueidis that is abandoned when ctx ends.
// cancel must be called after the call. abandon must be called if the call is abandoned
// before ctx ends. It is nil if the call must not be abandoned earlier.
//
// Over a caller's client, the returned context ends some time after ctx, because rueidis
// could panic otherwise. It panics if ctx ends while the call opens a connection, and the
// server has sent something without a request, such as its refusal of one client too many.
// Connections of the SDK prevent that, see [socket.Read].
//
// A blocking command keeps ctx. If it outlasted ctx, it could remove an entry that is then
// never delivered.
func (c *Conn) outlasting(ctx context.Context, commands ...rueidis.Completed) (call context.Context, cancel, abandon func()) {
	blocks := func(command rueidis.Completed) bool { return command.IsBlock() }
	if c.option != nil || slices.ContainsFunc(commands, blocks) {
		return ctx, func() {}, nil
	}
	call, end := context.WithCancel(context.WithoutCancel(ctx))
	abandon = func() { time.AfterFunc(timing.AbandonedCall, end) }
	stop := context.AfterFunc(ctx, abandon)
	return call, func() { stop(); end() }, abandon
}

// inTime makes a call and abandons it if ctx ends first.
func inTime[R any](ctx context.Context, ended func(error) R, call func() R) R {
	return inTimeUnless(ctx, nil, nil, ended, call)
}

// inTimeUnless is like inTime. Unless abandon is nil, it also abandons the call when closed
// is closed.
func inTimeUnless[R any](ctx context.Context, closed <-chan struct{}, abandon func(), ended func(error) R, call func() R) R {
	if abandon == nil {
		closed = nil
	}
	done := make(chan R, 1)
	go func() { done <- call() }()
	err := backend.ErrCutOff
	select {
	case result := <-done:
		return result
	case <-ctx.Done():
		err = ctx.Err()
	case <-closed:
	}
	select {
	case result := <-done: // prefer the result if both are ready
		return result
	default:
	}
	if abandon != nil && ctx.Err() == nil {
		abandon()
	}
	return ended(err)
}
