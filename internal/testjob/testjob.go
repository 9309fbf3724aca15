// Package testjob lets package bullmqtest make jobs that record the calls of a handler
// instead of sending them to Redis. Package bullmq sets [New].
package testjob

import (
	"context"
	"log/slog"
	"time"
)

// Recorder receives the calls of a handler on its job. It is safe for concurrent use.
type Recorder interface {
	// UpdateProgress and UpdateData record a value, JSON.
	UpdateProgress(ctx context.Context, jobID, progress string) error
	UpdateData(ctx context.Context, jobID, data string) error
	// AddLog records a row of the job's log, of which the newest keep rows stay, 0 for
	// all, and returns the number of rows.
	AddLog(ctx context.Context, jobID, row string, keep int) (int, error)
	// ClearLogs removes all rows except the newest keep rows.
	ClearLogs(ctx context.Context, jobID string, keep int) error
	// Logger returns the logger of the handler.
	Logger() *slog.Logger
}

// Spec describes a job to make.
type Spec struct {
	ID        string
	QueueName string
	Name      string
	Data      any
	Options   any // a *bullmq.JobOptions, which may be nil
	Now       time.Time
	Recorder  Recorder
}

// New returns a *bullmq.Job as a worker would pass it to its handler. It returns an error
// if Queue.Add would refuse the job.
var New func(spec Spec) (any, error)
