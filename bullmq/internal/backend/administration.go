package backend

import (
	"context"
	"errors"
	"time"
)

// Errors of [Administration.Obliterate].
var (
	ErrNotPaused  = errors.New("bullmq: a queue has to be paused before it is obliterated")
	ErrActiveJobs = errors.New("bullmq: jobs of the queue are running; wait for them, or force")
)

// Administration changes the whole queue.
type Administration interface {
	// Pause stops the queue for all workers.
	Pause(ctx context.Context) error
	// Resume lets workers fetch jobs again.
	Resume(ctx context.Context) error

	// Drain removes waiting jobs and, if delayed is set, delayed jobs, about count jobs
	// per call. It reports whether jobs may be left.
	Drain(ctx context.Context, delayed bool, count int) (again bool, err error)
	// Clean removes jobs of a state that are older than before, the oldest first and
	// at most limit of them, and returns their ids.
	Clean(ctx context.Context, state State, before time.Time, limit int) ([]string, error)
	// Obliterate removes the paused queue with all its jobs, count jobs per call. It
	// reports whether jobs are left. The errors are [ErrNotPaused] and
	// [ErrActiveJobs].
	Obliterate(ctx context.Context, count int, force bool) (again bool, err error)
	// RemoveUnused removes the queue if it has no schedulers and no jobs. With finished it
	// also removes one that has only completed and failed jobs, about count of them per
	// call. It reports whether the queue is used, or else whether jobs are left.
	RemoveUnused(ctx context.Context, count int, finished bool) (used, again bool, err error)
	// MoveJobsToWait moves jobs of a state back to wait. It reports whether more of them
	// may be left.
	MoveJobsToWait(ctx context.Context, m MoveJobs) (again bool, err error)

	// Meta reads the queue's settings.
	Meta(ctx context.Context) (Meta, error)
	// InitMeta stores how many events are kept. It also stores the version of the client,
	// unless another client has stored its own.
	InitMeta(ctx context.Context, maxEvents int, version string) error
	// SetGlobalConcurrency limits how many jobs run at once over all workers; nil
	// removes the limit.
	SetGlobalConcurrency(ctx context.Context, concurrency *int) error
	// SetGlobalRateLimit limits how many jobs start per period over all workers; nil
	// removes the limit.
	SetGlobalRateLimit(ctx context.Context, limit *RateLimit) error

	// StartRateLimit stops workers of the queue for a duration: all workers if the queue
	// has a global rate limit, otherwise only those with a limiter.
	StartRateLimit(ctx context.Context, wait time.Duration) error
	// RemoveRateLimit ends the current window of the rate limit and reports whether
	// there was one.
	RemoveRateLimit(ctx context.Context) (bool, error)

	// DeduplicationOwner returns the id of the job that owns a deduplication id, or "" if no
	// job owns it.
	DeduplicationOwner(ctx context.Context, deduplicationID string) (string, error)
	// FreeDeduplication frees a deduplication id, whichever job owns it, and reports
	// whether a job owned it.
	FreeDeduplication(ctx context.Context, deduplicationID string) (bool, error)
}

// MoveJobs selects the jobs that MoveJobsToWait moves.
type MoveJobs struct {
	From  State     // Completed, Failed or Delayed
	Until time.Time // only jobs that finished by then; the zero time for all
	Count int       // jobs per call

	ResetAttemptsMade    bool
	ResetAttemptsStarted bool
}

// NoEvents means that no events are kept. It is a value for the number of events to keep.
const NoEvents = -1

// Meta holds the settings of a queue.
type Meta struct {
	Version     string // of the client that has created the queue, such as bullmq:6.7.0
	Paused      bool
	Concurrency *int       // nil for no limit
	RateLimit   *RateLimit // nil unless both its fields are stored
	// HasMax reports whether the Max of a rate limit is stored, with or without its
	// Duration. Workers obey the limit even if only Max is stored.
	HasMax bool
	// MaxEvents is the approximate number of events to keep, or NoEvents; 0 if no number
	// is stored.
	MaxEvents int
}

// RateLimit limits how many jobs start per period.
type RateLimit struct {
	Max      int
	Duration time.Duration
}
