package bullmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// ReplayDeadLetter puts a dead letter of this queue back into the queue where the job
// failed. The job has its old id, options, parent and log. Its data is the data of the
// letter, which [Job.UpdateData] may have changed. It has all its attempts again, and is
// ready to run at once. The returned Job is like a Job from [Queue.JobRef].
//
// The letter may be waiting, delayed, prioritized, completed or failed. Replay the
// children of a flow before their parents.
//
// The errors are [ErrJobNotFound], [ErrNotDeadLetter], [ErrJobExists], [ErrJobLocked] if
// a worker holds the letter, and [ErrNotInState] if the letter waits for children. After
// one of these errors nothing has changed.
func (q *Queue) ReplayDeadLetter(ctx context.Context, letterID string) (job *Job, err error) {
	ctx, span := q.core.trace.start(ctx, SpanInternal, "replayDeadLetter")
	defer span.end(&err)
	setAttr(span, attrJobID, letterID)
	letter, err := q.core.job(ctx, letterID)
	if err != nil {
		return nil, err
	}
	origin, id, err := q.core.originOf(letter)
	if err != nil {
		return nil, q.core.replayError(letterID, err)
	}
	errs, err := q.core.replay(ctx, origin, []backend.Letter{{ID: letterID, JobID: id}})
	if err = cmp.Or(err, errs[0]); err != nil {
		return nil, err
	}
	return &Job{ID: id, core: origin, isRef: true}, nil
}

// originOf returns the queue and the id of the job that a dead letter was.
func (c *core) originOf(letter *Job) (origin *core, jobID string, err error) {
	dead, isLetter := letter.DeadLetter()
	prefix, name := splitQueueKey(dead.QueueKey)
	if !isLetter || prefix == "" || isKeyName(dead.JobID) {
		return nil, "", ErrNotDeadLetter
	}
	origin, err = c.sibling(prefix, name)
	return origin, dead.JobID, err
}

func (c *core) replayError(letterID string, cause error) error {
	return fmt.Errorf("bullmq: replay dead letter %s of %s: %w", letterID, c.keys.queue, cause)
}

// replay puts letters of the queue back to one queue. It returns an error for each letter
// that was not put back, and nil for each letter that was.
func (c *core) replay(ctx context.Context, origin *core, letters []backend.Letter) ([]error, error) {
	errs := make([]error, len(letters))
	store, err := origin.deadLetters(c.keys)
	if err != nil {
		return errs, c.replayError(letters[0].ID, err)
	}
	outcomes, err := store.ReplayDeadLetters(ctx, backend.QueueRef{Prefix: c.keys.prefix, Name: c.keys.queue}, letters)
	if err != nil {
		return errs, err
	}
	for i, outcome := range outcomes {
		id := letters[i].ID
		switch outcome {
		case backend.Replayed:
		case backend.LetterGone:
			errs[i] = c.noJob("replayDeadLetters", id)
		case backend.LetterWaits:
			errs[i] = &Error{Code: backend.NotInState, Command: "replayDeadLetters", QueueName: c.keys.queue, QueueKey: c.keys.qualifiedName(), JobID: id, Detail: string(StateWaitingChildren)}
		case backend.LetterHeld:
			errs[i] = c.replayError(id, ErrJobLocked)
		case backend.JobExists:
			errs[i] = c.replayError(id, fmt.Errorf("job %s of %s: %w", letters[i].JobID, origin.keys.queue, ErrJobExists))
		default:
			errs[i] = c.replayError(id, ErrNotDeadLetter)
		}
	}
	return errs, nil
}

// ReplayOptions configure [Queue.ReplayDeadLetters]. Nil and the zero value hold the
// defaults.
type ReplayOptions struct {
	// Filter reports whether to replay a letter.
	// Defaults to nil: every letter.
	Filter func(letter DeadLetter) bool
	// States are the states of the letters: StateWaiting, StateDelayed,
	// StatePrioritized, StateCompleted and StateFailed.
	// Defaults to all of these.
	States []State
	// Limit is how many letters are replayed at most.
	// Defaults to 0: all.
	Limit int
}

// replayableStates are the states from which a letter can be replayed.
var replayableStates = []State{StateWaiting, StateDelayed, StatePrioritized, StateCompleted, StateFailed}

