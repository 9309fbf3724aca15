package bullmq

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/turns"
)

// MultiWorkerOptions configures a [MultiWorker].
type MultiWorkerOptions struct {
	// Worker are the options of all queues, as of a [Worker]. Concurrency is the number of
	// jobs of all queues together that run at the same time. Limiter, KeepCompleted,
	// KeepFailed and MetricsPoints apply to each queue on its own. Dialect is detected for
	// each queue unless it is set. DeadLetters moves the failed jobs of all queues to one
	// queue. If the worker serves that queue too, the failed jobs of that queue stay in it.
	// Events.Stalled, Events.LocksRenewed and Events.LocksLost get the ids of jobs without
	// their queue. Use [MultiWorker.Events] to know the queue.
	Worker WorkerOptions
	// Queues are the queues from the start on. Strict obeys their order.
	// [MultiWorker.AddQueue] adds others. Queues may be empty if Registry is set.
	Queues []ServedQueue
	// Registry is the name of a [Registry], with the same prefix. The worker also serves the
	// queues of the registry, each from its registration until it leaves the registry.
	// Defaults to none.
	Registry string
	// Accept reports whether the worker serves a queue of the Registry, and how. The Name of
	// the ServedQueue is not used. The worker calls Accept once when a queue enters the
	// registry. Accept should return soon, because other new queues wait for it.
	// Defaults to all queues, each with weight 1.
	Accept func(queueName string) (ServedQueue, bool)
	// Strict serves the queues in their order. A job starts only if no queue before its own
	// has a job that may start. Queues that are added later come last.
	// Defaults to false: the queues take turns, by Weight.
	Strict bool
	// QueueConcurrency is the number of jobs of one queue that this worker runs at the same
	// time. ServedQueue.Concurrency overrides it.
	// Defaults to 0, no limit besides Worker.Concurrency.
	QueueConcurrency int
	// Burst is the number of jobs of a queue that start in its turn while other queues have
	// jobs too. With 1 the turns are exact. A higher number costs Redis less.
	// Defaults to an eighth of Worker.Concurrency, at least 4.
	Burst int
}

// ServedQueue is a queue of a [MultiWorker].
type ServedQueue struct {
	Name string
	// Weight is the share of the starts that the queue gets while other queues have jobs
	// too. A queue with weight 3 starts three times as many jobs as one with weight 1.
	// Defaults to 1.
	Weight int
	// Concurrency is the number of jobs of the queue that this worker runs at the same time.
	// Defaults to MultiWorkerOptions.QueueConcurrency.
	Concurrency int
	// Limiter limits how many jobs of the queue start within a period.
	// Defaults to the Limiter of MultiWorkerOptions.Worker.
	Limiter *Limiter
	// Handler runs the jobs of the queue.
	// Defaults to the handler of the MultiWorker.
	Handler Handler

	rank int // queues with a lower one come first; used without MultiWorkerOptions.Strict
}

// fill checks the options and sets the defaults.
func (o *MultiWorkerOptions) fill() error {
	if err := o.Worker.fill(); err != nil {
		return err
	}
	if o.Worker.Prefix == "" {
		o.Worker.Prefix = DefaultPrefix
	}
	switch {
	case len(o.Queues) == 0 && o.Registry == "":
		return errors.New("Queues is empty; name at least one queue, or set Registry")
	case o.Accept != nil && o.Registry == "":
		return errors.New("the option Accept is set without a Registry, whose queues it selects")
	case o.Registry != "" && checkNames(o.Worker.Prefix, o.Registry) != nil:
		return checkNames(o.Worker.Prefix, o.Registry)
	case o.QueueConcurrency < 0:
		return fmt.Errorf("QueueConcurrency %d is negative; 0 means no limit", o.QueueConcurrency)
	case o.Burst < 0:
		return fmt.Errorf("the Burst %d is less than 1", o.Burst)
	}
	o.Burst = cmp.Or(o.Burst, max(4, o.Worker.Concurrency/8))
	return nil
}

// check returns an error if a queue can't be served. handler is that of the MultiWorker.
func (o *MultiWorkerOptions) check(q ServedQueue, handler Handler) error {
	if err := checkNames(o.Worker.Prefix, q.Name); err != nil {
		return err
	}
	switch {
	case q.Weight < 0:
		return fmt.Errorf("bullmq: queue %s: Weight %d is less than 1", q.Name, q.Weight)
	case q.Concurrency < 0:
		return fmt.Errorf("bullmq: queue %s: Concurrency %d is negative; 0 means the QueueConcurrency of the worker", q.Name, q.Concurrency)
	case q.Handler == nil && handler == nil:
		return fmt.Errorf("bullmq: queue %s: the handler is nil; set ServedQueue.Handler, or give NewMultiWorker a Handler for all queues", q.Name)
	case q.Limiter != nil:
		if err := q.Limiter.check(); err != nil {
			return fmt.Errorf("bullmq: queue %s: %w", q.Name, err)
		}
	}
	return nil
}

// share returns how a queue shares the slots with the others.
func (o *MultiWorkerOptions) share(m *memberQueue) turns.Share[*queueGroup] {
	share := turns.Share[*queueGroup]{Weight: m.spec.Weight, Bound: cmp.Or(m.spec.Concurrency, o.QueueConcurrency), Group: m.group}
	share.Rank = m.spec.rank
	if o.Strict {
		share.Rank = m.rank
	}
	return share
}

// summary returns the names of the first queues, and the registry, for log lines.
func (o *MultiWorkerOptions) summary() string {
	const shown = 3
	var names []string
	for i, q := range o.Queues {
		if i == shown {
			names = append(names, fmt.Sprintf("%d more", len(o.Queues)-shown))
			break
		}
		names = append(names, q.Name)
	}
	if o.Registry != "" {
		names = append(names, "those of registry "+o.Registry)
	}
	return strings.Join(names, ", ")
}
