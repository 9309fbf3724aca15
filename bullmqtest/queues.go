package bullmqtest

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// The functions in this file read and write Redis directly. They do what no client of a queue
// needs.

// key returns a key of a queue.
func (k *Kit) key(queueName, suffix string) string {
	return k.o.Prefix + ":" + queueName + ":" + suffix
}

// queueNames returns the names of all queues that have keys.
func (k *Kit) queueNames(ctx context.Context) ([]string, error) {
	keys, err := k.redis.keys(ctx, k.o.Prefix+":*")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, key := range keys {
		name, _, found := strings.Cut(strings.TrimPrefix(key, k.o.Prefix+":"), ":")
		if found && !strings.HasSuffix(name, "@x") { // not a key of an extension, such as bull:orders@x:events
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// wakeWorkers puts a marker into each queue, for which its idle workers wait.
func (k *Kit) wakeWorkers(ctx context.Context) error {
	names, err := k.queueNames(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		command := k.redis.client.B().Zadd().Key(k.key(name, "marker")).ScoreMember().ScoreMember(0, "0").Build()
		if err := k.redis.client.Do(ctx, command).Error(); err != nil {
			return err
		}
	}
	return nil
}

// scorePerMillisecond is the factor of a due time in the scores of delayed jobs.
const scorePerMillisecond = 4096

// dueTime returns when a delayed job is due, or the zero time.
func (k *Kit) dueTime(ctx context.Context, queueName, jobID string) (time.Time, error) {
	score, err := k.redis.client.Do(ctx, k.redis.client.B().Zscore().Key(k.key(queueName, "delayed")).Member(jobID).Build()).AsFloat64()
	if rueidis.IsRedisNil(err) {
		return time.Time{}, nil
	}
	return time.UnixMilli(int64(score) / scorePerMillisecond), err
}

// first makes a job that waits the next one of its queue.
func (k *Kit) first(ctx context.Context, queueName, jobID string) error {
	b := k.redis.client.B
	wait := k.key(queueName, "wait")
	for _, result := range k.redis.client.DoMulti(ctx,
		b().Lrem().Key(wait).Count(1).Element(jobID).Build(),
		b().Zrem().Key(k.key(queueName, "prioritized")).Member(jobID).Build(),
		b().Rpush().Key(wait).Element(jobID).Build(),
		b().Zadd().Key(k.key(queueName, "marker")).ScoreMember().ScoreMember(0, "0").Build(),
	) {
		if err := result.Error(); err != nil {
			return err
		}
	}
	return nil
}

// LoseLock makes the worker that runs a job lose the lock, as if the worker had not reached
// Redis for LockDuration. The worker notices the loss when it renews the lock, with the options
// of the Kit within 50 ms. It then cancels the handler's context with [bullmq.ErrLockLost], and
// discards what the handler returns. The job stays active until a check for stalled jobs
// requeues it.
//
// LoseLock fails the test if no worker holds the lock.
func (k *Kit) LoseLock(job *bullmq.Job) {
	k.t.Helper()
	removed, err := k.redis.client.Do(k.t.Context(), k.redis.client.B().Del().Key(job.Key()+":lock").Build()).AsInt64()
	if err != nil {
		k.t.Fatalf("bullmqtest: remove the lock of job %s of queue %s: %v", job.ID, job.QueueName(), err)
	}
	if removed == 0 {
		k.t.Fatalf("bullmqtest: remove the lock of job %s of queue %s: no worker holds it", job.ID, job.QueueName())
	}
}

// workload is what a queue has to do.
type workload struct {
	ready   int           // jobs that could be fetched if there were no rate limit
	running int           // jobs with a lock
	due     time.Time     // of the first delayed job; zero if there is none
	limited time.Duration // until the rate limit ends; 0 if none is in effect
	paused  bool
	checked bool // there was a check for stalled jobs within StalledInterval
}

// workloadScript reads a workload at one moment. Its keys are wait, prioritized, active,
// delayed, limiter, meta and stalled-check. Its arguments are the prefix of the queue's keys, and the
// number of jobs that the worker's limiter allows, 0 for no limiter.
const workloadScript = `
local running = 0
for _, id in ipairs(redis.call('LRANGE', KEYS[3], 0, -1)) do
  if redis.call('EXISTS', ARGV[1] .. id .. ':lock') == 1 then running = running + 1 end
end
local first = redis.call('ZRANGE', KEYS[4], 0, 0, 'WITHSCORES')
local due = first[2] and math.floor(tonumber(first[2]) / 4096) or 0
local allowed = tonumber(redis.call('HGET', KEYS[6], 'max') or ARGV[2])
local limited = 0
if allowed > 0 and tonumber(redis.call('GET', KEYS[5]) or 0) >= allowed then
  limited = redis.call('PTTL', KEYS[5])
end
return {
  redis.call('LLEN', KEYS[1]) + redis.call('ZCARD', KEYS[2]), running, due, limited,
  redis.call('HEXISTS', KEYS[6], 'paused'), redis.call('EXISTS', KEYS[7]),
}`

func (k *Kit) workload(ctx context.Context, queueName string, limiter *bullmq.Limiter) (w workload, err error) {
	allowed := 0
	if limiter != nil {
		allowed = limiter.Max
	}
	var keys []string
	for _, suffix := range []string{"wait", "prioritized", "active", "delayed", "limiter", "meta", "stalled-check"} {
		keys = append(keys, k.key(queueName, suffix))
	}
	command := k.redis.client.B().Eval().Script(workloadScript).Numkeys(int64(len(keys))).Key(keys...).
		Arg(k.key(queueName, ""), strconv.Itoa(allowed)).Build()
	numbers, err := k.redis.client.Do(ctx, command).AsIntSlice()
	if err != nil {
		return w, err
	}
	w = workload{ready: int(numbers[0]), running: int(numbers[1]), paused: numbers[4] == 1, checked: numbers[5] == 1}
	w.limited = max(time.Duration(numbers[3])*time.Millisecond, 0)
	if numbers[2] > 0 {
		w.due = time.UnixMilli(numbers[2])
	}
	return w, nil
}

// next returns when the next job can run, or the zero time if there is no such job. wait means
// that a job runs, or is about to run.
func (w workload) next(now time.Time) (next time.Time, wait bool) {
	due := !w.due.IsZero() && !w.due.After(now)
	switch {
	case w.running > 0:
		return now, true
	case w.paused:
		return time.Time{}, false
	case (w.ready > 0 || due) && w.limited > 0:
		return now.Add(w.limited), false
	case w.ready > 0 || due:
		return now, true
	}
	return w.due, false
}
