package backend

import (
	"context"
	"time"
)

// Reading reads what is in a queue.
type Reading interface {
	// Counts counts the jobs of each state, in the order of the argument.
	Counts(ctx context.Context, states ...State) ([]int, error)
	// CountDelayed counts the delayed jobs that are due before a time.
	CountDelayed(ctx context.Context, before time.Time) (int, error)
	// CountFinished counts the completed or failed jobs that finished before a time.
	CountFinished(ctx context.Context, state State, before time.Time) (int, error)
	// Oldest returns a time for each state. For Waiting, Paused and Prioritized it is when
	// the oldest job became ready, for Active when the oldest job started, and for Delayed
	// when the first job is due. It is the zero time for a state without jobs.
	Oldest(ctx context.Context, states ...State) ([]time.Time, error)
	// CountsPerPriority counts the waiting jobs of each of the given priorities.
	CountsPerPriority(ctx context.Context, priorities ...int) ([]int, error)
	// Jobs reads a page of the jobs of each state.
	Jobs(ctx context.Context, page Page, states ...State) ([]*JobRecord, error)
	// JobIDs reads the ids of a page of the jobs of each state, including jobs whose
	// record is missing.
	JobIDs(ctx context.Context, page Page, states ...State) ([]string, error)
	// JobsAfter returns the jobs of a state that follow a position, the newest first. In a
	// list, jobs that were added or removed meanwhile may have moved the job of the position.
	// If it is not in the list any more, the jobs follow the first of the others that is. If
	// none is, they begin with the newest. after is nil for the begin.
	JobsAfter(ctx context.Context, state State, after *JobPosition, others []string, count int) ([]JobPosition, error)
	// AreInState reports which jobs are in a state: it returns their indexes in a list, or 0
	// in a set; -1 if they are not. index is where the first of them is expected.
	AreInState(ctx context.Context, state State, index int, ids []string) ([]int, error)
	// Metrics reads the workers' counts of Completed or Failed jobs for a range of
	// minutes, newest first.
	Metrics(ctx context.Context, kind State, from, to int) (Metrics, error)
	// Timings returns the times of the newest finished jobs, the one that finished last first.
	// It looks at max jobs after a position, and returns the position after them. The zero
	// position is that of the newest job. Jobs whose record is missing are left out.
	Timings(ctx context.Context, from TimingsFrom, max int) (jobs []JobTiming, next TimingsFrom, err error)
	// RateLimitTTL returns how long the rate limit is still in effect. max is the number of
	// jobs per window; 0 means the maximum of the queue. The result is 0 if the limit is not
	// in effect. It is negative instead if max is 0 and the queue has no maximum.
	RateLimitTTL(ctx context.Context, max int) (time.Duration, error)
	// IsMaxed reports whether the queue runs as many jobs as its global concurrency
	// allows.
	IsMaxed(ctx context.Context) (bool, error)
}

// JobPosition is the position of a job in a state.
type JobPosition struct {
	ID    string
	Index int    // in a list; otherwise not a stable position
	Score string // in a set; "" in a list
}

// TimingsFrom is a position in the finished jobs: the numbers of newer completed and failed
// jobs.
type TimingsFrom struct{ Completed, Failed int }

// JobTiming tells when a finished job was ready, started and finished. A time that is not
// stored is zero.
type JobTiming struct {
	ID, Name     string // the name may be cut
	State        State  // Completed or Failed
	AttemptsMade int
	Ready        time.Time // when it was added, or the end of the delay with which it was added
	ProcessedOn  time.Time // start of the last attempt
	FinishedOn   time.Time
}

// Metrics holds the counts of the workers.
type Metrics struct {
	Count     int       // number of jobs in all
	PrevTime  time.Time // of the last point
	PrevCount int       // number of jobs until the last point
	Points    []int     // jobs in each minute, newest first
	Total     int       // number of all points
}
