package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/rueidis"
)

const (
	mostParents  = 200  // parents whose children are looked at, the oldest
	mostChildren = 2000 // pending children of them together
)

// pendingChild is a child for which a parent waits.
type pendingChild struct {
	parent, key   string
	queue, failed string // its queue, and the key of the failed jobs of that queue
	prefix, id    string
}

// examineParents looks for parents that wait for a child that has failed. Such a child fails its
// parent, or lets it go on, only with an option of its own.
func (q *patient) examineParents(ctx context.Context) error {
	parents, err := q.redis.Do(ctx, q.redis.B().Zrange().Key(q.key("waiting-children")).Min("0").Max(fmt.Sprint(mostParents-1)).Build()).AsStrSlice()
	if err != nil || len(parents) == 0 {
		return wrapped("read the waiting parents", err)
	}
	pending, err := q.pendingChildren(ctx, parents)
	if err != nil {
		return wrapped("read the children of waiting parents", err)
	}
	stuck, err := q.failedChildren(ctx, pending)
	if err != nil {
		return wrapped("look for failed children", err)
	}
	if len(stuck) == 0 {
		return nil
	}
	var names []string
	waiting := map[string]bool{}
	for _, child := range stuck {
		if !waiting[child.parent] {
			waiting[child.parent] = true
			names = append(names, fmt.Sprintf("%s (child %s)", child.parent, child.key))
		}
	}
	first := stuck[0]
	q.found(severityWarning, "failed-child", fmt.Sprintf("%s for a child that has failed: %s", count(len(names), "parent waits", "parents wait"), some(names)),
		"A failed child lets its parent go on, or fail, only with an option such as failParentOnFailure or ignoreDependencyOnFailure. The parent waits until the child is retried and completes, or is removed.",
		q.typedFor(first.prefix, "retry", first.queue)+" "+shellWord(first.id))
	return nil
}

func wrapped(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// pendingChildren returns children for which parents wait, up to mostChildren.
func (q *patient) pendingChildren(ctx context.Context, parents []string) (pending []pendingChild, err error) {
	commands := make(rueidis.Commands, len(parents))
	for i, parent := range parents {
		commands[i] = q.redis.B().Sscan().Key(q.key(parent + ":dependencies")).Cursor(0).Count(mostChildren / mostParents).Build()
	}
	for i, reply := range q.redis.DoMulti(ctx, commands...) {
		page, err := reply.AsScanEntry()
		if err != nil {
			return nil, err
		}
		for _, key := range page.Elements {
			if child, ok := parseChild(key); ok && len(pending) < mostChildren {
				child.parent = parents[i]
				pending = append(pending, child)
			}
		}
	}
	return pending, nil
}

// failedChildren returns the children that have failed, and for which their parents wait still.
// With some options, the failure of a child ends that meanwhile.
func (q *patient) failedChildren(ctx context.Context, pending []pendingChild) ([]pendingChild, error) {
	failed, err := q.filter(ctx, pending, func(child pendingChild) rueidis.Completed {
		return q.redis.B().Zscore().Key(child.failed).Member(child.id).Build()
	})
	if err != nil {
		return nil, err
	}
	return q.filter(ctx, failed, func(child pendingChild) rueidis.Completed {
		return q.redis.B().Sismember().Key(q.key(child.parent + ":dependencies")).Member(child.key).Build()
	})
}

// filter returns the children for which a command returns neither nil nor 0.
func (q *patient) filter(ctx context.Context, children []pendingChild, command func(pendingChild) rueidis.Completed) (left []pendingChild, err error) {
	commands := make(rueidis.Commands, len(children))
	for i, child := range children {
		commands[i] = command(child)
	}
	for i, reply := range q.redis.DoMulti(ctx, commands...) {
		value, err := reply.ToMessage()
		if rueidis.IsRedisNil(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n, err := value.AsInt64(); n != 0 || err != nil { // a score may be no integer
			left = append(left, children[i])
		}
	}
	return left, nil
}

// parseChild returns the parts of the key of a child, such as bull:mails:7. A prefix may have
// colons, a name of a queue can't. The ids of schedulers' jobs have colons.
func parseChild(key string) (child pendingChild, ok bool) {
	base, id := key, ""
	if at := strings.Index(key, ":repeat:"); at > 0 {
		base, id = key[:at], key[at+1:]
	} else if at := strings.LastIndexByte(key, ':'); at > 0 {
		base, id = key[:at], key[at+1:]
	}
	prefix, queue, ok := cutLast(base, ":")
	return pendingChild{key: key, prefix: prefix, queue: queue, id: id, failed: base + ":failed"}, ok && id != "" && queue != ""
}

func cutLast(text, separator string) (before, after string, found bool) {
	at := strings.LastIndex(text, separator)
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+len(separator):], true
}
