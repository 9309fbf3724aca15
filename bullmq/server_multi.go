package bullmq

import (
	"context"
	"slices"
)

// servedMany are queues to serve with one worker.
type servedMany struct {
	handler Handler
	options MultiWorkerOptions
}

// names returns the names of the queues.
func (q servedMany) names() (names []string) {
	for _, queue := range q.options.Queues {
		names = append(names, queue.Name)
	}
	return names
}

// HandleQueues registers many queues, which one [MultiWorker] serves. handler runs the jobs
// of all queues that have no ServedQueue.Handler. It may be nil if each queue has one. The
// URL of options.Worker must not be set, and its Connection may be that of the Server.
// HandleQueues panics if the Server runs already.
//
// ServerOptions.QueueNames selects a Registry of the options by the name of the registry.
func (s *Server) HandleQueues(handler Handler, options *MultiWorkerOptions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != serverNew {
		panic("bullmq: serve many queues: the server runs already")
	}
	var q servedMany
	if options != nil {
		q.options = *options
	}
	if handler != nil {
		q.handler = Wrap(handler, s.o.Middleware...)
	}
	q.options.Queues = slices.Clone(q.options.Queues)
	for i, queue := range q.options.Queues {
		if queue.Handler != nil {
			q.options.Queues[i].Handler = Wrap(queue.Handler, s.o.Middleware...)
		}
	}
	if accept := q.options.Accept; accept != nil {
		q.options.Accept = func(queueName string) (ServedQueue, bool) {
			queue, accepted := accept(queueName)
			if queue.Handler != nil {
				queue.Handler = Wrap(queue.Handler, s.o.Middleware...)
			}
			return queue, accepted
		}
	}
	s.many = append(s.many, q)
}

// selectMany leaves the queues and registries of QueueNames.
func (s *Server) selectMany() {
	for i := range s.many {
		o := &s.many[i].options
		o.Queues = slices.DeleteFunc(o.Queues, func(q ServedQueue) bool { return !slices.Contains(s.o.QueueNames, q.Name) })
		if !slices.Contains(s.o.QueueNames, o.Registry) {
			o.Registry, o.Accept = "", nil
		}
	}
	s.many = slices.DeleteFunc(s.many, func(q servedMany) bool { return len(q.options.Queues) == 0 && q.options.Registry == "" })
}

// openMany opens the worker of many queues.
func (s *Server) openMany(ctx context.Context, q servedMany) (*MultiWorker, error) {
	first := q.options.Registry
	if len(q.options.Queues) > 0 {
		first = q.options.Queues[0].Name
	}
	var err error
	if q.options.Worker, err = s.options(first, q.options.Worker); err != nil {
		return nil, err
	}
	worker, err := NewMultiWorker(ctx, q.handler, &q.options)
	if err != nil {
		return nil, err
	}
	worker.failed = s.o.OnFailed
	return worker, nil
}

// MultiWorkers returns the workers of the calls of [Server.HandleQueues], in their order,
// once [Server.Run] has opened them. Middleware wraps the handler of HandleQueues. It does
// not wrap a handler that [MultiWorker.AddQueue] gets.
func (s *Server) MultiWorkers() []*MultiWorker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.multis)
}
