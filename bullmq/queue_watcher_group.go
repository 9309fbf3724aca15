package bullmq

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// watchGroup watches the queues that one command can read: those in one slot of a cluster, or
// all queues of another server. Only its goroutine uses its fields.
type watchGroup struct {
	w       *QueueWatcher
	tag     string
	polls   bool
	waiter  backend.EventsWaiter
	finder  backend.QueueFinder
	version int // of the names of w that queues has
	queues  []*watchedQueue
	waited  bool // the last read has waited at the server

	reviewed   time.Time // when queues were reviewed
	nextReview int       // the first one to review
}

type watchedQueue struct {
	name, base string
	last       string // id of the last event that was reported; "" if it is to be found
	unreadable bool
}

// run reports the changes of the queues until ctx ends or there are none.
func (g *watchGroup) run(ctx context.Context) {
	defer g.waiter.Close()
	defer context.AfterFunc(ctx, func() { g.waiter.Interrupt() })()
	var outage timing.Backoff
	for ctx.Err() == nil {
		// The wait begins before the names are read, so that a change in between interrupts it.
		g.waiter.Begin()
		g.update()
		g.waited = false
		var changed []*watchedQueue
		var err error
		switch {
		case len(g.queues) == 0:
			g.waiter.End()
			if g.w.end(g) {
				return
			}
			continue
		case ctx.Err() == nil:
			changed, err = g.read(ctx)
		}
		g.waiter.End()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			for _, q := range g.queues { // events may have been lost with the server
				q.last, q.unreadable = "", false
			}
			g.w.fail(err)
			timing.Sleep(ctx, outage.Next())
			continue
		}
		outage.Succeeded()
		g.w.report(changed)
		if len(changed) > 0 || !g.waited {
			timing.Sleep(ctx, max(g.w.interval, time.Duration(float64(len(g.queues))*float64(watchPerQueue)/watchShare)))
		}
	}
}

// update reads the names of the queues, if they have changed.
func (g *watchGroup) update() {
	w := g.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if g.version == w.version {
		return
	}
	g.version = w.version
	known := map[string]*watchedQueue{}
	for _, q := range g.queues {
		known[q.name] = q
	}
	g.queues = g.queues[:0]
	for _, name := range slices.Sorted(maps.Keys(w.names)) {
		switch {
		case w.tagOf(name) != g.tag:
		case known[name] != nil:
			g.queues = append(g.queues, known[name])
		default:
			g.queues = append(g.queues, &watchedQueue{name: name, base: baseOf(w.prefix, name)})
		}
	}
}

// read returns the queues that have changed since the last call. It waits if there are none.
func (g *watchGroup) read(ctx context.Context) ([]*watchedQueue, error) {
	var begins, readable []*watchedQueue
	for _, q := range g.queues {
		if q.last == "" && !q.unreadable {
			begins = append(begins, q)
		}
	}
	if len(begins) > 0 {
		_, err := g.look(ctx, begins)
		return begins, err
	}
	if time.Since(g.reviewed) > watchReview {
		if changed, err := g.review(ctx); len(changed) > 0 || err != nil {
			return changed, err
		}
	}
	positions := make([]backend.EventsAfter, 0, len(g.queues))
	for _, q := range g.queues {
		if !q.unreadable {
			readable, positions = append(readable, q), append(positions, backend.EventsAfter{Queue: q.base, ID: q.last})
		}
	}
	indexes, err := g.wait(ctx, positions)
	if err != nil && classify(err) == backend.Refused {
		return g.look(ctx, g.queues) // finds the queue whose events can't be read
	}
	if err != nil || len(indexes) == 0 {
		return nil, err
	}
	changed := make([]*watchedQueue, len(indexes))
	for i, index := range indexes {
		changed[i] = readable[index]
	}
	_, err = g.look(ctx, changed) // so that the next read begins behind all their events
	return changed, err
}

// wait returns the indexes of the queues that have an event after their position.
func (g *watchGroup) wait(ctx context.Context, positions []backend.EventsAfter) (changed []int, err error) {
	if len(positions) == 0 {
		return nil, nil
	}
	if !g.polls {
		changed, err = g.waiter.Wait(watchReview, positions)
		if !errors.Is(err, backend.ErrNoConnection) {
			g.waited = true
			return changed, err
		}
	}
	call, cancel := context.WithTimeout(ctx, timing.CallTimeout)
	defer cancel()
	return g.waiter.Poll(call, positions)
}

// review looks at some of the queues, whose events may have been deleted, or be readable
// again.
func (g *watchGroup) review(ctx context.Context) (changed []*watchedQueue, err error) {
	if g.nextReview >= len(g.queues) {
		g.nextReview = 0
	}
	end := min(g.nextReview+watchLookSize, len(g.queues))
	changed, err = g.look(ctx, g.queues[g.nextReview:end])
	g.reviewed, g.nextReview = time.Now(), end
	return changed, err
}

// look moves the positions of queues behind their last events, and returns the queues whose
// position has moved.
func (g *watchGroup) look(ctx context.Context, queues []*watchedQueue) (moved []*watchedQueue, err error) {
	for some := range slices.Chunk(queues, watchLookSize) {
		bases := make([]string, len(some))
		for i, q := range some {
			bases[i] = q.base
		}
		call, cancel := context.WithTimeout(ctx, timing.CallTimeout)
		found, err := g.finder.LastEvents(call, bases)
		cancel()
		if err != nil {
			return moved, err
		}
		for i, q := range some {
			unreadable := found[i].Err != nil
			if unreadable != q.unreadable || !unreadable && found[i].ID != q.last {
				moved = append(moved, q)
			}
			q.last, q.unreadable = found[i].ID, unreadable
		}
	}
	return moved, nil
}
