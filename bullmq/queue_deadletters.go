package bullmq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// Errors of [Queue.ReplayDeadLetter] and [Queue.ReplayDeadLetters].
var (
	// ErrNotDeadLetter means that the job is no dead letter.
	ErrNotDeadLetter = errors.New("it is no dead letter; Queue.MoveFailed and WorkerOptions.DeadLetters make them")
	// ErrJobExists means that a job with the id of the original job exists in its queue.
	ErrJobExists = errors.New("a job with the id of the original job exists; remove it to replay the dead letter")
)

// DeadLetter is a job that failed, as its dead letter describes it.
type DeadLetter struct {
	QueueName    string // of the job that failed
	QueueKey     string // QueueName with the prefix, such as bull:orders
	JobID        string
	Name         string // of the job
	Reason       string // failedReason
	Cancelled    bool   // whether it failed because [Queue.Cancel] has cancelled it
	AttemptsMade int
	FailedAt     time.Time
	// Letter is the job in the queue for dead letters. It has the data and the stack
	// traces of the job that failed.
	Letter *Job
}

// deadLetterOption is the option of a dead letter that describes the original job. It is
// an extension: BullMQ stores and keeps it as any unknown option.
const deadLetterOption = "deadLetter"

// DeadLetter returns the job that failed, if j is its dead letter. It returns false for
// any other job. The StackTrace of a dead letter has the stack traces of the failed job,
// followed by the stack traces of the letter's own runs.
func (j *Job) DeadLetter() (DeadLetter, bool) {
	if j == nil {
		return DeadLetter{}, false
	}
	stored, isLetter := parseDeadLetter(j.Options.Extra[deadLetterOption])
	if !isLetter {
		return DeadLetter{}, false
	}
	_, name := splitQueueKey(stored.Queue)
	return DeadLetter{
		QueueName: name, QueueKey: stored.Queue, JobID: stored.ID, Name: j.Name, Reason: stored.Reason, Cancelled: stored.Cancelled,
		AttemptsMade: stored.AttemptsMade, FailedAt: time.UnixMilli(stored.FailedAt), Letter: j,
	}, true
}

// storedDeadLetter is the option of a dead letter, as it is stored.
type storedDeadLetter struct {
	Queue, ID, Reason string
	Cancelled         bool
	AttemptsMade      int
	FailedAt          int64
}

// parseDeadLetter returns false for the option of any other job, which may be nil.
func parseDeadLetter(option json.RawMessage) (stored storedDeadLetter, isLetter bool) {
	if option == nil || json.Unmarshal(option, &stored) != nil || stored.ID == "" {
		return storedDeadLetter{}, false
	}
	return stored, true
}

// DeadLetter finds the dead letter of a job in this queue. queueName and jobID are those
// of the job that failed. The id of a letter is made from them, so DeadLetter makes one
// call and no search. A job has several letters if it was added again, and failed again,
// while its first letter existed. DeadLetter then returns the letter of the last failure.
//
// DeadLetter returns [ErrJobNotFound] if the job has no letter in this queue.
func (q *Queue) DeadLetter(ctx context.Context, queueName, jobID string) (letter DeadLetter, err error) {
	origin, err := newKeys(q.core.keys.prefix, queueName)
	if err != nil {
		return DeadLetter{}, err
	}
	store, err := q.core.deadLetters(origin)
	if err != nil {
		return DeadLetter{}, fmt.Errorf("bullmq: find the dead letter of job %s of %s: %w", jobID, queueName, err)
	}
	record, err := store.FindDeadLetter(ctx, backend.JobRef{Prefix: origin.prefix, Queue: origin.queue, ID: jobID})
	if err != nil {
		return DeadLetter{}, err
	}
	if record != nil {
		if letter, isLetter := q.core.newJob(record).DeadLetter(); isLetter {
			return letter, nil
		}
	}
	return DeadLetter{}, fmt.Errorf("bullmq: no dead letter in %s of job %s of %s: %w", q.Name(), jobID, queueName, ErrJobNotFound)
}

// splitQueueKey splits the name of a queue with its prefix.
func splitQueueKey(key string) (prefix, name string) {
	at := strings.LastIndexByte(key, ':')
	if at < 0 {
		return "", key
	}
	return key[:at], key[at+1:]
}

// MoveFailedOptions configure [Queue.MoveFailed]. Nil and the zero value hold the
// defaults.
type MoveFailedOptions struct {
	// Limit is how many jobs are moved at most.
	// Defaults to 0: all.
	Limit int
	// IncludeCancelled also moves jobs that failed because [Queue.Cancel] has cancelled
	// them.
	// Defaults to false: they stay failed.
	IncludeCancelled bool
}

