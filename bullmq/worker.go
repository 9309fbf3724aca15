package bullmq

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/batch"
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
	core        *core
	handler     Handler
	o           WorkerOptions
	id          string // first part of every lock token
	locks       *lockKeeper
	slots       *slots
	finishStore backend.Consumer // finishes jobs, for ends
	open        func()           // opens the first connection of finishStore
	ends        *batch.Batcher[backend.End, backend.Ended]
	readers     eventSubscribers

	mu      sync.Mutex
	started bool
	runner  *runner // nil before Run
	stop    context.CancelFunc
	ended   chan struct{}

	shutdown   context.Context // of the first Shutdown; nil while ShutdownTimeout applies
	unfinished error           // the error of Run; valid once ended is closed
	closed     context.Context // ends calls that wait, even over a client that others share
	close      context.CancelFunc
	tokens     atomic.Int64

	lastFault time.Time
	leftOut   int

	warnUnlimited sync.Once
	warnClosed    sync.Once

	queues  queueCache                     // of QueueFromContext
	failed  func(context.Context, Failure) // ServerOptions.OnFailed; nil without
	letters *deadLetters                   // nil without WorkerOptions.DeadLetters
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
	w := &Worker{core: c, o: o, id: uuid.NewString(), slots: newSlots(o.Concurrency), ended: make(chan struct{})}
	w.finishStore, w.open = c.dedicated()
	w.closed, w.close = context.WithCancel(context.Background())
	if o.DeadLetters != nil {
		if w.letters, err = newDeadLetters(w, *o.DeadLetters); err != nil {
			w.close()
			c.conn.Close()
			return nil, err
		}
	}
	w.locks = newLockKeeper(w)
	c.locks = w.locks
	w.ends = batch.New(batch.Options[backend.End, backend.Ended]{
		MaxSize: o.BatchSize, Timeout: timing.CallTimeout, SizeOf: sizeOfEnd, Send: w.finish,
	})
	c.progressed = func(job *Job, progress any) {
		w.emit(WorkerEvent{Type: EventProgress, Job: job, Value: progress})
	}
	return w, nil
}

// QueueName returns the name of the worker's queue, without its prefix.
func (w *Worker) QueueName() string { return w.core.keys.queue }

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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.mu.Lock()
	if w.started {
		w.mu.Unlock()
		return errors.New("bullmq: a worker can be run once, and this one has been run or closed")
	}
	w.started, w.stop, w.runner = true, cancel, newRunner(w)
	w.mu.Unlock()
	defer close(w.ended)
	go w.open()

	var parts []*safe.Background
	if !w.o.SkipLockRenewal {
		parts = append(parts, safe.Go(w.core.trace.outliving(ctx), w.locks.run))
	}
	parts = append(parts, safe.Go(w.core.trace.outliving(ctx), newCancelWatch(w).run))
	checked := make(chan struct{})
	if w.o.SkipStalledCheck {
		close(checked)
	} else {
		parts = append(parts, safe.Go(ctx, func(ctx context.Context) { w.runStalledCheck(ctx, checked) }))
	}
	if w.letters != nil {
		parts = append(parts, safe.Go(w.core.trace.outliving(ctx), w.letters.run))
	}
	w.core.log.Info("the worker runs", logConcurrency, w.Concurrency())
	deadline, err := w.runner.run(ctx)
	w.unfinished = err
	for _, p := range parts {
		p.Cancel()
	}
	if w.letters != nil {
		w.letters.finish(deadline)
	}
	// Closing the client ends a call that gets no reply; let the first stalled check finish before.
	select {
	case <-checked:
	case <-time.After(min(timing.FirstStalledCheckWait, time.Until(deadline))):
	}
	w.close()
	w.queues.close()
	safe.Together(w.runner.waiter.Close, w.core.conn.Close)
	deadline = deadline.Add(timing.ClosingTime)
	for _, p := range parts {
		p.Wait(deadline)
	}
	w.emitAsync(EventClosed).Wait(deadline)
	w.core.log.Info("the worker has stopped")
	return err
}

// Close stops the worker. A running worker stops as if Run's context had ended,
// and Close returns when Run does. Close always returns nil. The error of Run lists
// jobs that did not finish.
//
// Do not call Close from a handler or a function in Events: Run waits for these
// functions until ShutdownTimeout has passed. Cancel Run's context instead.
func (w *Worker) Close() error {
	w.mu.Lock()
	running := w.started
	w.started = true
	stop := w.stop
	w.mu.Unlock()
	if !running {
		span := w.startClose(context.Background())
		defer span.end(nil)
		setAttr(span, attrWorkerForceClose, false)
		deadline := w.stopDeadline()
		w.emitAsync(EventClosing).Wait(deadline)
		w.close()
		w.core.conn.Close()
		w.emitAsync(EventClosed).Wait(deadline.Add(timing.ClosingTime))
		close(w.ended)
		return nil
	}
	if stop != nil {
		stop()
	}
	<-w.ended
	return nil
}

// Shutdown stops the worker as [Worker.Close] does, but waits for running jobs
// until ctx ends, not for ShutdownTimeout. Without a deadline it waits until all
// jobs have finished. If the worker is already stopping, ShutdownTimeout still
// applies too.
//
// The handlers' contexts are cancelled with the cause [ErrShutdown] before the deadline
// of ctx: when a tenth of the time is left, or a second if that is less. If ctx is
// cancelled earlier, they are cancelled at once, and the handlers have up to a
// second to return.
//
// Shutdown returns the error of [Worker.Run]: nil if all jobs finished, and an
// [*UnfinishedError] if some did not. Do not call it from a handler.
func (w *Worker) Shutdown(ctx context.Context) error {
	w.mu.Lock()
	r := w.runner
	if w.shutdown == nil {
		w.shutdown = ctx
	}
	w.mu.Unlock()
	if r != nil {
		defer r.endBy(ctx)()
	}
	_ = w.Close()
	return w.unfinished
}

// hasShutdown reports whether Shutdown was called.
func (w *Worker) hasShutdown() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shutdown != nil
}

// stopDeadline returns the deadline of a stop that begins now. If Shutdown was
// called without a deadline, ShutdownTimeout still bounds the wait for the user's
// functions.
func (w *Worker) stopDeadline() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.shutdown != nil {
		if deadline, bounded := w.shutdown.Deadline(); bounded {
			return deadline
		}
	}
	return time.Now().Add(w.o.ShutdownTimeout)
}

// nameSuffix returns the part of the connection's name that holds the worker's name.
func (w *Worker) nameSuffix() string {
	if w.o.Name == "" {
		return ""
	}
	return ":w:" + w.o.Name
}

// backendWorker returns the worker's options that fetching a job needs.
func (w *Worker) backendWorker() backend.Worker {
	b := backend.Worker{LockDuration: w.o.LockDuration, Name: w.o.Name}
	if w.o.Limiter != nil {
		b.Limit = backend.RateLimit(*w.o.Limiter)
	}
	return b
}

// token returns a new lock token for a sequence of jobs that one slot runs.
func (w *Worker) token() string {
	return w.id + ":" + strconv.FormatInt(w.tokens.Add(1), 10)
}

// guard calls a function of the user. It recovers a panic and logs it.
func (w *Worker) guard(name string, call func()) {
	if r, stack := safe.Call(call); r != nil {
		w.core.log.Error("a function given to the worker panicked; the worker continues without its result; fix the function",
			logFunction, name, logPanic, fmt.Sprint(r), logStack, stack)
	}
}
