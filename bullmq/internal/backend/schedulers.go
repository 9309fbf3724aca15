package backend

import (
	"context"
	"errors"
	"time"
)

// Schedulers reads and changes the queue's job schedulers.
type Schedulers interface {
	// AddJobScheduler creates or changes a scheduler, and adds its next job. It returns the
	// id and the delay of that job. The error is [SchedulerIDTaken] if a job with the id of
	// a pattern's next run exists and is not pending. It is [SchedulerTimesTaken] if jobs
	// with the ids of many next runs of an interval exist.
	AddJobScheduler(ctx context.Context, s SchedulerAdd) (jobID string, delay time.Duration, err error)
	// UpdateJobScheduler adds the next job of a scheduler and returns its id, or "" if
	// there is no job to add. The call may be repeated. The error is [ErrUnreadable] if
	// the options of the job can't be parsed.
	UpdateJobScheduler(ctx context.Context, run NextRun) (jobID string, err error)
	// RemoveJobScheduler removes a scheduler with its next job, and reports whether
	// there was one. It removes a paused scheduler too.
	RemoveJobScheduler(ctx context.Context, id string) (bool, error)
	// PauseJobScheduler removes a scheduler with its next job, and keeps its record for
	// AddJobScheduler with Resume. It reports whether there was one, or it was paused already.
	PauseJobScheduler(ctx context.Context, id string, now time.Time) (bool, error)
	// PausedJobSchedulers reads the paused schedulers with these ids, or without ids all of
	// them, in the order of their ids.
	PausedJobSchedulers(ctx context.Context, ids ...string) ([]*SchedulerRecord, error)

	// JobScheduler reads a scheduler. It returns nil if there is none.
	JobScheduler(ctx context.Context, id string) (*SchedulerRecord, error)
	// JobSchedulers reads a page of the schedulers, including those whose record is missing.
	// They are in descending order of their next runs, or in ascending order if
	// page.Ascending is set.
	JobSchedulers(ctx context.Context, page Page) ([]*SchedulerRecord, error)
	// CountJobSchedulers counts the schedulers.
	CountJobSchedulers(ctx context.Context) (int, error)
}

// ErrUnreadable means that the store can't parse the options of a scheduler's job:
// they are nested too deeply, or have numbers out of range.
var ErrUnreadable = errors.New("bullmq: Redis can't parse the options of the scheduler's job")

// ErrSchedulerNotPaused means that there is no paused scheduler to resume.
var ErrSchedulerNotPaused = errors.New("bullmq: the scheduler is not paused")

// SchedulerRepeat determines when a scheduler adds jobs. A field that is not set has
// the zero value.
type SchedulerRepeat struct {
	Pattern   string
	TimeZone  string
	Every     time.Duration
	Offset    time.Duration
	StartDate time.Time
	EndDate   time.Time
	Limit     int
}

// SchedulerAdd is a scheduler to create or change.
type SchedulerAdd struct {
	ID       string
	Now      time.Time
	Name     string // of its jobs
	Data     string // JSON
	Template string // the options of its jobs, JSON
	Opts     string // the options of the next job, JSON
	// Due is the time of the next run of a pattern. It is zero for an interval, whose
	// next run the store computes.
	Due    time.Time
	Repeat SchedulerRepeat
	// Resume puts back a paused scheduler, with its number of iterations. An interval
	// continues at its times. The error is [ErrSchedulerNotPaused] if there is none. If a scheduler with
	// this ID exists, it is kept, and the id of its job is not returned.
	Resume bool
}

// NextRun is the next run of a scheduler. It is added when a job of the scheduler starts.
type NextRun struct {
	SchedulerID string
	Now         time.Time
	ProducerID  string // of the job that is starting
	Data        string // of that job, JSON
	Opts        string // the options of the next job, JSON
	// Due is the time of the next run of a pattern; zero for an interval.
	Due time.Time
	// EveryMillis is the interval in the options of the job that is starting; 0 for a
	// pattern. If an interval is stored with the scheduler, that one is used instead.
	// EveryMillis is a float64, as in Node, because a fraction of a millisecond shifts all
	// scheduled times.
	EveryMillis float64
}

// SchedulerRecord is a stored scheduler.
type SchedulerRecord struct {
	ID   string
	Next time.Time
	// Missing reports that nothing but ID and Next is stored.
	Missing    bool
	Name       string
	Iterations int // jobs added so far
	Repeat     SchedulerRepeat
	HasOffset  bool   // an offset is stored, which may be 0
	Data       []byte // JSON; nil if none is stored
	Opts       []byte // the options of its jobs, JSON; nil if none are stored
	PausedAt   time.Time
}
