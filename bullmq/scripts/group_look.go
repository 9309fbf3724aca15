package scripts

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// glance is the number of queues whose keys one EXISTS counts. A script takes several times
// as long for each queue, and most queues have none of the keys.
const glance = 16

// The bits of a queue in the reply of lookAtQueues.
const (
	seenReady = 1 << iota
	seenRunning
	seenCancelled
	seenFailed
	seenVanished
)

// LookAtQueues finds the queues that need attention.
func (g *Group) LookAtQueues(ctx context.Context, queues []string, l backend.Look) ([]backend.Seen, error) {
	indexes, err := g.glance(ctx, queues, l)
	if err != nil || len(indexes) == 0 {
		return nil, err
	}
	looked := make([]string, len(indexes))
	for i, index := range indexes {
		looked[i] = queues[index]
	}
	reply, err := g.run(ctx, lookAtQueues, looked, flag(l.Quick), flag(l.Claim), flag(l.Failed), flag(l.Vanished))
	if err != nil {
		return nil, err
	}
	seen := make([]backend.Seen, 0, len(reply)/3)
	for ; len(reply) >= 3; reply = reply[3:] {
		n, _ := reply[0].AsInt64()
		bits, _ := reply[1].AsInt64()
		dueMs, _ := reply[2].AsInt64()
		if n < 1 || int(n) > len(indexes) {
			continue
		}
		one := backend.Seen{
			Index: indexes[n-1], Ready: bits&seenReady != 0, Running: bits&seenRunning != 0, Cancelled: bits&seenCancelled != 0,
			Failed: bits&seenFailed != 0, Vanished: bits&seenVanished != 0,
		}
		if dueMs > 0 {
			one.NextDue = time.UnixMilli(dueMs)
		}
		seen = append(seen, one)
	}
	return seen, nil
}

// glance returns the indexes of queues that may need attention. It counts, for each group of
// 16 queues, which of the keys exist that a look reads. If any exists, all queues of the
// group may need attention. For 16 queues or fewer it returns all indexes, without a call.
func (g *Group) glance(ctx context.Context, queues []string, l backend.Look) (indexes []int, err error) {
	if len(queues) <= glance {
		for i := range queues {
			indexes = append(indexes, i)
		}
		return indexes, nil
	}
	suffixes := []string{"marker"}
	if !l.Quick {
		suffixes = []string{"wait", "prioritized", "delayed", "active"}
		if l.Failed {
			suffixes = append(suffixes, "failed")
		}
	}
	exists := func(group []string, suffixes ...string) rueidis.Completed {
		keys := make([]string, 0, len(group)*len(suffixes))
		for _, queue := range group {
			for _, suffix := range suffixes {
				keys = append(keys, queue+suffix)
			}
		}
		return g.client.B().Exists().Key(keys...).Build()
	}
	commands := make([]rueidis.Completed, 0, 3*(len(queues)/glance+1))
	for group := range slices.Chunk(queues, glance) {
		commands = append(commands, exists(group, suffixes...))
		if !l.Quick {
			told := make([]string, len(group))
			for i, queue := range group {
				told[i] = cancelEventsKey(queue)
			}
			commands = append(commands, g.client.B().Exists().Key(told...).Build())
		}
		if l.Vanished && !l.Quick {
			commands = append(commands, exists(group, "meta"))
		}
	}
	results := g.client.DoMulti(ctx, commands...)
	next := func() (found int64, err error) {
		found, err = results[0].AsInt64()
		if results = results[1:]; err != nil {
			err = aboutQueues("a look", queues, err)
		}
		return found, err
	}
	for from := 0; from < len(queues); from += glance {
		to := min(from+glance, len(queues))
		found, err := next()
		if err == nil && !l.Quick {
			var told int64
			if told, err = next(); isForbidden(err) {
				err = nil
			}
			found += told
		}
		if err == nil && l.Vanished && !l.Quick {
			var metas int64
			metas, err = next()
			found += int64(to-from) - metas
		}
		if err != nil {
			return nil, err
		}
		if found == 0 {
			continue
		}
		for i := from; i < to; i++ {
			indexes = append(indexes, i)
		}
	}
	return indexes, nil
}

// isForbidden reports whether the user of the caller lacks the permission for a command.
func isForbidden(err error) bool {
	var refusal *rueidis.RedisError
	return errors.As(err, &refusal) && strings.HasPrefix(refusal.Error(), "NOPERM")
}

// ReturnDues sets markers again, with the times of delayed jobs.
func (g *Group) ReturnDues(ctx context.Context, dues []backend.QueueDue) error {
	commands := make([]rueidis.Completed, len(dues))
	for i, due := range dues {
		commands[i] = g.client.B().Zadd().Key(due.Queue+"marker").Lt().ScoreMember().ScoreMember(float64(due.At.UnixMilli()), "1").Build()
	}
	for i, result := range g.client.DoMulti(ctx, commands...) {
		if err := result.Error(); err != nil {
			return aboutQueues("the marker", []string{dues[i].Queue}, err)
		}
	}
	return nil
}

// DialectHintsOf returns the data that determines the dialect of each queue.
func (g *Group) DialectHintsOf(ctx context.Context, queues []string) ([]backend.QueueDialect, error) {
	commands := make([]rueidis.Completed, 0, 2*len(queues))
	for _, queue := range queues {
		commands = append(commands,
			g.client.B().Hget().Key(queue+"meta").Field("version").Build(),
			g.client.B().Exists().Key(queue+"paused").Build())
	}
	hints := make([]backend.QueueDialect, len(queues))
	results := g.client.DoMulti(ctx, commands...)
	for i := range hints {
		var err error
		if hints[i].Version, err = results[2*i].ToString(); err == nil || rueidis.IsRedisNil(err) {
			hints[i].Paused, err = results[2*i+1].AsBool()
		}
		hints[i].Err = err
	}
	return hints, nil
}
