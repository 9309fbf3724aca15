package bullmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// ErrTooManyRoutes means that a job has a [Target] with new requirements, and its queue
// has as many routes as it may have, 1,000. Requirements are meant for kinds of workers,
// not for single jobs or customers.
var ErrTooManyRoutes = errors.New("bullmq: the queue has as many routes as it may have")

const maximumRoutes = 1000

// routes opens the routes of a queue. It is safe for concurrent use.
type routes struct {
	core *core // of the queue

	mu    sync.Mutex
	known map[string]*openRoute // by name

	verdicts map[string]verdict // by name
}

// registry returns the list of the routes.
func (r *routes) registry() backend.Registry {
	return r.core.newRegistry(r.core.keys.prefix, r.core.keys.queue)
}

// openRoute is a route that this process has registered.
type openRoute struct {
	core  *core
	queue *Queue    // adds jobs; nil for a worker
	until time.Time // when it is to be registered again
}

// open registers a route, unless it was registered lately. maxEvents returns how many
// events a new route keeps, or 0 to leave its settings alone.
func (r *routes) open(ctx context.Context, name string, maxEvents func(context.Context) (int, error)) (*openRoute, error) {
	r.mu.Lock()
	known := r.known[name]
	r.mu.Unlock()
	if known != nil && time.Now().Before(known.until) {
		return known, nil
	}
	route := &openRoute{until: time.Now().Add(timing.RegistrationAge)}
	registry := r.registry()
	if known != nil {
		route.core, route.queue = known.core, known.queue
	} else {
		names, err := registry.Queues(ctx)
		if err != nil {
			return nil, err
		}
		if len(names) >= maximumRoutes && !slices.Contains(names, name) {
			return nil, fmt.Errorf("%w: %d", ErrTooManyRoutes, len(names))
		}
		if route.core, err = r.core.sibling(r.core.keys.prefix, name); err != nil {
			return nil, err
		}
		if err := r.introduce(ctx, route.core, maxEvents); err != nil {
			return nil, err
		}
	}
	if err := registry.Register(ctx, []string{name}); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if other := r.known[name]; other != nil { // opened at the same time
		route.core, route.queue = other.core, other.queue
	}
	if r.known == nil {
		r.known = map[string]*openRoute{}
	}
	r.known[name] = route
	return route, nil
}

// storedMaxEvents returns how many events the queue keeps, for its routes.
func (r *routes) storedMaxEvents(ctx context.Context) (int, error) {
	meta, err := r.core.store.Meta(ctx)
	return cmp.Or(meta.MaxEvents, DefaultMaxEvents), err
}

// introduce writes the meta hash of a route, by which other clients know its dialect.
func (r *routes) introduce(ctx context.Context, route *core, maxEvents func(context.Context) (int, error)) error {
	n, err := maxEvents(ctx)
	if err != nil || n == 0 {
		return err
	}
	return route.store.InitMeta(ctx, n, route.dialect.version())
}

// routeOf returns the Queue to which a job with a target is added, and makes it the queue of
// the job. It retries as long as r allows.
func (q *Queue) routeOf(r *addRetry, job *Job) (*Queue, error) {
	name, err := job.Options.Target.Route(q.Name())
	if err != nil || name == q.Name() {
		return q, err
	}
	open := func() (*openRoute, error) {
		if job.Options.Target.RequireWorker {
			served, err := q.routes.served(r.ctx, name)
			if err != nil {
				return nil, err
			}
			if !served {
				return nil, ErrNoWorker
			}
		}
		return q.routes.open(r.ctx, name, func(context.Context) (int, error) { return q.maxEvents, nil })
	}
	for {
		route, err := open()
		switch {
		case err == nil:
			job.core = route.core
			return q.routes.queueOf(route, q), nil
		case errors.Is(err, ErrTooManyRoutes), errors.Is(err, ErrNoWorker):
			return q, fmt.Errorf("%w; its route is %s", err, name)
		case !r.allowed(true, err) || !r.wait():
			return q, r.finalError(false, err)
		}
	}
}

