package bullmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/safe"
)

// MaxShards is the largest number of shards of a [ShardedQueue].
const MaxShards = 1000

// ShardChoice is how a [ShardedQueue] chooses the shard of a job without a key.
type ShardChoice int

// How the shard of a job without a key is chosen.
const (
	// RoundRobin takes one shard after the other.
	RoundRobin ShardChoice = iota
	// LeastLoaded compares two shards, chosen at random, and takes the one with fewer jobs
	// that run or are ready to run. It counts the jobs of all shards ten times a second, as
	// long as jobs are added, and adds what this process has added since.
	LeastLoaded
)

// ShardOutage is what a [ShardedQueue] does with a job without a key while its shard can't
// be reached.
type ShardOutage int

// What happens to a job without a key whose shard can't be reached.
const (
	// FailWhenDown fails the add, or retries it within QueueOptions.AddWait.
	FailWhenDown ShardOutage = iota
	// ElsewhereWhenDown adds the job to another shard. It does so only if the job was
	// certainly not added: after [ErrMaybeAdded] the add fails. Within QueueOptions.AddWait
	// the add is retried if no shard can be reached.
	ElsewhereWhenDown
)

// ShardedQueueOptions configures a [ShardedQueue]. A nil pointer and the zero value select
// the defaults.
type ShardedQueueOptions struct {
	// Connections are the servers of the shards. Shard i is on Connections[i modulo their
	// number]. All clients of the sharded queue must use the same servers in the same
	// order. To use more servers, append them and call [ShardedQueue.Resize].
	//
	// A single Connection to a Redis Cluster spreads the shards over its masters by their
	// names. The creator of the Connections closes them.
	// Defaults to a separate connection to Queue.URL for each shard.
	Connections []*Connection
	// Choose selects the shard of a job without a key.
	// Defaults to [RoundRobin].
	Choose ShardChoice
	// ShardKey returns the key of a job. Jobs with the same key are on the same shard, in
	// the order of their adds. For a job with the key "" the deduplication id is used, or
	// else the JobID. A job with a parent is on the shard of its parent in any case.
	//
	// A JobID and a deduplication id are unique within a shard only. If ShardKey returns
	// a key for jobs that have one, it must be the same for the same id. If a job has both
	// and no key, its JobID is unique only among jobs with the same deduplication id.
	// ShardKey may be called by several goroutines at the same time.
	// Defaults to no key.
	ShardKey func(job *NewJob) string
	// OnShardDown selects what happens to a job without a key whose shard can't be reached.
	// Defaults to [FailWhenDown].
	OnShardDown ShardOutage
	// OnHealth is called when a shard becomes unreachable and when it is reachable again.
	// Calls for one shard do not overlap.
	OnHealth func(queueName string, health Health)
	// Queue are the options of the Queue of each shard. Connection and OnHealth must not be
	// set, and URL only without Connections. Middleware wraps the adds of the sharded
	// queue. The QueueName of its jobs is the name of the sharded queue, except in flows.
	Queue QueueOptions
}

// ShardedQueue is a queue that consists of several ordinary queues, its shards, which may be
// on different servers. Use it if one Redis is too slow for a queue. A [ShardedWorker] runs
// its jobs. A ShardedQueue is safe for concurrent use.
//
// The shards of orders are the queues {orders-0}, {orders-1} and so on. Each of them is an
// ordinary queue: workers and dashboards of BullMQ can use it. What BullMQ guarantees for a
// queue, such as order, priorities, unique ids and limits, holds for each shard. A job of a
// sharded queue can't have a [Target] with requirements.
//
// The number of shards is stored in Redis, on the first Connection. [ShardedQueue.Resize]
// changes it while jobs are added and processed: it begins a generation with other shards,
// such as {orders.1-0}. Producers use the newest generation. Workers serve all.
type ShardedQueue struct {
	name, prefix string
	o            ShardedQueueOptions
	wait         addWait
	log          *slog.Logger
	trace        tracer
	now          func() time.Time
	record       *core // of the connection with the generations
	sharding     backend.Sharding

	addOne, addMany AddFunc // within the middleware; nil without
	turn            atomic.Uint64
	loads           shardLoads

	obliterated atomic.Bool

	view      atomic.Pointer[shardView]
	confirmed atomic.Int64 // when the view was last read, in ns of the monotonic clock since begun
	begun     time.Time
	closing   context.Context
	close     context.CancelFunc

	reading sync.Mutex // held while the generations are read and shown

	mu         sync.Mutex
	reviewing  chan struct{} // closed when the reading of the generations ends; nil if there is none
	tried      time.Time     // when it began last
	reviewErr  error         // of the last reading
	closed     bool
	background sync.WaitGroup
	changed    chan struct{} // closed when the view changes
}

