package bullmq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// RoutedWorkerOptions configures the worker of [NewRoutedWorker].
type RoutedWorkerOptions struct {
	// Worker are the options of all routes, as of a [MultiWorker]. What the worker has are
	// the Stack, the Region and the Capabilities of its Registration. They must be texts that
	// a [Target] may have.
	Worker WorkerOptions
	// Server is the name of the worker for Target.Server. Jobs for it run before all others.
	// Workers with the same name share these jobs.
	// Defaults to none.
	Server string
	// RoutesOnly leaves the queue itself to other workers. One of them has to be of this SDK,
	// so that jobs are forwarded which Node has added to the queue.
	// Defaults to false: the worker serves the queue too.
	RoutesOnly bool
	// QueueConcurrency and Burst are those of [MultiWorkerOptions].
	QueueConcurrency int
	Burst            int
}

// NewRoutedWorker connects and returns a worker that serves all routes of a queue whose
// [Target] it satisfies, and the queue itself. Call [MultiWorker.Run] to run jobs. New routes
// are served soon after the first job was added to them. ctx bounds this call only.
//
// The worker serves its routes in turns, so none waits for another one. In addition it moves
// jobs of routes that no worker serves, see [Queue.MoveUnserved].
func NewRoutedWorker(ctx context.Context, queueName string, handler Handler, options *RoutedWorkerOptions) (*MultiWorker, error) {
	var o RoutedWorkerOptions
	if options != nil {
		o = *options
	}
	var registration RegistrationOptions
	if o.Worker.Registration != nil {
		registration = *o.Worker.Registration
	}
	all := Target{Server: o.Server, Stack: registration.Stack, Region: registration.Region, Capabilities: registration.Capabilities}
	has, err := newTraits(all.Server, all.Stack, all.Region, all.Capabilities)
	if err == nil && len(has) == 0 {
		err = errors.New("it has no Server, Stack, Region or Capabilities, so it could serve no route; use NewWorker")
	}
	if err == nil && registration.Skip {
		err = errors.New("Registration.Skip is set, so producers could not know that routes are served")
	}
	if err != nil {
		return nil, fmt.Errorf("bullmq: routed worker of queue %s: %w", queueName, err)
	}
	// The worker always serves this route, so that it is found in the list of workers.
	own, err := all.Route(queueName)
	if err != nil {
		return nil, err
	}
	queues := []ServedQueue{routeShare(own, all)}
	if !o.RoutesOnly {
		queues = append(queues, routeShare(queueName, Target{}))
	}
	m, err := NewMultiWorker(ctx, handler, &MultiWorkerOptions{
		Worker: o.Worker, Queues: queues, Registry: queueName, QueueConcurrency: o.QueueConcurrency, Burst: o.Burst,
		Accept: func(name string) (ServedQueue, bool) {
			of, target, ok := parseRoute(name)
			if !ok || of != queueName || !has.satisfy(target) {
				return ServedQueue{}, false
			}
			return routeShare(name, target), true
		},
	})
	if err != nil {
		return nil, err
	}
	c, err := m.home.sibling(m.home.keys.prefix, queueName)
	if err != nil {
		_ = m.Close()
		return nil, err
	}
	m.routed = &routedWorker{m, &routes{core: c}, own}
	m.host.routed = queueName
	return m, nil
}

// routeShare returns how a worker serves a route. Jobs for its server come first.
func routeShare(name string, target Target) ServedQueue {
	q := ServedQueue{Name: name, rank: 1}
	if target.Server != "" {
		q.rank = 0
	}
	return q
}

// routedWorker is what a worker does for the routes of a queue, beside their jobs.
type routedWorker struct {
	m      *MultiWorker
	routes *routes
	own    string // the route that the worker always serves
}

// run registers the worker's own route, and moves the jobs of routes that no worker serves,
// until ctx ends.
func (r *routedWorker) run(ctx context.Context) {
	var outage timing.Backoff
	var registered time.Time
	for ctx.Err() == nil {
		begun := time.Now()
		err := r.pass(ctx, &registered)
		if ctx.Err() != nil {
			return
		}
		// Many jobs without a worker must not keep Redis busy.
		pause := max(timing.FallbackInterval, 20*time.Since(begun))
		if err != nil {
			r.m.reportFault(r.m.home.log, "", err, "looking for jobs of routes that no worker serves has failed; it is repeated")
			pause = max(pause, outage.Next())
		}
		timing.Sleep(ctx, pause)
	}
}

func (r *routedWorker) pass(ctx context.Context, registered *time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if time.Since(*registered) > timing.RegistrationAge {
		if err := r.routes.registry().Register(ctx, []string{r.own}); err != nil {
			return err
		}
		*registered = time.Now()
	}
	_, err := r.routes.moveUnserved(ctx)
	return err
}
