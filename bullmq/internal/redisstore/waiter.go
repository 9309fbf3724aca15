// Package redisstore implements the parts of a backend that need both connections and
// scripts: waiting for jobs, and reading events.
package redisstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/redisconn"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
	"github.com/17a2ac88/bullmq-go/bullmq/scripts"
)

// Waiter waits for the queue's marker, which producers set to wake idle workers, over
// a separate connection. One goroutine waits, between Begin and End. Any other may
// interrupt it.
//
// If possible, it sends a fetch in the same write. The server runs it when the wait
// ends.
type Waiter struct {
	store     *scripts.Store
	conn      *redisconn.Blocking
	marker    string // key
	realClock bool

	sendScriptText bool // the server may not know the script of the fetch; used by the goroutine that waits

	mu           sync.Mutex
	turn         int // counts the waits, so that an interrupt ends the intended one
	begun        bool
	fallback     func() // ends the wait if Redis can't be asked to
	usedFallback bool   // it was called
}

var _ backend.Waiter = (*Waiter)(nil)

// NewWaiter returns a Waiter for the marker of a queue, a key. realClock reports
// whether the clock of the queue is that of this machine. Without it, no fetch follows
// a wait, because the server does not know the time by that clock.
func NewWaiter(store *scripts.Store, conn *redisconn.Blocking, marker string, realClock bool) *Waiter {
	return &Waiter{store: store, conn: conn, marker: marker, realClock: realClock, sendScriptText: true}
}

// Close closes the connection.
func (m *Waiter) Close() { m.conn.Close() }

// WaitAndFetch waits for the marker. If the server's clock is known and Redis can be
// asked to end the wait, it fetches a job in the same round trip. now is the time by
// the clock of the queue.
func (m *Waiter) WaitAndFetch(block time.Duration, now time.Time, worker backend.Worker, token string) (wake backend.Wake, fetched backend.Fetched, err error) {
	var followUp func(rueidis.Builder) rueidis.Completed
	if clock := m.store.ServerClock(); clock.Known && m.realClock {
		// Unsure is subtracted, so that the fetch of a wait that timed out finds no job.
		before := now.Add(block - clock.Unsure)
		followUp = func(b rueidis.Builder) rueidis.Completed {
			return m.store.WhenWoken(b, m.sendScriptText, clock.Ahead.Microseconds(), before, worker, token)
		}
	}
	wake, reply, sent := m.wait(block, followUp)
	if !sent {
		return wake, backend.Fetched{Unknown: true}, nil
	}
	fetched, err = m.store.ReadWhenWoken(reply, worker)
	m.sendScriptText = scripts.IsNoScript(err)
	return wake, fetched, err
}

// Begin announces a wait. From then on Interrupt ends it, even before it has reached
// the server.
func (m *Waiter) Begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn++
	m.begun, m.usedFallback = true, false
}

// End must be called after the wait.
func (m *Waiter) End() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begun, m.fallback = false, nil
}

// Waiting reports whether there is a wait to interrupt.
func (m *Waiter) Waiting() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.begun
}

// wait waits for at most timeout. followUp, which may be nil, returns a command that
// the server runs when the wait ends, for any reason. sent is false if the command was
// not sent, because Redis can't be asked to end this wait.
func (m *Waiter) wait(timeout time.Duration, followUp func(rueidis.Builder) rueidis.Completed) (wake backend.Wake, reply rueidis.RedisResult, sent bool) {
	timeout = min(max(timeout, timing.ShortestBlock), timing.LongestBlock)
	cancellable, cancel := context.WithCancel(context.Background())
	defer cancel()
	m.setFallback(cancel)
	wake.Err = m.conn.Connect(cancellable)
	if wake.Err == nil {
		ctx := cancellable
		if m.conn.CanUnblock() {
			ctx = context.Background()
			m.setFallback(m.conn.Drop)
			sent = followUp != nil
		}
		results := m.conn.Wait(ctx, timeout, func(b rueidis.Builder) []rueidis.Completed {
			commands := []rueidis.Completed{b.Bzpopmin().Key(m.marker).Timeout(timeout.Seconds()).Build()}
			if sent {
				commands = append(commands, followUp(b))
			}
			return commands
		})
		wake = ReadWake(results[0])
		reply = results[len(results)-1]
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.usedFallback { // the fallback causes an error
		wake.Err = nil
	}
	return wake, reply, sent
}

// setFallback sets the function that ends the wait if Redis can't be asked to.
func (m *Waiter) setFallback(fallback func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fallback = fallback
}

// ReadWake reads the reply of BZPOPMIN on a marker. The member "0" means that a job
// may be ready. "1" has the time of the first delayed job as its score.
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

// Interrupt ends the wait that has begun, if any. It asks Redis to end it, so that a
// marker that arrives at the last moment is still delivered. If that is not possible,
// it drops the connection.
func (m *Waiter) Interrupt() {
	ctx, cancel := context.WithTimeout(context.Background(), timing.UnblockTimeout)
	defer cancel()
	m.mu.Lock()
	turn := m.turn
	m.mu.Unlock()
	for {
		m.mu.Lock()
		over, fallback := !m.begun || m.turn != turn, m.fallback
		m.mu.Unlock()
		if over {
			return
		}
		ended, possible := m.conn.Unblock(ctx)
		if ended {
			return
		}
		if !possible && fallback != nil {
			m.mu.Lock()
			if m.begun && m.turn == turn { // fallback is called under the lock, or it could end the next wait
				m.usedFallback = true
				fallback()
			}
			m.mu.Unlock()
			return
		}
		time.Sleep(timing.UnblockRetryPause) // the wait has not reached the server yet
	}
}

// WaitWithin waits for a marker until a time has passed or ctx ends. If there is no
// connection for the wait, it returns earlier, when it is time to poll.
func (m *Waiter) WaitWithin(ctx context.Context, limit time.Duration) error {
	m.Begin()
	defer m.End()
	defer time.AfterFunc(limit, m.Interrupt).Stop()
	defer context.AfterFunc(ctx, m.Interrupt)()
	end := time.Now().Add(limit)
	wake, _, _ := m.wait(limit, nil)
	if errors.Is(wake.Err, backend.ErrNoConnection) {
		wake.Err = nil
		timing.Sleep(ctx, min(time.Until(end), timing.PollInterval))
	}
	if ctx.Err() != nil {
		_ = m.Return(wake) // idle workers fetch after their DrainDelay at the latest
		return context.Cause(ctx)
	}
	return wake.Err
}

// Return puts back a marker that this worker does not use, so that it wakes another
// worker.
func (m *Waiter) Return(wake backend.Wake) error {
	if !wake.Woken {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), timing.UnblockTimeout)
	defer cancel()
	if wake.NextDue.IsZero() {
		return m.store.PutMarker(ctx, "0", 0)
	}
	return m.store.PutMarker(ctx, "1", float64(wake.NextDue.UnixMilli()))
}
