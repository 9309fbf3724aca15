package bullmq

import (
	"context"
	"fmt"
	"sync"
)

// Concurrency returns the number of jobs that the worker runs at the same time
// (BullMQ: concurrency).
func (h *host) Concurrency() int {
	h.slots.mu.Lock()
	defer h.slots.mu.Unlock()
	return h.slots.size
}

// SetConcurrency changes the number of jobs that the worker runs at the same time,
// before or during Run (BullMQ: concurrency). A higher number takes effect at once. A
// lower number takes effect as running jobs finish. SetConcurrency returns an error if
// concurrency is less than 1; use [Worker.Pause] to stop a worker.
func (h *host) SetConcurrency(concurrency int) error {
	if concurrency < 1 {
		return fmt.Errorf("bullmq: %s: a concurrency of %d is less than 1; Pause stops a worker", h.title(), concurrency)
	}
	h.slots.resize(concurrency)
	h.recheck()
	return nil
}

// slots counts the jobs that a worker runs and the calls in flight that may fetch
// more. A job may be fetched while fewer run than the concurrency allows and the
// worker is not paused.
type slots struct {
	mu       sync.Mutex
	size     int    // the concurrency
	used     int    // slots with a job
	reserved int    // calls in flight that may fetch a job, and those whose reply was lost
	pause    *pause // nil unless paused

	pauseChanged  context.Context // ends with the next pause or resumption
	endPauseState context.CancelFunc
}

func newSlots(size int) *slots {
	s := &slots{size: size}
	s.pauseChanged, s.endPauseState = context.WithCancel(context.Background())
	return s
}

func (s *slots) resize(size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size = size
}

// reserve reserves up to most free slots and returns their number. The caller must
// call settle for each.
func (s *slots) reserve(most int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pause != nil {
		return 0
	}
	n := max(0, min(most, s.size-s.used))
	s.reserved += n
	return n
}

// reserveNext reports whether a slot whose job has just ended may fetch the next
// one. If so, settle follows.
func (s *slots) reserveNext() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pause != nil || s.used > s.size {
		return false
	}
	s.reserved++
	return true
}

// reserveFree is reserve for a worker that makes several such calls at the same time. held
// is the number of slots that earlier ones have reserved.
func (s *slots) reserveFree(most, held int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pause != nil {
		return 0
	}
	n := max(0, min(most, s.size-s.used-held))
	s.reserved += n
	return n
}

// keep keeps n slots reserved whose calls have ended without a reply.
func (s *slots) keep(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved += n
}

// settle ends the reservation of a slot. occupied reports whether a job was fetched
// that occupies the slot.
func (s *slots) settle(occupied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved--
	if occupied {
		s.used++
	}
	s.notifyIdle()
}

func (s *slots) vacate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
	s.notifyIdle()
}

// full reports whether no slot is left.
func (s *slots) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used >= s.size
}

// open reports whether a job may be fetched.
func (s *slots) open() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pause == nil && s.used < s.size
}

func (s *slots) occupied() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used > 0
}

// paused reports whether the worker is paused, and returns a context that ends when
// that changes.
func (s *slots) paused() (bool, context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pause != nil, s.pauseChanged
}

// pauseNow begins a pause, or returns the current one.
func (s *slots) pauseNow() *pause {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pause == nil {
		s.changePause()
		s.pause = &pause{resumed: s.pauseChanged, drained: make(chan struct{}), idle: make(chan struct{})}
		s.notifyIdle()
	}
	return s.pause
}

// resume ends a pause. It reports false if the pause has already ended.
func (s *slots) resume(p *pause) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p == nil || s.pause != p {
		return false
	}
	s.pause = nil
	s.changePause()
	return true
}

func (s *slots) changePause() {
	s.endPauseState()
	s.pauseChanged, s.endPauseState = context.WithCancel(context.Background())
}

// notifyIdle closes the channels of a pause that has taken effect. The caller holds
// mu.
func (s *slots) notifyIdle() {
	if s.pause == nil || s.reserved > 0 {
		return
	}
	closeOnce(s.pause.drained)
	if s.used == 0 {
		closeOnce(s.pause.idle)
	}
}

func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}