// ReplayDeadLetters puts the dead letters of the queue back, the oldest of each state
// first, as [Queue.ReplayDeadLetter] does. It returns the ids of the letters that were
// put back. Jobs that are no dead letters are ignored.
//
// If some letters can't be put back, it goes on with the others. The returned error then
// wraps an error for each of these letters, like the errors of ReplayDeadLetter. options
// may be nil.
func (q *Queue) ReplayDeadLetters(ctx context.Context, options *ReplayOptions) (letterIDs []string, err error) {
	var o ReplayOptions
	if options != nil {
		o = *options
	}
	ctx, span := q.core.trace.start(ctx, SpanInternal, "replayDeadLetters")
	defer span.end(&err)
	if err := o.fill(); err != nil {
		return nil, fmt.Errorf("bullmq: replay dead letters of queue %s: %w", q.Name(), err)
	}
	r := &bulkReplay{core: q.core, o: o, replayed: []string{}}
	for _, state := range q.core.statesOf(o.States) {
		if err := r.replayState(ctx, backend.State(state)); err != nil {
			return r.replayed, errors.Join(append(r.refused, err)...)
		}
	}
	return r.replayed, errors.Join(r.refused...)
}

// fill checks the options and sets the defaults.
func (o *ReplayOptions) fill() error {
	if len(o.States) == 0 {
		o.States = replayableStates
	}
	for _, state := range o.States {
		if !slices.Contains(replayableStates, state) {
			return fmt.Errorf("a letter can't be replayed from the state %q; known are %v", state, replayableStates)
		}
	}
	return checkCount("Limit", o.Limit, "all")
}

// bulkReplay is one call of ReplayDeadLetters.
type bulkReplay struct {
	core     *core // of the queue with the letters
	o        ReplayOptions
	origins  map[string]*core // by QueueKey
	replayed []string
	refused  []error
}

// replayState replays the letters that are in a state when it begins. It does not go on
// with letters that come later, since a replayed job may fail and come back at once.
func (r *bulkReplay) replayState(ctx context.Context, state backend.State) error {
	counts, err := r.core.store.Counts(ctx, state)
	if err != nil {
		return err
	}
	for left, skip := counts[0], 0; left > 0 && !r.full(); {
		page := backend.Page{From: skip, To: skip + min(left, moveBatch) - 1, Ascending: true}
		records, err := r.core.store.Jobs(ctx, page, state)
		if err != nil || len(records) == 0 {
			return err
		}
		before := len(r.replayed)
		if err := r.replayPage(ctx, records); err != nil {
			return err
		}
		left -= len(records)
		skip += len(records) - (len(r.replayed) - before)
	}
	return nil
}

func (r *bulkReplay) full() bool { return r.o.Limit > 0 && len(r.replayed) >= r.o.Limit }

// replayPage replays letters, with one call for each queue that jobs go back to.
func (r *bulkReplay) replayPage(ctx context.Context, records []*backend.JobRecord) error {
	letters, order := map[*core][]backend.Letter{}, []*core{}
	chosen := 0
	for _, record := range records {
		letter := r.core.newJob(record)
		dead, isLetter := letter.DeadLetter()
		if !isLetter || r.o.Limit > 0 && len(r.replayed)+chosen >= r.o.Limit || r.o.Filter != nil && !r.o.Filter(dead) {
			continue
		}
		origin := r.origins[dead.QueueKey]
		if origin == nil || isKeyName(dead.JobID) {
			var err error
			if origin, _, err = r.core.originOf(letter); err != nil {
				r.refused = append(r.refused, r.core.replayError(letter.ID, err))
				continue
			}
			if r.origins == nil {
				r.origins = map[string]*core{}
			}
			r.origins[dead.QueueKey] = origin
		}
		if letters[origin] == nil {
			order = append(order, origin)
		}
		letters[origin] = append(letters[origin], backend.Letter{ID: letter.ID, JobID: dead.JobID})
		chosen++
	}
	for _, origin := range order {
		errs, err := r.core.replay(ctx, origin, letters[origin])
		if err != nil {
			return err
		}
		for i, err := range errs {
			if err != nil {
				r.refused = append(r.refused, err)
			} else {
				r.replayed = append(r.replayed, letters[origin][i].ID)
			}
		}
	}
	return nil
}
