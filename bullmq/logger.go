package bullmq

import (
	"context"
	"log/slog"
	"time"

	"github.com/rs/zerolog"
)

// Logger receives the log lines of a Queue, Worker, QueueEvents or FlowProducer.
// [Zerolog] and [Slog] make one from a program's own logger:
//
//	bullmq.WorkerOptions{Logger: bullmq.Zerolog(zerolog.New(os.Stderr).With().Timestamp().Logger())}
//	bullmq.WorkerOptions{Logger: bullmq.Slog(slog.Default())}
//
// The level of the program's logger applies. Lines have the same levels, messages and
// fields with Zerolog and with Slog. Levels are debug, info, warn and error. Fields with
// fixed names are: queue, worker (the Name of the WorkerOptions), job, name (of the job),
// attempt and error.
//
// The zero Logger discards all lines.
type Logger struct {
	to *slog.Logger
}

// Zerolog returns a Logger that writes to l. Lines have a time if l adds one.
func Zerolog(l zerolog.Logger) Logger {
	return Logger{slog.New(untimed{zerolog.NewSlogHandler(l)})}
}

// Slog returns a Logger that writes to l. A nil l discards all lines.
func Slog(l *slog.Logger) Logger { return Logger{l} }

// with returns the logger of the SDK's own code, which adds fields to each line.
func (l Logger) with(fields ...any) *slog.Logger {
	if l.to == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l.to.With(fields...)
}

// The names of the fields of log lines.
const (
	logAddress     = "address"          // of the server
	logAttempt     = "attempt"          // its number, starting at 1
	logConcurrency = "concurrency"      // how many jobs the worker runs at the same time
	logCount       = "count"            // how many jobs run
	logError       = "error"            // its text, or with slog the error itself
	logFunction    = "function"         // of the program, which panicked
	logJob         = "job"              // its id
	logJobs        = "jobs"             // their ids
	logLetter      = "letter"           // id of a dead letter
	logListen      = "listen"           // address at which HTTP is served
	logName        = "name"             // of the job
	logNeeded      = "needed"           // how many connections
	logOutage      = "outage_ms"        // for how long Redis was unreachable
	logPanic       = "panic"            // the text of its value
	logPolicy      = "maxmemory_policy" // of the server
	logQueue       = "queue"            // its name
	logQueues      = "queues"           // the first queues of a worker for many
	logRetry       = "retry"            // whether another attempt follows
	logRunning     = "running"          // ids of jobs whose handler still runs
	logShards      = "shards"           // how many a sharded queue has
	logGeneration  = "generation"       // its number
	logGiven       = "given"            // the number of shards that NewShardedQueue was given
	logStack       = "stack"            // of a panic
	logSuppressed  = "suppressed"       // how many lines of this kind were left out
	logUnwritten   = "unwritten"        // ids of jobs whose result was not written
	logWorker      = "worker"           // its name
)

// untimed removes the time of lines, so that only the zerolog.Logger adds one.
type untimed struct{ slog.Handler }

// Handle implements [slog.Handler].
func (u untimed) Handle(ctx context.Context, record slog.Record) error {
	record.Time = time.Time{}
	return u.Handler.Handle(ctx, record)
}

// WithAttrs implements [slog.Handler].
func (u untimed) WithAttrs(attrs []slog.Attr) slog.Handler {
	return untimed{u.Handler.WithAttrs(attrs)}
}

// WithGroup implements [slog.Handler].
func (u untimed) WithGroup(name string) slog.Handler { return untimed{u.Handler.WithGroup(name)} }
