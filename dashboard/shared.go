package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"time"
)

// shared are the read models that several viewers see. While a page is open, the browser
// requests it again after each change, and all its viewers do so at the same time. Such
// requests share a read, and a model is read at most once in readEvery.
type shared struct {
	mu     sync.Mutex
	models map[string]*model
}

// model is what was read for a page, or is being read.
type model struct {
	topic string        // of the changes that make it old
	begun time.Time     // when the read began, or will begin
	ended chan struct{} // is closed at the end of the read
	value any
	err   error
	// panicked is the panic of the read with its stack. It continues in the requests that wait,
	// because http.Server recovers panics of its own goroutines only.
	panicked any
}

const (
	readEvery = time.Second
	keepFor   = metricsEvery
)

// live is the header of requests by which assets/live.js updates a page.
const liveHeader = "HX-Request"

// sharedRead returns what read reads. A request that updates a page shares the read with
// others that have the same key; all others read by themselves. read must not depend on who
// makes the request.
func sharedRead[T any](d *Dashboard, r *http.Request, topic, key string, read func(ctx context.Context) (T, error)) (T, error) {
	if r.Header.Get(liveHeader) == "" {
		return read(r.Context())
	}
	m := d.shared.join(topic, key, d.live.changedAt(topic), func(m *model) {
		defer close(m.ended)
		defer func() {
			if p := recover(); p != nil {
				m.panicked = fmt.Sprintf("%v\n\n%s", p, debug.Stack())
			}
		}()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), d.o.Timeout+readEvery)
		defer cancel()
		select { // a read at once would be the second one in readEvery
		case <-time.After(time.Until(m.begun)):
		case <-ctx.Done():
		}
		m.value, m.err = read(ctx)
	})
	var none T
	select {
	case <-m.ended:
	case <-r.Context().Done():
		return none, r.Context().Err()
	}
	if m.panicked != nil {
		panic(m.panicked)
	}
	if m.err != nil {
		return none, m.err
	}
	return m.value.(T), nil
}

// join returns the model with a key: the present one, unless it is old or something has
// changed since it was read. Then it starts a read.
func (s *shared) join(topic, key string, changed time.Time, read func(*model)) *model {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	begin, every := now, readEvery
	if topic == metricsTopic { // its pages need no more
		every = metricsEvery
	}
	if m := s.models[key]; m != nil {
		if age := now.Sub(m.begun); age < every {
			if age < 0 || m.begun.After(changed) { // a read that has not begun sees all changes
				return m
			}
			begin = m.begun.Add(every)
		}
	}
	if s.models == nil {
		s.models = map[string]*model{}
	}
	for key, m := range s.models {
		if now.Sub(m.begun) > keepFor {
			delete(s.models, key)
		}
	}
	m := &model{topic: topic, begun: begin, ended: make(chan struct{})}
	s.models[key] = m
	go read(m)
	return m
}
