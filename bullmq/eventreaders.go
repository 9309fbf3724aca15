package bullmq

import (
	"context"
	"sync"
	"sync/atomic"
)

// Events tells over a channel what happens in the worker from now on: what the
// functions in WorkerOptions.Events are told, each job as it was then. A reader
// never holds the worker up: buffer events, at least one, wait for it, and
// those that come while all of these are unread are dropped. How many were
// dropped is told by the next event that is not, in Missed. EventClosed is
// never dropped: it is the last, and the channel is closed after it. It is
// closed without it once ctx has ended.
//
// Each call makes a channel of its own; one that nobody reads any more costs
// little, and goes with its context or the worker.
func (w *Worker) Events(ctx context.Context, buffer int) <-chan WorkerEvent {
	return w.readers.add(ctx, max(buffer, 1))
}

// eventReaders are those who listen to a worker by a channel.
type eventReaders struct {
	count atomic.Int32 // so that nobody listening costs nothing

	mu    sync.Mutex
	all   map[*eventReader]bool
	ended bool
}

type eventReader struct {
	buffer int
	out    chan WorkerEvent // has room for one more, the last
	missed int
	forget func() bool // that ctx ends it
}

func (rs *eventReaders) add(ctx context.Context, buffer int) <-chan WorkerEvent {
	r := &eventReader{buffer: buffer, out: make(chan WorkerEvent, buffer+1)}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.ended {
		close(r.out)
		return r.out
	}
	if rs.all == nil {
		rs.all = map[*eventReader]bool{}
	}
	rs.all[r] = true
	rs.count.Add(1)
	r.forget = context.AfterFunc(ctx, func() { rs.remove(r) })
	return r.out
}

func (rs *eventReaders) remove(r *eventReader) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.all[r] {
		delete(rs.all, r)
		rs.count.Add(-1)
		close(r.out)
	}
}

// send passes an event on. After EventClosed there is no other.
func (rs *eventReaders) send(e WorkerEvent) {
	last := e.Type == EventClosed
	if rs.count.Load() == 0 && !last {
		return
	}
	e.Job = e.Job.snapshot()
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for r := range rs.all {
		if len(r.out) >= r.buffer && !last {
			r.missed++
			continue
		}
		e.Missed, r.missed = r.missed, 0
		r.out <- e
		if last {
			r.forget()
			close(r.out)
		}
	}
	if last {
		rs.ended, rs.all = true, nil
		rs.count.Store(0)
	}
}
