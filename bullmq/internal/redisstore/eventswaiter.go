package redisstore

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/redisconn"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// EventsWaiter waits for events of many queues at the same time, over one separate
// connection. On a cluster, all queues must be in one slot.
type EventsWaiter struct {
	interruptible
	client *redisconn.Client
}

var _ backend.EventsWaiter = (*EventsWaiter)(nil)

// NewEventsWaiter returns an EventsWaiter that waits over conn and polls over client.
func NewEventsWaiter(client *redisconn.Client, conn *redisconn.Blocking) *EventsWaiter {
	return &EventsWaiter{interruptible: interruptible{conn: conn}, client: client}
}

// Wait reads one event of each queue that has some, and waits if none has.
func (w *EventsWaiter) Wait(block time.Duration, queues []backend.EventsAfter) ([]int, error) {
	block = min(max(block, timing.ShortestBlock), timing.LongestBlock)
	keys, ids := streamsOf(queues)
	results, err := w.send(block, func(b rueidis.Builder, _ bool) []rueidis.Completed {
		return []rueidis.Completed{b.Xread().Count(1).Block(block.Milliseconds()).Streams().Key(keys...).Id(ids...).Build()}
	})
	if err == nil {
		var changed []int
		if changed, err = changedOf(results[0], keys); err == nil {
			return changed, nil
		}
	}
	if w.cut() { // the interrupt causes an error
		return nil, nil
	}
	return nil, err
}

// Poll reads one event of each queue that has some.
func (w *EventsWaiter) Poll(ctx context.Context, queues []backend.EventsAfter) ([]int, error) {
	keys, ids := streamsOf(queues)
	return changedOf(w.client.Do(ctx, w.client.B().Xread().Count(1).Streams().Key(keys...).Id(ids...).Build()), keys)
}

func streamsOf(queues []backend.EventsAfter) (keys, ids []string) {
	keys, ids = make([]string, len(queues)), make([]string, len(queues))
	for i, queue := range queues {
		keys[i], ids[i] = queue.Queue+"events", queue.ID
	}
	return keys, ids
}

// changedOf returns the indexes of the streams in a reply of XREAD.
func changedOf(reply rueidis.RedisResult, keys []string) (changed []int, err error) {
	entries, err := reply.AsXReadSlices()
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, err
	}
	for i, key := range keys {
		if _, has := entries[key]; has {
			changed = append(changed, i)
		}
	}
	return changed, nil
}
