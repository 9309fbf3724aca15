package bullmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/safe"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// ShardedWorker runs the jobs of all shards of a [ShardedQueue], by one [MultiWorker] for each
// Connection. It serves the shards of all generations, also of those that begin while it runs.
// It is safe for concurrent use.
type ShardedWorker struct {
	of      *ShardedQueue
	handler Handler
	o       WorkerOptions

	mu      sync.Mutex
	servers []*shardServer
	started bool
	stop    context.CancelFunc // nil before Run
	start   func(*MultiWorker) // nil before Run
}

// shardServer is the worker of the shards of one Connection.
type shardServer struct {
	connection *Connection
	worker     *MultiWorker
}

// NewShardedWorker returns a ShardedWorker of the shards of a queue. Call [ShardedWorker.Run]
// to run jobs. ctx bounds this call only. Close the ShardedQueue after the worker.
//
// Connection, URL and Prefix of the options must not be set: those of the queue are used.
// Concurrency is the number of jobs of all shards together. Each server gets an equal part of
// it, and at least one, so that it is reached only if all servers have jobs. Other options
// apply to each shard, as to the queues of a MultiWorker. options may be nil.
//
// OnHealth is called for each server. With DeadLetters, failed jobs move to a queue on the
// server of their shard. A job with a [Target], which another client has added, fails.
func NewShardedWorker(ctx context.Context, queue *ShardedQueue, handler Handler, options *WorkerOptions) (*ShardedWorker, error) {
	var o WorkerOptions
	if options != nil {
		o = *options
	}
	switch {
	case handler == nil:
		return nil, fmt.Errorf("bullmq: worker of sharded queue %s: the handler is nil; give NewShardedWorker a Handler", queue.name)
	case o.Connection != nil || o.URL != "" || o.Prefix != "":
		return nil, fmt.Errorf("bullmq: worker of sharded queue %s: Connection, URL and Prefix must not be set: those of the queue are used", queue.name)
	}
	if err := o.fill(); err != nil {
		return nil, fmt.Errorf("bullmq: worker of sharded queue %s: %w", queue.name, err)
	}
	o.separateCalls()
	o.Prefix, o.Dialect = queue.prefix, cmp.Or(o.Dialect, queue.o.Queue.Dialect)
	view, err := queue.fresh(ctx)
	if err != nil {
		return nil, err
	}
	w := &ShardedWorker{of: queue, handler: handler, o: o}
	if err := w.serve(ctx, view); err != nil {
		_ = w.Close()
		return nil, err
	}
	return w, nil
}

// separateCalls keeps calls of OnHealth and of OnMoved by several workers from overlapping.
func (o *WorkerOptions) separateCalls() {
	o.OnHealth = oneAtATime(o.OnHealth)
	if o.DeadLetters != nil && o.DeadLetters.OnMoved != nil {
		letters, call := *o.DeadLetters, o.DeadLetters.OnMoved
		var mu sync.Mutex
		letters.OnMoved = func(ctx context.Context, letter DeadLetter) {
			mu.Lock()
			defer mu.Unlock()
			call(ctx, letter)
		}
		o.DeadLetters = &letters
	}
}

