package bullmq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// RouteInfo describes a route of a queue: the queue of the jobs with one [Target].
type RouteInfo struct {
	Name   string // of the queue
	Target Target
	// Counts are the numbers of jobs in each state, as [Queue.Counts] returns them.
	Counts map[State]int
	// Ready is the number of jobs that could run now.
	Ready int
	// Age is how long the oldest of them has been ready. [Queue.Ages] tells more.
	Age time.Duration
	// Workers are the workers that serve the route.
	Workers []WorkerInfo
	// Err is why the jobs of the route can't be read, such as a key of the wrong type.
	Err error
}

// IsServed reports whether a worker serves the route. A worker that stops does not count.
func (r *RouteInfo) IsServed() bool {
	return slices.ContainsFunc(r.Workers, func(w WorkerInfo) bool { return !w.Stopping })
}

// Routes lists the routes of the queue that are registered, sorted by name, with their jobs
// and their workers. The jobs of a route that no worker serves wait. Routes makes two calls
// for each route. If the jobs of a route can't be read, its RouteInfo.Err says why, and the
// other routes are still listed. Routes returns an error if the context ends, or if the list
// of the routes can't be read.
func (q *Queue) Routes(ctx context.Context) ([]RouteInfo, error) {
	found, err := q.listRoutes(ctx)
	if err != nil {
		return nil, fmt.Errorf("bullmq: list the routes of queue %s: %w", q.Name(), err)
	}
	return found, nil
}

func (q *Queue) listRoutes(ctx context.Context) ([]RouteInfo, error) {
	names, workers, err := q.routes.workers(ctx)
	if err != nil {
		return nil, err
	}
	found := make([]RouteInfo, 0, len(names))
	for _, name := range names {
		info := RouteInfo{Name: name, Workers: servers(name, workers)}
		_, info.Target, _ = parseRoute(name)
		info.Err = q.readRoute(ctx, &info)
		if info.Err != nil && ctx.Err() != nil {
			return nil, info.Err
		}
		found = append(found, info)
	}
	return found, nil
}

// readRoute reads the jobs of a route.
func (q *Queue) readRoute(ctx context.Context, info *RouteInfo) error {
	c, err := q.core.sibling(q.core.keys.prefix, info.Name)
	if err != nil {
		return err
	}
	route := Queue{core: c}
	if info.Counts, err = route.Counts(ctx); err != nil {
		return err
	}
	info.Ready = info.Counts[StateWaiting] + info.Counts[StatePrioritized]
	if info.Ready == 0 {
		return nil
	}
	ages, err := route.Ages(ctx, StateWaiting, StatePrioritized)
	if err != nil {
		return err
	}
	info.Age = max(ages[StateWaiting], ages[StatePrioritized])
	return nil
}

