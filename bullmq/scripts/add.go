package scripts

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/rueidis"
)

var (
	addPlainJob       = load("addPlainJob")
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

func (q *Queue) addCommand(a Add) *command {
	switch a.Kind {
	case Delayed:
		return addDelayedJob
	case Prioritized:
		return addPrioritizedJob
	case Parent:
		return addParentJob
	}
	if q.plain(a) {
		return addPlainJob
	}
	return addStandardJob
}

// plain says whether the job needs nothing but a place in line.
func (q *Queue) plain(a Add) bool {
	return q.Dialect == V6 && a.Kind == Standard && a.ID == "" && a.ParentKey == "" && a.Scheduler == "" && a.DedupID == ""
}

func (q *Queue) addArgs(a Add) []string {
	if q.plain(a) {
		return []string{q.base, a.Name, a.Data, a.Opts, a.Timestamp, a.Delay, a.Priority, flag(a.LIFO)}
	}
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

// Add adds one job and answers the id that stands for it: its own, that of an
// existing job with the same id, or that of the owner of its deduplication id.
func (q *Queue) Add(ctx context.Context, add Add) (string, error) {
	message, err := q.run(ctx, q.addCommand(add), q.addArgs(add)...)
	if err != nil {
		return "", err
	}
	return q.added(add, message)
}

// Jobs that one call adds at most: enough to make the call itself cheap, and few
// enough for others to get a word in between two.
const plainAtOnce = 250

// AddMany adds jobs in order, in one round trip for each 1000. Each job is
// added or refused by itself; the error tells the first that failed and how
// many were added.
func (q *Queue) AddMany(ctx context.Context, adds []Add) ([]string, error) {
	ids := make([]string, len(adds))
	var failed error
	for from := 0; from < len(adds); from += 1000 {
		calls := q.bulk(adds[from:min(from+1000, len(adds))])
		at := from
		for i, result := range q.pipeline(ctx, calls) {
			message, err := result.ToMessage()
			if err == nil {
				err = q.addedAll(calls[i], message, ids[at:])
			}
			if err != nil && failed == nil {
				failed = fmt.Errorf("bullmq: job %d of a bulk of %s: %w", at, q.base, err)
			}
			at += len(calls[i].adds)
		}
		if failed != nil {
			return ids, failed
		}
	}
	return ids, nil
}

// bulkCall is a call that adds one job, or several plain ones in a row.
type bulkCall struct {
	command *command
	args    []string
	adds    []Add
}

func (q *Queue) bulk(adds []Add) []bulkCall {
	var calls []bulkCall
	for len(adds) > 0 {
		n := 0
		for n < len(adds) && n < plainAtOnce && q.plain(adds[n]) {
			n++
		}
		if n < 2 {
			calls = append(calls, bulkCall{q.addCommand(adds[0]), q.addArgs(adds[0]), adds[:1]})
			adds = adds[1:]
			continue
		}
		args := make([]string, 1, 1+7*n)
		args[0] = q.base
		for _, add := range adds[:n] {
			args = append(args, q.addArgs(add)[1:]...)
		}
		calls = append(calls, bulkCall{addPlainJobs, args, adds[:n]})
		adds = adds[n:]
	}
	return calls
}

// addedAll reads the ids of the jobs that one call has added.
func (q *Queue) addedAll(c bulkCall, message rueidis.RedisMessage, ids []string) (err error) {
	if c.command != addPlainJobs {
		ids[0], err = q.added(c.adds[0], message)
		return err
	}
	if copy(ids, texts(message)) < len(c.adds) {
		return q.unexpected(c.command, fmt.Errorf("%d jobs were added, and fewer ids came back", len(c.adds)))
	}
	return nil
}

// pipeline sends calls by EVALSHA and, for those whose script the server did
// not know, once more by EVAL, still in order. Calls of several kinds bring
// their scripts along: a server that knew only some of the scripts would carry
// out those before the others.
func (q *Queue) pipeline(ctx context.Context, calls []bulkCall) []rueidis.RedisResult {
	build := func(c bulkCall, inFull bool) rueidis.Completed {
		return q.call(q.client.B(), c.command, inFull, c.args)
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
	inFull := map[*command]bool{}
	again := make([]rueidis.Completed, len(unknown))
	for n, i := range unknown {
		again[n] = build(calls[i], !inFull[calls[i].command])
		inFull[calls[i].command] = true
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

func (q *Queue) added(add Add, message rueidis.RedisMessage) (string, error) {
	if id, err := message.ToString(); err == nil {
		return id, nil
	}
	code, err := message.AsInt64()
	if err != nil {
		return "", q.unexpected(q.addCommand(add), err)
	}
	if code < 0 {
		return "", q.refusal(q.addCommand(add), code, add.ID, "parent "+add.ParentKey)
	}
	return decimal(code), nil
}
