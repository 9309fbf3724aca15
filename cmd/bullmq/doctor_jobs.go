package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

const (
	mostActive  = 1000      // active jobs whose locks are looked at
	mostScanned = 2_000_000 // keys that are scanned for lost jobs without --scan, for all queues together
	timeFactor  = 4096      // of the scores of delayed jobs

	limitedByCall = 1 << 53 / 2 // jobs started in the window, as Queue.RateLimit and Worker.RateLimit set it
)

// queueKeys is what doctor reads from the keys of a queue.
type queueKeys struct {
	version     string    // of the client that wrote meta
	concurrency string    // the global concurrency
	paused      int64     // length of the list "paused"
	marker      bool      // whether there is a marker
	delayed     string    // the first delayed job
	due         time.Time // when it is due
	active      []string  // the first active jobs
	legacy      []string  // keys of old software
	limited     bool      // whether a call has set the rate limit that is in effect
}

func (q *patient) key(suffix string) string { return q.c.prefix + ":" + q.name + ":" + suffix }

// readKeys reads keys by one pipeline.
func (q *patient) readKeys(ctx context.Context) (queueKeys, error) {
	b := q.redis.B
	replies := q.redis.DoMulti(ctx,
		b().Hget().Key(q.key("meta")).Field("version").Build(),
		b().Llen().Key(q.key("paused")).Build(),
		b().Exists().Key(q.key("marker")).Build(),
		b().Zrange().Key(q.key("delayed")).Min("0").Max("0").Withscores().Build(),
		b().Lrange().Key(q.key("active")).Start(-mostActive).Stop(-1).Build(),
		b().Exists().Key(q.key("priority")).Build(),
		b().Exists().Key(q.key("meta-paused")).Build(),
		b().Lrange().Key(q.key("wait")).Start(-1).Stop(-1).Build(),
		b().Zrange().Key(q.key("repeat")).Min("0").Max("20").Build(),
		b().Hget().Key(q.key("meta")).Field("concurrency").Build(),
		b().Get().Key(q.key("limiter")).Build(),
	)
	for _, reply := range replies {
		if err := reply.Error(); err != nil && !rueidis.IsRedisNil(err) {
			return queueKeys{}, fmt.Errorf("read the keys: %w", err)
		}
	}
	var k queueKeys
	k.version, _ = replies[0].ToString()
	k.concurrency, _ = replies[9].ToString()
	started, _ := replies[10].AsInt64()
	k.limited = started >= limitedByCall
	k.paused, _ = replies[1].AsInt64()
	exists := func(i int) bool { n, _ := replies[i].AsInt64(); return n > 0 }
	k.marker = exists(2)
	if first, _ := replies[3].AsZScores(); len(first) > 0 {
		k.delayed, k.due = first[0].Member, time.UnixMilli(int64(first[0].Score)/timeFactor)
	}
	k.active, _ = replies[4].AsStrSlice()
	if exists(5) {
		k.legacy = append(k.legacy, "priority")
	}
	if exists(6) {
		k.legacy = append(k.legacy, "meta-paused")
	}
	if next, _ := replies[7].AsStrSlice(); len(next) > 0 && strings.HasPrefix(next[0], "0:") {
		k.legacy = append(k.legacy, "wait with the entry "+next[0])
	}
	repeatables, _ := replies[8].AsStrSlice()
	// name:id:endDate:tz:pattern, or name:id:endDate:ms; ids of schedulers rarely have colons.
	if slices.ContainsFunc(repeatables, func(member string) bool { return strings.Count(member, ":") >= 3 }) {
		k.legacy = append(k.legacy, "repeat with repeatable jobs")
	}
	return k, nil
}

