package backend

import (
	"context"
	"time"
)

// DeadLetters is a store that can move failed jobs from another queue to its own, as
// dead letters, and dead letters of another queue back to its own. CheckReach of
// [Producer] tells whether it can for two queues.
type DeadLetters interface {
	// MoveFailed moves failed jobs, the oldest first, all of one call at once. A job
	// with children that can still end stays where it is, and so does one that was
	// cancelled, unless m.Cancelled is set.
	MoveFailed(ctx context.Context, m MoveFailed) (MovedFailed, error)
	// FindDeadLetter returns the newest letter of a job of another queue; nil if there
	// is none.
	FindDeadLetter(ctx context.Context, job JobRef) (*JobRecord, error)
	// ReplayDeadLetters puts letters back, and returns what became of each. It may be
	// called for letters of this queue's jobs only.
	ReplayDeadLetters(ctx context.Context, from QueueRef, letters []Letter) ([]ReplayOutcome, error)
}

// QueueRef names a queue.
type QueueRef struct{ Prefix, Name string }

// String returns the name of the queue with its prefix: <prefix>:<name>.
func (r QueueRef) String() string { return r.Prefix + ":" + r.Name }

// MoveFailed selects failed jobs.
type MoveFailed struct {
	From      QueueRef
	Since     time.Time // jobs that failed before are passed over; zero for none
	Count     int       // how many jobs to look at
	Skip      int       // how many of the oldest jobs since then to pass over
	Now       time.Time
	Cancelled bool // whether to move jobs that were cancelled
	Records   bool // whether to return the letters
}

// MovedFailed is what MoveFailed did.
type MovedFailed struct {
	Seen    int // jobs looked at
	Stay    int // of these, those that stay
	Pending int // of these, those that may be moved later, since children can still end
	IDs     []string
	Records []*JobRecord // of the letters; nil unless they were asked for
}

// Letter is a dead letter and the job that it was.
type Letter struct{ ID, JobID string }

// ReplayOutcome is what became of a letter that was to be replayed.
type ReplayOutcome int

// The outcomes of a replay. Nothing has changed after those other than Replayed.
const (
	NoLetter    ReplayOutcome = iota // the job is no letter of that job
	Replayed                         // the job is ready to run in its queue
	LetterGone                       // there is no job with the letter's id
	LetterHeld                       // a worker holds the letter
	LetterWaits                      // the letter waits for children
	JobExists                        // a job with the id of the original job exists
)
