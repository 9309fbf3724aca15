package bullmq

import (
	"context"
	"errors"
	"iter"
	"maps"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/safe"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// ShardedEventsOptions configures [ShardedQueue.Events]. A nil pointer and the zero value
// select the defaults.
type ShardedEventsOptions struct {
	// LastEventIDs are the ids of the events to start after, by the name of the shard, as
	// [ShardedEvents.LastEventIDs] returns them. Missing shards start with LastEventID.
	LastEventIDs map[string]string
	// LastEventID is the id of the event to start after in other shards, as in
	// QueueEventsOptions. A shard of a generation that begins later starts with its oldest
	// event.
	// Defaults to "$".
	LastEventID string
}

// ShardEvent is an event of a shard.
type ShardEvent struct {
	Event
	QueueName string // of the shard
}

// ShardedEvents reads the events of all shards of a [ShardedQueue]. Each shard has two
// connections, as a [QueueEvents] has.
type ShardedEvents struct {
	of      *ShardedQueue
	closed  context.Context
	close   context.CancelFunc
	loop    chan struct{} // full while a loop over All runs
	arrived chan struct{} // receives a value when there is a further event

	mu      sync.Mutex // of the maps, which are by shard
	readers map[string]*QueueEvents
	reads   map[string]bool // a goroutine reads it
	buffers map[string]*arrivals
	last    map[string]string // ids of the events that were delivered last
}

// Events connects to the events of all shards and determines where reading starts. ctx bounds
// this call only. options may be nil. The caller must close the ShardedEvents before the
// ShardedQueue.
func (s *ShardedQueue) Events(ctx context.Context, options *ShardedEventsOptions) (*ShardedEvents, error) {
	var o ShardedEventsOptions
	if options != nil {
		o = *options
	}
	view, err := s.fresh(ctx)
	if err != nil {
		return nil, err
	}
	e := &ShardedEvents{
		of: s, loop: make(chan struct{}, 1), arrived: make(chan struct{}, 1),
		readers: map[string]*QueueEvents{}, reads: map[string]bool{}, buffers: map[string]*arrivals{}, last: map[string]string{},
	}
	e.closed, e.close = context.WithCancel(context.Background())
	maps.Copy(e.last, o.LastEventIDs)
	_, err = onEach(ctx, view.all(), func(ctx context.Context, of *shard) (struct{}, error) {
		_, err := e.open(ctx, of, o.LastEventID)
		return struct{}{}, err
	})
	if err != nil {
		_ = e.Close()
		return nil, err
	}
	return e, nil
}

// open opens the reader of a shard. It starts after the last event read, or else after start.
func (e *ShardedEvents) open(ctx context.Context, of *shard, start string) (*QueueEvents, error) {
	e.mu.Lock()
	if last, known := e.last[of.Name()]; known {
		start = last
	}
	e.mu.Unlock()
	reader, err := NewQueueEvents(ctx, of.Name(), &QueueEventsOptions{
		Connection: of.connection, URL: e.of.o.Queue.URL, Prefix: e.of.prefix, LastEventID: start, Logger: e.of.o.Queue.Logger,
	})
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed.Err() != nil {
		_ = reader.Close()
		return nil, ErrClosed
	}
	e.readers[of.Name()], e.last[of.Name()] = reader, reader.LastEventID()
	return reader, nil
}

// LastEventIDs returns the id of the last event that was delivered, by the name of the shard.
func (e *ShardedEvents) LastEventIDs() map[string]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.last)
}

// Close ends the loop over [ShardedEvents.All] and closes the connections. It may be called
// within the loop.
func (e *ShardedEvents) Close() error {
	e.close()
	e.mu.Lock()
	defer e.mu.Unlock()
	closes := make([]func(), 0, len(e.readers))
	for _, reader := range e.readers {
		closes = append(closes, func() { _ = reader.Close() })
	}
	safe.Together(closes...)
	return nil
}

// arrival is an event, or an error, of one shard.
type arrival struct {
	event ShardEvent
	err   error
	at    time.Time // when it arrived
}

// before reports whether an event is to be delivered before another. Errors come first.
func (a *arrival) before(b *arrival) bool {
	if (a.err != nil) != (b.err != nil) {
		return a.err != nil
	}
	return a.event.Time().Before(b.event.Time())
}

// arrivals holds the events of one shard that were read and not delivered.
type arrivals struct {
	list []*arrival
	room chan struct{} // receives a value when the list gets shorter
}

// mostArrivals is how many events of a shard are read ahead.
const mostArrivals = 1000

