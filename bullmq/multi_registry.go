package bullmq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/safe"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// registryWatch makes a [MultiWorker] serve the queues of a [Registry]. It waits on a
// separate connection, for two reasons: the worker must learn of queues while all its slots
// are in use, and on a cluster the registry may be in another hash slot than the queues.
type registryWatch struct {
	m      *MultiWorker
	accept func(queueName string) (ServedQueue, bool) // nil for all
	store  backend.Registry
	waiter backend.GroupWaiter // nil before run

	// known are the queues of the registry. The value reports whether the watch has made the
	// worker serve the queue.
	known    map[string]bool
	heard    backend.Listened  // the last reply
	wake     backend.GroupWake // what the wait has returned, if it was not used yet
	reviewed time.Time         // when all queues were last read
	swept    time.Time         // when vanished queues were last removed
}

// newRegistryWatch returns the watch that the options of a MultiWorker select; nil for none.
func newRegistryWatch(m *MultiWorker, o *MultiWorkerOptions) *registryWatch {
	if o.Registry == "" {
		return nil
	}
	return &registryWatch{
		m: m, accept: o.Accept, store: m.home.newRegistry(o.Worker.Prefix, o.Registry), known: map[string]bool{},
	}
}

// run watches the registry until ctx ends.
func (w *registryWatch) run(ctx context.Context) {
	w.waiter = w.m.home.groupWaiters(w.m.home.keys.clientName(":registry"))()
	defer w.waiter.Close()
	defer context.AfterFunc(ctx, w.waiter.Interrupt)()
	var outage timing.Backoff
	fail := func(err error, message string) {
		if ctx.Err() == nil {
			w.m.reportFault(w.m.log, "", err, message)
			timing.Sleep(ctx, w.m.pauseAfter(err, &outage))
		}
	}
	for ctx.Err() == nil {
		if err := w.read(ctx); err != nil {
			fail(err, "reading the registry of queues failed; retrying")
			continue
		}
		outage.Succeeded()
		if err := w.sweep(ctx); err != nil {
			fail(err, "removing vanished queues from the registry failed; it is repeated later")
		}
		if err := w.wait(ctx); err != nil {
			fail(err, "waiting for new queues failed; retrying")
		}
	}
	w.end()
}

// read reads the queues that are new since the last call, or all.
func (w *registryWatch) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timing.CallTimeout)
	defer cancel()
	begun, since := time.Now(), w.heard.At
	if begun.Sub(w.reviewed) > timing.RegistryReview {
		since = time.Time{}
	}
	heard, err := w.store.Listen(ctx, backend.Listen{Listener: w.m.id, Lease: timing.RegistryLease, Since: since, Wake: w.wake})
	if err != nil {
		w.reviewed = time.Time{} // the reply may have told of a removed queue
		return err
	}
	w.heard, w.wake = heard, backend.GroupWake{}
	for _, name := range heard.Names {
		w.add(name)
	}
	if heard.All {
		w.reviewed = begun
		w.keepOnly(heard.Names)
	}
	return nil
}

// add makes the worker serve a queue of the registry, unless the queue is known.
func (w *registryWatch) add(name string) {
	if _, known := w.known[name]; known {
		return
	}
	w.known[name] = false
	if w.m.feed.serves(name) { // one of MultiWorkerOptions.Queues, or of AddQueue
		return
	}
	q, accepted, err := w.accepts(name)
	if !accepted {
		return
	}
	if err == nil {
		err = w.m.AddQueue(q) // any client may have written the name
	}
	if err != nil {
		w.m.reportFault(w.m.log, name, err, "a queue of the registry is not served")
		return
	}
	w.known[name] = true
}

// accepts returns how a queue is served, and whether it is.
func (w *registryWatch) accepts(name string) (q ServedQueue, accepted bool, err error) {
	accepted = true
	if w.accept != nil {
		if p, _ := safe.Call(func() { q, accepted = w.accept(name) }); p != nil {
			err = fmt.Errorf("bullmq: queue %.80s: Accept panicked: %v; fix the function", name, p)
		}
	}
	q.Name = name
	return q, accepted, err
}

// serves reports whether a queue is served.
func (f *groupFeed) serves(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.members[name] != nil
}

// keepOnly makes the worker stop serving queues that have left the registry. names are those
// in it.
func (w *registryWatch) keepOnly(names []string) {
	if len(names) == len(w.known) { // all of them are known
		return
	}
	registered := make(map[string]bool, len(names))
	for _, name := range names {
		registered[name] = true
	}
	for name, served := range w.known {
		if registered[name] {
			continue
		}
		delete(w.known, name)
		if served {
			w.m.RemoveQueue(name)
		}
	}
}

// sweep removes queues from the registry that have vanished. The workers share this task.
func (w *registryWatch) sweep(ctx context.Context) error {
	if time.Since(w.swept) < timing.VanishedInterval {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timing.CallTimeout)
	defer cancel()
	w.swept = time.Now()
	_, err := w.store.RemoveVanished(ctx, timing.VanishedInterval, timing.VanishedAge)
	return err
}

// wait waits until queues were added or removed, or the lease must be renewed.
func (w *registryWatch) wait(ctx context.Context) error {
	w.waiter.Begin()
	defer w.waiter.End()
	if ctx.Err() != nil {
		return nil
	}
	w.wake = w.waiter.Wait(timing.RegistryInterval, w.store.WakeKeys(w.m.id))
	if errors.Is(w.wake.Err, backend.ErrNoConnection) {
		timing.Sleep(ctx, timing.PollInterval)
		return nil
	}
	if w.wake.Err != nil {
		w.reviewed = time.Time{} // as above
	}
	return w.wake.Err
}

// end ends the lease, and returns an announced queue that it has not registered.
func (w *registryWatch) end() {
	ctx, cancel := context.WithTimeout(context.Background(), timing.RegistrationTimeout)
	defer cancel()
	if w.wake.Woken && w.wake.Marker != w.store.WakeKeys(w.m.id)[0] {
		_ = w.waiter.Return(w.wake)
	}
	_ = w.store.StopListening(ctx, w.m.id)
}