// shardView is what this process knows of the generations.
type shardView struct {
	generations []*shardSet // in ascending order; the last is the current one
}

func (v *shardView) current() *shardSet { return v.generations[len(v.generations)-1] }

// all returns the shards of all generations, those of the current one first.
func (v *shardView) all() []*shard {
	var all []*shard
	for i := len(v.generations) - 1; i >= 0; i-- {
		all = append(all, v.generations[i].shards...)
	}
	return all
}

// find returns the shard with this name, or nil.
func (v *shardView) find(queueName string) *shard {
	for _, s := range v.all() {
		if s.Name() == queueName {
			return s
		}
	}
	return nil
}

// shardSet is a generation with its shards.
type shardSet struct {
	backend.Generation
	shards []*shard
}

// of returns the shard of a key.
func (g *shardSet) of(key string) *shard { return g.shards[shardIndex(key, len(g.shards))] }

// shard is a shard with its Queue.
type shard struct {
	*Queue
	connection *Connection
	load       atomic.Int64 // for LeastLoaded
}

// shardIndex returns the shard of a key: FNV-1a of its UTF-8 bytes in 32 bits, modulo the
// number of shards.
func shardIndex(key string, shards int) int {
	hash := uint32(2166136261)
	for i := range len(key) {
		hash = (hash ^ uint32(key[i])) * 16777619
	}
	return int(hash % uint32(shards))
}

// shardName returns the name of a shard. Its braces make it the hash tag of its keys, so
// that the shards are in different hash slots of a cluster.
func shardName(queue string, generation, index int) string {
	if generation == 0 {
		return fmt.Sprintf("{%s-%d}", queue, index)
	}
	return fmt.Sprintf("{%s.%d-%d}", queue, generation, index)
}

