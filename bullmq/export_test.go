package bullmq

import (
	"context"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/redisconn"
)

// PollResultsEvery is the interval at which a wait reads the state of a job without an event.
func (q *Queue) PollResultsEvery(d time.Duration) { q.results.pollInterval = d }

// URL, Options and Client describe a connection that each of its users opens for
// itself, and closes, as it does with the URL of its options.

// URL describes a connection by an address.
func URL(url string) *Connection {
	return &Connection{address: redisconn.HidePassword(url), use: func(ctx context.Context) (*redisconn.Conn, bool, error) {
		conn, err := dialURL(ctx, url)
		return conn, true, err
	}}
}

// Options describes a connection by an option of rueidis.
func Options(option rueidis.ClientOption) *Connection {
	return &Connection{address: strings.Join(option.InitAddress, ","), use: func(ctx context.Context) (*redisconn.Conn, bool, error) {
		conn, err := redisconn.Dial(ctx, option)
		return conn, true, err
	}}
}

// Client describes a connection by a client.
func Client(client rueidis.Client) *Connection {
	return &Connection{use: func(ctx context.Context) (*redisconn.Conn, bool, error) {
		conn, err := redisconn.Wrap(ctx, client)
		return conn, true, err
	}}
}

// WithoutAddOutcome returns the job as if it had been read, for comparisons.
func WithoutAddOutcome(job *Job) *Job {
	read := *job
	read.outcome = ""
	return &read
}

// FailureLog returns a function that logs a failed attempt of a job as a worker does.
func FailureLog(to Logger, job *Job, err error) func() {
	w, a := &queueWorker{core: &core{log: to.with()}}, &attempt{ctx: context.Background(), job: job}
	return func() { w.logFailure(a.ctx, a, result{err: err}, true) }
}

// CutWaits makes waits of a worker end without the server, after a call of a function: those that
// have taken a wake-up, or all after a time if that is not 0.
func CutWaits(m *MultiWorker, most time.Duration, then func()) {
	open := m.feed.newWaiter
	m.feed.newWaiter = func() backend.GroupWaiter { return cutWaiter{open(), most, then} }
}

type cutWaiter struct {
	backend.GroupWaiter
	most time.Duration
	then func()
}

func (w cutWaiter) Wait(block time.Duration, markers []string) backend.GroupWake {
	if w.most > 0 {
		block = min(block, w.most)
	}
	woken := w.GroupWaiter.Wait(block, markers)
	if woken.Woken || w.most > 0 {
		w.then()
		woken.Cut = true
	}
	return woken
}

// SumMetrics adds up the metrics of shards.
var SumMetrics = sumMetrics

// ShardIndex returns the shard of a key.
var ShardIndex = shardIndex

// Forget makes the last reading of the number of shards older.
func (s *ShardedQueue) Forget(age time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tried = time.Time{}
	s.confirmed.Add(-int64(age))
}

// AgeRegistration makes the registration of a queue due for renewal.
func AgeRegistration(q *Queue) { q.entry.due.Store(1) }

// ShareCalls reports whether queues share the calls that add jobs.
func ShareCalls(queues ...*Queue) bool {
	for _, q := range queues {
		if q.shared == nil || q.shared != queues[0].shared {
			return false
		}
	}
	return true
}

// ParseRoute returns the queue and the target of a route.
func ParseRoute(name string) (queueName string, target Target, ok bool) { return parseRoute(name) }

// Serves reports whether a worker that has what one target requires may run jobs with
// another one.
func Serves(worker, target Target) bool {
	has, err := newTraits(worker.Server, worker.Stack, worker.Region, worker.Capabilities)
	return err == nil && has.satisfy(target)
}
