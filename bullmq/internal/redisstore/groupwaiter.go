package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/redisconn"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// GroupWaiter waits for the markers of many queues at the same time, over one separate
// connection. On a cluster, all markers must be in one slot.
type GroupWaiter struct {
	interruptible
	client *redisconn.Client
}

var _ backend.GroupWaiter = (*GroupWaiter)(nil)

// NewGroupWaiter returns a GroupWaiter that waits over conn and returns wake-ups over
// client.
func NewGroupWaiter(client *redisconn.Client, conn *redisconn.Blocking) *GroupWaiter {
	return &GroupWaiter{interruptible: interruptible{conn: conn}, client: client}
}

// Wait waits until one of the markers has an entry. If several have one, it takes the entry
// of the first of them.
func (g *GroupWaiter) Wait(block time.Duration, markers []string) (woken backend.GroupWake) {
	wake, results, _ := g.wait(block, markers, nil)
	woken.Wake, woken.Cut = wake, g.cut()
	if !wake.Woken {
		return woken
	}
	reply, _ := results[0].ToArray() // ReadWake has read it without an error
	woken.Marker, _ = reply[0].ToString()
	woken.Member, _ = reply[1].ToString()
	woken.Score, _ = reply[2].AsFloat64()
	return woken
}

// Return puts back entries of markers. If an entry for an earlier time was set in the
// meantime, that entry stays.
func (g *GroupWaiter) Return(wakes ...backend.GroupWake) error {
	ctx, cancel := context.WithTimeout(context.Background(), timing.UnblockTimeout)
	defer cancel()
	var commands []rueidis.Completed
	for _, wake := range wakes {
		if wake.Woken {
			commands = append(commands, g.client.B().Zadd().Key(wake.Marker).Lt().ScoreMember().ScoreMember(wake.Score, wake.Member).Build())
		}
	}
	if len(commands) == 0 {
		return nil
	}
	var failed []error
	for _, result := range g.client.DoMulti(ctx, commands...) {
		if err := result.Error(); err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("bullmq: put back %d of %d markers: %w", len(failed), len(commands), errors.Join(failed...))
	}
	return nil
}
