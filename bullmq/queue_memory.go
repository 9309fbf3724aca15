package bullmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// QueueMemory is what [EstimateQueueMemory] tells of a queue.
type QueueMemory struct {
	Name string
	// Err is not nil if the queue contains values that can't be read, such as a key of
	// another type. The other fields are then empty.
	Err error

	// Bytes is the estimated memory of the queue. It is negative, as all other bytes are, if
	// the user may not call MEMORY USAGE.
	Bytes int64
	Keys  int64 // estimated number of keys

	// Jobs is the part of Bytes that jobs of each state need, with their logs and records of
	// children. A state without jobs is missing. Events is the part of the events stream. The
	// rest is that of lists, settings, metrics and schedulers.
	Jobs   map[State]int64
	Events int64
	// Sampled is the number of jobs that were looked at.
	Sampled int
}

const (
	memorySamples       = 10 // jobs of each state
	memoryQueuesPerCall = 10 // so that a call blocks Redis for some milliseconds at most
)

// EstimateQueueMemory estimates how much memory queues need, in the order of the names. For
// that it looks at 10 jobs of each state, which are spread evenly over the state, and at all
// keys that a queue has once. The cost does not depend on the number of jobs: it makes one
// call for 10 queues, on a cluster one for each hash slot. If the jobs of a state differ a lot
// in size, so may the estimate. An empty prefix is [DefaultPrefix].
//
// Jobs in no state, deduplication ids and the keys of extensions, such as the registrations of
// workers, are not counted. EstimateQueueMemory changes nothing. It works on queues of both
// versions of BullMQ, and on those that only Node clients use.
func EstimateQueueMemory(ctx context.Context, connection *Connection, prefix string, names ...string) ([]QueueMemory, error) {
	if connection == nil || connection.client == nil {
		return nil, errors.New("bullmq: estimate the memory of queues: there is no Connection: make one with Connect, ConnectOption or ConnectClient")
	}
	prefix = cmp.Or(prefix, DefaultPrefix)
	for _, name := range names {
		if _, err := newKeys(prefix, name); err != nil {
			return nil, err
		}
	}
	finder, memory := newQueueFinder(connection), make([]QueueMemory, len(names))
	for _, indexes := range inCalls(connection, prefix, names, memoryQueuesPerCall) {
		bases := make([]string, len(indexes))
		for i, index := range indexes {
			bases[i] = baseOf(prefix, names[index])
		}
		found, err := finder.Memory(ctx, bases, memorySamples)
		if err != nil {
			return nil, fmt.Errorf("bullmq: estimate the memory of queues: %w", err)
		}
		for i, index := range indexes {
			memory[index] = memoryOf(names[index], found[i])
		}
	}
	return memory, nil
}

func memoryOf(name string, found backend.QueueMemory) QueueMemory {
	m := QueueMemory{Name: name, Err: found.Err}
	if m.Err != nil {
		return m
	}
	m.Bytes, m.Keys, m.Events, m.Jobs = found.Bytes, found.Keys, found.Events, map[State]int64{}
	add := func(s backend.SampledMemory) (bytes int64) {
		if s.Sampled == 0 {
			return 0
		}
		scale := float64(s.Count) / float64(s.Sampled)
		bytes = int64(float64(s.Bytes) * scale)
		m.Bytes += bytes
		m.Keys += int64(float64(s.Keys) * scale)
		return bytes
	}
	for state, sampled := range found.Jobs {
		if sampled.Count == 0 {
			continue
		}
		public := State(state)
		if state == backend.Paused {
			public = StateWaiting
		}
		m.Jobs[public] += add(sampled)
		m.Sampled += int(sampled.Sampled)
	}
	add(found.Schedulers)
	if !found.Measured {
		m.Bytes, m.Events = -1, -1
		for state := range m.Jobs {
			m.Jobs[state] = -1
		}
	}
	return m
}