// MoveFailed moves the failed jobs of the queue to another queue with the same prefix,
// the oldest first. Each job becomes a dead letter: a waiting job with the same name and
// data. MoveFailed returns the ids of the dead letters. [Job.DeadLetter] describes the
// original job, and [Queue.ReplayDeadLetter] puts it back. BullMQ has no such call.
//
// MoveFailed moves jobs that any client has failed. It does not move cancelled jobs unless
// IncludeCancelled is set. Each job is moved once, even if several callers and workers with
// WorkerOptions.DeadLetters move jobs at the same time. The children of a job that is moved
// stay where they are. A parent that waits for a failed job goes on waiting. A failed job
// with unfinished children is not moved until they have finished.
//
// A job can't be moved if its KeepFailed option, or that of the worker, removes the job
// when it fails.
//
// On a cluster both queues must have the same hash tag. options may be nil.
func (q *Queue) MoveFailed(ctx context.Context, toQueue string, options *MoveFailedOptions) (letterIDs []string, err error) {
	var o MoveFailedOptions
	if options != nil {
		o = *options
	}
	ctx, span := q.core.trace.start(ctx, SpanInternal, "moveFailed")
	defer span.end(&err)
	err = checkCount("Limit", o.Limit, "all")
	var mover *failedMover
	if err == nil {
		mover, err = q.core.failedMover(toQueue)
	}
	if err != nil {
		return nil, fmt.Errorf("bullmq: move failed jobs of queue %s: %w", q.Name(), err)
	}
	mover.cancelled = o.IncludeCancelled
	letterIDs = []string{}
	err = mover.move(ctx, time.Time{}, o.Limit, func(moved backend.MovedFailed) { letterIDs = append(letterIDs, moved.IDs...) })
	return letterIDs, err
}

// failedMover moves the failed jobs of one queue to another one.
type failedMover struct {
	from  *core
	to    *core
	store backend.DeadLetters                                         // of to
	bound func(context.Context) (context.Context, context.CancelFunc) // of each call; nil for the caller's context

	cancelled bool // whether it moves cancelled jobs
	records   bool // whether it reads the letters
}

// failedMover returns an error if jobs can't be moved to that queue.
func (c *core) failedMover(toQueue string) (*failedMover, error) {
	switch toQueue {
	case "":
		return nil, errors.New("the queue for dead letters has no name")
	case c.keys.queue:
		return nil, errors.New("the queue for dead letters is the queue itself; give another name")
	}
	to, err := c.sibling(c.keys.prefix, toQueue)
	if err != nil {
		return nil, err
	}
	store, err := to.deadLetters(c.keys)
	if err != nil {
		return nil, err
	}
	return &failedMover{from: c, to: to, store: store}, nil
}

// deadLetters returns the store of c as one that can exchange jobs with another queue.
func (c *core) deadLetters(other *keys) (backend.DeadLetters, error) {
	store, ok := any(c.store).(backend.DeadLetters)
	if !ok {
		return nil, errors.New("only a queue in Redis can have dead letters")
	}
	if c.store.CheckReach(other.prefix, other.queue) != nil {
		return nil, fmt.Errorf("on a cluster, %s and %s must have the same hash tag, since one call moves a job between them: put it into the prefix, such as {bull}, on every client of the queues",
			other.qualifiedName(), c.keys.qualifiedName())
	}
	return store, nil
}

// moveBatch is how many jobs one call looks at.
const moveBatch = 100

// move moves jobs that failed since a time: up to limit jobs, or all if limit is 0. It
// passes the result of each call to moved. It makes no further call when ctx ends.
func (m *failedMover) move(ctx context.Context, since time.Time, limit int, moved func(backend.MovedFailed)) error {
	for skip, left := 0, limit; ctx.Err() == nil; {
		count := moveBatch
		if limit > 0 {
			count = min(left, moveBatch)
		}
		batch, err := m.call(ctx, backend.MoveFailed{
			From:  backend.QueueRef{Prefix: m.from.keys.prefix, Name: m.from.keys.queue},
			Since: since, Count: count, Skip: skip, Now: m.from.now(), Cancelled: m.cancelled, Records: m.records,
		})
		if err != nil {
			return err
		}
		moved(batch)
		skip += batch.Stay
		left -= len(batch.IDs)
		if batch.Seen < count || limit > 0 && left <= 0 {
			return nil
		}
	}
	return context.Cause(ctx)
}

func (m *failedMover) call(ctx context.Context, move backend.MoveFailed) (backend.MovedFailed, error) {
	if m.bound != nil {
		var cancel context.CancelFunc
		ctx, cancel = m.bound(ctx)
		defer cancel()
	}
	moved, err := m.store.MoveFailed(ctx, move)
	if err != nil {
		err = fmt.Errorf("bullmq: move failed jobs of %s: %w", m.from.keys.qualifiedName(), err)
	}
	return moved, err
}
