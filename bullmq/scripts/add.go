package scripts

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/rueidis"
)

var (
	addPlainJob       = load("addPlainJob")
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

// AddMany adds jobs in order, in one round trip for each 1000. Each job is
// added or refused by itself; the error tells the first that failed and how
// many were added.
func (q *Queue) AddMany(ctx context.Context, adds []Add) ([]string, error) {
	ids := make([]string, len(adds))
	var failed error
	for from := 0; from < len(adds); from += 1000 {
		chunk := adds[from:min(from+1000, len(adds))]
		for i, result := range q.pipeline(ctx, chunk) {
			message, err := result.ToMessage()
			if err == nil {
				ids[from+i], err = q.added(chunk[i], message)
			}
			if err != nil && failed == nil {
				failed = fmt.Errorf("job %d of the bulk: %w", from+i, err)
			}
		}
		if failed != nil {
			return ids, failed
		}
	}
	return ids, nil
}

// pipeline sends adds by EVALSHA and, for those whose script the server did
// not know, once more by EVAL, still in order. Adds of several kinds bring
// their scripts along: a server that knew only some of the scripts would carry
// out those adds before the others.
func (q *Queue) pipeline(ctx context.Context, adds []Add) []rueidis.RedisResult {
	build := func(add Add, inFull bool) rueidis.Completed {
		return q.call(q.client.B(), q.addCommand(add), inFull, q.addArgs(add))
	}
	calls := make([]rueidis.Completed, len(adds))
	mixed := slices.ContainsFunc(adds, func(add Add) bool { return q.addCommand(add) != q.addCommand(adds[0]) })
	brought := map[*command]bool{}
	for i, add := range adds {
		c := q.addCommand(add)
		calls[i] = build(add, mixed && !brought[c])
		brought[c] = true
	}
	results := q.client.DoMulti(ctx, calls...)
	var unknown []int
	for i, result := range results {
		if IsNoScript(result.Error()) {
			unknown = append(unknown, i)
		}
	}
	if len(unknown) == 0 {
		return results
	}
	sent := map[*command]bool{}
	again := make([]rueidis.Completed, len(unknown))
	for n, i := range unknown {
		again[n] = build(adds[i], !sent[q.addCommand(adds[i])])
		sent[q.addCommand(adds[i])] = true
	}
	for n, result := range q.client.DoMulti(ctx, again...) {
		// Flushed between the two: the text is sent by itself.
		if IsNoScript(result.Error()) {
			result = q.client.Do(ctx, build(adds[unknown[n]], true))
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