// serve makes the worker serve the shards of a view, and no others. If it fails for a server,
// it serves the others.
func (w *ShardedWorker) serve(ctx context.Context, view *shardView) error {
	queues := map[*Connection][]ServedQueue{}
	served := map[string]bool{}
	var connections []*Connection
	for _, of := range view.all() {
		if queues[of.connection] == nil {
			connections = append(connections, of.connection)
		}
		queues[of.connection] = append(queues[of.connection], ServedQueue{Name: of.Name()})
		served[of.Name()] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for i, connection := range connections {
		concurrency := max(1, share(w.o.Concurrency, i, len(connections)))
		server := w.server(connection)
		if server == nil {
			o := w.o
			o.Connection, o.Concurrency = connection, concurrency
			if connection == nil {
				o.URL = w.of.o.Queue.URL
			}
			worker, err := NewMultiWorker(ctx, w.handler, &MultiWorkerOptions{Worker: o, Queues: queues[connection]})
			if err != nil {
				errs = append(errs, err)
				continue
			}
			worker.sharded = true
			w.servers = append(w.servers, &shardServer{connection, worker})
			if w.start != nil {
				w.start(worker)
			}
			continue
		}
		errs = append(errs, server.worker.SetConcurrency(concurrency))
		for _, queue := range queues[connection] {
			errs = append(errs, server.worker.AddQueue(queue))
		}
	}
	for _, server := range w.servers {
		for _, name := range server.worker.Queues() {
			if !served[name] {
				server.worker.RemoveQueue(name)
			}
		}
	}
	return errors.Join(errs...)
}

// server returns the worker of a Connection, or nil. mu is held.
func (w *ShardedWorker) server(connection *Connection) *shardServer {
	for _, server := range w.servers {
		if server.connection == connection {
			return server
		}
	}
	return nil
}

// Run fetches jobs and runs them until ctx ends, as [Worker.Run] does. An error lists the
// unfinished jobs of each shard in an [*UnfinishedError] of its own. While a server can't be
// reached, the jobs of the others are run.
func (w *ShardedWorker) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	var errsMu sync.Mutex
	var errs []error
	w.mu.Lock()
	if w.started {
		w.mu.Unlock()
		return errors.New("bullmq: a worker can be run once, and this one has been run or closed")
	}
	w.started, w.stop = true, cancel
	w.start = func(worker *MultiWorker) {
		running.Go(func() {
			err := worker.Run(ctx)
			errsMu.Lock()
			defer errsMu.Unlock()
			errs = append(errs, err)
		})
	}
	for _, server := range w.servers {
		w.start(server.worker)
	}
	w.mu.Unlock()
	w.follow(ctx)
	running.Wait()
	return errors.Join(errs...)
}

// follow serves the shards of new generations until ctx ends.
func (w *ShardedWorker) follow(ctx context.Context) {
	review := time.NewTicker(timing.ShardReview)
	defer review.Stop()
	view, changed := w.of.watch()
	due := true  // the view may have changed before Run
	served := -1 // the number of the newest generation
	var faults faultLog
	for ctx.Err() == nil {
		if due {
			err := w.serve(ctx, view)
			if due = err != nil; due && ctx.Err() == nil {
				faults.write(w.of.log, slog.LevelWarn, false, "the shards of a new generation are not served yet; this is tried again every second", err)
			}
			if current := view.current(); !due && current.Number != served {
				served = current.Number
				w.of.log.Info("the worker serves the shards of the current generation", logGeneration, served, logShards, len(current.shards))
			}
		}
		select {
		case <-changed:
			view, changed = w.of.watch()
			due = true
		case <-review.C:
			_, _ = w.of.fresh(ctx) // starts to read the generations
		case <-ctx.Done():
		}
	}
}

// Close stops the worker, as [Worker.Close] does. It leaves the ShardedQueue open.
func (w *ShardedWorker) Close() error {
	w.end(func(worker *MultiWorker) { _ = worker.Close() })
	return nil
}

// Shutdown stops the worker, as [Worker.Shutdown] does.
func (w *ShardedWorker) Shutdown(ctx context.Context) error {
	var mu sync.Mutex
	var errs []error
	w.end(func(worker *MultiWorker) {
		err := worker.Shutdown(ctx)
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
	})
	return errors.Join(errs...)
}

// end stops the workers of all servers at the same time, by a call for each.
func (w *ShardedWorker) end(stop func(*MultiWorker)) {
	w.mu.Lock()
	w.started = true
	cancel := w.stop
	var calls []func()
	for _, server := range w.servers {
		calls = append(calls, func() { stop(server.worker) })
	}
	w.mu.Unlock()
	safe.Together(calls...)
	if cancel != nil {
		cancel()
	}
}

// Workers returns the worker of each server, for calls that ShardedWorker does not have, such
// as [MultiWorker.Pause].
func (w *ShardedWorker) Workers() []*MultiWorker {
	w.mu.Lock()
	defer w.mu.Unlock()
	workers := make([]*MultiWorker, len(w.servers))
	for i, server := range w.servers {
		workers[i] = server.worker
	}
	return workers
}

// CancelJob cancels the context of the handler that runs a job of a shard in this worker, as
// [MultiWorker.CancelJob] does.
func (w *ShardedWorker) CancelJob(queueName, jobID, reason string) bool {
	for _, worker := range w.Workers() {
		if worker.CancelJob(queueName, jobID, reason) {
			return true
		}
	}
	return false
}

// Health returns whether all servers can be reached. It makes no call. If several can't be
// reached, it is that of the first one.
func (w *ShardedWorker) Health() Health {
	var health Health
	for i, worker := range w.Workers() {
		if h := worker.Health(); i == 0 || !h.Reachable {
			if health = h; !h.Reachable {
				break
			}
		}
	}
	return health
}