// NewShardedQueue connects to the shards of a queue and returns a ShardedQueue. If it does
// not exist yet, it gets this number of shards, from 1 to [MaxShards]. Otherwise it has the
// number stored in Redis, which only [ShardedQueue.Resize] changes. options may be nil. ctx
// bounds this call only.
//
// The name must not contain a colon or a brace, and must not end in a dot and digits, such as
// orders.1.
//
// If shards can't be reached, NewShardedQueue returns a [*ShardError].
func NewShardedQueue(ctx context.Context, queueName string, shards int, options *ShardedQueueOptions) (*ShardedQueue, error) {
	var o ShardedQueueOptions
	if options != nil {
		o = *options
	}
	if err := cmp.Or(o.check(queueName, shards), o.Queue.check()); err != nil {
		return nil, fmt.Errorf("bullmq: sharded queue %.80s: %w", queueName, err)
	}
	s := &ShardedQueue{
		name: queueName, prefix: cmp.Or(o.Queue.Prefix, DefaultPrefix), o: o, begun: time.Now(),
		wait: newAddWait(o.Queue.AddWait), log: o.Queue.Logger.with(logQueue, queueName), now: o.Queue.Now,
		trace: tracer{telemetry: o.Queue.Telemetry, queue: queueName}, changed: make(chan struct{}),
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.closing, s.close = context.WithCancel(context.Background())
	var err error
	// The name of this queue is used for no key but that of the probe of the connection.
	if s.record, err = newCore(ctx, "{"+queueName+"}", s.prefix, s.connection(0, 1), o.Queue.URL, o.Queue.Now, V6, s.log); err != nil {
		return nil, err
	}
	s.sharding = s.record.newSharding(s.prefix + ":" + queueName)
	s.addOne, s.addMany = wrapAdd(s.addNew, o.Queue.Middleware), wrapAdd(s.addNewBulk, o.Queue.Middleware)
	if err := s.begin(ctx, shards); err != nil {
		_ = s.Close()
		return nil, err
	}
	if n := len(s.view.Load().current().shards); n != shards {
		s.log.Warn("NewShardedQueue was given another number of shards than the queue has; the stored number is used; give that number, or call Resize to change it", logShards, n, logGiven, shards)
	}
	return s, nil
}

// generationName matches the names whose shards could be those of a generation of another queue.
var generationName = regexp.MustCompile(`\.[0-9]+$`)

// checkUntargeted returns an error for a job that has requirements.
func checkUntargeted(t *Target) error {
	if t == nil {
		return nil
	}
	if needs, err := t.needs(); err == nil && len(needs) == 0 {
		return nil
	}
	return errors.New("it has a Target, but a ShardedWorker serves no routes: use a Queue for such jobs, or a sharded queue for each kind of worker")
}

// check returns an error for invalid options.
func (o *ShardedQueueOptions) check(queueName string, shards int) error {
	switch {
	case queueName == "" || strings.ContainsAny(queueName, "{}:"):
		return errors.New("its name must not be empty or contain a brace or a colon")
	case generationName.MatchString(queueName):
		return errors.New("its name must not end in a dot and digits, as the shards of a later generation do: use another name")
	case shards < 1 || shards > MaxShards:
		return fmt.Errorf("it can't have %d shards: use 1 to %d", shards, MaxShards)
	case strings.ContainsAny(o.Queue.Prefix, "{}"):
		return fmt.Errorf("the prefix %.80q contains a brace, which would put all shards into one hash slot: use a prefix without braces", o.Queue.Prefix)
	case o.Queue.Connection != nil:
		return errors.New("Queue.Connection is set: use Connections")
	case o.Queue.OnHealth != nil:
		return errors.New("Queue.OnHealth is set: use OnHealth of ShardedQueueOptions")
	case len(o.Connections) > 0 && o.Queue.URL != "":
		return errors.New("both Connections and Queue.URL are set: choose one")
	case o.Choose != RoundRobin && o.Choose != LeastLoaded:
		return fmt.Errorf("the option Choose is %d: use RoundRobin or LeastLoaded", o.Choose)
	case o.OnShardDown != FailWhenDown && o.OnShardDown != ElsewhereWhenDown:
		return fmt.Errorf("the option OnShardDown is %d: use FailWhenDown or ElsewhereWhenDown", o.OnShardDown)
	}
	if defaults := o.Queue.DefaultJobOptions; defaults != nil {
		if err := checkUntargeted(defaults.Target); err != nil {
			return fmt.Errorf("DefaultJobOptions: %w", err)
		}
	}
	for i, connection := range o.Connections {
		if connection == nil {
			return fmt.Errorf("it has no server for its shards in Connections[%d], which is nil", i)
		}
	}
	return nil
}

// connection returns the Connection of a shard of a generation on so many servers, or nil for
// one of its own.
func (s *ShardedQueue) connection(index, servers int) *Connection {
	if len(s.o.Connections) == 0 {
		return nil
	}
	return s.o.Connections[index%servers]
}

// servers returns the number of servers.
func (s *ShardedQueue) servers() int { return max(1, len(s.o.Connections)) }

// Name returns the name of the sharded queue.
func (s *ShardedQueue) Name() string { return s.name }

// Shard returns the Queue of a shard, by its name, such as {orders-3}. It is the QueueName of
// the jobs of the shard. ok is false if there is no such shard. The caller must not close the
// Queue.
func (s *ShardedQueue) Shard(queueName string) (queue *Queue, ok bool) {
	if shard := s.view.Load().find(queueName); shard != nil {
		return shard.Queue, true
	}
	return nil, false
}

// Shards returns the Queues of all shards: first those of the current generation, in their
// order, and then those of older generations. The caller must not close them.
func (s *ShardedQueue) Shards() []*Queue {
	var queues []*Queue
	for _, shard := range s.view.Load().all() {
		queues = append(queues, shard.Queue)
	}
	return queues
}

// NumShards returns the number of shards of the current generation.
func (s *ShardedQueue) NumShards() int { return len(s.view.Load().current().shards) }

// Close closes the Queues of the shards. It leaves the Connections open.
func (s *ShardedQueue) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.close()
	s.mu.Unlock()
	s.background.Wait()
	if view := s.view.Load(); view != nil {
		closeShards(view.all())
	}
	s.record.conn.Close()
	return nil
}