// examineLocks looks for active jobs that no worker holds.
func (q *patient) examineLocks(ctx context.Context) error {
	commands := make(rueidis.Commands, len(q.raw.active))
	for i, id := range q.raw.active {
		commands[i] = q.redis.B().Exists().Key(q.key(id + ":lock")).Build()
	}
	var without []string
	for i, reply := range q.redis.DoMulti(ctx, commands...) {
		n, err := reply.AsInt64()
		if err != nil {
			return fmt.Errorf("read the locks of active jobs: %w", err)
		}
		if n == 0 {
			without = append(without, q.raw.active[i])
		}
	}
	if len(without) == 0 {
		return nil
	}
	// A busy worker fetches and finishes jobs between the two reads.
	active, without, err := q.unlocked(ctx, without)
	if err != nil || len(without) == 0 {
		return err
	}
	severity, means := severityWarning, "Their workers have died, or are too busy to renew locks. A worker moves such jobs back within two stalled checks, which are 30 seconds apart by default."
	if len(q.workers) == 0 {
		severity, means = severityError, "Their workers have died, and the queue has no other that moves them back. Start one."
	}
	q.found(severity, "stalled", fmt.Sprintf("%d of %s no lock: %s", len(without), count(active, "active job has", "active jobs have"), some(without)), means, q.typed("jobs", q.name, "--state", "active"))
	return nil
}

// unlocked returns how many jobs are active, up to mostActive, and those of some jobs that are
// active and have no lock, all read at the same moment.
func (q *patient) unlocked(ctx context.Context, jobs []string) (active int, without []string, err error) {
	b := q.redis.B
	commands := rueidis.Commands{b().Multi().Build(), b().Lrange().Key(q.key("active")).Start(-mostActive).Stop(-1).Build()}
	for _, id := range jobs {
		commands = append(commands, b().Exists().Key(q.key(id+":lock")).Build())
	}
	commands = append(commands, b().Exec().Build())
	var replies []rueidis.RedisMessage
	err = q.redis.Dedicated(func(client rueidis.DedicatedClient) error {
		results := client.DoMulti(ctx, commands...)
		var err error
		replies, err = results[len(results)-1].ToArray()
		return err
	})
	if err != nil || len(replies) != len(jobs)+1 {
		return 0, nil, fmt.Errorf("read the locks of active jobs again: %w", cmp.Or(err, errReplies))
	}
	ids, err := replies[0].AsStrSlice()
	if err != nil {
		return 0, nil, fmt.Errorf("read the active jobs again: %w", err)
	}
	isActive := map[string]bool{}
	for _, id := range ids {
		isActive[id] = true
	}
	for i, id := range jobs {
		n, err := replies[i+1].AsInt64()
		if err != nil {
			return 0, nil, fmt.Errorf("read the locks of active jobs again: %w", err)
		}
		if n == 0 && isActive[id] {
			without = append(without, id)
		}
	}
	return len(ids), without, nil
}

var errReplies = errors.New("the transaction has another number of replies")

// examineLost looks for jobs that are in no state, unless that would scan too many keys.
func (q *patient) examineLost(ctx context.Context) error {
	if scans := int64(len(q.names)); !q.scan && q.keys*scans > mostScanned {
		q.found(severityInfo, "lost", fmt.Sprintf("stranded and orphaned jobs were not looked for, as that scans the %d keys of the database for each queue", q.keys), "", q.typed("doctor", q.name, "--scan"))
		return nil
	}
	queue, err := bullmq.NewQueue(ctx, q.name, &bullmq.QueueOptions{Connection: q.connection, Prefix: q.c.prefix, SkipMetaUpdate: true})
	if err != nil {
		return err
	}
	defer queue.Close()
	stranded, err := queue.FindStrandedJobs(ctx)
	if err != nil {
		return err
	}
	if len(stranded) > 0 {
		q.found(severityError, "stranded", fmt.Sprintf("%s in no state: %s", count(len(stranded), "unfinished job is", "unfinished jobs are"), some(stranded)),
			"No worker can fetch them. BullMQ 5 loses jobs so when it pauses or resumes a queue that newer clients use.", q.typed("repair", q.name))
	}
	orphaned, err := queue.FindOrphanedJobs(ctx)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, id := range stranded {
		known[id] = true
	}
	orphaned = slices.DeleteFunc(orphaned, func(id string) bool { return known[id] })
	if len(orphaned) > 0 {
		q.found(severityWarning, "orphaned", fmt.Sprintf("%s in no state: %s", count(len(orphaned), "job has keys but is", "jobs have keys but are"), some(orphaned)),
			"They only use memory. An interrupted obliterate leaves them.", q.typed("orphans", q.name, "--remove"))
	}
	return nil
}
