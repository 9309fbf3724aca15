package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Account is the ledger held against Redis.
type Account struct {
	Added     int // answered with a job
	Doubtful  int // adds whose answer was lost
	Arrived   int // of those, jobs that are there all the same
	Refused   int // adds that added nothing, and said so
	Completed int
	Failed    int
	Left      int // still to be run

	Lost    int // added, and not to be found
	Doubled int // further jobs of one add
	Phantom int // there, though the add was refused

	Reruns [2]int // attempts started again after a start in Go, and after one in Node
	Stalls int    // how often a job was found without its lock
	Untold int    // ended, and no worker lived to tell
	Spoilt int    // ended otherwise than planned, since Node took Redis's refusal for the handler's error

	Wrong []string // what else isn't as it must be, in words; at most ten
}

// Balanced reports whether what came in is what came out.
func (a Account) Balanced() bool {
	return a.Added+a.Arrived == a.Completed+a.Failed+a.Left && a.Lost == 0 && a.Doubled == 0 && a.Phantom == 0
}

func (a *Account) say(format string, args ...any) {
	if len(a.Wrong) < 10 {
		a.Wrong = append(a.Wrong, fmt.Sprintf(format, args...))
	}
}

// The lists and sets of a queue that hold jobs, and whether they have ended there.
var places = []struct {
	suffix, read string
}{
	{"completed", "ZRANGE"}, {"failed", "ZRANGE"}, {"wait", "LRANGE"}, {"active", "LRANGE"},
	{"delayed", "ZRANGE"}, {"prioritized", "ZRANGE"}, {"paused", "LRANGE"}, {"waiting-children", "ZRANGE"},
}

// record is a job as Redis holds it.
type record struct {
	id, place    string
	by, reason   string // its last worker, and why it failed
	spoilt       bool   // Node has taken a refusal by Redis for the handler's error
	sequence     int
	made, stalls int
}

// stored reads all jobs of a queue, whose key prefix is base, and hands them out.
func stored(ctx context.Context, client rueidis.Client, base string, each func(record)) error {
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
			for i, answer := range client.DoMulti(ctx, reads...) {
				fields, err := answer.AsStrSlice()
				if err != nil {
					return fmt.Errorf("read job %s: %w", some[i], err)
				}
				r := record{id: some[i], place: place.suffix, sequence: sequenceOf(fields[0]), by: fields[3], reason: fields[4]}
				r.made, _ = strconv.Atoi(fields[1])
				r.stalls, _ = strconv.Atoi(fields[2])
				r.spoilt = strings.Contains(fields[5], "ReplyError: ") // the class of ioredis
				each(r)
			}
		}
	}
	return nil
}

// sequenceOf reads a job's number from its data; -1 where there is none.
func sequenceOf(data string) int {
	var d struct{ Sequence *int }
	if json.Unmarshal([]byte(data), &d) != nil || d.Sequence == nil {
		return -1
	}
	return *d.Sequence
}

// Settle holds the ledger against the queue in Redis whose key prefix is base.
func (l *Ledger) Settle(ctx context.Context, client rueidis.Client, base string) (Account, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := Account{Wrong: append([]string(nil), l.strange...)}
	found, stalls := make([]uint8, len(l.jobs)), make([]int32, len(l.jobs))
	err := stored(ctx, client, base, func(r record) {
		if r.sequence < 0 || r.sequence >= len(l.jobs) {
			a.say("job %s is in %s and in no ledger", r.id, r.place)
			return
		}
		found[r.sequence]++
		stalls[r.sequence] += int32(r.stalls)
		a.Stalls += r.stalls
		a.check(r, l.jobs[r.sequence])
	})
	for sequence, e := range l.jobs {
		a.enter(sequence, e, int(found[sequence]))
		if reruns := int(e.reruns[Go]) + int(e.reruns[Node]); reruns > int(stalls[sequence]) {
			a.say("job %d was started again %d times, and had lost its lock %d times", sequence, reruns, stalls[sequence])
		}
	}
	if !a.Balanced() {
		a.say("added %d + arrived %d is not completed %d + failed %d + left %d", a.Added, a.Arrived, a.Completed, a.Failed, a.Left)
	}
	return a, err
}

// check compares a job as it stands with what was to become of it.
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
	if r.spoilt {
		a.Spoilt++
		return
	}
	if failed := r.place == "failed"; failed != e.fails() {
		a.say("job %s (%d) is in %s, by %s (%s), and was to fail %d of %d attempts", r.id, r.sequence, r.place, r.by, r.reason, e.failures, e.attempts)
	} else if want := min(int(e.failures)+1, int(e.attempts)); r.made != want {
		a.say("job %s (%d) has made %d attempts, not %d, the last by %s (%s)", r.id, r.sequence, r.made, want, r.by, r.reason)
	}
	switch {
	case e.starts == 0:
		a.say("job %s (%d) is in %s and no handler was started", r.id, r.sequence, r.place)
	case e.ends == 0:
		a.Untold++
	case e.ends > 1:
		a.say("the end of job %s (%d) was told %d times", r.id, r.sequence, e.ends)
	case e.failed != e.fails():
		a.say("job %s (%d) is in %s, and its worker told the opposite", r.id, r.sequence, r.place)
	}
}

// enter counts one line of the ledger; there is how many jobs of it Redis has.
func (a *Account) enter(sequence int, e entry, there int) {
	for side, n := range e.reruns {
		a.Reruns[side] += int(n)
	}
	a.Doubled += max(0, there-1)
	switch e.add {
	case added:
		a.Added++
		if there == 0 {
			a.Lost++
			a.say("job %d, added by %v, is lost; %d starts, %d ends", sequence, e.by, e.starts, e.ends)
		}
	case doubtful, offered:
		a.Doubtful++
		a.Arrived += min(there, 1)
	case refused:
		a.Refused++
		if there > 0 {
			a.Phantom++
			a.say("job %d is there, and %v was told that it was not added", sequence, e.by)
		}
	}
	if there > 1 {
		a.say("job %d, added once by %v, is there %d times", sequence, e.by, there)
	}
}

// unfinished is how many jobs of a queue have not ended.
func unfinished(ctx context.Context, client rueidis.Client, base string) (int64, error) {
	var total int64
	for _, place := range places[2:] {
		count := "LLEN"
		if place.read == "ZRANGE" {
			count = "ZCARD"
		}
		n, err := client.Do(ctx, client.B().Arbitrary(count).Keys(base+place.suffix).Build()).AsInt64()
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// drained waits until no job of a queue is left to run.
func drained(ctx context.Context, client rueidis.Client, base string) error {
	for {
		left, err := unfinished(ctx, client, base)
		if err == nil && left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d jobs of %s are left: %w (%w)", left, base, context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
