package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/redisconn"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// interruptible is a wait for markers over a separate connection. One goroutine waits,
// between Begin and End. Any other may interrupt it.
type interruptible struct {
	conn *redisconn.Blocking

	mu           sync.Mutex
	turn         int // counts the waits, so that an interrupt ends the intended one
	begun        bool
	fallback     func() // ends the wait if Redis can't be asked to end it
	usedFallback bool   // fallback was called
}

// Close closes the connection.
func (w *interruptible) Close() { w.conn.Close() }

// ClientID implements [backend.Identified].
func (w *interruptible) ClientID() int64 { return w.conn.ID() }

// Begin announces a wait. From then on Interrupt ends it, even before it has reached
// the server.
func (w *interruptible) Begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn++
	w.begun, w.usedFallback = true, false
}

// End must be called after the wait.
func (w *interruptible) End() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun, w.fallback = false, nil
}

// Waiting reports whether there is a wait to interrupt.
func (w *interruptible) Waiting() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begun
}

// wait waits, for at most timeout, until one of the markers has an entry, and pops that
// entry. If several markers have an entry, it pops from the first of them in the order of
// markers. results are the replies. Without a connection there are none.
//
// followUp, if not nil, returns a command that the server runs when the wait ends for any
// reason. sent reports whether the command was sent. It is sent only if there is a
// connection and Redis can be asked to end this wait.
func (w *interruptible) wait(timeout time.Duration, markers []string, followUp func(rueidis.Builder) rueidis.Completed) (wake backend.Wake, results []rueidis.RedisResult, sent bool) {
	timeout = min(max(timeout, timing.ShortestBlock), timing.LongestBlock)
	results, wake.Err = w.send(timeout, func(b rueidis.Builder, unblockable bool) []rueidis.Completed {
		commands := []rueidis.Completed{b.Bzpopmin().Key(markers...).Timeout(timeout.Seconds()).Build()}
		if sent = followUp != nil && unblockable; sent {
			commands = append(commands, followUp(b))
		}
		return commands
	})
	if wake.Err == nil {
		wake = ReadWake(results[0])
	}
	if w.cut() { // the fallback causes an error
		wake.Err = nil
	}
	return wake, results, sent
}

// send sends a blocking command, and others behind it. unblockable reports whether Redis can be
// asked to end the blocking command.
func (w *interruptible) send(timeout time.Duration, build func(b rueidis.Builder, unblockable bool) []rueidis.Completed) ([]rueidis.RedisResult, error) {
	cancellable, cancel := context.WithCancel(context.Background())
	defer cancel()
	w.setFallback(cancel)
	if err := w.conn.Connect(cancellable); err != nil {
		return nil, err
	}
	ctx, unblockable := cancellable, w.conn.CanUnblock()
	if unblockable {
		ctx = context.Background()
		w.setFallback(w.conn.Drop)
	}
	return w.conn.Wait(ctx, timeout, func(b rueidis.Builder) []rueidis.Completed { return build(b, unblockable) }), nil
}

// cut reports whether the present wait was ended without Redis.
func (w *interruptible) cut() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.usedFallback
}

// setFallback sets the function that ends the wait if Redis can't be asked to end it.
func (w *interruptible) setFallback(fallback func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fallback = fallback
}

// Interrupt ends the wait that has begun, if any. It asks Redis to end it, so that a
// marker that arrives at the last moment is still delivered. If that is not possible,
// it drops the connection.
func (w *interruptible) Interrupt() {
	ctx, cancel := context.WithTimeout(context.Background(), timing.UnblockTimeout)
	defer cancel()
	w.mu.Lock()
	turn := w.turn
	w.mu.Unlock()
	for {
		w.mu.Lock()
		over, fallback := !w.begun || w.turn != turn, w.fallback
		w.mu.Unlock()
		if over {
			return
		}
		ended, possible := w.conn.Unblock(ctx)
		if ended {
			return
		}
		if !possible && fallback != nil {
			w.mu.Lock()
			if w.begun && w.turn == turn { // without the lock, fallback could end the next wait
				w.usedFallback = true
				fallback()
			}
			w.mu.Unlock()
			return
		}
		time.Sleep(timing.UnblockRetryPause) // the wait has not reached the server yet
	}
}

// ReadWake reads the reply of BZPOPMIN on markers. The member "0" means that a job may be
// ready. The score of the member "1" is the time of the first delayed job.
func ReadWake(result rueidis.RedisResult) backend.Wake {
	reply, err := result.ToArray()
	switch {
	case rueidis.IsRedisNil(err):
		return backend.Wake{}
	case err != nil:
		return backend.Wake{Err: err}
	case len(reply) < 3:
		return backend.Wake{}
	}
	if _, err := reply[1].ToString(); err != nil {
		return backend.Wake{Err: err}
	}
	wake := backend.Wake{Woken: true}
	if score, _ := reply[2].AsFloat64(); score > 0 {
		wake.NextDue = time.UnixMilli(int64(min(score, wire.MaxSafeInteger)))
	}
	return wake
}
