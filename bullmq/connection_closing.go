package bullmq

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// closable is a client with an end of its own: once its Queue, Worker or
// QueueEvents is closed, calls answer ErrClosed, also those that the closing
// cut off, and whether or not the client underneath is closed with it.
type closable struct {
	rueidis.Client
	owned   bool     // the client underneath is closed with it
	sockets *sockets // of an owned client
	closed  atomic.Bool
	health  *healthWatch // hears of what fails
	inside  atomic.Int64 // calls under way
}

func (c *closable) close() {
	c.closed.Store(true)
	if c.owned {
		c.sockets.close(c.Client.Close)
	}
}

// enter reports whether a call may be made. If so, leave must follow.
func (c *closable) enter() bool {
	c.inside.Add(1)
	if c.closed.Load() {
		c.leave()
		return false
	}
	return true
}

// leave closes the client once more behind the last call that met its end:
// rueidis keeps a connection open that such a call was just about to open.
func (c *closable) leave() {
	if c.inside.Add(-1) == 0 && c.closed.Load() && c.owned {
		c.Client.Close()
	}
}

// errCutOff is ErrClosed for a call that was under way.
var errCutOff = fmt.Errorf("%w while the call was under way", ErrClosed)

func (c *closable) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	if !c.enter() {
		return rueidis.NewErrorResult(ErrClosed)
	}
	if c.mayOutlast(ctx) {
		return inTime(ctx, rueidis.NewErrorResult, func() rueidis.RedisResult { return c.do(ctx, command) })
	}
	return c.do(ctx, command)
}

func (c *closable) do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	defer c.leave()
	return c.cutOff(c.Client.Do(ctx, command))
}

func (c *closable) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	if !c.enter() {
		return failed(ErrClosed, len(commands))
	}
	if c.mayOutlast(ctx) {
		return inTime(ctx,
			func(err error) []rueidis.RedisResult { return failed(err, len(commands)) },
			func() []rueidis.RedisResult { return c.doMulti(ctx, commands) })
	}
	return c.doMulti(ctx, commands)
}

func (c *closable) doMulti(ctx context.Context, commands []rueidis.Completed) []rueidis.RedisResult {
	defer c.leave()
	if !c.owned && len(commands) > 1 {
		// rueidis would send a long one over the client's pool, which may be in use.
		commands[0] = commands[0].ToPipe()
	}
	results := c.Client.DoMulti(ctx, commands...)
	for i := range results {
		results[i] = c.cutOff(results[i])
	}
	return results
}

// failed are the results of n commands that failed alike.
func failed(err error, n int) []rueidis.RedisResult {
	return slices.Repeat([]rueidis.RedisResult{rueidis.NewErrorResult(err)}, n)
}

// mayOutlast reports whether a call may go on when ctx has ended. rueidis doesn't
// look at it while another call opens the connection, which takes up to ten
// seconds where Redis accepts connections and doesn't answer.
func (c *closable) mayOutlast(ctx context.Context) bool {
	return ctx.Done() != nil && (c.sockets.opening.Load() > 0 || c.health.doubted.Load())
}

// inTime makes a call, and leaves it to itself when ctx ends before it does.
func inTime[R any](ctx context.Context, ended func(error) R, call func() R) R {
	done := make(chan R, 1)
	go func() { done <- call() }()
	select {
	case result := <-done:
		return result
	case <-ctx.Done():
	}
	select {
	case result := <-done: // both at once: it tells more
		return result
	default:
		return ended(ctx.Err())
	}
}

func (c *closable) cutOff(result rueidis.RedisResult) rueidis.RedisResult {
	err := result.Error()
	if err == nil {
		return result
	}
	if result.NonRedisError() != nil && c.closed.Load() {
		return rueidis.NewErrorResult(errCutOff)
	}
	c.health.heard(err)
	return result
}

// apart is the client over connections of its own, one for each call under way.
// A call needs no help from other goroutines there, which is quicker; but only
// the shared connections find their way when a cluster moves its slots.
type apart struct {
	*closable
	most int64         // how many of these connections the client allows
	busy *atomic.Int64 // calls under way
	rest *atomic.Int64 // until when, in Unix nanoseconds, none is used: one has failed, and may not be made anew
}

const apartRest = time.Second

func (a apart) open() {
	if a.enter() {
		defer a.leave()
		_ = a.Client.Dedicated(func(rueidis.DedicatedClient) error { return nil })
	}
}

func (a apart) Do(ctx context.Context, command rueidis.Completed) (result rueidis.RedisResult) {
	defer a.busy.Add(-1)
	if a.busy.Add(1) > a.most || a.resting() { // the wait for one of them couldn't be cut short
		return a.closable.Do(ctx, command)
	}
	if !a.enter() {
		return rueidis.NewErrorResult(ErrClosed)
	}
	defer a.leave()
	_ = a.Client.Dedicated(func(own rueidis.DedicatedClient) error {
		result = a.cutOff(own.Do(ctx, command))
		return nil
	})
	if result.NonRedisError() != nil {
		a.rest.Store(time.Now().Add(apartRest).UnixNano())
	}
	return result
}

func (a apart) resting() bool {
	until := a.rest.Load()
	return until != 0 && time.Now().UnixNano() < until
}
