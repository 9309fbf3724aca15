package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Account is the result of comparing the ledger with Redis.
type Account struct {
	Added     int // adds that returned a job
	Doubtful  int // adds whose reply was lost
	Arrived   int // doubtful adds whose job exists
	Refused   int // adds that returned an error and added nothing
	Completed int
	Failed    int
	Left      int // not finished yet

	Lost    int // added but missing
	Doubled int // additional jobs of one add
	Phantom int // refused but present

	Reruns    [2]int // attempts started again, by the library that had fetched them before: Go, Node
	Stalls    int    // how often a job was found without its lock
	Untold    int    // finished jobs whose end no worker reported, because it died
	Misfailed int    // jobs that Node failed because it took an error of Redis for one of the handler

	Wrong []string // descriptions of other discrepancies, at most ten
}

// Balanced reports whether every added job is accounted for.
func (a Account) Balanced() bool {
	return a.Added+a.Arrived == a.Completed+a.Failed+a.Left && a.Lost == 0 && a.Doubled == 0 && a.Phantom == 0
}

func (a *Account) fault(format string, args ...any) {
	if len(a.Wrong) < 10 {
		a.Wrong = append(a.Wrong, fmt.Sprintf(format, args...))
	}
}

// places lists the lists and sets of a queue that hold jobs, and whether their jobs have finished.
var places = []struct {
	suffix, read string
}{
	{"completed", "ZRANGE"}, {"failed", "ZRANGE"}, {"wait", "LRANGE"}, {"active", "LRANGE"},
	{"delayed", "ZRANGE"}, {"prioritized", "ZRANGE"}, {"paused", "LRANGE"}, {"waiting-children", "ZRANGE"},
}

// record is a job as stored in Redis.
type record struct {
	id, place    string
	by, reason   string // its last worker, and its failure reason
	misfailed    bool   // see Account.Misfailed
	sequence     int
	made, stalls int
}

// queueKeys are the keys of a queue: those with the prefix base on a server.
type queueKeys struct {
	client rueidis.Client
	base   string
}

// stored reads all jobs of a queue and passes them to each.
func stored(ctx context.Context, queue queueKeys, each func(record)) error {
	client, base := queue.client, queue.base
	for _, place := range places {
		ids, err := client.Do(ctx, client.B().Arbitrary(place.read).Keys(base+place.suffix).Args("0", "-1").Build()).AsStrSlice()
		if err != nil {
			return fmt.Errorf("read %s%s: %w", base, place.suffix, err)
		}
		for from := 0; from < len(ids); from += 500 {
			some := ids[from:min(from+500, len(ids))]
			var reads rueidis.Commands
			for _, id := range some {
				reads = append(reads, client.B().Hmget().Key(base+id).Field("data", "atm", "stc", "pb", "failedReason", "stacktrace").Build())
			}
			for i, reply := range client.DoMulti(ctx, reads...) {
				fields, err := reply.AsStrSlice()
				if err != nil {
					return fmt.Errorf("read job %s: %w", some[i], err)
				}
				r := record{id: some[i], place: place.suffix, sequence: sequenceOf(fields[0]), by: fields[3], reason: fields[4]}
				r.made, _ = strconv.Atoi(fields[1])
				r.stalls, _ = strconv.Atoi(fields[2])
				r.misfailed = strings.Contains(fields[5], "ReplyError: ") // ioredis's error class
				each(r)
			}
		}
	}
	return nil
}

// sequenceOf parses a job's number from its data. It returns -1 if there is none.
func sequenceOf(data string) int {
	var d struct{ Sequence *int }
	if json.Unmarshal([]byte(data), &d) != nil || d.Sequence == nil {
		return -1
	}
	return *d.Sequence
}

