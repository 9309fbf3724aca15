package bullmq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// reader reads for one that waits for a job. While Redis can't be reached, or
// can't serve, it tries again until the wait's context ends or the Queue is
// closed. All readers of a Queue rely on its Health, which alone asks whether
// Redis is back.
type reader struct {
	tail *resultTail
	id   string // of the job
	last error  // why Redis could not be read; nil once it could
}

// read calls a function that reads from Redis until it succeeds, or fails for
// good. Where ctx ends first, the function may still be running.
func (r *reader) read(ctx context.Context, call func(ctx context.Context) error) error {
	var outage timing.Backoff
	for {
		begun, done := time.Now(), make(chan error, 1)
		go func() { done <- call(ctx) }() // while a connection is opened, ctx doesn't end a call
		var err error
		select {
		case err = <-done:
		case <-r.tail.over:
			return ErrClosed
		case <-ctx.Done():
			if r.last == nil && time.Since(begun) > timing.BlockMargin {
				r.last = backend.ErrSilent
			}
			return r.ended(ctx)
		}
		switch {
		case err == nil:
			r.last = nil
			return nil
		case ctx.Err() != nil:
			return r.ended(ctx)
		case errors.Is(err, ErrClosed):
			return ErrClosed
		case !passes(err), classify(err) == backend.ClientClosed && outage.AtMost(): // the caller's own client is closed
			return fmt.Errorf("bullmq: waiting for job %s: %w", r.id, err)
		}
		r.last = err
		if err := r.untilServed(ctx, outage.Next()); err != nil {
			return err
		}
	}
}

// untilServed waits for a time, and for as long as there is a doubt that Redis
// serves.
func (r *reader) untilServed(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.tail.over:
		return ErrClosed
	case <-ctx.Done():
		return r.ended(ctx)
	}
	served := r.tail.core.conn.Health().InDoubt()
	if served == nil {
		return nil
	}
	select {
	case <-served:
		return nil
	case <-r.tail.over:
		return ErrClosed
	case <-ctx.Done():
		return r.ended(ctx)
	}
}

// next returns the next event about the job, or one without a type when it is
// time to look for the job itself.
func (r *reader) next(ctx context.Context, ending <-chan Event) (Event, error) {
	timer := time.NewTimer(r.tail.lookAgain)
	defer timer.Stop()
	for look := timer.C; ; {
		var served <-chan struct{}
		if look == nil {
			if served = r.tail.core.conn.Health().InDoubt(); served == nil {
				return Event{}, nil
			}
		}
		select {
		case event := <-ending:
			return event, nil
		case <-look:
			look = nil
		case <-served:
		case <-r.tail.over:
			return Event{}, ErrClosed
		case <-ctx.Done():
			return Event{}, r.ended(ctx)
		}
	}
}

// ended is the error of a wait whose context has ended.
func (r *reader) ended(ctx context.Context) error {
	cause, outage := context.Cause(ctx), r.last
	if health := r.tail.core.health(); outage == nil && !health.Reachable {
		outage = health.Err
	}
	if outage == nil {
		return cause
	}
	return fmt.Errorf("bullmq: waiting for job %s: %w; Redis could not be read: %w", r.id, cause, outage)
}

// passes reports whether a read that failed may succeed later without anybody's
// doing: the connection failed, or the server can't serve for now.
func passes(err error) bool {
	switch classify(err) {
	case backend.Lost, backend.ClientClosed, backend.NotSent, backend.Unavailable:
		return true
	default:
		return false
	}
}
