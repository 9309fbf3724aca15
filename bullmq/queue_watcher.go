package bullmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// QueueWatcherOptions configures a [QueueWatcher]. A nil pointer and the zero value select
// the defaults.
type QueueWatcherOptions struct {
	// Prefix is the first part of all keys.
	// Defaults to [DefaultPrefix].
	Prefix string
	// Interval is the minimum time between two reports of a queue, and the maximum time until
	// a change is reported.
	// Defaults to 500 milliseconds.
	Interval time.Duration
	// Logger receives log lines.
	// Defaults to none.
	Logger Logger
}

// QueueWatcher reports which of many queues have had events, for programs that show queues.
// It does not deliver the events; see [QueueEvents] for those. It finds the changes of any
// client, also those of Node. It is safe for concurrent use, and opens a connection only
// while a loop over [QueueWatcher.Changes] runs.
type QueueWatcher struct {
	connection *Connection
	prefix     string
	interval   time.Duration
	log        *slog.Logger

	mu      sync.Mutex
	names   map[string]bool
	version int // of names
	groups  map[string]*watchGroup
	loop    chan struct{} // full while a loop over Changes runs

	wake    chan struct{}   // receives a value when pending, failed or names have changed
	pending map[string]bool // the queues to report
	failed  error           // to report
}

const (
	watchInterval = 500 * time.Millisecond
	// watchShare is the part of the server's time that a read of all queues may take at most,
	// and watchPerQueue what it costs for each queue.
	watchShare    = 0.015
	watchPerQueue = 1500 * time.Nanosecond
	// watchLookSize is how many queues a call looks at.
	watchLookSize = 100
	// watchReview is the time between two looks at queues whose events were perhaps deleted.
	watchReview = 10 * time.Second
	// watchConnections is how many slots of a cluster are watched over a connection of their
	// own. The others are polled.
	watchConnections = 16
)

// NewQueueWatcher returns a QueueWatcher without queues. It makes no call. options may be nil.
func NewQueueWatcher(connection *Connection, options *QueueWatcherOptions) (*QueueWatcher, error) {
	var o QueueWatcherOptions
	if options != nil {
		o = *options
	}
	if connection == nil || connection.client == nil {
		return nil, errors.New("bullmq: watch queues: there is no Connection: make one with Connect, ConnectOption or ConnectClient")
	}
	if err := checkMillis("Interval", o.Interval, 0); err != nil {
		return nil, fmt.Errorf("bullmq: watch queues: %w; 0 means %s", err, watchInterval)
	}
	return &QueueWatcher{
		connection: connection, prefix: cmp.Or(o.Prefix, DefaultPrefix), interval: cmp.Or(o.Interval, watchInterval), log: o.Logger.with(),
		names: map[string]bool{}, groups: map[string]*watchGroup{}, loop: make(chan struct{}, 1),
		wake: make(chan struct{}, 1), pending: map[string]bool{},
	}, nil
}

// Watch sets the queues to watch, also while a loop runs. A queue need not exist yet. On a
// cluster, the prefix or the names must have braces.
func (w *QueueWatcher) Watch(names ...string) error {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		if _, err := newKeys(w.prefix, name); err != nil {
			return err
		}
		if err := checkHashTag(w.connection.client().Conn(), w.prefix, name); err != nil {
			return err
		}
		set[name] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if maps.Equal(set, w.names) {
		return nil
	}
	w.names = set
	w.version++
	for name := range w.pending {
		if !set[name] {
			delete(w.pending, name)
		}
	}
	for _, g := range w.groups {
		go g.waiter.Interrupt()
	}
	rouse(w.wake)
	return nil
}

