package bullmq

import (
	"context"
	"time"
)

// part is what a worker does beside its jobs, on a goroutine of its own, until
// it is stopped.
type part struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func startPart(ctx context.Context, run func(ctx context.Context)) *part {
	ctx, cancel := context.WithCancel(ctx)
	p := &part{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		run(ctx)
	}()
	return p
}

// join waits for the part's end, after cancel, until a time at the latest. It
// gives up after a while: the part may be held up by a function of the user's,
// which may even wait for the worker.
func (p *part) join(latest time.Time) {
	timer := time.NewTimer(min(partPatience, time.Until(latest)))
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
	}
}

const partPatience = time.Second
