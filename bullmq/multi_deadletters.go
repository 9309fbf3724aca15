package bullmq

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// groupLetters moves the failed jobs of all queues of a [MultiWorker] to one queue for dead
// letters. A look at all queues finds those with failed jobs. A queue has a deadLetters only
// while it has failed jobs or a queueWorker.
type groupLetters struct {
	letterLoop
	f  *groupFeed
	o  DeadLetterOptions
	to *core // of the queue for dead letters

	lookedAt time.Time // when the last look began that succeeded; guarded by passes

	mu    sync.Mutex
	dirty map[*memberQueue]bool // with failed jobs that no pass has moved
}

func newGroupLetters(f *groupFeed, o DeadLetterOptions) (*groupLetters, error) {
	if o.QueueName == "" {
		return nil, errors.New("the queue for dead letters has no name")
	}
	to, err := f.h.home.sibling(f.o.Worker.Prefix, o.QueueName)
	if err != nil {
		return nil, err
	}
	l := &groupLetters{f: f, o: o, to: to, dirty: map[*memberQueue]bool{}}
	l.letterLoop = letterLoop{pass: l.makePass, last: func(ctx context.Context) { l.moveDirty(ctx) }, failed: make(chan struct{}, 1)}
	return l, nil
}

// check returns an error if the failed jobs of a queue can't be moved.
func (l *groupLetters) check(name string) error {
	k, err := newKeys(l.f.o.Worker.Prefix, name)
	if err == nil {
		_, err = l.to.deadLetters(k)
	}
	return err
}

// deadLetters returns what moves the failed jobs of a queue; nil if they stay. The caller
// holds the mu of the feed.
func (m *memberQueue) deadLetters() *deadLetters {
	l := m.f.letters
	if l == nil || m.name == l.o.QueueName || m.letters != nil {
		return m.letters
	}
	var err error
	m.letters, err = newDeadLetters(m.f.h, m.newCore(), l.o, func() {
		l.note(m)
		rouse(l.failed)
	})
	if err != nil {
		panic(err) // AddQueue has checked the names
	}
	return m.letters
}

// note makes the next pass move the failed jobs of some queues.
func (l *groupLetters) note(queues ...*memberQueue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range queues {
		l.dirty[m] = true
	}
}

// run makes passes until ctx ends.
func (l *groupLetters) run(ctx context.Context) {
	select {
	case <-l.f.admitted:
		l.letterLoop.run(ctx)
	case <-ctx.Done():
	}
}

// makePass is the pass of the loop. It looks at all queues if the last look was Interval ago.
func (l *groupLetters) makePass(ctx context.Context) (pause time.Duration, ok bool) {
	ok = true
	if begun := time.Now(); begun.Sub(l.lookedAt) >= l.o.Interval {
		if ok = l.look(ctx); ok {
			l.lookedAt = begun
		}
	}
	if ok = l.moveDirty(ctx) && ok; !ok {
		return l.o.Interval, false
	}
	return max(0, time.Until(l.lookedAt.Add(l.o.Interval))), true
}

// look notes the queues that have failed jobs. It reports whether no call failed.
func (l *groupLetters) look(ctx context.Context) (ok bool) {
	f := l.f
	all := f.all()
	err := f.lookAtQueues(ctx, all, backend.Look{Failed: true})
	if err != nil && ctx.Err() == nil {
		f.h.reportFault(f.h.log, "", err, "looking for failed jobs failed; retrying")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range all {
		switch {
		case m.hasFailed && m.admitted:
			l.note(m)
		case m.worker == nil:
			m.letters = nil
		}
	}
	return err == nil
}

// moveDirty moves the failed jobs of the queues that were noted. It reports whether no call
// failed. After a failure it notes the queue again.
func (l *groupLetters) moveDirty(ctx context.Context) (ok bool) {
	l.mu.Lock()
	dirty := l.dirty
	l.dirty = map[*memberQueue]bool{}
	l.mu.Unlock()
	ok = true
	for m := range dirty {
		l.f.mu.Lock()
		letters := m.deadLetters()
		l.f.mu.Unlock()
		if letters == nil { // it is the queue for dead letters
			delete(dirty, m)
			continue
		}
		err := ctx.Err()
		if err == nil {
			err = letters.move(ctx)
		}
		if err == nil {
			delete(dirty, m)
			continue
		}
		ok = false
		if !classify(err).Lasting() { // it concerns the other queues too
			break
		}
	}
	for m := range dirty {
		l.note(m)
	}
	return ok
}
