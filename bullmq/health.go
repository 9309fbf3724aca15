package bullmq

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/safe"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// Health is what a Queue, a Worker or a QueueEvents knows of its Redis. It is
// learned from the calls that are made anyway: none is made for it while all
// goes well. When one fails, Redis is asked by a small command, and again once
// a second until it can serve; a connection that was lost and could be made
// anew at once is no outage. So an idle Queue learns of an outage by its next
// call, an idle Worker or a reader of events, whose connection waits at Redis,
// as soon as that breaks, or 11 s after Redis has fallen silent. [Queue.Ping] asks
// at once.
type Health struct {
	// Reachable says that Redis answers, and can serve: it is false also while
	// Redis answers that it loads its data, is a replica that takes no writes, is
	// busy with a script, or lacks a part of its cluster. A Redis without memory
	// for more is reachable.
	Reachable bool
	// Since is when that began: for an outage, when the first call failed; before
	// the first outage, when the connection was made.
	Since time.Time
	// Err is why Redis is not reachable, or, when it is again, why it last wasn't;
	// nil before the first outage. Passwords are taken out of it.
	Err error
}

func (h Health) String() string {
	switch since := h.Since.Format(time.RFC3339); {
	case !h.Reachable:
		return fmt.Sprintf("Redis is out of reach since %s: %v", since, h.Err)
	case h.Err != nil:
		return fmt.Sprintf("Redis is reachable again since %s, after: %v", since, h.Err)
	default:
		return "Redis is reachable since " + since
	}
}

// Health says whether Redis can be reached; it makes no call.
func (q *Queue) Health() Health { return q.core.link.health.now() }

// Ping asks Redis now, by a small command on the queue's connection, and returns
// nil if it answers and can serve. It returns when ctx ends at the latest, so give
// ctx a deadline. A process that makes no other calls learns of an outage by Ping;
// Health knows of what it finds too.
func (q *Queue) Ping(ctx context.Context) error {
	err := probe(q.core.client, q.core.keys)(ctx)
	if err == nil || refusedAs(err, "NOPERM") { // an answer all the same
		return nil
	}
	return fmt.Errorf("bullmq: queue %s: Redis at %s can't serve: %w", q.Name(), q.core.link.address, q.core.link.health.hide(err))
}

// Health says whether Redis can be reached; it makes no call.
func (w *Worker) Health() Health { return w.core.link.health.now() }

// Health says whether Redis can be reached; it makes no call.
func (e *QueueEvents) Health() Health { return e.core.link.health.now() }

// Health says whether Redis can be reached; it makes no call.
func (p *FlowProducer) Health() Health { return p.core.link.health.now() }

// healthWatch keeps the Health of one link. A call's failure raises a suspicion,
// and a probe on a goroutine of its own finds out, until Redis serves again.
type healthWatch struct {
	ask    func(ctx context.Context) error // the probe
	hide   func(error) error               // takes passwords out
	log    zerolog.Logger
	closed context.Context
	close  context.CancelFunc

	doubted  atomic.Bool // probing is set
	mu       sync.Mutex
	state    Health
	since    time.Time     // when the doubt arose; of the probe's own while it lasts
	probing  chan struct{} // closed when Redis serves; nil unless in doubt
	onChange func(Health)
	untold   []Health
	telling  bool
}

const (
	lastQuickPause = 8 * timing.ShortestPause // a client has up to four connections that may have broken
	probeTimeout   = 2 * time.Second
	brokenFor      = time.Second // connections that break, one after the other, are an outage after that
)

func newHealthWatch(ask func(context.Context) error, hide func(error) error, log zerolog.Logger) *healthWatch {
	h := &healthWatch{ask: ask, hide: hide, log: log, state: Health{Reachable: true, Since: time.Now()}}
	h.closed, h.close = context.WithCancel(context.Background())
	return h
}

// probe asks a server whether it carries out commands for a queue: one that
// writes, and here changes nothing.
func probe(client rueidis.Client, k *keys) func(context.Context) error {
	return func(ctx context.Context) error {
		return client.Do(ctx, client.B().Hdel().Key(k.of("meta")).Field("").Build()).Error()
	}
}

func (h *healthWatch) now() Health {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state
}

// tell sets the function that is called with each change, from a goroutine of
// its own, one call at a time and in order.
func (h *healthWatch) tell(onChange func(Health)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.onChange = onChange
}

