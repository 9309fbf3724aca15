package bullmq

import (
	"context"
	"fmt"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/safe"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// Handler runs a job. The returned value is stored as the job's return value, as
// JSON. An error fails the attempt, and the job is retried while attempts are left.
// [Unrecoverable], [Snooze], [RateLimit], [ErrWaitForChildren] and the ErrMoved… errors
// have other effects, which their comments describe.
//
// ctx is cancelled when the job's lock is lost, when the job is cancelled, or
// shortly before the worker stops waiting for the handler. context.Cause returns the
// reason: [ErrLockLost], a [*CancelledError] or [ErrShutdown].
type Handler func(ctx context.Context, job *Job) (any, error)

// Worker runs the jobs of a queue (BullMQ: Worker). It is safe for concurrent
// use.
type Worker struct {
	host
	queueWorker
	feed       *queueFeed
	letterLoop *letterLoop // nil without WorkerOptions.DeadLetters
}

// NewWorker connects to a queue and returns a Worker. Call [Worker.Run] to run
// jobs. ctx bounds this call only. The Worker lives until Run returns or
// [Worker.Close] is called. options may be nil. A program that fetches jobs in a
// loop of its own uses a [Fetcher].
func NewWorker(ctx context.Context, queueName string, handler Handler, options *WorkerOptions) (*Worker, error) {
	if handler == nil {
		return nil, fmt.Errorf("bullmq: worker of queue %s: the handler is nil; give NewWorker a Handler, or fetch jobs in a loop of your own with NewFetcher", queueName)
	}
	var o WorkerOptions
	if options != nil {
		o = *options
	}
	w, err := newEngine(ctx, "worker", queueName, o)
	if err != nil {
		return nil, err
	}
	w.handler = handler
	return w, nil
}

// newEngine returns a Worker without a handler, which a Fetcher can use but Run
// can't.
func newEngine(ctx context.Context, kind, queueName string, o WorkerOptions) (*Worker, error) {
	if err := o.fill(); err != nil {
		return nil, fmt.Errorf("bullmq: %s of queue %s: %w", kind, queueName, err)
	}
	log := o.Logger.with(logQueue, queueName)
	if o.Name != "" {
		log = log.With(logWorker, o.Name)
	}
	c, err := newCore(ctx, queueName, o.Prefix, o.Connection, o.URL, o.Now, o.Dialect, log)
	if err != nil {
		return nil, err
	}
	c.trace.telemetry = o.Telemetry
	c.watchHealth(o.OnHealth)
	w := &Worker{}
	w.host.init(c, &o)
	w.host.queueName = queueName
	w.queueWorker.init(&w.host, c, o)
	w.feed = newQueueFeed(&w.queueWorker)
	w.source = w.feed
	if o.DeadLetters != nil {
		if err = w.prepareLetters(*o.DeadLetters); err != nil {
			w.close()
			c.conn.Close()
			return nil, err
		}
	}
	return w, nil
}

// Run fetches jobs and runs them until ctx ends. It then fetches no more jobs and
// waits for the running ones, whose locks are still renewed, for at most
// ShutdownTimeout. The worker is closed when Run returns. A worker can be run once.
//
// Run returns nil if all jobs finished, and an [*UnfinishedError] if some did not.
// After about LockDuration, the stalled check of another worker returns those jobs
// to the queue.
//
// An outage of Redis does not end Run. The worker logs it and retries until Redis
// is reachable again.
func (w *Worker) Run(ctx context.Context) error {
	return w.run(ctx, w.feed, w.upkeep)
}

// upkeep starts the loops that run beside the jobs. end is called when no job runs any
// more. It returns by the deadline.
func (w *Worker) upkeep(ctx context.Context) (loops []*safe.Background, end func(deadline time.Time)) {
	outliving := w.core.trace.outliving(ctx)
	if !w.o.SkipLockRenewal {
		loops = append(loops, safe.Go(outliving, w.locks.run))
	}
	loops = append(loops, safe.Go(outliving, newCancelWatch(&w.queueWorker).run))
	checked := make(chan struct{})
	if w.o.SkipStalledCheck {
		close(checked)
	} else {
		loops = append(loops, safe.Go(ctx, func(ctx context.Context) { w.runStalledCheck(ctx, checked) }))
	}
	if w.letterLoop != nil {
		loops = append(loops, safe.Go(outliving, w.letterLoop.run))
	}
	registration := startRegistration(ctx, &w.host, w.QueueName(), func() []string { return []string{w.QueueName()} }, nil, w.feed.connections)
	if registration != nil {
		loops = append(loops, registration.loop)
	}
	return loops, func(deadline time.Time) {
		registration.end(deadline)
		if w.letterLoop != nil {
			w.letterLoop.finish(deadline)
		}
		// Closing the client ends a call that gets no reply; let the first stalled check finish before.
		select {
		case <-checked:
		case <-time.After(min(timing.FirstStalledCheckWait, time.Until(deadline))):
		}
	}
}
