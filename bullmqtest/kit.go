package bullmqtest

import (
	"cmp"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// RedisURLVariable is the environment variable with the address of a real Redis that all
// Kits use, such as redis://127.0.0.1:6379. Options.RedisURL takes precedence.
const RedisURLVariable = "BULLMQTEST_REDIS_URL"

// How often workers of a Kit look for jobs, limits and lost locks.
const (
	workerDrainDelay    = 100 * time.Millisecond
	workerLimitDelay    = 20 * time.Millisecond
	workerLockRenewTime = 50 * time.Millisecond
)

// Options configures a [Kit]. A nil pointer and the zero value select the defaults.
type Options struct {
	// RedisURL is the address of a real Redis. Each Kit uses a prefix of its own, and
	// removes its keys when the test ends.
	// Defaults to the environment variable BULLMQTEST_REDIS_URL. Without it, Redis runs
	// within the process.
	RedisURL string
	// Start is the time of the Kit when the test begins.
	// Defaults to the current time.
	Start time.Time
	// RunningClock lets the time of the Kit pass. Retries and delayed jobs then run
	// without [Kit.Advance], and times vary between runs of the test.
	// Defaults to false: time stands still.
	RunningClock bool
	// Dialect selects the BullMQ major version whose data layout is written.
	// Defaults to [bullmq.Detect].
	Dialect bullmq.Dialect
	// Prefix is the first part of all keys.
	// Defaults to [bullmq.DefaultPrefix] within the process, and to a unique one on a
	// real Redis.
	Prefix string
}

// Kit is a Redis, a connection to it and a clock for one test. All of them are closed
// when the test ends. It is safe for concurrent use.
//
// Give the code under test the connection, the prefix and the clock of the Kit, for
// instance by [Kit.QueueOptions] and [Kit.WorkerOptions].
type Kit struct {
	t     testing.TB
	o     Options
	clock *clock
	redis *Redis
	conn  *bullmq.Connection

	mu     sync.Mutex
	queues map[string]*bullmq.Queue
	works  int // number of queues that Work has made
}

// New returns a Kit that is closed when the test ends. options may be nil. New fails the
// test if Redis can't be reached.
func New(t testing.TB, options *Options) *Kit {
	t.Helper()
	k := &Kit{t: t, queues: map[string]*bullmq.Queue{}}
	if options != nil {
		k.o = *options
	}
	k.o.RedisURL = cmp.Or(k.o.RedisURL, os.Getenv(RedisURLVariable))
	k.clock = newClock(k.o.Start, k.o.RunningClock)
	var err error
	if k.redis, err = startRedis(k, k.o.RedisURL); err != nil {
		t.Fatalf("bullmqtest: start the kit: %v", err)
	}
	t.Cleanup(k.redis.close)
	if k.o.Prefix == "" {
		k.o.Prefix = k.redis.prefix()
	}
	k.redis.start(k.clock)
	if k.conn, err = bullmq.ConnectOption(t.Context(), k.redis.option()); err != nil {
		t.Fatalf("bullmqtest: start the kit: %v", err)
	}
	t.Cleanup(k.close)
	return k
}

// close runs when the test has ended.
func (k *Kit) close() {
	k.redis.end()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, queue := range k.queues {
		_ = queue.Close()
	}
	_ = k.conn.Close()
	if k.redis.server == nil {
		if err := k.redis.removeKeys(context.Background(), k.o.Prefix+":*"); err != nil {
			k.t.Errorf("bullmqtest: the keys %s:* of the test were not removed: %v", k.o.Prefix, err)
		}
	}
}

// Conn returns the connection to Redis.
func (k *Kit) Conn() *bullmq.Connection { return k.conn }

// Prefix returns the first part of all keys.
func (k *Kit) Prefix() string { return k.o.Prefix }

// Redis returns the Redis of the Kit.
func (k *Kit) Redis() *Redis { return k.redis }

// Queue returns a queue that is closed when the test ends. For the same name it returns the
// same Queue.
func (k *Kit) Queue(name string) *bullmq.Queue {
	k.t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if queue := k.queues[name]; queue != nil {
		return queue
	}
	queue, err := bullmq.NewQueue(k.t.Context(), name, k.QueueOptions())
	if err != nil {
		k.t.Fatalf("bullmqtest: open queue %s: %v", name, err)
	}
	k.queues[name] = queue
	return queue
}

// QueueOptions returns options for a queue of the Kit. The caller may change them.
func (k *Kit) QueueOptions() *bullmq.QueueOptions {
	return &bullmq.QueueOptions{Connection: k.conn, Prefix: k.o.Prefix, Dialect: k.o.Dialect, Now: k.Now}
}

// WorkerOptions returns options for a worker of the Kit. The caller may change them. The
// worker polls Redis and renews locks more often than by default, so that it soon notices
// what the test does.
func (k *Kit) WorkerOptions() *bullmq.WorkerOptions {
	o := k.workerOptions(nil)
	return &o
}

// FetcherOptions returns options for a Fetcher of the Kit. The caller may change them.
func (k *Kit) FetcherOptions() *bullmq.FetcherOptions {
	return &bullmq.FetcherOptions{
		Connection: k.conn, Prefix: k.o.Prefix, Dialect: k.o.Dialect, Now: k.Now, DrainDelay: workerDrainDelay,
	}
}

// FlowProducerOptions returns options for a FlowProducer of the Kit. The caller may change
// them.
func (k *Kit) FlowProducerOptions() *bullmq.FlowProducerOptions {
	return &bullmq.FlowProducerOptions{Connection: k.conn, Prefix: k.o.Prefix, Dialect: k.o.Dialect, Now: k.Now}
}

// QueueEventsOptions returns options for a reader of events of the Kit. The caller may
// change them.
func (k *Kit) QueueEventsOptions() *bullmq.QueueEventsOptions {
	return &bullmq.QueueEventsOptions{Connection: k.conn, Prefix: k.o.Prefix}
}

// ServerOptions returns options for a Server over [Kit.Conn]. The caller may change them.
// The Server handles no signals. [Kit.StartServer] runs it.
func (k *Kit) ServerOptions() *bullmq.ServerOptions {
	return &bullmq.ServerOptions{Prefix: k.o.Prefix, Dialect: k.o.Dialect, Now: k.Now, Signals: []os.Signal{}}
}

// workerOptions returns the given options. An option that is not set is taken from the Kit.
func (k *Kit) workerOptions(options *bullmq.WorkerOptions) bullmq.WorkerOptions {
	var o bullmq.WorkerOptions
	if options != nil {
		o = *options
	}
	if o.Connection == nil && o.URL == "" {
		o.Connection = k.conn
	}
	o.Prefix = cmp.Or(o.Prefix, k.o.Prefix)
	o.Dialect = cmp.Or(o.Dialect, k.o.Dialect)
	o.DrainDelay = cmp.Or(o.DrainDelay, workerDrainDelay)
	o.MaximumRateLimitDelay = cmp.Or(o.MaximumRateLimitDelay, workerLimitDelay)
	if o.LockDuration == 0 {
		o.LockRenewTime = cmp.Or(o.LockRenewTime, workerLockRenewTime)
	}
	if o.Now == nil {
		o.Now = k.Now
	}
	return o
}

// StartWorker runs a worker in the background until the test ends, or until it is closed. An
// option that is not set is taken from [Kit.WorkerOptions]. options may be nil.
func (k *Kit) StartWorker(queueName string, handler bullmq.Handler, options *bullmq.WorkerOptions) *bullmq.Worker {
	k.t.Helper()
	o := k.workerOptions(options)
	worker, err := bullmq.NewWorker(k.t.Context(), queueName, handler, &o)
	if err != nil {
		k.t.Fatalf("bullmqtest: start a worker: %v", err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		if err := worker.Run(context.Background()); err != nil {
			k.t.Errorf("bullmqtest: the worker of queue %s: %v", queueName, err)
		}
	})
	k.t.Cleanup(func() {
		_ = worker.Close()
		running.Wait()
	})
	return worker
}

// serverPatience is how long a server of a Kit may take to start. It is also how long its jobs
// may take to finish when the test ends.
const serverPatience = 10 * time.Second

// StartServer runs a server in the background until the test ends, or until it is shut down.
// It returns when the server is ready. When the test ends, the handlers have 10 seconds to
// return. If the server fails, the test fails.
//
// Make the server with [Kit.Conn] and [Kit.ServerOptions].
func (k *Kit) StartServer(server *bullmq.Server) {
	k.t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- server.Run(context.Background()) }()
	k.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), serverPatience)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			k.t.Errorf("bullmqtest: the server: %v", err)
		}
	})
	for deadline := time.Now().Add(serverPatience); ; time.Sleep(time.Millisecond) {
		reply := httptest.NewRecorder()
		server.Ready().ServeHTTP(reply, httptest.NewRequest(http.MethodGet, "/", nil))
		if reply.Code == http.StatusOK {
			return
		}
		select {
		case err := <-ended:
			k.t.Fatalf("bullmqtest: start a server: it has ended: %v", err)
		default:
		}
		if time.Now().After(deadline) {
			k.t.Fatalf("bullmqtest: start a server: it is not ready after %v: %s", serverPatience, reply.Body)
		}
	}
}
