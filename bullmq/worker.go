package bullmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/batch"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/safe"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
	"github.com/17a2ac88/bullmq-go/bullmq/scripts"
)

// Handler runs a job. What it returns becomes the job's return value, as JSON;
// an error makes the job fail, and be tried again while attempts are left.
// Unrecoverable, Snooze, RateLimit and the ErrMoved… errors say something else.
// The context ends, with a cause, when the job's lock is lost, the job is
// cancelled, or the worker gives up waiting for it: context.Cause tells which.
type Handler func(ctx context.Context, job *Job) (any, error)

// Limiter bounds how many jobs start within a time, over all workers of the
// queue (BullMQ: limiter).
//
// It counts in fixed windows: the first job that starts opens a window of
// Duration, in which Max jobs may start, and the next job after its end opens
// another. So up to 2*Max-1 jobs may start within one Duration that lies across
// two windows.
type Limiter struct {
	Max      int           // at least 1
	Duration time.Duration // whole milliseconds
}

func (l Limiter) check() error {
	if l.Max < 1 || l.Duration < time.Millisecond {
		return fmt.Errorf("Limiter needs a Max of at least 1 and a Duration of at least a millisecond, not %d and %v", l.Max, l.Duration)
	}
	return checkMillis("Limiter.Duration", l.Duration, time.Millisecond)
}

// WorkerOptions configure a Worker; nil and the zero value hold the defaults.
type WorkerOptions struct {
	// Connection is shared with others that use it. Whoever made it closes it.
	// Defaults to a connection of its own, to URL.
	Connection *Connection
	// URL is the address of Redis, for a connection of its own, instead of a
	// Connection. It is printed as it is, with a password.
	// Defaults to [DefaultURL].
	URL string
	// Prefix is the first part of all keys, the same on all clients; "bull"
	// unless given.
	Prefix string
	// Dialect is the version of BullMQ that the queue is to look like; found out
	// unless given.
	Dialect Dialect
	// Name is shown beside the jobs it ran (field pb) and in the list of
	// workers. Redis lists no name with spaces, or of others than ASCII
	// characters: such a worker runs, and can't be seen.
	Name string
	// Concurrency is how many jobs run at once; 1 unless given. SetConcurrency
	// changes it later.
	Concurrency int

	// BatchSize is how many jobs one call to Redis ends, and takes, at most; 100
	// unless given. Those that end while a call is under way share the next one,
	// and none waits for others: with 1 each has a call of its own.
	BatchSize int

	// LockDuration is how long a job is the worker's own without renewal; 30 s
	// unless given. A worker that dies holds a job up for about that long.
	LockDuration time.Duration
	// LockRenewTime is the age at which a lock is renewed; half of LockDuration
	// unless given.
	LockRenewTime time.Duration
	// SkipLockRenewal leaves locks to expire; for jobs known to be short.
	SkipLockRenewal bool
	// StalledInterval is the time between checks for jobs whose worker is gone,
	// over all workers; 30 s unless given.
	StalledInterval time.Duration
	// MaxStalledCount is how often a job may lose its worker before it fails;
	// 1 when nil, new(0) for never.
	MaxStalledCount *int
	// SkipStalledCheck leaves the check to other workers.
	SkipStalledCheck bool
	// MaxStartedAttempts fails a job that was started more often than that,
	// whatever ended it; 0 for no bound.
	MaxStartedAttempts int

	// DrainDelay is how long an idle worker waits to be woken before it looks by
	// itself; 5 s unless given.
	DrainDelay time.Duration
	// Limiter bounds how many jobs start in a time.
	Limiter *Limiter
	// MaximumRateLimitDelay is the longest wait between two looks while the rate
	// limit holds; 30 s unless given.
	MaximumRateLimitDelay time.Duration
	// KeepCompleted and KeepFailed hold for jobs that say nothing themselves.
	KeepCompleted Retention
	KeepFailed    Retention
	// MetricsPoints is how many minutes of counts are kept; 0 collects none
	// (BullMQ: metrics.maxDataPoints).
	MetricsPoints int

	// BackoffStrategy computes waits for jobs with a backoff of another type
	// than fixed and exponential.
	BackoffStrategy BackoffStrategy
	// Classify judges an error that no sentinel of this package judges: whether
	// another attempt makes sense, and when.
	Classify func(err error, job *Job) Verdict

	// ShutdownTimeout is how long Run waits for running jobs once its context
	// has ended or Close was called; 30 s unless given. Worker.Shutdown sets a
	// bound of its own. Shortly before it is over (a tenth of it, a
	// second at most) the handlers' contexts end, with the cause ErrShutdown.
	ShutdownTimeout time.Duration

	// Events are called as things happen; see WorkerEvents.
	Events WorkerEvents
	// OnHealth is called when Redis gets out of reach and when it is back, one
	// call at a time.
	OnHealth func(Health)
	// Telemetry traces and measures what the worker does; nothing unless given.
	Telemetry Telemetry
	// Logger receives log lines. Defaults to none.
	Logger Logger
	// Now is the clock; time.Now unless given. For tests.
	Now func() time.Time
}

