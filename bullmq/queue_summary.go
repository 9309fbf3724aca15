package bullmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// QueueSummary is what [SummarizeQueues] tells of a queue.
type QueueSummary struct {
	Name string
	// Err is not nil if the queue contains values that can't be read, such as a key of
	// another type. The other fields are then empty.
	Err error

	// Counts are the numbers of jobs of each state. StateWaiting includes the jobs that BullMQ
	// 5 keeps in the list "paused".
	Counts map[State]int
	// Ages are the ages of the oldest jobs, as [Queue.Ages] returns them. A state without jobs
	// is missing.
	Ages map[State]time.Duration

	// Version is that of the client that created the queue, such as bullmq:6.7.0. It is "" if
	// no client has stored it, such as of a queue that only flows were added to. Dialect is the
	// dialect that [Detect] selects for the queue.
	Version string
	Dialect Dialect

	Paused      bool
	Concurrency int // the global concurrency; 0 if there is none
	// Stopped reports whether the global concurrency is 0, so that no job starts.
	Stopped bool
	// LimitMax is the global rate limit, in jobs per LimitDuration; 0 if there is none.
	// LimitedFor is for how long it keeps workers from fetching jobs; 0 if it does not.
	LimitMax                  int
	LimitDuration, LimitedFor time.Duration

	// Added is the queue's counter of ids. An add increases it, also that of a job with an id
	// of its own.
	Added int
	// Schedulers is the number of job schedulers, and PausedSchedulers that of those that
	// [Queue.PauseScheduler] has paused, which are not among them.
	Schedulers, PausedSchedulers int
	// DeadLetters reports whether the oldest waiting or prioritized job is a dead letter.
	// [Queue.DeadLetterCounts] counts dead letters.
	DeadLetters bool
	// Completed and Failed are the metrics that workers have stored, with the points of the
	// last 60 minutes. They are empty if the workers store none.
	Completed, Failed QueueMetrics
}

// QueueMetrics are the counts that workers store, by minute.
type QueueMetrics struct {
	Total  int       // number of jobs in all
	Until  time.Time // of the newest point
	Points []int     // jobs in each minute, newest first
}

const (
	summariesPerCall = 50 // so that a call blocks Redis for at most a few milliseconds
	summaryMinutes   = 60
)

// SummarizeQueues returns counts, ages, settings and metrics of queues, in the order of the
// names. It makes one call for 50 queues, on a cluster one for each hash slot. A queue that
// does not exist has no jobs. An empty prefix is [DefaultPrefix].
//
// SummarizeQueues changes nothing. It works on queues of both versions of BullMQ, and on
// those that only Node clients use.
func SummarizeQueues(ctx context.Context, connection *Connection, prefix string, names ...string) ([]QueueSummary, error) {
	if connection == nil || connection.client == nil {
		return nil, errors.New("bullmq: summarize queues: there is no Connection: make one with Connect, ConnectOption or ConnectClient")
	}
	prefix = cmp.Or(prefix, DefaultPrefix)
	for _, name := range names {
		if _, err := newKeys(prefix, name); err != nil {
			return nil, err
		}
	}
	finder, summaries := newQueueFinder(connection), make([]QueueSummary, len(names))
	for _, indexes := range inCalls(connection, prefix, names, summariesPerCall) {
		bases := make([]string, len(indexes))
		for i, index := range indexes {
			bases[i] = prefix + ":" + names[index] + ":"
		}
		found, err := finder.Summaries(ctx, bases, summaryMinutes)
		if err != nil {
			return nil, fmt.Errorf("bullmq: summarize queues: %w", err)
		}
		now := time.Now()
		for i, index := range indexes {
			summaries[index] = summaryOf(names[index], found[i], now)
		}
	}
	return summaries, nil
}

// inCalls returns the indexes of the queues of each call.
func inCalls(connection *Connection, prefix string, names []string, perCall int) (calls [][]int) {
	bySlot, order := map[string][]int{}, []string{}
	for i, name := range names {
		slot := ""
		if connection.client().IsCluster() {
			slot = wire.HashTag(prefix + ":" + name + ":")
		}
		if bySlot[slot] == nil {
			order = append(order, slot)
		}
		bySlot[slot] = append(bySlot[slot], i)
	}
	for _, slot := range order {
		calls = slices.AppendSeq(calls, slices.Chunk(bySlot[slot], perCall))
	}
	return calls
}

func summaryOf(name string, found backend.QueueSummary, now time.Time) QueueSummary {
	s := QueueSummary{Name: name, Err: found.Err}
	if s.Err != nil {
		return s
	}
	s.Counts, s.Ages = map[State]int{}, map[State]time.Duration{}
	for _, state := range allStates {
		s.Counts[state] = found.Counts[backendState(state)]
	}
	s.Counts[StateWaiting] += found.Counts[backend.Paused]
	for state, since := range found.Oldest {
		public := State(state)
		if state == backend.Paused {
			public = StateWaiting
		}
		s.Ages[public] = max(s.Ages[public], now.Sub(since), 0)
	}
	s.Version, s.Dialect = found.Version, dialectOf(found.Version, found.Counts[backend.Paused] > 0)
	s.Paused, s.Concurrency, s.Stopped, s.Added = found.Paused, found.Concurrency, found.Stopped, found.IDs
	s.LimitMax, s.LimitDuration, s.LimitedFor = found.LimitMax, found.LimitDuration, found.LimitedFor
	s.Schedulers, s.PausedSchedulers, s.DeadLetters = found.Schedulers, found.PausedSchedulers, found.DeadLetters
	s.Completed = QueueMetrics{found.Completed.Count, found.Completed.PrevTime, found.Completed.Points}
	s.Failed = QueueMetrics{found.Failed.Count, found.Failed.PrevTime, found.Failed.Points}
	return s
}