func closeShards(shards []*shard) {
	closes := make([]func(), len(shards))
	for i, shard := range shards {
		closes[i] = func() { _ = shard.Close() }
	}
	safe.Together(closes...)
}

// open connects to the shards of a generation. With begun it also opens those that can't be
// reached now, if they have a Connection that was open before: the process that began the
// generation has set them up.
func (s *ShardedQueue) open(ctx context.Context, g backend.Generation, begun bool) (*shardSet, error) {
	if g.Shards > MaxShards {
		return nil, fmt.Errorf("bullmq: generation %d of sharded queue %s has %d shards, more than %d", g.Number, s.name, g.Shards, MaxShards)
	}
	if g.Servers > s.servers() {
		return nil, fmt.Errorf("bullmq: the shards of generation %d of sharded queue %s are on %d servers, and Connections has %d: append the missing ones", g.Number, s.name, g.Servers, s.servers())
	}
	set := &shardSet{Generation: g, shards: make([]*shard, g.Shards)}
	calls, errs := make([]func(), g.Shards), make([]error, g.Shards)
	for i := range g.Shards {
		calls[i] = func() {
			name, o := shardName(s.name, g.Number, i), s.o.Queue
			o.Connection, o.Middleware = s.connection(i, g.Servers), nil
			if s.o.OnHealth != nil {
				o.OnHealth = func(h Health) { s.o.OnHealth(name, h) }
			}
			queue, err := NewQueue(ctx, name, &o)
			if err != nil && begun && o.Connection != nil && isOutage(err) {
				o.Dialect, o.SkipMetaUpdate = cmp.Or(o.Dialect, V6), true // so that it makes no call
				queue, err = NewQueue(ctx, name, &o)
			}
			if err != nil {
				errs[i] = err
				return
			}
			set.shards[i] = &shard{Queue: queue, connection: o.Connection}
		}
	}
	safe.Together(calls...)
	failed := &ShardError{Shards: g.Shards}
	var opened []*shard
	for i, err := range errs {
		if err != nil {
			failed.add(shardName(s.name, g.Number, i), err)
		} else {
			opened = append(opened, set.shards[i])
		}
	}
	if len(failed.Failed) > 0 {
		closeShards(opened)
		return nil, failed
	}
	return set, nil
}

// ShardError is returned by calls of a [ShardedQueue] that failed on some shards, and did not
// fail on the others. errors.Is and errors.As examine all errors.
type ShardError struct {
	// Failed has the error of each shard on which the call failed, by the name of the shard.
	Failed map[string]error
	// Shards is the number of shards that the call concerns.
	Shards int
}

// add records the error of a shard.
func (e *ShardError) add(queueName string, err error) {
	if e.Failed == nil {
		e.Failed = map[string]error{}
	}
	e.Failed[queueName] = err
}

// orNil returns e as an error, or nil if no shard has failed.
func (e *ShardError) orNil() error {
	if len(e.Failed) == 0 {
		return nil
	}
	return e
}

// QueueNames returns the names of the shards on which the call failed, sorted.
func (e *ShardError) QueueNames() []string { return slices.Sorted(maps.Keys(e.Failed)) }

func (e *ShardError) Error() string {
	names := e.QueueNames()
	if len(names) == 0 {
		return "bullmq: no shard has failed"
	}
	text := fmt.Sprintf("bullmq: shard %s failed", names[0])
	if len(names) > 1 {
		text = fmt.Sprintf("bullmq: %d of %d shards failed: %s", len(names), e.Shards, strings.Join(names, " "))
	}
	return fmt.Sprintf("%s: %s", text, strings.TrimPrefix(e.Failed[names[0]].Error(), "bullmq: "))
}

// Unwrap returns the errors, sorted by the names of their shards.
func (e *ShardError) Unwrap() []error {
	errs := make([]error, 0, len(e.Failed))
	for _, name := range e.QueueNames() {
		errs = append(errs, e.Failed[name])
	}
	return errs
}
