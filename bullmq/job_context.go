package bullmq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
)

// handlerContext is the context of a handler. It holds the job.
type handlerContext struct {
	context.Context
	job    *Job
	worker *queueWorker                    // nil if ContextWithJob made the context
	number int                             // of the attempt, starting at 1
	log    atomic.Pointer[slog.Logger]     // made by the first call of logger
	passed atomic.Pointer[context.Context] // the last one that middleware has passed on
}

type handlerContextKey struct{}

// Value implements [context.Context].
func (c *handlerContext) Value(key any) any {
	if key == (handlerContextKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// outliving returns the context as middleware has passed it on to the handler, without its
// end.
func (c *handlerContext) outliving() context.Context {
	if passed := c.passed.Load(); passed != nil {
		return context.WithoutCancel(*passed)
	}
	return context.WithoutCancel(c)
}

// noting returns a handler that notes its context for [handlerContext.outliving].
func noting(next Handler) Handler {
	return func(ctx context.Context, job *Job) (any, error) {
		if c := handlerOf(ctx); c != nil {
			c.passed.Store(&ctx)
		}
		return next(ctx, job)
	}
}

func handlerOf(ctx context.Context) *handlerContext {
	c, _ := ctx.Value(handlerContextKey{}).(*handlerContext)
	return c
}

// logger returns the logger of a worker's attempt. All calls return the same one, because
// JobLogOptions.MaxLines is the limit of an attempt.
func (c *handlerContext) logger() *slog.Logger {
	if c.log.Load() == nil {
		c.log.CompareAndSwap(nil, c.worker.newJobLogger(c.job, c.number))
	}
	return c.log.Load()
}

// ContextWithJob returns a context for a handler that runs job, for tests that call a
// handler without a worker. The contexts of a worker's handlers have their job already.
func ContextWithJob(ctx context.Context, job *Job) context.Context {
	return &handlerContext{Context: ctx, job: job}
}

// JobFromContext returns the job whose handler has the context, or nil if ctx is not the
// context of a handler.
func JobFromContext(ctx context.Context) *Job {
	if c := handlerOf(ctx); c != nil {
		return c.job
	}
	return nil
}

// UpdateProgress stores the progress of the job whose handler has the context, as
// [Job.UpdateProgress] does.
func UpdateProgress(ctx context.Context, progress any) error {
	job := JobFromContext(ctx)
	if job == nil {
		return errors.New("bullmq: update progress: the context is not that of a handler; use Job.UpdateProgress")
	}
	return job.UpdateProgress(ctx, progress)
}

// QueueFromContext returns a queue on the connection of the worker whose handler has the
// context, to add jobs from a handler. An empty name is the queue of the job. The Queue
// has the options WorkerOptions.QueueOptions of the worker. It is shared by the worker's
// handlers, and closed with the worker.
func QueueFromContext(ctx context.Context, name string) (*Queue, error) {
	c := handlerOf(ctx)
	if c == nil || c.worker == nil {
		return nil, errors.New("bullmq: get a queue from a context: the context is not that of a worker's handler; make the queue with NewQueue")
	}
	if name == "" {
		name = c.worker.QueueName()
	}
	return c.worker.queues.get(ctx, c.worker.host, name)
}

// LoggerFromContext returns a logger for the handler that has the context. Its lines go
// to the worker's Logger, with the fields queue, worker if it has a name, job, name and attempt. With
// WorkerOptions.JobLog they go to the log of the job as well.
//
// Outside of a worker's handler it returns slog.Default. Either has the fields of
// [ContextWithLogAttrs] too.
func LoggerFromContext(ctx context.Context) *slog.Logger {
	log := slog.Default()
	if c := handlerOf(ctx); c != nil {
		switch {
		case c.worker != nil:
			log = c.logger()
		case c.job.recorder() != nil:
			log = c.job.recorder().Logger()
		}
	}
	return withLogAttrs(ctx, log)
}

// withLogAttrs returns a logger that adds the fields of [ContextWithLogAttrs].
func withLogAttrs(ctx context.Context, log *slog.Logger) *slog.Logger {
	if attrs := logAttrsOf(ctx); len(attrs) > 0 {
		return slog.New(log.Handler().WithAttrs(attrs))
	}
	return log
}

type logAttrsKey struct{}

func logAttrsOf(ctx context.Context) []slog.Attr {
	attrs, _ := ctx.Value(logAttrsKey{}).([]slog.Attr)
	return attrs
}

// ContextWithLogAttrs returns a context whose logger, from [LoggerFromContext], adds fields
// to each line. A field replaces an earlier one of the context that has the same key. It is
// for middleware, which passes the context to the handler. The worker's own line about a
// failed attempt has the fields of middleware too.
func ContextWithLogAttrs(ctx context.Context, attrs ...slog.Attr) context.Context {
	earlier := slices.DeleteFunc(slices.Clone(logAttrsOf(ctx)), func(old slog.Attr) bool {
		return slices.ContainsFunc(attrs, func(attr slog.Attr) bool { return attr.Key == old.Key })
	})
	return context.WithValue(ctx, logAttrsKey{}, append(earlier, attrs...))
}

// queueCache holds the queues of [QueueFromContext].
type queueCache struct {
	mu     sync.Mutex
	queues map[string]*Queue
	closed bool
}

func (c *queueCache) get(ctx context.Context, h *host, name string) (*Queue, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("bullmq: queue %s: the %s: %w", name, h.title(), ErrClosed)
	}
	if q := c.queues[name]; q != nil {
		return q, nil
	}
	var o QueueOptions
	if h.options.QueueOptions != nil {
		o = *h.options.QueueOptions
	} else {
		o.SkipMetaUpdate = true
	}
	o.Connection, o.URL = h.home.sharedConnection(), ""
	o.inherit(QueueOptions{
		Prefix: h.home.keys.prefix, Dialect: h.options.Dialect, Telemetry: h.options.Telemetry, Logger: h.options.Logger, Now: h.options.Now,
	})
	q, err := NewQueue(ctx, name, &o)
	if err != nil {
		return nil, err
	}
	if c.queues == nil {
		c.queues = map[string]*Queue{}
	}
	c.queues[name] = q
	return q, nil
}

func (c *queueCache) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, q := range c.queues {
		_ = q.Close()
	}
}
