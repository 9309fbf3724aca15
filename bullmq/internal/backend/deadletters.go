package backend

import (
	"context"
	"time"
)

// DeadLetters is a store that can move jobs between its own queue and another one. It
// moves failed jobs of the other queue to its own, as dead letters. It also moves dead
// letters in the other queue back to its own, as jobs. CheckReach of [Producer] tells
// whether one call can change both queues.
type DeadLetters interface {
	// MoveFailed moves failed jobs, the oldest first. All jobs of one call move at once. A
	// job stays where it is if it has children that can still end. A cancelled job also
	// stays, unless m.Cancelled is set.
	MoveFailed(ctx context.Context, m MoveFailed) (MovedFailed, error)
	// FindDeadLetter returns the newest letter of a job of another queue, or nil if the job
	// has no letter.
	FindDeadLetter(ctx context.Context, job JobRef) (*JobRecord, error)
	// JobOptions reads the options of a page of the jobs in a state of this queue, as they are
	// stored. The options of a job whose record is missing are empty.
	JobOptions(ctx context.Context, page Page, state State) ([]string, error)
	// ReplayDeadLetters puts letters back, and returns the outcome of each. The letters must
	// be letters of jobs of this queue.
	ReplayDeadLetters(ctx context.Context, from QueueRef, letters []Letter) ([]ReplayOutcome, error)
}

// QueueRef names a queue.
type QueueRef struct{ Prefix, Name string }

// String returns the name of the queue with its prefix: <prefix>:<name>.
func (r QueueRef) String() string { return r.Prefix + ":" + r.Name }

// MoveFailed selects failed jobs.
type MoveFailed struct {
	From      QueueRef
	Since     time.Time // pass over jobs that failed before this time; zero to look at all jobs
	Count     int       // how many jobs to look at
	Skip      int       // how many jobs to pass over, the oldest of those that failed since then
	Now       time.Time
	Cancelled bool // whether to move jobs that were cancelled
	Records   bool // whether to return the letters
}

// MovedFailed is the result of MoveFailed.
type MovedFailed struct {
	Seen    int // jobs looked at
	Stay    int // how many of the jobs looked at stay where they are
	Pending int // how many of the jobs that stay have children that can still end; they may be moved later
	IDs     []string
	Records []*JobRecord // of the letters; nil unless MoveFailed.Records is set
}

// Letter is a dead letter and the job that it was.
type Letter struct{ ID, JobID string }

// ReplayOutcome is the outcome of the replay of a letter.
type ReplayOutcome int

// The outcomes of a replay. Only Replayed has changed anything.
const (
	NoLetter    ReplayOutcome = iota // the job with the letter's id is not a letter of the original job
	Replayed                         // the job is ready to run in its queue
	LetterGone                       // there is no job with the letter's id
	LetterHeld                       // a worker holds the letter
	LetterWaits                      // the letter waits for children
	JobExists                        // a job with the id of the original job exists
)
