package scripts

import (
	"context"
	"slices"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

var (
	addPlainJobs      = load("addPlainJobs")
	addStandardJob    = load("addStandardJob")
	addDelayedJob     = load("addDelayedJob")
	addPrioritizedJob = load("addPrioritizedJob")
	addParentJob      = load("addParentJob")
)

// Kind is the state in which a job starts.
type Kind int

// The kinds of add, one script each.
const (
	Standard    Kind = iota // wait
	Delayed                 // delayed
	Prioritized             // prioritized
	Parent                  // waiting-children
)

// Add is a job to be added. Times are milliseconds in decimal text, since a
// job of another client may hold fractions.
type Add struct {
	Kind      Kind
	ID        string // "" for the queue's next number
	Name      string
	Data      string // JSON
	Opts      string // JSON, as stored
	Timestamp string
	Delay     string
	Priority  string
	LIFO      bool

	ParentKey string // <prefix>:<queue>:<id>
	Parent    string // JSON: id, queueKey and the policy for its failure
	Scheduler string // id of the scheduler that makes it

	DedupID    string
	DedupTTL   int64  // ms
	DedupFlags string // of e extend, r replace, k keepLastIfActive, s reschedule

	Defer bool // part of a flow
}

func (q *Store) addCommand(a Add) *command {
	switch a.Kind {
	case Delayed:
		return addDelayedJob
	case Prioritized:
		return addPrioritizedJob
	case Parent:
		return addParentJob
	}
	return addStandardJob
}

// Plain says whether the job needs nothing but its place: such jobs can be added
// by one call, and none of them can be refused.
func (q *Store) Plain(a *Add) bool {
	if a.ID != "" || a.ParentKey != "" || a.Scheduler != "" || a.DedupID != "" {
		return false
	}
	switch a.Kind {
	case Standard:
		return a.Delay == "0" && a.Priority == "0"
	case Prioritized:
		return a.Delay == "0"
	default:
		return a.Kind == Delayed
	}
}

// AddPlain adds plain jobs, in order and in one call, and answers when that is
// done; read tells their ids.
func (q *Store) AddPlain(ctx context.Context, adds []*Add) (read func() ([]string, error)) {
	message, err := q.run(ctx, addPlainJobs, encodePlainAdds(q.base, adds)...)
	return func() ([]string, error) {
		if err != nil {
			return nil, err
		}
		first, err := q.firstPlain(message)
		if err != nil {
			return nil, err
		}
		ids := make([]string, len(adds))
		for i := range ids {
			ids[i] = idText(first + int64(i))
		}
		return ids, nil
	}
}

// firstPlain reads the number of the first of some plain jobs; the others follow it.
func (q *Store) firstPlain(message rueidis.RedisMessage) (int64, error) {
	first, err := message.AsInt64()
	if err != nil {
		return 0, q.unexpected(addPlainJobs, err)
	}
	return first, nil
}

func (q *Store) addArgs(a Add) []string {
	ttl := ""
	if a.DedupTTL > 0 {
		ttl = decimal(a.DedupTTL)
	}
	args := []string{q.base, a.ID, a.Name, a.Data, a.Opts, a.Timestamp, a.Delay, a.Priority, flag(a.LIFO),
		a.ParentKey, a.Parent, a.Scheduler, a.DedupID, ttl, a.DedupFlags, flag(a.Defer)}
	used := len(args)
	for used > 8 && args[used-1] == "" {
		used--
	}
	// A deduplicated add needs its flags, be they empty.
	if a.DedupID != "" && used < 15 {
		used = 15
	}
	return args[:used]
}

// AddOutcome is what an add did.
type AddOutcome int

// The outcomes of an add.
const (
	Added         AddOutcome = iota
	AlreadyExists            // a job with the same id exists; nothing was added
	Deduplicated             // another job owns the deduplication id; nothing was added
)

// AddResult is the outcome of an add, with the id of the added job, of the
// existing one, or of the owner of the deduplication id.
type AddResult struct {
	JobID   string
	Outcome AddOutcome
}

// Add adds one job.
func (q *Store) Add(ctx context.Context, add Add) (AddResult, error) {
	if q.Plain(&add) {
		ids, err := q.AddPlain(ctx, []*Add{&add})()
		if err != nil {
			return AddResult{}, err
		}
		return AddResult{JobID: ids[0]}, nil
	}
	message, err := q.run(ctx, q.addCommand(add), q.addArgs(add)...)
	if err != nil {
		return AddResult{}, err
	}
	return q.added(add, message)
}

// Jobs that one call adds at most: enough to make the call itself cheap, and few
// enough for others to get a word in between two.
const plainAtOnce = 250

// AddMany adds jobs in order, in one round trip for each 1000. Each job is
// added or refused by itself. After a round trip in which the server or the way
// to it has failed no more are sent.
func (q *Store) AddMany(ctx context.Context, adds []Add) ([]AddResult, *backend.BulkError) {
	results := make([]AddResult, len(adds))
	var failed *backend.BulkError
	broken := false
	for from := 0; from < len(adds); from += 1000 {
		if broken {
			note(failed, len(adds), from, len(adds), backend.ErrNotSent)
			break
		}
		calls := q.bulk(adds[from:min(from+1000, len(adds))])
		at := from
		for i, result := range q.pipeline(ctx, calls) {
			message, err := result.ToMessage()
			if err == nil {
				err = q.addedAll(calls[i], message, results[at:])
			} else {
				broken, err = true, q.failed(calls[i].command, err)
			}
			if err != nil {
				failed = note(failed, len(adds), at, at+len(calls[i].adds), err)
			}
			at += len(calls[i].adds)
		}
	}
	return results, failed
}

// note sets the error of some of all jobs, in failed or a new BulkError.
func note(failed *backend.BulkError, all, from, to int, err error) *backend.BulkError {
	if failed == nil {
		failed = &backend.BulkError{Errs: make([]error, all)}
	}
	for i := from; i < to; i++ {
		failed.Errs[i] = err
	}
	return failed
}

// bulkCall is a call that adds one job, or several plain ones in a row.
type bulkCall struct {
	command *command
	args    []string
	adds    []Add
}

func (q *Store) bulk(adds []Add) []bulkCall {
	var calls []bulkCall
	for len(adds) > 0 {
		var plain []*Add
		for n := 0; n < len(adds) && n < plainAtOnce && q.Plain(&adds[n]); n++ {
			plain = append(plain, &adds[n])
		}
		n := len(plain)
		if n == 0 {
			calls = append(calls, bulkCall{q.addCommand(adds[0]), q.addArgs(adds[0]), adds[:1]})
			adds = adds[1:]
			continue
		}
		calls = append(calls, bulkCall{addPlainJobs, encodePlainAdds(q.base, plain), adds[:n]})
		adds = adds[n:]
	}
	return calls
}

// addedAll reads the results of the jobs that one call has added.
func (q *Store) addedAll(c bulkCall, message rueidis.RedisMessage, results []AddResult) (err error) {
	if c.command != addPlainJobs {
		results[0], err = q.added(c.adds[0], message)
		return err
	}
	first, err := q.firstPlain(message)
	if err != nil {
		return err
	}
	for i := range c.adds {
		results[i].JobID = idText(first + int64(i))
	}
	return nil
}

// pipeline sends calls by EVALSHA and, for those whose script the server did
// not know, once more by EVAL, still in order. Calls of several kinds bring
// their scripts along: a server that knew only some of the scripts would carry
// out those before the others.
func (q *Store) pipeline(ctx context.Context, calls []bulkCall) []rueidis.RedisResult {
	build := func(c bulkCall, withText bool) rueidis.Completed {
		return q.call(q.client.B(), c.command, withText, c.args)
	}
	sent := make([]rueidis.Completed, len(calls))
	mixed := slices.ContainsFunc(calls, func(c bulkCall) bool { return c.command != calls[0].command })
	brought := map[*command]bool{}
	for i, c := range calls {
		sent[i] = build(c, mixed && !brought[c.command])
		brought[c.command] = true
	}
	results := q.client.DoMulti(ctx, sent...)
	var unknown []int
	for i, result := range results {
		if IsNoScript(result.Error()) {
			unknown = append(unknown, i)
		}
	}
	if len(unknown) == 0 {
		return results
	}
	withText := map[*command]bool{}
	again := make([]rueidis.Completed, len(unknown))
	for n, i := range unknown {
		again[n] = build(calls[i], !withText[calls[i].command])
		withText[calls[i].command] = true
	}
	for n, result := range q.client.DoMulti(ctx, again...) {
		// Flushed between the two: the text is sent by itself.
		if IsNoScript(result.Error()) {
			result = q.client.Do(ctx, build(calls[unknown[n]], true))
		}
		results[unknown[n]] = result
	}
	return results
}

// added reads the reply of a script that adds one job: an id, {id, outcome}, or a
// negative number for a refusal.
func (q *Store) added(add Add, message rueidis.RedisMessage) (AddResult, error) {
	if id, err := message.ToString(); err == nil {
		return AddResult{JobID: id}, nil
	}
	if message.IsArray() {
		if parts := texts(message); len(parts) == 2 && parts[1] == "exists" {
			return AddResult{parts[0], AlreadyExists}, nil
		} else if len(parts) == 2 && parts[1] == "deduplicated" {
			return AddResult{parts[0], Deduplicated}, nil
		}
	}
	code, err := message.AsInt64()
	if err != nil {
		return AddResult{}, q.unexpected(q.addCommand(add), err)
	}
	if code < 0 {
		return AddResult{}, q.refusal(q.addCommand(add), code, add.ID, "parent "+add.ParentKey)
	}
	return AddResult{JobID: decimal(code)}, nil
}
