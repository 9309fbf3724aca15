package safe

import (
	"context"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// Background is a function that runs in a separate goroutine until it is cancelled.
type Background struct {
	Cancel context.CancelFunc
	done   chan struct{}
}

// Go starts a function with a context that [Background.Cancel] ends.
func Go(ctx context.Context, run func(ctx context.Context)) *Background {
	ctx, cancel := context.WithCancel(ctx)
	b := &Background{Cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(b.done)
		run(ctx)
	}()
	return b
}

// Wait waits until the function has returned, for at most [timing.BackgroundWait] and no
// longer than until latest. The wait is limited because user code in the function may block,
// or may even wait for the caller of Wait.
func (b *Background) Wait(latest time.Time) {
	timer := time.NewTimer(min(timing.BackgroundWait, time.Until(latest)))
	defer timer.Stop()
	select {
	case <-b.done:
	case <-timer.C:
	}
}

// Together calls functions at the same time and waits for all of them.
func Together(calls ...func()) {
	var all sync.WaitGroup
	for _, call := range calls {
		all.Go(call)
	}
	all.Wait()
}
