package bullmq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// JobLogOptions selects which log lines are also stored in the log of the job. These are
// lines of the logger that [LoggerFromContext] returns. [Queue.JobLogs] reads the log of
// the job, and dashboards show it. Storing a line takes a call to Redis.
//
// A stored row is a line of [slog.TextHandler]: time, level, msg, and the fields of the
// handler and of middleware. It has no fields queue, worker, job, name and attempt.
type JobLogOptions struct {
	// Level is the lowest level of the lines.
	// Defaults to slog.LevelInfo.
	Level slog.Leveler
	// MaxLines is how many lines an attempt stores. Then one more line states that the
	// limit was reached.
	// Defaults to 1000.
	MaxLines int
	// MaxLineSize is the size in bytes at which a line is cut.
	// Defaults to 4096.
	MaxLineSize int
}

// fill checks the options and sets the defaults.
func (o *JobLogOptions) fill() error {
	if o.MaxLines < 0 || o.MaxLineSize < 0 {
		return fmt.Errorf("JobLog: MaxLines %d or MaxLineSize %d is less than 0", o.MaxLines, o.MaxLineSize)
	}
	if o.Level == nil {
		o.Level = slog.LevelInfo
	}
	if o.MaxLines == 0 {
		o.MaxLines = 1000
	}
	if o.MaxLineSize == 0 {
		o.MaxLineSize = 4096
	}
	return nil
}

// newJobLogger returns a logger for one attempt.
func (w *queueWorker) newJobLogger(job *Job, attempt int) *slog.Logger {
	log := w.core.log.With(logJob, job.ID, logName, job.Name, logAttempt, attempt)
	if w.o.JobLog == nil {
		return log
	}
	sink := &jobLog{job: job, o: *w.o.JobLog}
	return slog.New(teeHandler{log.Handler(), slog.NewTextHandler(sink, &slog.HandlerOptions{Level: sink.o.Level})})
}

// jobLog writes lines of one attempt to the log of its job, and counts them.
type jobLog struct {
	job   *Job
	o     JobLogOptions
	lines atomic.Int64
}

// Write implements [io.Writer]. The [slog.TextHandler] calls it once for each line.
func (l *jobLog) Write(line []byte) (int, error) {
	row := bytes.TrimRight(line, "\n")
	switch n := l.lines.Add(1); {
	case n == int64(l.o.MaxLines)+1:
		row = fmt.Appendf(nil, "the log of this attempt has reached its limit of %d lines; the rest is left out", l.o.MaxLines)
	case n > int64(l.o.MaxLines):
		return len(line), nil
	case len(row) > l.o.MaxLineSize:
		row = append(bytes.ToValidUTF8(row[:l.o.MaxLineSize:l.o.MaxLineSize], nil), "…"...)
	}
	// The call has its own context, because a job's handler may log after its context
	// has ended.
	ctx, cancel := context.WithTimeout(context.Background(), timing.CallTimeout)
	defer cancel()
	if _, err := l.job.Log(ctx, string(row)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// teeHandler is a [slog.Handler] that passes records to two others.
type teeHandler struct{ first, second slog.Handler }

// Enabled implements [slog.Handler].
func (t teeHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return t.first.Enabled(ctx, level) || t.second.Enabled(ctx, level)
}

// Handle implements [slog.Handler].
func (t teeHandler) Handle(ctx context.Context, record slog.Record) error {
	var errs []error
	for _, handler := range []slog.Handler{t.first, t.second} {
		if handler.Enabled(ctx, record.Level) {
			errs = append(errs, handler.Handle(ctx, record.Clone()))
		}
	}
	return errors.Join(errs...)
}

// WithAttrs implements [slog.Handler].
func (t teeHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return teeHandler{t.first.WithAttrs(attrs), t.second.WithAttrs(attrs)}
}

// WithGroup implements [slog.Handler].
func (t teeHandler) WithGroup(name string) slog.Handler {
	return teeHandler{t.first.WithGroup(name), t.second.WithGroup(name)}
}
