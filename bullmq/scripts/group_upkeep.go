package scripts

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// ExtendLocksOf renews the locks of jobs.
func (g *Group) ExtendLocksOf(ctx context.Context, locks []backend.QueueLocks, duration time.Duration) ([]backend.QueueRenewal, error) {
	queues, args := make([]string, len(locks)), []string{decimal(duration.Milliseconds())}
	for i, of := range locks {
		queues[i] = of.Queue
		args = append(args, strconv.Itoa(len(of.Locks)))
		for _, lock := range of.Locks {
			args = append(args, lock.JobID, lock.Token)
		}
	}
	reply, err := g.run(ctx, extendLocksOf, queues, args...)
	if err != nil {
		return nil, err
	}
	renewals := make([]backend.QueueRenewal, len(locks))
	return renewals, g.each(extendLocksOf, queues, reply, func(i int, reply rueidis.RedisMessage) {
		parts, err := errorOf(extendLocksOf, queues[i], reply)
		if renewals[i].Err = err; len(parts) >= 2 {
			renewals[i].Renewal = readRenewal(parts)
		}
	})
}

// MoveStalledJobsOf makes one check for stalled jobs in each queue.
func (g *Group) MoveStalledJobsOf(ctx context.Context, queues []string, now time.Time, maxStalled int, interval time.Duration) ([]backend.QueueStalled, error) {
	reply, err := g.run(ctx, moveStalledJobsOf, queues, decimal(now.UnixMilli()), strconv.Itoa(maxStalled), decimal(interval.Milliseconds()))
	if err != nil {
		return nil, err
	}
	moved := make([]backend.QueueStalled, len(queues))
	return moved, g.each(moveStalledJobsOf, queues, reply, func(i int, reply rueidis.RedisMessage) {
		if _, moved[i].Err = errorOf(moveStalledJobsOf, queues[i], reply); moved[i].Err == nil {
			moved[i].JobIDs = texts(reply)
		}
	})
}

// CancelRequestsOf returns at most a thousand entries of each queue's stream after an id.
func (g *Group) CancelRequestsOf(ctx context.Context, after []backend.QueuePosition) ([][]backend.CancelRequest, error) {
	keys, ids := make([]string, len(after)), make([]string, len(after))
	for i, of := range after {
		keys[i], ids[i] = cancelEventsKey(of.Queue), of.After
	}
	requests := make([][]backend.CancelRequest, len(after))
	streams, err := g.client.Do(ctx, g.client.B().Xread().Count(1000).Streams().Key(keys...).Id(ids...).Build()).AsXRead()
	if err != nil && !rueidis.IsRedisNil(err) {
		queues := make([]string, len(after))
		for i, of := range after {
			queues[i] = of.Queue
		}
		return nil, aboutQueues("cancellations", queues, err)
	}
	for i, key := range keys {
		requests[i] = cancelRequests(streams[key])
	}
	return requests, nil
}