// Worker runs the jobs of a queue (BullMQ: Worker).
type Worker struct {
	core        *core
	handler     Handler
	o           WorkerOptions
	id          string // first part of every lock token
	locks       *lockKeeper
	slots       *slots
	finishStore *scripts.Store // for the calls of ends
	open        func()         // opens its first connection
	ends        *batch.Batcher[scripts.End, scripts.Ended]
	readers     eventReaders

	mu      sync.Mutex
	started bool
	runner  *runner // nil before Run
	stop    context.CancelFunc
	ended   chan struct{}

	shutdown   context.Context // of the first Shutdown; nil while ShutdownTimeout bounds the stop
	unfinished error           // what Run returns; to be read once ended is closed
	closed     context.Context // for those who wait for a job by hand
	close      context.CancelFunc
	tokens     atomic.Int64

	lastFault time.Time
	leftOut   int

	warnUnlimited sync.Once
}

// NewWorker connects to a queue; jobs are taken once Run is called. ctx bounds
// the call, not the Worker's life, which Run and Close do. handler
// may be nil for a worker that only takes jobs by hand, with GetNextJob.
func NewWorker(ctx context.Context, queue string, handler Handler, options *WorkerOptions) (*Worker, error) {
	var o WorkerOptions
	if options != nil {
		o = *options
	}
	if err := o.fill(); err != nil {
		return nil, fmt.Errorf("bullmq: worker of queue %s: %w", queue, err)
	}
	log := o.Logger.with(logQueue, queue)
	if o.Name != "" {
		log = log.With(logWorker, o.Name)
	}
	c, err := newCore(ctx, queue, o.Prefix, o.Connection, o.URL, o.Now, o.Dialect, log)
	if err != nil {
		return nil, err
	}
	c.trace.telemetry = o.Telemetry
	c.watchHealth(o.OnHealth)
	w := &Worker{core: c, handler: handler, o: o, id: uuid.NewString(), slots: newSlots(o.Concurrency), ended: make(chan struct{})}
	w.finishStore, w.open = c.dedicated()
	w.closed, w.close = context.WithCancel(context.Background())
	w.locks = newLockKeeper(w)
	c.locks = w.locks
	w.ends = batch.New(batch.Options[scripts.End, scripts.Ended]{
		MaxSize: o.BatchSize, Timeout: timing.CallTimeout, SizeOf: sizeOfEnd, Send: w.finish,
	})
	c.progressed = func(job *Job, progress any) {
		w.emit(WorkerEvent{Type: EventProgress, Job: job, Value: progress})
	}
	return w, nil
}