// workers returns the names of the registered routes, sorted, and the workers of the queue,
// of these routes, and of another one.
func (r *routes) workers(ctx context.Context, another ...string) (names []string, workers fleetWorkers, err error) {
	queue := r.core.keys.queue
	all, err := r.registry().Queues(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range all {
		if of, _, ok := parseRoute(name); ok && of == queue {
			names = append(names, name)
		}
	}
	if len(names)+len(another) == 0 {
		return nil, nil, nil
	}
	workers, err = r.core.fleet().find(ctx, slices.Concat([]string{queue}, names, another))
	return names, workers, err
}

// servers returns those of the workers that serve a route of the call, or will do so as soon
// as they learn of it.
func servers(name string, workers fleetWorkers) (some []WorkerInfo) {
	for _, w := range workers {
		if slices.Contains(w.serves, name) || w.takes(name) {
			some = append(some, w.WorkerInfo)
		}
	}
	return some
}

// takes reports whether a worker of [NewRoutedWorker] serves a route, or will do so as soon as
// it learns of it.
func (w *fleetWorker) takes(name string) bool {
	queue, target, ok := parseRoute(name)
	if !ok || w.routed != queue {
		return false
	}
	server := ""
	for _, other := range slices.Concat(w.Queues, w.serves) {
		if of, t, ok := parseRoute(other); ok && of == queue {
			server = max(server, t.Server)
		}
	}
	has, err := newTraits(server, w.Stack, w.Region, w.Capabilities)
	return err == nil && has.satisfy(target)
}

// ErrNoWorker means that a job was not added, because its [Target] has RequireWorker, and
// no worker satisfies the target at present.
var ErrNoWorker = errors.New("bullmq: no worker satisfies the target of the job")

// served reports whether a worker serves a route, or will do so as soon as it learns of it.
func (r *routes) served(ctx context.Context, name string) (bool, error) {
	now := time.Now()
	r.mu.Lock()
	known := r.verdicts[name]
	r.mu.Unlock()
	if now.Before(known.until) {
		return known.served, nil
	}
	_, workers, err := r.workers(ctx, name)
	if err != nil {
		return false, err
	}
	known = verdict{until: now.Add(timing.LiveWorkersAge)}
	known.served = slices.ContainsFunc(workers, func(w *fleetWorker) bool {
		return !w.Stopping && (slices.Contains(w.serves, name) || w.takes(name))
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.verdicts == nil {
		r.verdicts = map[string]verdict{}
	}
	if len(r.verdicts) < maximumRoutes {
		r.verdicts[name] = known
	} else {
		clear(r.verdicts)
	}
	return known.served, nil
}

// verdict is whether a route was served a short time ago.
type verdict struct {
	served bool
	until  time.Time
}

// MoveUnserved moves jobs of routes that no worker serves to the fallbacks of their targets,
// and returns how many. A job moves once it has been ready for Target.After. Workers of
// [NewRoutedWorker] do this every 5 seconds. MoveUnserved is for programs without such a worker.
//
// An error of one route does not stop the moves of the others. MoveUnserved returns all errors
// together.
func (q *Queue) MoveUnserved(ctx context.Context) (int, error) {
	moved, err := q.routes.moveUnserved(ctx)
	if err != nil {
		return moved, fmt.Errorf("bullmq: move the jobs of routes of queue %s that no worker serves: %w", q.Name(), err)
	}
	return moved, nil
}

func (r *routes) moveUnserved(ctx context.Context) (moved int, err error) {
	names, workers, err := r.workers(ctx)
	if err != nil {
		return 0, err
	}
	var failed moveErrors
	for _, name := range names {
		info := RouteInfo{Workers: servers(name, workers)}
		if info.IsServed() {
			continue
		}
		moved += r.moveFrom(ctx, name, &failed)
		if failed.outage {
			break
		}
	}
	return moved, failed.join()
}

// moveErrors are the errors of some moves. Each of them concerns one route, unless there is
// an outage.
type moveErrors struct {
	errs   []error // the first of them
	others int     // number of the others
	outage bool
}

func (e *moveErrors) add(err error, format string, names ...any) {
	switch {
	case errors.Is(err, ErrTooManyRoutes):
	case !classify(err).Lasting(), classify(err) == backend.Exhausted:
		e.outage = true
	}
	if len(e.errs) == 10 {
		e.others++
		return
	}
	e.errs = append(e.errs, fmt.Errorf(format+": %w", append(names, err)...))
}

func (e *moveErrors) join() error {
	if e.others > 0 {
		return errors.Join(append(e.errs, fmt.Errorf("and %d more errors", e.others))...)
	}
	return errors.Join(e.errs...)
}

// unservedPage is the number of jobs of a route that one call reads.
const unservedPage = 200

// moveFrom moves the jobs of a route that no worker serves, if they have a fallback and have
// been ready for long enough.
func (r *routes) moveFrom(ctx context.Context, name string, failed *moveErrors) (moved int) {
	c, err := r.core.sibling(r.core.keys.prefix, name)
	if err != nil {
		failed.add(err, "%s", name)
		return 0
	}
	broken := map[string]bool{} // the queues to which no job can move
	for _, state := range []backend.State{backend.Waiting, backend.Prioritized, backend.Delayed} {
		for from := 0; ; {
			records, err := c.store.Jobs(ctx, backend.Page{From: from, To: from + unservedPage - 1, Ascending: true}, state)
			if err != nil {
				failed.add(err, "%s", name)
				return moved
			}
			n := r.moveDue(ctx, c, records, state, broken, failed)
			moved += n
			if failed.outage {
				return moved
			}
			// No worker promotes delayed jobs that are due. Their order is that of the due times.
			if len(records) < unservedPage || state == backend.Delayed && n == 0 {
				break
			}
			from += len(records) - n
		}
	}
	return moved
}

// moveDue moves those of some jobs of a route that are to move now.
func (r *routes) moveDue(
	ctx context.Context, route *core, records []*backend.JobRecord, state backend.State, broken map[string]bool, failed *moveErrors,
) (moved int) {
	due := map[string][]backend.MovedJob{} // by the queue to which they move
	now := r.core.now()
	for _, record := range records {
		job := route.newJob(record)
		to, target := job.Options.Target.after(now.Sub(readySince(job, state)), r.core.keys.queue, route.keys.queue)
		if target == nil || broken[to] {
			continue
		}
		options := job.Options
		if options.Target = target; to == r.core.keys.queue {
			options.Target = nil
		}
		opts, err := options.encode()
		if err != nil {
			continue
		}
		due[to] = append(due[to], backend.MovedJob{ID: job.ID, Opts: opts, Deduplication: options.Deduplication.modes(), LIFO: options.LIFO})
	}
	for to, jobs := range due {
		n, err := r.moveTo(ctx, route, to, now, jobs)
		moved += n
		if err == nil {
			continue
		}
		broken[to] = true
		if failed.add(err, "from %s to %s", route.keys.queue, to); failed.outage {
			break
		}
	}
	return moved
}

// moveTo moves some jobs of a route to another one, or to the queue itself.
func (r *routes) moveTo(ctx context.Context, route *core, to string, now time.Time, jobs []backend.MovedJob) (moved int, err error) {
	if to != r.core.keys.queue {
		if _, err := r.open(ctx, to, r.storedMaxEvents); err != nil {
			return 0, err
		}
	}
	ids, err := route.store.(backend.Routes).MoveWaiting(ctx, backend.QueueRef{Prefix: r.core.keys.prefix, Name: to}, now, jobs)
	for _, id := range ids {
		if id != "" {
			moved++
		}
	}
	return moved, err
}

// after returns the target of a job that has been ready for some time without a worker for
// its route, and the route of that target. It passes over fallbacks to the present route, and
// returns nil if the job stays there.
func (t *Target) after(ready time.Duration, queueName, present string) (to string, next *Target) {
	for ; t != nil && t.Fallback != nil && ready >= t.After; t = t.Fallback {
		to, err := t.Fallback.Route(queueName)
		switch {
		case err != nil:
			return "", nil // it stays
		case to != present:
			return to, t.Fallback
		}
	}
	return "", nil
}

// readySince returns the time since which a job is ready or, if it is delayed, from which it
// will be.
func readySince(job *Job, state backend.State) time.Time {
	since := job.Timestamp
	if !job.ProcessedOn.IsZero() {
		since = job.ProcessedOn
	}
	switch {
	case state == backend.Delayed:
		return since.Add(job.Delay)
	case job.ProcessedOn.IsZero():
		return since.Add(job.Options.Delay)
	}
	return since
}
