package bullmq

import (
	"context"
	"errors"
	"log/slog"
)

// handlerContext is the context of a handler. It holds the job.
type handlerContext struct {
	context.Context
	job    *Job
	worker *Worker // nil if ContextWithJob made the context
}

type handlerContextKey struct{}

// Value implements [context.Context].
func (c *handlerContext) Value(key any) any {
	if key == (handlerContextKey{}) {
		return c
	}
	return c.Context.Value(key)
}

func handlerOf(ctx context.Context) *handlerContext {
	c, _ := ctx.Value(handlerContextKey{}).(*handlerContext)
	return c
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
	return c.worker.queue(ctx, name)
}

// LoggerFromContext returns a logger for the handler that has the context. Its lines go
// to the worker's Logger, with the fields queue, worker, job, name and attempt. With
// WorkerOptions.JobLog they go to the log of the job as well.
//
// Outside of a worker's handler it returns slog.Default.
func LoggerFromContext(ctx context.Context) *slog.Logger {
	c := handlerOf(ctx)
	if c == nil || c.worker == nil {
		return slog.Default()
	}
	return c.worker.jobLogger(c.job)
}