// Changes returns an iterator over the names of the queues that have changed, sorted. Each
// value has all queues for which a report is due. The loop ends when ctx ends.
//
// Each queue is reported once when its watch begins. Later it is reported if it has had an
// event since the last report: at once if there was no report in the last interval, otherwise
// after that. So a program that reads a queue after each report knows its state, no older than
// the interval. Changes without an event are not reported: those that [Queue.Drain] makes, and
// all in a queue without events. With more than 5,000 queues the interval is longer, by 0.1
// milliseconds a queue.
//
// Changes yields an error if Redis can't be read, at most one each second. If the loop
// continues, reading is retried. Afterwards all queues are reported. If the [Connection] is
// closed, Changes yields [ErrClosed] and ends.
//
// All queues are watched over one connection, on a cluster over one for each hash slot. An
// idle queue costs Redis nothing but its part of a read every 10 seconds. A report of a queue
// costs the transfer of one event. If the queues of a cluster are in more than 16 slots, those
// in further slots are polled.
//
// Only one loop runs at a time. A second one waits until the first has ended.
func (w *QueueWatcher) Changes(ctx context.Context) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		select {
		case w.loop <- struct{}{}:
		case <-ctx.Done():
			return
		}
		defer func() { <-w.loop }()
		ctx, cancel := context.WithCancel(ctx)
		var running sync.WaitGroup
		defer w.forget()
		defer running.Wait()
		defer cancel()

		reported := map[string]time.Time{}
		var failedAt time.Time
		for ctx.Err() == nil {
			w.begin(ctx, &running)
			due, wait, failed := w.due(reported, failedAt)
			switch {
			case failed != nil:
				failedAt = time.Now()
				if !yield(nil, fmt.Errorf("bullmq: watch queues: %w", failed)) || errors.Is(failed, ErrClosed) {
					return
				}
			case len(due) > 0:
				if !yield(due, nil) {
					return
				}
			default:
				var later <-chan time.Time
				if wait > 0 {
					later = time.After(wait)
				}
				select {
				case <-w.wake:
				case <-later:
				case <-ctx.Done():
				}
			}
		}
	}
}

// due returns the queues to report now, or else the error to report. If there are neither,
// wait is the time until there may be; 0 if that is unknown.
func (w *QueueWatcher) due(reported map[string]time.Time, failedAt time.Time) (due []string, wait time.Duration, failed error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	later := func(at time.Time) {
		if left := max(at.Sub(now), time.Millisecond); wait == 0 || left < wait {
			wait = left
		}
	}
	if w.failed != nil {
		if at := failedAt.Add(time.Second); !at.After(now) || errors.Is(w.failed, ErrClosed) {
			failed, w.failed = w.failed, nil
			return nil, 0, failed
		} else {
			later(at)
		}
	}
	for name := range w.pending {
		if at := reported[name].Add(w.interval); at.After(now) {
			later(at)
			continue
		}
		due = append(due, name)
		delete(w.pending, name)
		reported[name] = now
	}
	for name := range reported {
		if !w.names[name] {
			delete(reported, name)
		}
	}
	slices.Sort(due)
	return due, wait, nil
}

// begin starts the groups that the queues need and that do not run.
func (w *QueueWatcher) begin(ctx context.Context, running *sync.WaitGroup) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range w.names {
		tag := w.tagOf(name)
		if w.groups[tag] != nil {
			continue
		}
		g := &watchGroup{
			w: w, tag: tag, version: -1, polls: len(w.groups) >= watchConnections, finder: newQueueFinder(w.connection),
			waiter: newEventsWaiter(w.connection, w.prefix+":@x:watch", w.log),
		}
		w.groups[tag] = g
		running.Go(func() { g.run(ctx) })
	}
}

// tagOf returns the group of a queue.
func (w *QueueWatcher) tagOf(name string) string {
	if !w.connection.client().IsCluster() {
		return ""
	}
	return wire.HashTag(baseOf(w.prefix, name))
}

// forget makes the next loop begin anew.
func (w *QueueWatcher) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.pending)
	clear(w.groups)
	w.failed = nil
}

// end removes a group without queues, unless it has some again.
func (w *QueueWatcher) end(g *watchGroup) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.version != g.version {
		return false
	}
	delete(w.groups, g.tag)
	return true
}

// report records that queues have changed.
func (w *QueueWatcher) report(queues []*watchedQueue) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range queues {
		if w.names[q.name] {
			w.pending[q.name] = true
		}
	}
	if len(queues) > 0 {
		rouse(w.wake)
	}
}

// fail records an error.
func (w *QueueWatcher) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = err
	rouse(w.wake)
}
