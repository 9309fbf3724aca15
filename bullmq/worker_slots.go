package bullmq

import (
	"context"
	"fmt"
	"sync"
)

// Concurrency is how many jobs the worker runs at once (BullMQ: concurrency).
func (w *Worker) Concurrency() int {
	w.slots.mu.Lock()
	defer w.slots.mu.Unlock()
	return w.slots.size
}

// SetConcurrency changes how many jobs the worker runs at once, before Run or
// meanwhile. More are taken at once; fewer run as jobs end, for none is
// interrupted. Less than 1 is refused: Pause is what stops a worker (BullMQ:
// concurrency).
func (w *Worker) SetConcurrency(concurrency int) error {
	if concurrency < 1 {
		return fmt.Errorf("bullmq: worker of queue %s: a concurrency of %d is less than 1; Pause stops a worker", w.Queue(), concurrency)
	}
	w.slots.resize(concurrency)
	w.lookAgain()
	return nil
}

// slots counts the jobs that a worker runs and the calls that may bring it
// more, and says whether there may be one more: neither when as many run as its
// concurrency allows, nor while it is paused.
type slots struct {
	mu    sync.Mutex
	size  int    // the concurrency
	taken int    // by jobs
	takes int    // calls under way that may bring a job, and those whose answer was lost
	pause *pause // nil unless paused

	turn    context.Context // ends with the next pause or resumption
	endTurn context.CancelFunc
}

func newSlots(size int) *slots {
	s := &slots{size: size}
	s.turn, s.endTurn = context.WithCancel(context.Background())
	return s
}

func (s *slots) resize(size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size = size
}

// begin says how many jobs may be taken now, at most so many; end follows for
// each.
func (s *slots) begin(most int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pause != nil {
		return 0
	}
	n := max(0, min(most, s.size-s.taken))
	s.takes += n
	return n
}

// beginNext says whether a slot whose job has just ended may take the next one;
// end follows then.
func (s *slots) beginNext() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pause != nil || s.taken > s.size {
		return false
	}
	s.takes++
	return true
}

// end follows begin once the answer is there. A job that has come, other than
// for a slot's own use, has a slot from now on.
func (s *slots) end(occupied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takes--
	if occupied {
		s.taken++
	}
	s.calm()
}

func (s *slots) vacate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	s.calm()
}

// full says whether there is no slot left, open whether a job may be taken.
func (s *slots) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken >= s.size
}

func (s *slots) open() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pause == nil && s.taken < s.size
}

func (s *slots) occupied() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken > 0
}

// paused answers beside a context that ends when that changes.
func (s *slots) paused() (bool, context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pause != nil, s.turn
}

// shut begins a pause, or answers the one that holds.
func (s *slots) shut() *pause {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pause == nil {
		s.nextTurn()
		s.pause = &pause{turn: s.turn, still: make(chan struct{}), quiet: make(chan struct{})}
		s.calm()
	}
	return s.pause
}

// lift ends a pause, unless that has happened.
func (s *slots) lift(p *pause) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p == nil || s.pause != p {
		return false
	}
	s.pause = nil
	s.nextTurn()
	return true
}

func (s *slots) nextTurn() {
	s.endTurn()
	s.turn, s.endTurn = context.WithCancel(context.Background())
}

// calm tells those who wait for a pause to take effect; the caller holds mu.
func (s *slots) calm() {
	if s.pause == nil || s.takes > 0 {
		return
	}
	closeOnce(s.pause.still)
	if s.taken == 0 {
		closeOnce(s.pause.quiet)
	}
}

func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}
