package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// shared are the read models that several viewers see. While a page is open, the browser
// requests it again after each change, and all its viewers do so at the same time. Such
// requests share a read, and a model is read at most once in readEvery. A model that takes long
// to read is read less often.
type shared struct {
	mu     sync.Mutex
	models map[string]*model
}

// model is what was read for a page, or is being read.
type model struct {
	begun time.Time     // when the read began, or will begin
	ended chan struct{} // is closed at the end of the read
	took  time.Duration
	value any
	err   error
	// panicked is the panic of the read with its stack. It continues in the requests that wait,
	// because http.Server recovers panics of its own goroutines only.
	panicked any
}

// Topics of models that are read at an interval, whatever changes. No queue has such a name.
const (
	metricsTopic = ":metrics"
	workersTopic = ":workers"
)

const (
	readEvery = time.Second
	keepFor   = metricsEvery
	// A read may take a part of the time between two of them, and the time is then at most
	// longestWait. A request waits for a read for so long.
	readShare   = 10
	longestWait = 5 * time.Second
)

// readsEvery returns the time between two reads of a model with a topic.
func readsEvery(topic string) time.Duration {
	switch topic {
	case metricsTopic:
		return metricsEvery
	case workersTopic:
		return slowly / 2 // pages of several viewers are updated at different times
	}
	return readEvery
}

// every returns the time until the next read, which is at least that of its topic.
func (m *model) every(least time.Duration) time.Duration {
	select {
	case <-m.ended:
		return max(least, min(readShare*m.took, longestWait))
	default:
		return least
	}
}

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
			m.took = time.Since(m.begun)
			if p := recover(); p != nil {
				m.panicked = fmt.Sprintf("%v\n\n%s", p, debug.Stack())
			}
		}()
		time.Sleep(time.Until(m.begun)) // a read at once would be too early
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), d.o.Timeout)
		defer cancel()
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
	begin := now
	if m := s.models[key]; m != nil {
		every := m.every(readsEvery(topic))
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
	m := &model{begun: begin, ended: make(chan struct{})}
	s.models[key] = m
	go read(m)
	return m
}

// keyOf returns the key of a model that is about the queues that a viewer may see. Viewers who
// may see the same queues share it.
func keyOf(page string, names []string) string {
	return page + ":" + strings.Join(names, ":") // no name has a colon
}
