package bullmqhttp

import (
	"context"
	"sync"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// maxFetchers is how many Fetchers are kept for workers that don't claim at the moment.
const maxFetchers = 256

// workerFetchers has a Fetcher for each worker that claims jobs, so that a job has the name of its
// worker. They share one connection.
type workerFetchers struct {
	open func(ctx context.Context, worker string) (*bullmq.Fetcher, error)

	mu     sync.Mutex
	byName map[string]*workerFetcher
	closed bool
}

type workerFetcher struct {
	*bullmq.Fetcher
	users int
}

// use returns the Fetcher of a worker. done must be called afterwards.
func (w *workerFetchers) use(ctx context.Context, worker string) (f *bullmq.Fetcher, done func(), err error) {
	if f := w.known(worker); f != nil {
		return f.Fetcher, func() { w.release(f) }, nil
	}
	opened, err := w.open(ctx, worker)
	if err != nil {
		return nil, nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		_ = opened.Close()
		return nil, nil, bullmq.ErrClosed
	}
	used := w.byName[worker]
	if used != nil { // another call was faster
		_ = opened.Close()
	} else {
		w.evict()
		used = &workerFetcher{Fetcher: opened}
		if w.byName == nil {
			w.byName = map[string]*workerFetcher{}
		}
		w.byName[worker] = used
	}
	used.users++
	return used.Fetcher, func() { w.release(used) }, nil
}

func (w *workerFetchers) known(worker string) *workerFetcher {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.byName[worker]
	if f != nil {
		f.users++
	}
	return f
}

func (w *workerFetchers) release(f *workerFetcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f.users--
}

// evict closes Fetchers that are not in use, if there are many. The order of a map is random.
func (w *workerFetchers) evict() {
	for name, f := range w.byName {
		if len(w.byName) < maxFetchers {
			return
		}
		if f.users == 0 {
			delete(w.byName, name)
			_ = f.Close()
		}
	}
}

func (w *workerFetchers) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, f := range w.byName {
		_ = f.Close()
	}
	clear(w.byName)
}