// heard takes in how a call has ended.
func (h *healthWatch) heard(err error) {
	if err == nil || !speaksOfOutage(err) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.probing == nil && h.closed.Err() == nil {
		h.probing, h.since = make(chan struct{}), time.Now()
		h.doubted.Store(true)
		go h.probe(err)
	}
}

// inDoubt is closed when Redis serves; nil where there is no doubt that it does.
func (h *healthWatch) inDoubt() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.probing
}

// pauseAfter is how long to wait after a failure before a call is made again
// that has to come through. Where only a connection broke and Redis isn't known to
// be out of reach, the first few attempts follow quickly, for the other connections
// of the client may have broken too.
func (w *Worker) pauseAfter(failure error, outage *timing.Backoff) time.Duration {
	wait := outage.Next()
	if _, refused := answered(failure); !refused && mayHaveRun(failure) && wait <= lastQuickPause && w.Health().Reachable {
		wait = timing.ShortestPause
	}
	return wait
}

// probe asks until Redis serves. cause is the failure that raised the doubt.
func (h *healthWatch) probe(cause error) {
	var pause timing.Backoff
	for {
		ctx, cancel := context.WithTimeout(h.closed, probeTimeout)
		err := h.ask(ctx)
		cancel()
		if h.closed.Err() != nil || err == nil || !speaksOfOutage(err) {
			h.over()
			return
		}
		silent := errors.Is(err, context.DeadlineExceeded)
		if silent {
			err = fmt.Errorf("no answer within %v; before that: %w", probeTimeout, cause)
		}
		// A client has several connections, each of which may have broken unnoticed.
		if silent || !mayHaveRun(err) || time.Since(h.since) > brokenFor {
			h.out(h.hide(err))
		}
		timing.Sleep(h.closed, pause.Next())
	}
}

// out enters a probe that failed.
func (h *healthWatch) out(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	began := h.state.Reachable
	if began {
		h.state.Reachable, h.state.Since = false, h.since
	}
	h.state.Err = err
	if began {
		h.log.Error().Err(err).Msg("Redis is out of reach; what needs it waits, or fails, until it is back")
		h.changed()
	}
}

// over ends the probing: Redis serves, or nobody asks any more.
func (h *healthWatch) over() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.probing)
	h.probing = nil
	h.doubted.Store(false)
	if !h.state.Reachable && h.closed.Err() == nil {
		h.log.Warn().Dur("after_ms", time.Since(h.state.Since)).Msg("Redis is reachable again")
		h.state.Reachable, h.state.Since = true, time.Now()
		h.changed()
	}
}

// changed tells of the state; the caller holds mu.
func (h *healthWatch) changed() {
	if h.onChange == nil {
		return
	}
	h.untold = append(h.untold, h.state)
	if !h.telling {
		h.telling = true
		go h.tellAll(h.onChange)
	}
}

func (h *healthWatch) tellAll(onChange func(Health)) {
	for {
		h.mu.Lock()
		if len(h.untold) == 0 {
			h.telling = false
			h.mu.Unlock()
			return
		}
		next := h.untold[0]
		h.untold = h.untold[1:]
		h.mu.Unlock()
		if p, stack := safe.Call(func() { onChange(next) }); p != nil {
			h.log.Error().Interface("panic", p).Str("stack", stack).Msg("OnHealth panicked")
		}
	}
}

// speaksOfOutage says whether a call's error may mean that Redis is out of
// reach: not where it has answered the call, nor where the caller has ended it.
func speaksOfOutage(err error) bool {
	if err == rueidis.Nil || rueidis.IsParseErr(err) {
		return false
	}
	if _, refused := answered(err); refused {
		return refusedAs(err, cantServe...)
	}
	for _, ended := range []error{context.Canceled, errNoConnection, ErrClosed, rueidis.ErrClosing, net.ErrClosed} {
		if errors.Is(err, ended) {
			return false
		}
	}
	return true
}

// hidesPasswords takes the passwords of a client out of an error's text: some
// servers repeat in it what they were sent.
func hidesPasswords(option func() rueidis.ClientOption) func(error) error {
	var words []string
	if option != nil {
		for _, word := range []string{option().Password, option().Sentinel.Password} {
			if word != "" {
				words = append(words, word, "***")
			}
		}
	}
	return func(err error) error {
		text := err.Error()
		if hidden := strings.NewReplacer(words...).Replace(text); hidden != text {
			return errors.New(hidden)
		}
		return err
	}
}