// queueOf returns the Queue of an open route, which adds jobs as origin does.
func (r *routes) queueOf(route *openRoute, origin *Queue) *Queue {
	r.mu.Lock()
	defer r.mu.Unlock()
	if route.queue == nil {
		route.queue = origin.over(route.core)
	}
	return route.queue
}

// addsTo are the jobs of a bulk that are added to one queue.
type addsTo struct {
	jobs []*Job
	adds []*backend.Add
	at   []int // their indexes in the bulk
}

// sendToRoutes is sendBulk for jobs of which some have targets. Each is added to its route.
func (q *Queue) sendToRoutes(ctx context.Context, begun time.Time, wait addWait, jobs []*Job, adds []*backend.Add) []backend.AddResult {
	results := make([]backend.AddResult, len(jobs))
	var order []*Queue
	parts := map[*Queue]*addsTo{}
	for i, job := range jobs {
		to := q
		if job.Options.Target != nil {
			if to, results[i].Err = q.routeOf(wait.retry(ctx, q.core, begun), job); results[i].Err != nil {
				continue
			}
		}
		part := parts[to]
		if part == nil {
			part = &addsTo{}
			parts[to], order = part, append(order, to)
		}
		part.jobs, part.adds, part.at = append(part.jobs, job), append(part.adds, adds[i]), append(part.at, i)
	}
	for _, to := range order {
		part := parts[to]
		own := to.core.store.AddBatch(ctx, part.adds)
		if bulkError(own) != nil {
			to.addManyAgain(wait.retry(ctx, to.core, begun), part.jobs, part.adds, own)
		}
		for n, i := range part.at {
			results[i] = own[n]
		}
	}
	return results
}

// over returns a Queue that adds jobs to another queue of the same connection, as q does.
// The options of these jobs are complete.
func (q *Queue) over(other *core) *Queue {
	o := &Queue{core: other, wait: q.wait, maxEvents: q.maxEvents, shared: other.sharedAdds(q.batchSize)}
	o.batchAdds(q.batchSize)
	return o
}

// forwarding is the error of an attempt whose job moves to a route instead of running.
type forwarding struct{ route string }

func (f *forwarding) Error() string { return "the job moves to the queue " + f.route }

// redirect returns the error of a job that does not run in this queue, because it has a
// target. It returns nil for a job that does.
func (w *queueWorker) redirect(ctx context.Context, job *Job) error {
	target := job.Options.Target
	if target == nil || w.routes == nil {
		return nil
	}
	name, err := target.Route(w.QueueName())
	switch {
	case err != nil:
		return Unrecoverable(err)
	case name == w.QueueName():
		return nil
	case w.sharded:
		return Unrecoverable(fmt.Errorf("bullmq: a job of shard %s was not run: %w", w.QueueName(), checkUntargeted(target)))
	}
	ctx, cancel := context.WithTimeout(ctx, timing.CallTimeout)
	defer cancel()
	_, err = w.routes.open(ctx, name, w.routes.storedMaxEvents)
	switch {
	case errors.Is(err, ErrTooManyRoutes):
		return Unrecoverable(err)
	case err != nil:
		w.fault(err, "the route of a job could not be registered; the job is delayed", logJob, job.ID, logName, job.Name)
		return Snooze(timing.RouteRetryPause)
	}
	return &forwarding{name}
}

// forward moves a job to a route.
func (w *queueWorker) forward(ctx context.Context, job *Job, name string) error {
	_, err := w.core.store.(backend.Routes).ForwardJob(ctx, backend.Forward{
		JobID: job.ID, Token: job.token, To: backend.QueueRef{Prefix: w.core.keys.prefix, Name: name}, Now: w.core.now(),
		Deduplication: job.Options.Deduplication.modes(), LIFO: job.Options.LIFO,
	})
	return err
}

// modes returns what an add needs of a Deduplication.
func (d *Deduplication) modes() backend.Deduplication {
	if d == nil {
		return backend.Deduplication{}
	}
	return backend.Deduplication{
		ID: d.ID, TTL: d.TTL, Extend: d.Extend, Replace: d.Replace,
		KeepLastIfActive: d.KeepLastIfActive, Reschedule: d.Reschedule,
	}
}
