package bullmq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/safe"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// host is the part of a worker that concerns the process: its slots, its pause, its events,
// its start and its stop. Together with one [queueWorker] it is a [Worker], and with many
// a [MultiWorker].
type host struct {
	home      *core        // its connection and tracer are the worker's
	log       *slog.Logger // of lines about the worker; with many queues they name some
	queueName string       // of its only queue; "" with many
	options   *WorkerOptions
	id        string // first part of every lock token
	slots     *slots
	readers   eventSubscribers
	queues    queueCache                     // of QueueFromContext
	failed    func(context.Context, Failure) // ServerOptions.OnFailed; nil without
	routed    string                         // the queue of which it serves all routes that it satisfies; "" for others
	sharded   bool                           // its queues are shards, whose jobs can't have a target

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

	faults     faultLog
	warnClosed sync.Once
}

// init prepares a host that uses the connection of a queue.
func (h *host) init(home *core, options *WorkerOptions) {
	h.home, h.log, h.options, h.id = home, home.log, options, uuid.NewString()
	h.slots, h.ended = newSlots(options.Concurrency), make(chan struct{})
	h.closed, h.close = context.WithCancel(context.Background())
}

// run is the Run of a worker. upkeep starts loops that run beside the jobs; see
// [Worker.upkeep].
func (h *host) run(ctx context.Context, f feed, upkeep func(context.Context) ([]*safe.Background, func(time.Time))) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h.mu.Lock()
	if h.started {
		h.mu.Unlock()
		return errors.New("bullmq: a worker can be run once, and this one has been run or closed")
	}
	r := newRunner(h, f)
	h.started, h.stop, h.runner = true, cancel, r
	h.mu.Unlock()
	defer close(h.ended)
	loops, end := upkeep(ctx)
	h.log.Info("the worker runs", logConcurrency, h.Concurrency())
	deadline, err := r.run(ctx)
	h.unfinished = err
	for _, loop := range loops {
		loop.Cancel()
	}
	end(deadline)
	h.close()
	h.queues.close()
	safe.Together(f.close, h.home.conn.Close)
	deadline = deadline.Add(timing.ClosingTime)
	for _, loop := range loops {
		loop.Wait(deadline)
	}
	h.emitAsync(EventClosed).Wait(deadline)
	h.log.Info("the worker has stopped")
	return err
}

// Close stops the worker. A running worker stops as if Run's context had ended,
// and Close returns when Run does. Close always returns nil. The error of Run lists
// jobs that did not finish.
//
// Do not call Close from a handler or a function in Events: Run waits for these
// functions until ShutdownTimeout has passed. Cancel Run's context instead.
func (h *host) Close() error {
	h.mu.Lock()
	running := h.started
	h.started = true
	stop := h.stop
	h.mu.Unlock()
	if !running {
		span := h.startClose(context.Background())
		defer span.end(nil)
		setAttr(span, attrWorkerForceClose, false)
		deadline := h.stopDeadline()
		h.emitAsync(EventClosing).Wait(deadline)
		h.close()
		h.home.conn.Close()
		h.emitAsync(EventClosed).Wait(deadline.Add(timing.ClosingTime))
		close(h.ended)
		return nil
	}
	if stop != nil {
		stop()
	}
	<-h.ended
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
func (h *host) Shutdown(ctx context.Context) error {
	h.mu.Lock()
	r := h.runner
	if h.shutdown == nil {
		h.shutdown = ctx
	}
	h.mu.Unlock()
	if r != nil {
		defer r.endBy(ctx)()
	}
	_ = h.Close()
	return h.unfinished
}

// hasShutdown reports whether Shutdown was called.
func (h *host) hasShutdown() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.shutdown != nil
}

// stopDeadline returns the deadline of a stop that begins now. If Shutdown was
// called without a deadline, ShutdownTimeout still bounds the wait for the user's
// functions.
func (h *host) stopDeadline() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.shutdown != nil {
		if deadline, bounded := h.shutdown.Deadline(); bounded {
			return deadline
		}
	}
	return time.Now().Add(h.options.ShutdownTimeout)
}

// title names the worker in errors.
func (h *host) title() string {
	if h.queueName == "" {
		return "worker of many queues"
	}
	return "worker of queue " + h.queueName
}

// nameSuffix returns the part of the connection's name that holds the worker's name.
func (h *host) nameSuffix() string {
	if h.options.Name == "" {
		return ""
	}
	return ":w:" + h.options.Name
}

// token returns a new lock token for a sequence of jobs that one slot runs.
func (h *host) token() string {
	return h.id + ":" + strconv.FormatInt(h.tokens.Add(1), 10)
}

// guard calls a function of the user. It recovers a panic and logs it.
func (h *host) guard(name string, call func()) {
	if r, stack := safe.Call(call); r != nil {
		h.log.Error("a function given to the worker panicked; the worker continues without its result; fix the function",
			logFunction, name, logPanic, fmt.Sprint(r), logStack, stack)
	}
}
