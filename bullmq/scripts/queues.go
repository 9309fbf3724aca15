package scripts

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

var (
	summarizeQueues = load("summarizeQueues")
	lastEvents      = load("lastEvents")
)

// QueueFinder finds queues by the names of their keys.
type QueueFinder struct{ client KeyFinder }

// KeyFinder is a [Client] that lists the keys of a server, or of all nodes of a cluster.
type KeyFinder interface {
	Client
	// EachKey passes the keys that match a pattern to each, page by page, until each returns
	// false.
	EachKey(ctx context.Context, pattern string, each func(keys []string) (more bool)) error
}

var _ backend.QueueFinder = (*QueueFinder)(nil)

// NewQueueFinder returns a QueueFinder.
func NewQueueFinder(client KeyFinder) *QueueFinder { return &QueueFinder{client} }

// Each key of a queue that has had a job, or was opened by a Queue: a queue that only flows
// were added to has no meta, and one whose jobs have ids of their own has no id. The pattern
// is as narrow as a pattern can be, since each key that matches is sent.
const (
	queueKeysPattern = ":*:[mie][edv]*"
	metaSuffix       = ":meta"
	idSuffix         = ":id"
	eventsSuffix     = ":events"
)

// EachQueue passes the names of the queues with a prefix to each, each name once, until
// each returns false.
func (f *QueueFinder) EachQueue(ctx context.Context, prefix string, each func(names []string) (more bool)) error {
	seen := map[string]bool{}
	return f.client.EachKey(ctx, escapeGlob(prefix)+queueKeysPattern, func(keys []string) bool {
		var names []string
		for _, key := range keys {
			name, ok := queueOfKey(strings.TrimPrefix(key, prefix+":"))
			if ok && !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
		return len(names) == 0 || each(names)
	})
}

// queueOfKey returns the name of the queue to which a key without its prefix belongs.
func queueOfKey(key string) (name string, ok bool) {
	for _, suffix := range []string{metaSuffix, idSuffix, eventsSuffix} {
		if name, ok = strings.CutSuffix(key, suffix); ok {
			// A name has no colon. The keys of extensions have @x behind the name.
			return name, name != "" && !strings.Contains(name, ":") && !strings.HasSuffix(name, "@x")
		}
	}
	return "", false
}

// Summaries runs one command for all queues.
func (f *QueueFinder) Summaries(ctx context.Context, queues []string, minutes int) ([]backend.QueueSummary, error) {
	if len(queues) == 0 {
		return nil, nil
	}
	group := NewGroup(f.client, V6) // reads alike in both dialects
	reply, err := group.run(ctx, summarizeQueues, queues, strconv.Itoa(minutes))
	if err != nil {
		return nil, err
	}
	summaries := make([]backend.QueueSummary, len(queues))
	return summaries, group.each(summarizeQueues, queues, reply, func(i int, reply rueidis.RedisMessage) {
		parts, err := errorOf(summarizeQueues, queues[i], reply)
		if err == nil && len(parts) < 9 {
			err = aboutQueues(summarizeQueues.name, queues[i:i+1], fmt.Errorf("the reply has an unexpected form: %d parts", len(parts)))
		}
		if err != nil {
			summaries[i].Err = err
			return
		}
		summaries[i] = readSummary(parts)
	})
}

// LastEvents runs one command for all queues.
func (f *QueueFinder) LastEvents(ctx context.Context, queues []string) ([]backend.LastEvent, error) {
	if len(queues) == 0 {
		return nil, nil
	}
	group := NewGroup(f.client, V6) // reads alike in both dialects
	reply, err := group.run(ctx, lastEvents, queues)
	if err != nil {
		return nil, err
	}
	last := make([]backend.LastEvent, len(queues))
	return last, group.each(lastEvents, queues, reply, func(i int, reply rueidis.RedisMessage) {
		parts, err := errorOf(lastEvents, queues[i], reply)
		if last[i].Err = err; len(parts) > 0 {
			last[i].ID = text(parts[0])
		}
	})
}

var (
	countedStates = []backend.State{
		backend.Waiting, backend.Paused, backend.Active, backend.Delayed, backend.Prioritized, backend.Completed, backend.Failed,
		backend.WaitingChildren,
	}
	agedStates = countedStates[:5]
)

func readSummary(parts []rueidis.RedisMessage) backend.QueueSummary {
	s := backend.QueueSummary{Counts: map[backend.State]int{}, Oldest: map[backend.State]time.Time{}}
	counts, _ := parts[0].ToArray()
	for i, count := range counts[:min(len(counts), len(countedStates))] {
		n, _ := count.AsInt64()
		s.Counts[countedStates[i]] = int(n)
	}
	oldest, _ := parts[1].ToArray()
	for i, list := range oldest[:min(len(oldest), len(agedStates))] {
		if since := oldestOf(agedStates[i], list); !since.IsZero() {
			s.Oldest[agedStates[i]] = since
		}
		s.DeadLetters = s.DeadLetters || hasDeadLetter(list)
	}
	if meta := texts(parts[2]); len(meta) == 5 {
		s.Paused = meta[0] != ""
		s.Concurrency, s.LimitMax = whole(meta[1]), whole(meta[2])
		s.Stopped = meta[1] != "" && s.Concurrency == 0
		s.LimitDuration = time.Duration(whole(meta[3])) * time.Millisecond
		s.Version = meta[4]
	}
	if ttl, _ := parts[3].AsInt64(); ttl > 0 {
		s.LimitedFor = time.Duration(ttl) * time.Millisecond
	}
	s.IDs = whole(text(parts[4]))
	s.Completed, s.Failed = readSummaryMetrics(parts[5]), readSummaryMetrics(parts[6])
	schedulers, _ := parts[7].AsInt64()
	paused, _ := parts[8].AsInt64()
	s.Schedulers, s.PausedSchedulers = int(schedulers), int(paused)
	return s
}

// hasDeadLetter reports whether one of the oldest jobs is a dead letter.
func hasDeadLetter(oldest rueidis.RedisMessage) bool {
	jobs, _ := oldest.ToArray()
	for _, job := range jobs {
		if fields := texts(job); len(fields) == 3 && strings.Contains(fields[2], `"deadLetter":{`) {
			return true
		}
	}
	return false
}

func readSummaryMetrics(message rueidis.RedisMessage) (m backend.Metrics) {
	parts, err := message.ToArray()
	if err != nil || len(parts) != 3 {
		return m
	}
	m.Count, m.PrevTime = whole(text(parts[0])), wire.ParseTime(text(parts[1]))
	for _, point := range texts(parts[2]) {
		m.Points = append(m.Points, whole(point))
	}
	return m
}

// whole returns a number that any client may have stored; 0 for other text.
func whole(text string) int {
	n, _ := wire.ParseNumber(text)
	return int(n)
}
