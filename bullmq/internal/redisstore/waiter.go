// Package redisstore implements the parts of a backend that need both connections and
// scripts: waiting for jobs, and reading events.
package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/redisconn"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
	"github.com/17a2ac88/bullmq-go/bullmq/scripts"
)

// Waiter waits for the queue's marker, which producers set to wake idle workers, over
// a separate connection. One goroutine waits, between Begin and End. Any other may
// interrupt it.
//
// If possible, the Waiter sends a fetch in the same write. The server runs the fetch when
// the wait ends.
type Waiter struct {
	interruptible
	store     *scripts.Store
	markers   []string // the key of the marker, as the only element
	realClock bool

	sendScriptText bool // the server may not know the script of the fetch; used by the goroutine that waits
}

var _ backend.Waiter = (*Waiter)(nil)

// NewWaiter returns a Waiter for the marker of a queue, given by its key. realClock reports
// whether the clock of the queue is that of this machine. If it is not, no fetch follows a
// wait, because the server does not know the time of another clock.
func NewWaiter(store *scripts.Store, conn *redisconn.Blocking, marker string, realClock bool) *Waiter {
	return &Waiter{
		interruptible: interruptible{conn: conn}, store: store, markers: []string{marker},
		realClock: realClock, sendScriptText: true,
	}
}

// WaitAndFetch waits for the marker. If the server's clock is known and Redis can be
// asked to end the wait, it fetches a job in the same round trip. now is the time by
// the clock of the queue.
func (m *Waiter) WaitAndFetch(block time.Duration, now time.Time, worker backend.Worker, token string) (wake backend.Wake, fetched backend.Fetched, err error) {
	var followUp func(rueidis.Builder) rueidis.Completed
	if clock := m.store.ServerClock(); clock.Known && m.realClock {
		// Unsure is subtracted so that no job is fetched after a wait that timed out.
		before := now.Add(block - clock.Unsure)
		followUp = func(b rueidis.Builder) rueidis.Completed {
			return m.store.WhenWoken(b, m.sendScriptText, clock.Ahead.Microseconds(), before, worker, token)
		}
	}
	wake, results, sent := m.wait(block, m.markers, followUp)
	if !sent {
		return wake, backend.Fetched{Unknown: true}, nil
	}
	fetched, err = m.store.ReadWhenWoken(results[len(results)-1], worker) // the error of the wait, if the fetch could not be sent
	m.sendScriptText = scripts.IsNoScript(err)
	return wake, fetched, err
}

// WaitWithin waits for a marker until limit has passed or ctx ends. If there is no
// connection for the wait, it returns earlier, so that the caller polls.
func (m *Waiter) WaitWithin(ctx context.Context, limit time.Duration) error {
	m.Begin()
	defer m.End()
	defer time.AfterFunc(limit, m.Interrupt).Stop()
	defer context.AfterFunc(ctx, m.Interrupt)()
	end := time.Now().Add(limit)
	wake, _, _ := m.wait(limit, m.markers, nil)
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
