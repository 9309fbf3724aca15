package bullmq

import (
	"sync"
	"sync/atomic"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// queueWorker is the part of a worker that belongs to one queue: the queue's store, the
// handler and options of its jobs, and the locks that are held. It shares the host with
// the other queues of the worker, if it has several.
type queueWorker struct {
	*host
	core    *core
	handler Handler // nil for a Fetcher
	o       WorkerOptions
	source  source
	limiter atomic.Pointer[Limiter] // nil for none
	locks   *lockKeeper
	letters *deadLetters // nil if failed jobs stay in the queue
	routes  *routes      // to which jobs with a target move; nil in a route

	warnUnlimited sync.Once
}

// init makes w work on the queue of a core. It makes no call.
func (w *queueWorker) init(h *host, c *core, o WorkerOptions) {
	w.host, w.core, w.o = h, c, o
	w.limiter.Store(o.Limiter)
	w.locks = newLockKeeper(w)
	if _, _, isRoute := parseRoute(c.keys.queue); !isRoute {
		w.routes = &routes{core: c}
	}
	c.locks = w.locks
	c.progressed = func(job *Job, progress any) {
		w.emit(WorkerEvent{Type: EventProgress, Job: job, Value: progress})
	}
}

// QueueName returns the name of the worker's queue, without its prefix.
func (w *queueWorker) QueueName() string { return w.core.keys.queue }

// backendWorker returns the worker's options that fetching a job needs.
func (w *queueWorker) backendWorker() backend.Worker {
	b := backend.Worker{LockDuration: w.o.LockDuration, Name: w.o.Name}
	if limiter := w.limiter.Load(); limiter != nil {
		b.Limit = backend.RateLimit(*limiter)
	}
	return b
}