// fill checks the options and puts in the defaults.
func (o *WorkerOptions) fill() error {
	type duration struct {
		name     string
		value    *time.Duration
		standard time.Duration
	}
	for _, d := range []duration{
		{"LockDuration", &o.LockDuration, 30 * time.Second},
		{"StalledInterval", &o.StalledInterval, 30 * time.Second},
		{"DrainDelay", &o.DrainDelay, 5 * time.Second},
		{"MaximumRateLimitDelay", &o.MaximumRateLimitDelay, 30 * time.Second},
		{"ShutdownTimeout", &o.ShutdownTimeout, 30 * time.Second},
	} {
		if *d.value == 0 {
			*d.value = d.standard
		}
		if err := checkMillis(d.name, *d.value, time.Millisecond); err != nil {
			return err
		}
	}
	if err := checkMillis("LockRenewTime", o.LockRenewTime, 0); err != nil {
		return err
	}
	if o.LockRenewTime == 0 {
		o.LockRenewTime = o.LockDuration / 2
	}
	if o.LockRenewTime >= o.LockDuration {
		return fmt.Errorf("LockRenewTime %v must be shorter than LockDuration %v", o.LockRenewTime, o.LockDuration)
	}
	if o.Concurrency == 0 {
		o.Concurrency = 1
	}
	if o.Concurrency < 0 {
		return fmt.Errorf("Concurrency %d is less than 1", o.Concurrency)
	}
	if o.MaxStalledCount == nil {
		o.MaxStalledCount = new(1)
	}
	if o.Limiter != nil {
		if err := o.Limiter.check(); err != nil {
			return err
		}
	}
	return cmp.Or(
		checkBatchSize(&o.BatchSize), checkText("Name", o.Name),
		checkCount("MaxStalledCount", *o.MaxStalledCount, "that a job fails when it stalls once"),
		checkCount("MaxStartedAttempts", o.MaxStartedAttempts, "no bound"),
		checkCount("MetricsPoints", o.MetricsPoints, "that none are collected"),
		o.KeepCompleted.check("KeepCompleted"), o.KeepFailed.check("KeepFailed"),
	)
}

// Queue is the name of the worker's queue.
func (w *Worker) QueueName() string { return w.core.keys.queue }

// Run takes jobs and runs them until ctx ends. Then no new job is taken, and
// those that run keep their locks until they are done, for at most
// ShutdownTimeout. It answers nil when all were done, and an
// *UnfinishedError when it left jobs behind: after about LockDuration the
// stalled check gives them to another worker. The worker is closed afterwards.
//
// Redis being out of reach does not end Run: it logs, waits and goes on.
func (w *Worker) Run(ctx context.Context) error {
	if w.handler == nil {
		return errors.New("bullmq: the worker has no handler to run jobs with; give NewWorker one, or take jobs by GetNextJob")
	}
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
	looked := make(chan struct{})
	if w.o.SkipStalledCheck {
		close(looked)
	} else {
		parts = append(parts, safe.Go(ctx, func(ctx context.Context) { w.runStalledCheck(ctx, looked) }))
	}
	deadline, err := w.runner.run(ctx)
	w.unfinished = err
	for _, p := range parts {
		p.Cancel()
	}
	// A call to which Redis doesn't answer ends with its connection; the first check has a moment more.
	select {
	case <-looked:
	case <-time.After(min(time.Second, time.Until(deadline))):
	}
	w.close()
	safe.Together(w.runner.waiter.Close, w.core.conn.Close)
	deadline = deadline.Add(timing.ClosingTime)
	for _, p := range parts {
		p.Wait(deadline)
	}
	w.emitAsync(EventClosed).Wait(deadline)
	return err
}