// All returns an iterator over the events of all shards. It ends when ctx ends or Close is
// called. The events of one shard are in their order. Those of different shards are in the
// order of the times at which their servers wrote them, unless one arrives more than 20
// milliseconds after a later one.
//
// It yields an error if a shard can't be read, as [QueueEvents.All] does. If the loop
// continues, the other shards are read on, and that shard is read again after a short wait.
// Shards of a new generation are added while the loop runs.
//
// Only one loop runs at a time. A second one waits until the first has ended and continues
// after its last event.
func (e *ShardedEvents) All(ctx context.Context) iter.Seq2[ShardEvent, error] {
	return func(yield func(ShardEvent, error) bool) {
		select {
		case e.loop <- struct{}{}:
		case <-ctx.Done():
			return
		case <-e.closed.Done():
			return
		}
		defer func() { <-e.loop }()
		ctx, cancel := context.WithCancel(ctx)
		var reading sync.WaitGroup
		defer reading.Wait()
		defer cancel()
		defer context.AfterFunc(e.closed, cancel)()

		readAll := func(view *shardView) {
			for _, of := range view.all() {
				if e.begin(of) {
					reading.Go(func() {
						defer e.end(of)
						e.read(ctx, of)
					})
				}
			}
		}
		view, changed := e.of.watch()
		readAll(view)
		review := time.NewTicker(timing.ShardReview)
		defer review.Stop()
		for ctx.Err() == nil {
			next, wait := e.next()
			if next != nil {
				if !yield(next.event, next.err) {
					return
				}
				continue
			}
			var lag <-chan time.Time
			if wait > 0 {
				lag = time.After(wait)
			}
			select {
			case <-e.arrived:
			case <-lag:
			case <-changed:
				view, changed = e.of.watch()
				readAll(view)
			case <-review.C:
				_, _ = e.of.fresh(ctx) // starts to read the generations
			case <-ctx.Done():
			}
		}
	}
}

// begin reports whether a shard is to be read: no goroutine of the present loop reads it.
func (e *ShardedEvents) begin(of *shard) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.buffers[of.Name()] == nil {
		e.buffers[of.Name()] = &arrivals{room: make(chan struct{}, 1)}
	}
	if e.reads[of.Name()] {
		return false
	}
	e.reads[of.Name()] = true
	return true
}

func (e *ShardedEvents) end(of *shard) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.reads, of.Name())
}

// next returns the event to deliver next. If an earlier one may still come, it returns nil and
// how long to wait for it. Without events, wait is 0.
func (e *ShardedEvents) next() (next *arrival, wait time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var from *arrivals
	idle := false
	for _, buffer := range e.buffers {
		switch {
		case len(buffer.list) == 0:
			idle = true
		case from == nil || buffer.list[0].before(from.list[0]):
			from = buffer
		}
	}
	if from == nil {
		return nil, 0
	}
	next = from.list[0]
	if wait = timing.ShardEventLag - time.Since(next.at); idle && next.err == nil && wait > 0 {
		return nil, wait
	}
	from.list = from.list[1:]
	select {
	case from.room <- struct{}{}:
	default:
	}
	if next.err == nil {
		e.last[next.event.QueueName] = next.event.ID
	}
	return next, 0
}

// put adds an event of a shard, and waits while the shard has too many of them.
func (e *ShardedEvents) put(ctx context.Context, of *shard, event Event, err error) {
	e.mu.Lock()
	buffer := e.buffers[of.Name()]
	buffer.list = append(buffer.list, &arrival{ShardEvent{event, of.Name()}, ofShard(of, err), time.Now()})
	e.mu.Unlock()
	select {
	case e.arrived <- struct{}{}:
	default:
	}
	for e.isFull(buffer) {
		select {
		case <-buffer.room:
		case <-ctx.Done():
			return
		}
	}
}

func (e *ShardedEvents) isFull(buffer *arrivals) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(buffer.list) >= mostArrivals
}

// read puts the events of one shard until ctx ends.
func (e *ShardedEvents) read(ctx context.Context, of *shard) {
	var pause timing.Backoff
	for ctx.Err() == nil {
		reader, err := e.reader(ctx, of)
		if err == nil {
			for event, err := range reader.All(ctx) {
				if e.put(ctx, of, event, err); ctx.Err() != nil {
					return
				}
			}
			return // closed
		}
		if ctx.Err() != nil || errors.Is(err, ErrClosed) {
			return
		}
		e.put(ctx, of, Event{}, err)
		timing.Sleep(ctx, pause.Next())
	}
}

// reader returns the reader of a shard. That of a new generation starts with its first event.
func (e *ShardedEvents) reader(ctx context.Context, of *shard) (*QueueEvents, error) {
	e.mu.Lock()
	reader := e.readers[of.Name()]
	e.mu.Unlock()
	if reader != nil {
		return reader, nil
	}
	return e.open(ctx, of, "0-0")
}

// watch returns the view, and a channel that is closed when it changes.
func (s *ShardedQueue) watch() (*shardView, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.Load(), s.changed
}
