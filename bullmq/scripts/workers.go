package scripts

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

var registerWorker = load("registerWorker")

// extensionBase returns the prefix of the keys of a queue that BullMQ does not know. They
// aren't below the queue's base, where Node's removeOrphanedJobs would remove them.
func extensionBase(base string) string { return strings.TrimSuffix(base, ":") + "@x:" }

// workersSuffix ends the key of the list of workers of a queue, after the name of the queue.
const workersSuffix = "@x:workers"

func workerKey(base, id string) string { return extensionBase(base) + "worker:" + id }

// workersKeys returns the keys of the lists of workers.
func workersKeys(queues []string) []string {
	keys := make([]string, len(queues))
	for i, queue := range queues {
		keys[i] = strings.TrimSuffix(queue, ":") + workersSuffix
	}
	return keys
}

// WorkerRegistry records which workers serve which queues. It is safe for concurrent use
// and owns no connection.
type WorkerRegistry struct{ client RegistryClient }

// RegistryClient is a [Client] that can list keys.
type RegistryClient interface {
	Client
	IsCluster() bool
	// ScanKeys returns the keys of all nodes that match a pattern.
	ScanKeys(ctx context.Context, pattern string) ([]string, error)
}

var _ backend.WorkerRegistry = (*WorkerRegistry)(nil)

// NewWorkerRegistry returns a WorkerRegistry.
func NewWorkerRegistry(client RegistryClient) *WorkerRegistry { return &WorkerRegistry{client} }

// queuesPerCall limits how long a call blocks the server for other clients.
const queuesPerCall = 500

// RegisterWorker records a worker, or renews its lease.
func (r *WorkerRegistry) RegisterWorker(ctx context.Context, w backend.WorkerLease) error {
	for queues := range slices.Chunk(w.Queues, queuesPerCall) {
		keys := append([]string{workerKey(w.Home, w.ID)}, workersKeys(queues)...)
		if _, err := runWithKeys(ctx, r.client, registerWorker, keys, decimal(w.Lease.Milliseconds()), w.Record); err != nil {
			return aboutQueues(registerWorker.name, queues, err)
		}
	}
	return nil
}

// runWithKeys calls a command that has keys of extensions, as [Store.run] calls others. It
// must have no lines of a dialect.
func runWithKeys(ctx context.Context, client Client, c *command, keys []string, args ...string) (rueidis.RedisMessage, error) {
	c.check(args)
	f := &c.forms[V6]
	result := client.Do(ctx, client.B().Evalsha().Sha1(f.sha).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
	if IsNoScript(result.Error()) {
		result = client.Do(ctx, client.B().Eval().Script(f.text).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
	}
	return result.ToMessage()
}

// UnregisterWorker removes a worker from those of some queues.
func (r *WorkerRegistry) UnregisterWorker(ctx context.Context, w backend.WorkerLease, ended bool) error {
	var commands []rueidis.Completed
	record := workerKey(w.Home, w.ID)
	if ended {
		commands = append(commands, r.client.B().Del().Key(record).Build())
	}
	for _, list := range workersKeys(w.Queues) {
		commands = append(commands, r.client.B().Zrem().Key(list).Member(record).Build())
	}
	for _, result := range r.client.DoMulti(ctx, commands...) {
		if err := result.Error(); err != nil {
			return aboutQueues("removing a worker", append([]string{w.Home}, w.Queues...), err)
		}
	}
	return nil
}

// RegisteredWorkers returns the workers of some queues.
func (r *WorkerRegistry) RegisteredWorkers(ctx context.Context, queues []string) ([]backend.RegisteredWorker, error) {
	if len(queues) == 0 {
		return nil, nil
	}
	now := r.serverTime(ctx)
	commands := make([]rueidis.Completed, len(queues))
	for i, key := range workersKeys(queues) {
		commands[i] = r.client.B().Zrange().Key(key).Min("0").Max("-1").Withscores().Build()
	}
	var workers []backend.RegisteredWorker
	var records []string
	at := map[string]int{} // by key of the record
	for i, result := range r.client.DoMulti(ctx, commands...) {
		members, err := result.AsZScores()
		if err != nil {
			return nil, aboutQueues("the list of workers", queues[i:i+1], err)
		}
		for _, member := range members {
			until := time.UnixMilli(int64(member.Score))
			if until.Before(now) {
				continue
			}
			n, known := at[member.Member]
			if !known {
				n = len(workers)
				at[member.Member] = n
				workers = append(workers, backend.RegisteredWorker{Until: until})
				records = append(records, member.Member)
			}
			workers[n].Queues = append(workers[n].Queues, queues[i])
			if until.After(workers[n].Until) {
				workers[n].Until = until
			}
		}
	}
	return r.withRecords(ctx, workers, records)
}

// withRecords returns the workers whose record exists, with it. The keys of the records are
// in the order of the workers.
func (r *WorkerRegistry) withRecords(ctx context.Context, workers []backend.RegisteredWorker, records []string) ([]backend.RegisteredWorker, error) {
	if len(records) == 0 {
		return nil, nil
	}
	commands := make([]rueidis.Completed, len(records))
	for i, key := range records {
		commands[i] = r.client.B().Get().Key(key).Build()
	}
	var found []backend.RegisteredWorker
	for i, result := range r.client.DoMulti(ctx, commands...) {
		record, err := result.ToString()
		if rueidis.IsRedisNil(err) {
			continue
		}
		if err != nil {
			return nil, aboutQueues("the record of a worker", workers[i].Queues, err)
		}
		workers[i].Record = record
		found = append(found, workers[i])
	}
	return found, nil
}

// serverTime returns the time of the server. It is zero if the user may not ask for it, and
// on a cluster, since the clocks of its nodes differ. Only the expiry of the records
// decides then, which differs for a worker that no longer serves a queue.
func (r *WorkerRegistry) serverTime(ctx context.Context) time.Time {
	if r.client.IsCluster() {
		return time.Time{}
	}
	parts, err := r.client.Do(ctx, r.client.B().Time().Build()).AsStrSlice()
	if err != nil || len(parts) < 2 {
		return time.Time{}
	}
	seconds, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil {
		return time.Time{}
	}
	micros, _ := strconv.ParseInt(parts[1], 10, 64)
	return time.UnixMicro(seconds*1e6 + micros)
}

// QueuesWithWorkers returns the queues with a prefix that have workers.
func (r *WorkerRegistry) QueuesWithWorkers(ctx context.Context, prefix string) ([]string, error) {
	keys, err := r.client.ScanKeys(ctx, escapeGlob(prefix)+":*"+workersSuffix)
	if err != nil {
		return nil, fmt.Errorf("bullmq: list the queues of %.80s that have workers: %w", prefix, err)
	}
	var queues []string
	for _, key := range keys {
		name := strings.TrimSuffix(strings.TrimPrefix(key, prefix+":"), workersSuffix)
		if name == "" || strings.Contains(name, ":") { // of a longer prefix
			continue
		}
		queues = append(queues, prefix+":"+name+":")
	}
	slices.Sort(queues)
	return slices.Compact(queues), nil
}
