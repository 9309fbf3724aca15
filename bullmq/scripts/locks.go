package scripts

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

var (
	extendLock            = load("extendLock")
	extendLocks           = load("extendLocks")
	moveStalledJobsToWait = load("moveStalledJobsToWait")
)

// ExtendLock renews one lock.
func (q *Store) ExtendLock(ctx context.Context, lock backend.Lock, duration time.Duration) (bool, error) {
	n, err := q.number(ctx, extendLock, lock.JobID, q.base, lock.JobID, lock.Token, decimal(duration.Milliseconds()))
	return n == 1, err
}

// ExtendLocks renews many locks in one call.
func (q *Store) ExtendLocks(ctx context.Context, locks []backend.Lock, duration time.Duration) (r backend.Renewal, err error) {
	args := make([]string, 0, 2+2*len(locks))
	args = append(args, q.base, decimal(duration.Milliseconds()))
	for _, lock := range locks {
		args = append(args, lock.JobID, lock.Token)
	}
	message, err := q.run(ctx, extendLocks, args...)
	if err != nil {
		return r, err
	}
	reply, err := message.ToArray()
	if err != nil || len(reply) < 2 {
		return r, q.unexpected(extendLocks, err)
	}
	return readRenewal(reply), nil
}

// readRenewal reads the two lists lost and cancelled.
func readRenewal(reply []rueidis.RedisMessage) (r backend.Renewal) {
	r.Lost = texts(reply[0])
	told := texts(reply[1])
	for i := 0; i+1 < len(told); i += 2 {
		r.Cancelled = append(r.Cancelled, backend.Cancellation{JobID: told[i], Failure: told[i+1]})
	}
	return r
}

// MoveStalledJobsToWait makes one check for stalled jobs.
func (q *Store) MoveStalledJobsToWait(ctx context.Context, now time.Time, maxStalled int, interval time.Duration) ([]string, error) {
	return q.strings(ctx, moveStalledJobsToWait, q.base, decimal(now.UnixMilli()), strconv.Itoa(maxStalled), decimal(interval.Milliseconds()))
}
