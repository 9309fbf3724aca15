package bullmq

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/safe"
)

// MultiWorker runs the jobs of many queues in one process. The queues share its slots, one
// connection that waits for jobs, and the calls to Redis. It is safe for concurrent use.
//
// Each of them stays an ordinary queue. Its pause, global concurrency and rate limit hold,
// and other clients add to it and work on it. Queues may be added and removed while the
// worker runs.
//
// Free slots go to the queues with jobs in turns, by weight, or in strict order. A queue
// without jobs costs almost nothing.
//
// On a cluster, queues with the same hash tag share a wait and their calls. Give all queues
// of a MultiWorker one hash tag, or a few.
type MultiWorker struct {
	host
	feed     *groupFeed
	registry *registryWatch // nil without MultiWorkerOptions.Registry
	routed   *routedWorker  // of NewRoutedWorker; nil for others
}

// NewMultiWorker connects and returns a MultiWorker. Call [MultiWorker.Run] to run jobs.
// handler runs the jobs of all queues that have no ServedQueue.Handler. It may be nil if
// each queue has one. ctx bounds this call only. The MultiWorker lives until Run returns or
// [MultiWorker.Close] is called.
func NewMultiWorker(ctx context.Context, handler Handler, options *MultiWorkerOptions) (*MultiWorker, error) {
	m := &MultiWorker{}
	var o MultiWorkerOptions
	if options != nil {
		o = *options
	}
	if err := o.fill(); err != nil {
		return nil, fmt.Errorf("bullmq: %s: %w", m.title(), err)
	}
	names := map[string]bool{}
	for _, q := range o.Queues {
		if err := o.check(q, handler); err != nil {
			return nil, err
		}
		if names[q.Name] {
			return nil, fmt.Errorf("bullmq: %s: Queues has queue %s twice", m.title(), q.Name)
		}
		names[q.Name] = true
	}
	if o.Registry != "" && handler == nil && o.Accept == nil {
		return nil, fmt.Errorf("bullmq: %s: the handler is nil; the queues of the Registry %s need it, unless Accept sets ServedQueue.Handler", m.title(), o.Registry)
	}
	w := &o.Worker
	var fields []any
	if w.Name != "" {
		fields = []any{logWorker, w.Name}
	}
	first := o.Registry
	if len(o.Queues) > 0 {
		first = o.Queues[0].Name
	}
	home, err := newCore(ctx, first, w.Prefix, w.Connection, w.URL, w.Now, w.Dialect, w.Logger.with(fields...))
	if err != nil {
		return nil, err
	}
	home.trace.telemetry = w.Telemetry
	home.watchHealth(w.OnHealth)
	m.host.init(home, w)
	m.log = home.log.With(logQueues, o.summary())
	m.feed = newGroupFeed(&m.host, o, handler)
	if w.DeadLetters != nil {
		if m.feed.letters, err = newGroupLetters(m.feed, *w.DeadLetters); err != nil {
			_ = m.Close()
			return nil, fmt.Errorf("bullmq: %s: DeadLetters: %w", m.title(), err)
		}
	}
	for _, q := range o.Queues {
		if err := m.AddQueue(q); err != nil {
			_ = m.Close()
			return nil, err
		}
	}
	if o.Registry != "" {
		if err := home.checkHashTag(w.Prefix, o.Registry); err != nil {
			_ = m.Close()
			return nil, err
		}
	}
	m.registry = newRegistryWatch(m, &o)
	return m, nil
}

// Run fetches jobs and runs them until ctx ends, as [Worker.Run] does. An error lists the
// unfinished jobs of each queue in an [*UnfinishedError] of its own.
func (m *MultiWorker) Run(ctx context.Context) error {
	return m.run(ctx, m.feed, m.upkeep)
}

// upkeep starts the loops that run beside the jobs.
func (m *MultiWorker) upkeep(ctx context.Context) (loops []*safe.Background, end func(time.Time)) {
	loops, endFeed := m.feed.upkeep(ctx)
	if m.routed != nil {
		loops = append(loops, safe.Go(ctx, m.routed.run))
	}
	if m.registry == nil {
		return loops, endFeed
	}
	watch := safe.Go(ctx, m.registry.run)
	return append(loops, watch), func(deadline time.Time) {
		endFeed(deadline)
		watch.Wait(deadline) // which puts back what it has not used, over the connection
	}
}

// AddQueue makes the worker serve a further queue, at once if it runs. For a queue that it
// serves already, AddQueue replaces the weight, the bounds and the handler. Jobs that run
// keep their handler. AddQueue makes no call to Redis and does not wait.
func (m *MultiWorker) AddQueue(q ServedQueue) error {
	f := m.feed
	if err := f.o.check(q, f.handler); err != nil {
		return err
	}
	if err := m.home.checkHashTag(f.o.Worker.Prefix, q.Name); err != nil {
		return err
	}
	if f.letters != nil {
		if err := f.letters.check(q.Name); err != nil {
			return fmt.Errorf("bullmq: queue %s: DeadLetters: %w", q.Name, err)
		}
	}
	f.add(q)
	return nil
}

// RemoveQueue makes the worker stop serving a queue. Jobs of the queue that run already
// still finish. RemoveQueue reports whether the queue was served. It does not wait.
func (m *MultiWorker) RemoveQueue(name string) bool { return m.feed.remove(name) }

// Queues returns the names of the queues that the worker serves, sorted.
func (m *MultiWorker) Queues() []string { return m.feed.queueNames() }

// queueNames returns the names of the served queues, sorted.
func (f *groupFeed) queueNames() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := make([]string, 0, len(f.members))
	for name := range f.members {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// CancelJob cancels the context of the handler that runs a job of a queue in this worker,
// as [Worker.CancelJob] does. It reports whether this worker runs the job.
func (m *MultiWorker) CancelJob(queueName, jobID, reason string) bool {
	return m.cancelHandlers(reason, func(a *attempt) bool { return a.w.QueueName() == queueName && a.job.ID == jobID }) > 0
}
