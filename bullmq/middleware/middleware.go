// Package middleware has middleware for handlers and for adds:
//
//   - [Log] and [Timing] observe the runs of jobs.
//   - A [Carrier], such as [RequestID] and [Tenant], takes a value from the context of an
//     add to the context of the handler.
//   - [Encryption] encrypts the data of jobs in Redis.
//
// Middleware of handlers belongs into Middleware of bullmq.ServerOptions, or is an argument
// of [bullmq.Mux.Use] or [bullmq.Wrap]. Middleware of adds belongs into AddMiddleware of
// bullmq.ServerOptions, or into Middleware of bullmq.QueueOptions or
// bullmq.FlowProducerOptions.
//
// There is no middleware that recovers panics: the worker recovers them and stores the stack.
package middleware

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Log returns a middleware that logs the end of each run, and how long it took, with the
// logger of [bullmq.LoggerFromContext]. It logs at the given level if the handler succeeds
// or hands the job over, and at slog.LevelWarn if it returns an error. The worker logs failed
// attempts as well. If a cancelled run returns an error, only the worker logs it.
func Log(level slog.Level) bullmq.Middleware {
	return func(next bullmq.Handler) bullmq.Handler {
		return func(ctx context.Context, job *bullmq.Job) (any, error) {
			begun := time.Now()
			value, err := next(ctx, job)
			took := slog.Float64("duration_ms", float64(time.Since(begun).Microseconds())/1000)
			switch {
			case err == nil:
				bullmq.LoggerFromContext(ctx).LogAttrs(ctx, level, "the handler succeeded", took)
			case errors.Is(err, bullmq.ErrHandedOver):
				bullmq.LoggerFromContext(ctx).LogAttrs(ctx, level, "the handler has handed the job over", took)
			case !errors.Is(context.Cause(ctx), bullmq.ErrCancelled):
				bullmq.LoggerFromContext(ctx).LogAttrs(ctx, slog.LevelWarn, "the handler returned an error", took, slog.Any("error", err))
			}
			return value, err
		}
	}
}

// Run is a run of a job that has ended.
type Run struct {
	Job *bullmq.Job
	// Wait is the time from when the job was ready until the attempt started. It is 0 if
	// it is not known, as for the second and later attempts.
	Wait time.Duration
	// Duration is how long the handler ran.
	Duration time.Duration
	// Err is the error of the handler.
	Err error
}

// Timing returns a middleware that calls observe after each run, also after a panic. Wait
// compares the clock of the machine that added the job with that of the machine that ran it.
func Timing(observe func(ctx context.Context, run Run)) bullmq.Middleware {
	return func(next bullmq.Handler) bullmq.Handler {
		return func(ctx context.Context, job *bullmq.Job) (value any, err error) {
			run := Run{Job: job}
			if ready := job.Timestamp.Add(job.Options.Delay); job.AttemptsStarted <= 1 && !job.Timestamp.IsZero() && job.ProcessedOn.After(ready) {
				run.Wait = job.ProcessedOn.Sub(ready)
			}
			begun := time.Now()
			returned := false
			defer func() {
				run.Duration, run.Err = time.Since(begun), err
				if !returned {
					run.Err = errPanicked
				}
				observe(ctx, run)
			}()
			value, err = next(ctx, job)
			returned = true
			return value, err
		}
	}
}
