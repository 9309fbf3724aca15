package redisconn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// State is whether the server can be reached.
type State = backend.Health

// HealthWatch watches whether the server can be reached. A failed call alone does not change
// the state: it starts a background probe, which repeats a small command until the server
// can serve.
type HealthWatch struct {
	ask    func(ctx context.Context) error // the probe
	hide   func(error) error               // removes passwords
	closed context.Context
	close  context.CancelFunc

	isProbing atomic.Bool // probing is not nil
	mu        sync.Mutex
	state     State
	since     time.Time     // when the first call failed; used only by the probe while it runs
	probing   chan struct{} // closed when the server can serve; nil while no probe runs
	onChange  func(State)
	changes   []State // not delivered yet
	calling   bool    // a goroutine is delivering changes
}

func newHealthWatch(since time.Time, ask func(context.Context) error, hide func(error) error) *HealthWatch {
	h := &HealthWatch{ask: ask, hide: hide, state: State{Reachable: true, Since: since}}
	h.closed, h.close = context.WithCancel(context.Background())
	return h
}

// State returns the last known state. It makes no call.
func (h *HealthWatch) State() State {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state
}

// OnChange sets the function to call with each change. Calls are made in a separate
// goroutine, in order, and do not overlap.
func (h *HealthWatch) OnChange(onChange func(State)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.onChange = onChange
}

// Heard records the result of a call.
func (h *HealthWatch) Heard(err error) {
	if err == nil || !suggestsOutage(err) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.probing == nil && h.closed.Err() == nil {
		h.probing, h.since = make(chan struct{}), time.Now()
		h.isProbing.Store(true)
		go h.probe(err)
	}
}

// Recovered returns a channel that is closed when the server can serve again. It returns
// nil while no probe runs.
func (h *HealthWatch) Recovered() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.probing
}

// probe repeats the probe until the server can serve. cause is the error that started
// it.
func (h *HealthWatch) probe(cause error) {
	var pause timing.Backoff
	for {
		ctx, cancel := context.WithTimeout(h.closed, timing.ProbeTimeout)
		err := h.ask(ctx)
		cancel()
		if h.closed.Err() != nil || err == nil || !suggestsOutage(err) {
			h.serves()
			return
		}
		silent := errors.Is(err, context.DeadlineExceeded)
		if silent {
			err = fmt.Errorf("no reply within %v; before that: %w", timing.ProbeTimeout, cause)
		}
		// Each of the client's connections may have broken without an error so far.
		if silent || !Classify(err).MayHaveRun() || time.Since(h.since) > timing.BrokenFor {
			h.fails(h.hide(err))
		}
		timing.Sleep(h.closed, pause.Next())
	}
}

// fails records a failed probe.
func (h *HealthWatch) fails(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	began := h.state.Reachable
	if began {
		h.state.Reachable, h.state.Since = false, h.since
	}
	h.state.Err = err
	if began {
		h.changed()
	}
}

// serves ends the probing, because the server can serve or the watch is closed.
func (h *HealthWatch) serves() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.probing)
	h.probing = nil
	h.isProbing.Store(false)
	if !h.state.Reachable && h.closed.Err() == nil {
		h.state.Reachable, h.state.Since = true, time.Now()
		h.changed()
	}
}

// changed delivers the state. The caller holds mu.
func (h *HealthWatch) changed() {
	if h.onChange == nil {
		return
	}
	h.changes = append(h.changes, h.state)
	if !h.calling {
		h.calling = true
		go h.deliver(h.onChange)
	}
}

func (h *HealthWatch) deliver(onChange func(State)) {
	for {
		h.mu.Lock()
		if len(h.changes) == 0 {
			h.calling = false
			h.mu.Unlock()
			return
		}
		next := h.changes[0]
		h.changes = h.changes[1:]
		h.mu.Unlock()
		onChange(next)
	}
}
