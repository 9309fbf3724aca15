package bullmqpush

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// otherProbe is the wait of a job while another one probes its host.
	otherProbe = time.Second
	// manyHosts is the number of hosts from which on unused ones are forgotten.
	manyHosts = 1000
)

// hosts decides when requests may be sent to each host.
type hosts struct {
	concurrency int // 0 for no limit
	failures    int // in a row that pause a host; less than 1 for none
	pause       time.Duration

	mu     sync.Mutex
	byName map[string]*host
}

// host is what is known of a host. The mutex of hosts protects it.
type host struct {
	turns    chan struct{} // a place for each request; nil for no limit
	users    int           // calls of enter that have not left
	failures int           // in a row
	until    time.Time     // no request is sent before; zero if the host is not paused
	probing  bool          // the first request after a pause is in flight
}

// verdict is what a request has told about its host.
type verdict int

const (
	unknown verdict = iota // the request was cancelled
	healthy
	failing
	overloaded // it has asked for a wait
)

func newHosts(concurrency, failures int, pause time.Duration) *hosts {
	return &hosts{concurrency: concurrency, failures: failures, pause: pause, byName: map[string]*host{}}
}

// visit is the permission to send one request to a host. It must be ended.
type visit struct {
	hosts   *hosts
	name    string
	host    *host
	probe   bool
	hasTurn bool
}

// enter waits for a turn at the host. If the host is paused, it returns no visit, and how
// long to wait. It returns an error if ctx ends first.
func (h *hosts) enter(ctx context.Context, name string) (*visit, time.Duration, error) {
	v := &visit{hosts: h, name: name}
	h.mu.Lock()
	defer h.mu.Unlock()
	v.host = h.get(name)
	v.host.users++
	if wait := v.host.refusal(time.Now()); wait > 0 {
		v.leave()
		return nil, wait, nil
	}
	if v.host.turns != nil {
		h.mu.Unlock()
		select {
		case v.host.turns <- struct{}{}:
			v.hasTurn = true
		case <-ctx.Done():
		}
		h.mu.Lock()
		if !v.hasTurn {
			v.leave()
			return nil, 0, context.Cause(ctx)
		}
		if wait := v.host.refusal(time.Now()); wait > 0 { // since the call waited
			v.leave()
			return nil, wait, nil
		}
	}
	if !v.host.until.IsZero() {
		v.probe, v.host.probing = true, true
	}
	return v, 0, nil
}

// get returns the host, which it adds if necessary. The caller holds mu.
func (h *hosts) get(name string) *host {
	if known := h.byName[name]; known != nil {
		return known
	}
	if len(h.byName) >= manyHosts {
		now := time.Now()
		for name, other := range h.byName {
			if other.users == 0 && !other.until.After(now) {
				delete(h.byName, name)
			}
		}
	}
	added := &host{}
	if h.concurrency > 0 {
		added.turns = make(chan struct{}, h.concurrency)
	}
	h.byName[name] = added
	return added
}

// refusal returns how long a job must wait, or 0 if its request may be sent. The wait varies
// by a tenth, so that the jobs don't become due together.
func (h *host) refusal(now time.Time) time.Duration {
	wait := h.until.Sub(now)
	switch {
	case wait > 0:
	case h.probing:
		wait = otherProbe
	default:
		return 0
	}
	wait = max(wait, time.Millisecond)
	return wait + rand.N(wait/10+1)
}

// end records what the request has told about its host. For overloaded, wait is what the host
// has asked for.
func (v *visit) end(told verdict, wait time.Duration) {
	v.hosts.mu.Lock()
	defer v.hosts.mu.Unlock()
	h, now := v.host, time.Now()
	// The answer to a request from before a pause does not change the pause.
	paused := !h.until.IsZero() && !v.probe
	switch told {
	case healthy:
		h.failures = 0
		if !paused {
			h.until = time.Time{}
		}
	case failing:
		h.failures++
		if v.hosts.failures > 0 && !paused && (v.probe || h.failures >= v.hosts.failures) {
			h.until = now.Add(v.hosts.pause)
		} else if v.probe {
			h.until = time.Time{}
		}
	case overloaded:
		if until := now.Add(wait); until.After(h.until) {
			h.until = until
		}
	}
	if v.probe {
		h.probing = false
	}
	v.leave()
}

// leave returns the turn. The caller holds the mutex.
func (v *visit) leave() {
	if v.hasTurn {
		<-v.host.turns
	}
	v.host.users--
	if v.host.users == 0 && v.host.failures == 0 && v.host.until.IsZero() {
		delete(v.hosts.byName, v.name)
	}
}
