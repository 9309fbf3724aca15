// Package batch combines requests that concurrent goroutines make into fewer calls.
package batch

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Batcher sends requests of concurrent goroutines in shared calls. If no call is in
// flight, a request is sent at once, in a separate call, by its own goroutine. Requests
// that arrive while a call is in flight share the next call.
//
// At most two calls are in flight. The second call starts when as many requests wait as
// the first call has, and the callers that received the last replies have had time to
// make further requests. So the server always has a next call to run. Calls of similar
// size keep it busy with the fewest calls.
type Batcher[Q, A any] struct {
	options Options[Q, A]

	mu           sync.Mutex
	inFlight     int // calls in flight, two at most
	inFlightSize int // requests in the latest call
	returning    int // callers of the last finished call that have made no further request yet; most will do so soon
	waiting      []*request[Q, A]
}

// Options configures a [Batcher]. All fields are required.
type Options[Q, A any] struct {
	// MaxSize is the maximum number of requests in one call. If it is 1, each request
	// has a separate call, and no request waits for others.
	MaxSize int
	// Timeout limits how long sending a shared call may take.
	Timeout time.Duration
	// SizeOf returns the approximate size of a request in bytes.
	SizeOf func(*Q) int
	// Send sends requests in one call. It returns once they are sent. read waits for the
	// replies and returns them in the order of the requests. The requests must not be
	// used after read has returned.
	Send func(ctx context.Context, requests []*Q) (read func() ([]A, error))
}

type request[Q, A any] struct {
	value Q
	sent  bool // guarded by Batcher.mu
	reply A
	err   error
	done  chan struct{} // closed when reply and err are set
}

const (
	minParallel = 5       // minimum number of requests for a second call in parallel
	maxBytes    = 1 << 20 // beyond this size, sharing a call saves nothing
)

// New returns a Batcher.
func New[Q, A any](options Options[Q, A]) *Batcher[Q, A] {
	return &Batcher[Q, A]{options: options}
}

// Do sends a request and returns its reply. If ctx ends while the request waits for a
// shared call, the error is a [*NotSentError]. A request that was sent may still be carried
// out after ctx has ended.
func (b *Batcher[Q, A]) Do(ctx context.Context, value Q) (A, error) {
	if b.options.MaxSize == 1 {
		return b.DoAlone(ctx, value)
	}
	b.mu.Lock()
	if b.inFlight == 0 {
		b.inFlight, b.inFlightSize, b.returning = 1, 1, 0
		b.mu.Unlock()
		defer b.endAlone()
		return b.DoAlone(ctx, value)
	}
	b.returning = max(0, b.returning-1)
	r := &request[Q, A]{value: value, done: make(chan struct{})}
	b.waiting = append(b.waiting, r)
	if b.inFlight == 1 && b.enough() {
		b.inFlight++
		go b.run()
	}
	b.mu.Unlock()
	select {
	case <-r.done:
		return r.reply, r.err
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-r.done: // prefer the reply if both are ready
		return r.reply, r.err
	default:
	}
	err := ctx.Err()
	if !r.sent {
		b.waiting = slices.DeleteFunc(b.waiting, func(o *request[Q, A]) bool { return o == r })
		err = &NotSentError{err}
	}
	var none A
	return none, err
}

// DoAlone sends a request in a separate call.
func (b *Batcher[Q, A]) DoAlone(ctx context.Context, value Q) (reply A, err error) {
	replies, err := b.options.Send(ctx, []*Q{&value})()
	if err == nil {
		reply = replies[0]
	}
	return reply, err
}

// endAlone is called after a call with one request. It sends the requests that arrived
// during the call.
func (b *Batcher[Q, A]) endAlone() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		b.inFlight--
		return
	}
	go b.run()
}

// run sends batches until too few requests wait. Other goroutines read the replies.
// Otherwise the server would be idle while a reply is read.
func (b *Batcher[Q, A]) run() {
	for {
		batch := b.nextBatch()
		if len(batch) == 0 {
			return
		}
		values := make([]*Q, len(batch))
		for i, r := range batch {
			values[i] = &r.value
		}
		ctx, cancel := context.WithTimeout(context.Background(), b.options.Timeout)
		read := b.options.Send(ctx, values)
		cancel()
		b.mu.Lock()
		b.returning = len(batch)
		b.mu.Unlock()
		go deliver(batch, read)
	}
}

// deliver gives each request its reply.
func deliver[Q, A any](batch []*request[Q, A], read func() ([]A, error)) {
	replies, err := read()
	for i, r := range batch {
		if r.err = err; err == nil {
			r.reply = replies[i]
		}
		close(r.done)
	}
}

// nextBatch removes the requests of the next call from the waiting requests.
func (b *Batcher[Q, A]) nextBatch() []*request[Q, A] {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inFlight == 2 && !b.enough() {
		b.inFlight--
		return nil
	}
	n, bytes := 0, 0
	for n < len(b.waiting) && n < b.options.MaxSize && (n == 0 || bytes < maxBytes) {
		b.waiting[n].sent = true
		bytes += b.options.SizeOf(&b.waiting[n].value)
		n++
	}
	b.inFlightSize = n
	batch := slices.Clone(b.waiting[:n])
	b.waiting = slices.Delete(b.waiting, 0, n)
	if n == 0 {
		b.inFlight--
	}
	return batch
}

// enough reports whether the waiting requests are worth a second call in parallel.
func (b *Batcher[Q, A]) enough() bool {
	return len(b.waiting) >= min(max(minParallel, b.inFlightSize+b.returning), b.options.MaxSize)
}

// NotSentError is returned for a request whose context ended before it was sent.
type NotSentError struct{ Err error }

func (e *NotSentError) Error() string { return "bullmq: not sent: " + e.Err.Error() }

// Unwrap returns the error of the context.
func (e *NotSentError) Unwrap() error { return e.Err }