// Close ends the worker. A worker that runs stops as if Run's context had
// ended, and Close returns when Run does. Close returns nil; the error of Run
// tells which jobs were left behind. Run waits for the handlers and for
// the functions in Events, so one of these that called Close would be waited
// for until ShutdownTimeout is over: it ends Run's context instead.
func (w *Worker) Close() error {
	w.mu.Lock()
	running := w.started
	w.started = true
	stop := w.stop
	w.mu.Unlock()
	if !running {
		span := w.startClose(context.Background())
		defer span.done()
		set(span, attrWorkerForceClose, false)
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

// Shutdown stops the worker as Close does, but waits for the running jobs until
// ctx ends instead of for ShutdownTimeout. Without a deadline it waits until they
// are done. A stop that is under way already remains bound by ShutdownTimeout too.
//
// The handlers' contexts end, with the cause ErrShutdown, shortly before the
// deadline of ctx (a tenth of the time left, a second at most). If ctx is cancelled
// earlier they end at that moment, and the handlers have up to a second to return.
//
// Shutdown returns what Run returns: nil when all jobs were done, and an
// *UnfinishedError when jobs were left behind. As with Close, a handler must not
// call it.
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

// hasShutdown reports whether Shutdown bounds the stop.
func (w *Worker) hasShutdown() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shutdown != nil
}

// stopDeadline returns when a stop that begins now is to be over. Without a
// deadline for the jobs, ShutdownTimeout still bounds the wait for functions of
// the user's.
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

// RateLimit stops the queue for a time, for all workers that have a limiter, of
// their own or global; others go on, see the error [RateLimit]. A handler that has
// called it returns [ErrRateLimited], or does both at once with that error
// (BullMQ: worker.rateLimit).
func (w *Worker) RateLimit(ctx context.Context, wait time.Duration) (err error) {
	ctx, span := w.core.trace.start(ctx, SpanInternal, "rateLimit")
	defer span.end(&err)
	w.describe(span)
	set(span, attrWorkerRateLimit, wait.Milliseconds())
	return w.core.rateLimit(ctx, wait)
}

// UnfinishedError is returned by [Worker.Run] and [Worker.Shutdown] when the time
// to stop is over and jobs are left behind. The stalled check of another worker starts them again.
type UnfinishedError struct {
	QueueName string
	// JobIDs are the jobs whose handlers were still running.
	JobIDs []string
	// Unwritten are the jobs whose handlers had returned, but whose end could not
	// be written to Redis.
	Unwritten []string
}

func (e *UnfinishedError) Error() string {
	var left []string
	if n := len(e.JobIDs); n > 0 {
		left = append(left, fmt.Sprintf("%d still running: %v", n, e.JobIDs))
	}
	if n := len(e.Unwritten); n > 0 {
		left = append(left, fmt.Sprintf("%d finished but not written to Redis: %v", n, e.Unwritten))
	}
	return fmt.Sprintf("bullmq: jobs of %s were left behind at the end of the time to stop (%s); the stalled check of another worker will run them again", e.QueueName, strings.Join(left, "; "))
}

// nameSuffix is how the worker's name ends the name of its connection.
func (w *Worker) nameSuffix() string {
	if w.o.Name == "" {
		return ""
	}
	return ":w:" + w.o.Name
}

// takes is the worker as the scripts need it.
func (w *Worker) takes() scripts.Worker {
	s := scripts.Worker{LockMs: w.o.LockDuration.Milliseconds(), Name: w.o.Name}
	if w.o.Limiter != nil {
		s.Limit, s.LimitMs = int64(w.o.Limiter.Max), w.o.Limiter.Duration.Milliseconds()
	}
	return s
}

// token makes the lock token of one chain of jobs.
func (w *Worker) token() string {
	return w.id + ":" + strconv.FormatInt(w.tokens.Add(1), 10)
}

// guard calls a function of the user's and keeps its panic from going further.
func (w *Worker) guard(name string, call func()) {
	if r, stack := safe.Call(call); r != nil {
		w.core.log.Error("a function given to the worker panicked; the worker continues without its result; fix the function",
			logFunction, name, logPanic, fmt.Sprint(r), logStack, stack)
	}
}

// fault reports an error that is not a handler's to the log and the events. The
// log gets at most one line a second, or one in ten seconds while Redis is
// unreachable, with the number of lines that were left out.
func (w *Worker) fault(err error, message string, fields ...any) {
	pause := time.Second
	if !w.Health().Reachable {
		pause = 10 * time.Second
	}
	w.mu.Lock()
	silent := time.Since(w.lastFault) < pause
	left := w.leftOut
	if silent {
		w.leftOut++
	} else {
		w.lastFault, w.leftOut = time.Now(), 0
	}
	w.mu.Unlock()
	if !silent {
		w.core.log.Error(message, append(fields, logError, err, logSuppressed, left)...)
	}
	w.emit(WorkerEvent{Type: EventError, Err: err})
}
