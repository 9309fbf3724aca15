package dashboard

import (
	"context"
	"errors"
	"sync"
	"time"
)

// tries remembers what became of actions by a text of their form. So a page that is reloaded, or
// a button that is pressed twice, does nothing a second time.
type tries struct {
	mu    sync.Mutex
	known map[string]*try
	order []string // oldest first
}

type try struct {
	at    time.Time
	ended chan struct{}
	outcome
	err error
}

// errPanicked is the error of a try until do has returned.
var errPanicked = errors.New("the action ended early, by a panic: look at what it has done before you repeat it")

const (
	maxTries = 1000
	tryFor   = time.Hour
)

// once calls do, or returns what an earlier call with the same key has returned. It waits for one
// that has not ended. A try that was refused may be repeated.
func (t *tries) once(ctx context.Context, key string, do func() (outcome, error)) (outcome, error) {
	if key == "" {
		return do()
	}
	t.mu.Lock()
	if earlier := t.known[key]; earlier != nil && time.Since(earlier.at) < tryFor {
		t.mu.Unlock()
		select {
		case <-earlier.ended:
			return earlier.outcome, earlier.err
		case <-ctx.Done():
			return outcome{}, ctx.Err()
		}
	}
	if t.known == nil {
		t.known = map[string]*try{}
	}
	this := &try{at: time.Now(), ended: make(chan struct{}), err: errPanicked}
	t.known[key] = this
	if t.order = append(t.order, key); len(t.order) > maxTries {
		delete(t.known, t.order[0])
		t.order = t.order[1:]
	}
	t.mu.Unlock()
	defer func() {
		if this.err != nil {
			t.mu.Lock()
			if t.known[key] == this {
				delete(t.known, key)
			}
			t.mu.Unlock()
		}
		close(this.ended)
	}()
	this.outcome, this.err = do()
	return this.outcome, this.err
}