// Settle compares the ledger with its queues in Redis.
func (l *Ledger) Settle(ctx context.Context, queues ...queueKeys) (Account, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := Account{Wrong: append([]string(nil), l.strange...)}
	found, stalls := make([]uint8, len(l.jobs)), make([]int32, len(l.jobs))
	read := func(r record) {
		if r.sequence < 0 || r.sequence >= len(l.jobs) {
			a.fault("job %s is in %s but not in the ledger", r.id, r.place)
			return
		}
		found[r.sequence]++
		stalls[r.sequence] += int32(r.stalls)
		a.Stalls += r.stalls
		a.check(r, l.jobs[r.sequence])
	}
	var err error
	for _, queue := range queues {
		err = errors.Join(err, stored(ctx, queue, read))
	}
	for sequence, e := range l.jobs {
		a.enter(sequence, e, int(found[sequence]))
		if reruns := int(e.reruns[Go]) + int(e.reruns[Node]); reruns > int(stalls[sequence]) {
			a.fault("job %d was started again %d times but lost its lock %d times", sequence, reruns, stalls[sequence])
		}
	}
	if !a.Balanced() {
		a.fault("added %d + arrived %d does not equal completed %d + failed %d + left %d", a.Added, a.Arrived, a.Completed, a.Failed, a.Left)
	}
	return a, err
}

// check compares a stored job with its planned outcome.
func (a *Account) check(r record, e entry) {
	switch r.place {
	case "completed":
		a.Completed++
	case "failed":
		a.Failed++
	default:
		a.Left++
		return
	}
	if r.misfailed {
		a.Misfailed++
		return
	}
	if failed := r.place == "failed"; failed != e.fails() {
		a.fault("job %s (%d) is in %s, by %s (%s)but should fail %d of %d attempts", r.id, r.sequence, r.place, r.by, r.reason, e.failures, e.attempts)
	} else if want := min(int(e.failures)+1, int(e.attempts)); r.made != want {
		a.fault("job %s (%d) has made %d attempts, not %d, the last by %s (%s)", r.id, r.sequence, r.made, want, r.by, r.reason)
	}
	switch {
	case e.starts == 0:
		a.fault("job %s (%d) is in %s but no handler was started", r.id, r.sequence, r.place)
	case e.ends == 0:
		a.Untold++
	case e.ends > 1:
		a.fault("the end of job %s (%d) was reported %d times", r.id, r.sequence, e.ends)
	case e.failed != e.fails():
		a.fault("job %s (%d) is in %sbut its worker reported the opposite", r.id, r.sequence, r.place)
	}
}

// enter counts one entry of the ledger. there is the number of its jobs in Redis.
func (a *Account) enter(sequence int, e entry, there int) {
	for library, n := range e.reruns {
		a.Reruns[library] += int(n)
	}
	a.Doubled += max(0, there-1)
	switch e.add {
	case added:
		a.Added++
		if there == 0 {
			a.Lost++
			a.fault("job %d, added by %v, is lost; %d starts, %d ends", sequence, e.by, e.starts, e.ends)
		}
	case doubtful, offered:
		a.Doubtful++
		a.Arrived += min(there, 1)
	case refused:
		a.Refused++
		if there > 0 {
			a.Phantom++
			a.fault("job %d exists, but its add from %v was refused", sequence, e.by)
		}
	}
	if there > 1 {
		a.fault("job %d, added once by %v, exists %d times", sequence, e.by, there)
	}
}

// countUnfinished counts the jobs of lists and sets. It is a script, so that no job moves from one to another meanwhile.
const countUnfinished = `
local total = 0
for i, key in ipairs(KEYS) do
	total = total + redis.call(ARGV[i], key)
end
return total`

// unfinished returns the number of unfinished jobs of a queue.
func unfinished(ctx context.Context, queue queueKeys) (int64, error) {
	var keys, counts []string
	for _, place := range places[2:] {
		count := "LLEN"
		if place.read == "ZRANGE" {
			count = "ZCARD"
		}
		keys, counts = append(keys, queue.base+place.suffix), append(counts, count)
	}
	return queue.client.Do(ctx, queue.client.B().Eval().Script(countUnfinished).Numkeys(int64(len(keys))).Key(keys...).Arg(counts...).Build()).AsInt64()
}

// drained waits until each of the queues has no unfinished jobs.
func drained(ctx context.Context, queues ...queueKeys) error {
	for _, queue := range queues {
		if err := queue.drained(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (q queueKeys) drained(ctx context.Context) error {
	for {
		left, err := unfinished(ctx, q)
		if err == nil && left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d jobs of %s are left: %w (%w)", left, q.base, context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
