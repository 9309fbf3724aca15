package bullmq

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/batch"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/safe"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// DefaultMaxEvents is the default of QueueOptions.MaxEvents.
const DefaultMaxEvents = 10000

// NoEvents is the value of QueueOptions.MaxEvents that keeps no events (BullMQ:
// maxLen 0).
const NoEvents = backend.NoEvents

// QueueOptions configures a [Queue]. A nil pointer and the zero value select the
// defaults.
type QueueOptions struct {
	// Connection is a connection to share with other queues and workers. Its
	// creator closes it.
	// Defaults to a separate connection to URL.
	Connection *Connection
	// URL is the address of Redis, used if Connection is nil. Printing the options
	// shows it in full, including a password.
	// Defaults to [DefaultURL].
	URL string
	// Prefix is the first part of all keys. All clients of a queue must use the
	// same one.
	// Defaults to [DefaultPrefix].
	Prefix string
	// Dialect selects the BullMQ major version whose data layout is written.
	// Defaults to [Detect].
	Dialect Dialect
	// DefaultJobOptions apply to all jobs that this Queue adds. Options of a job
	// override them. To clear a default for one job, name it in JobOptions.Reset. In
	// options that were read from JSON, an explicit zero clears a default too. JobID
	// is not inherited.
	DefaultJobOptions *JobOptions
	// MaxEvents is the approximate number of entries that the events stream keeps.
	// Each new Queue overwrites the number stored for the queue, as in Node
	// (BullMQ: streams.events.maxLen).
	//
	// With NoEvents, QueueEvents reads only the events that no later call has
	// removed yet, and WaitForJob may return up to 5 seconds late.
	// Defaults to [DefaultMaxEvents].
	MaxEvents int
	// AddWait is how long Add and AddBulk keep retrying while Redis is unreachable
	// or can't serve, counted from the call.
	//
	// If the outcome of an attempt is unknown, they retry only a job of which a
	// second add has no effect. Otherwise they return [ErrMaybeAdded]. They retry
	// these jobs:
	//
	//   - A job with a JobID whose KeepCompleted and KeepFailed remove no job. These
	//     options of the workers must not remove it either: a job that is no longer
	//     in Redis is added again.
	//   - A job with a Deduplication whose TTL has not passed, and that has none of
	//     Replace, KeepLastIfActive and Reschedule.
	//
	// AddWait also bounds the wait for a Redis that accepts connections but does
	// not reply. Without AddWait, the call fails after 10 to 12 seconds
	// (ConnWriteTimeout of rueidis), or when its context ends.
	// Defaults to 0, which fails at once.
	AddWait time.Duration
	// OnHealth is called when Redis becomes unreachable and when it is reachable
	// again. Calls do not overlap.
	OnHealth func(Health)
	// SkipMetaUpdate disables the write of the queue's meta hash (BullMQ:
	// skipMetasUpdate).
	SkipMetaUpdate bool
	// BatchSize is the maximum number of jobs that one call to Redis adds when
	// goroutines call Add at the same time. Adds made while a call is in flight
	// share the next call. No Add waits for a batch to fill. With 1 each job has
	// a separate call.
	// Defaults to 100.
	BatchSize int
	// ShareCalls makes concurrent adds to several queues share calls to Redis. The Queues
	// need the same Connection, ShareCalls, the same BatchSize and the same Dialect, and on a
	// cluster the same hash tag. Set ShareCalls if a process adds to many queues.
	// Defaults to false: only adds to the same Queue share calls.
	ShareCalls bool
	// Middleware wraps Add, AddBulk and UpsertScheduler. The first one is the outermost.
	Middleware []AddMiddleware
	// Telemetry records traces and metrics of the queue.
	// Defaults to none.
	Telemetry Telemetry
	// Logger receives log lines.
	// Defaults to none.
	Logger Logger
	// Now returns the current time. Tests may replace it.
	// Defaults to [time.Now].
	Now func() time.Time
}

// Queue adds jobs to a queue, reads them and manages the queue (BullMQ: Queue). It
// is safe for concurrent use.
type Queue struct {
	core     *core
	defaults JobOptions
	wait     addWait

	addOne     AddFunc // addNew and addNewBulk within the middleware; nil without middleware
	addMany    AddFunc
	middleware []AddMiddleware
	results    *resultTail
	adds       *batch.Batcher[backend.Add, backend.AddResult]
	shared     *sharedAdds // nil without QueueOptions.ShareCalls
	batchSize  int
	maxEvents  int // 0 to leave it alone
	routes     routes
	closed     atomic.Bool

	entry *registryEntry // of a queue of a Registry; nil for others
}

// NewQueue connects to a queue, writes its meta hash and returns a Queue. queueName
// must not contain a colon. options may be nil. ctx bounds this call only. If Redis can't
// be reached, NewQueue returns an error within 5 seconds.
func NewQueue(ctx context.Context, queueName string, options *QueueOptions) (*Queue, error) {
	var o QueueOptions
	if options != nil {
		o = *options
	}
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("bullmq: queue %s: %w", queueName, err)
	}
	c, err := newCore(ctx, queueName, o.Prefix, o.Connection, o.URL, o.Now, o.Dialect, o.Logger.with(logQueue, queueName))
	if err != nil {
		return nil, err
	}
	c.trace.telemetry = o.Telemetry
	c.watchHealth(o.OnHealth)
	q := &Queue{core: c, wait: newAddWait(o.AddWait), middleware: o.Middleware, results: newResultTail(c)}
	q.routes.core = c
	q.batchAdds(o.BatchSize)
	if o.ShareCalls {
		q.shared = c.sharedAdds(o.BatchSize)
	}
	q.addOne, q.addMany = wrapAdd(q.addNew, o.Middleware), wrapAdd(q.addNewBulk, o.Middleware)
	if o.DefaultJobOptions != nil {
		q.defaults = o.DefaultJobOptions.asDefaults()
	}
	if !o.SkipMetaUpdate {
		q.maxEvents = cmp.Or(o.MaxEvents, DefaultMaxEvents)
		if err := q.introduce(ctx, q.maxEvents); err != nil {
			_ = q.Close()
			return nil, err
		}
	}
	return q, nil
}

// batchAdds lets adds at the same time share calls of at most size jobs.
func (q *Queue) batchAdds(size int) {
	q.batchSize = size
	q.adds = batch.New(batch.Options[backend.Add, backend.AddResult]{
		MaxSize: size, Timeout: timing.CallTimeout, SizeOf: sizeOfAdd, Send: q.sendAdds,
	})
}

// check returns an error for invalid options and sets the default of BatchSize.
func (o *QueueOptions) check() error {
	if o.DefaultJobOptions != nil {
		if err := o.DefaultJobOptions.checkDefaults(); err != nil {
			return err
		}
	}
	return cmp.Or(
		checkBatchSize(&o.BatchSize), checkMillis("AddWait", o.AddWait, 0),
		checkMaxEvents(o.MaxEvents), o.Dialect.check(),
	)
}

// checkMaxEvents rejects a negative number, with which every add of a Node client
// would fail.
func checkMaxEvents(maxEvents int) error {
	if maxEvents < NoEvents {
		return fmt.Errorf("MaxEvents %d is less than 0: use NoEvents to keep none", maxEvents)
	}
	return nil
}

// introduce writes the queue's meta hash.
func (q *Queue) introduce(ctx context.Context, maxEvents int) error {
	ctx, cancel := context.WithTimeout(ctx, timing.ConnectTimeout)
	defer cancel()
	if err := q.core.store.InitMeta(ctx, maxEvents, q.core.dialect.version()); err != nil {
		return fmt.Errorf("bullmq: can't write %s: %w; a queue needs the right to write its keys", q.core.keys.named("meta"), err)
	}
	return nil
}

// Name returns the queue's name, without its prefix.
func (q *Queue) Name() string { return q.core.keys.queue }

// Close closes the queue's connection, unless the caller passed it in.
func (q *Queue) Close() (err error) {
	if !q.closed.CompareAndSwap(false, true) {
		return nil
	}
	_, span := q.core.trace.start(context.Background(), SpanInternal, "close")
	defer span.end(&err)
	if q.entry != nil {
		q.entry.registry.forget(q)
	}
	q.results.refuse()
	safe.Together(q.results.close, q.core.conn.Close)
	return nil
}

// BulkJob is a job to add by [Queue.AddBulk].
type BulkJob struct {
	Name    string
	Data    any
	Options *JobOptions
}

// Add adds a job and returns it with its id (BullMQ: queue.add). data is encoded as
// JSON: nil as an empty object, and a json.RawMessage byte for byte. options may be
// nil.
//
// If a job with the same JobID exists, or another job owns the deduplication id,
// nothing is added. The returned Job then has the id of that job, and
// [Job.AddOutcome] returns AlreadyExists or Deduplicated.
//
// If Redis can't be reached, Add fails at once, or after QueueOptions.AddWait. If it
// returns [ErrMaybeAdded], the job may or may not have been added. After any other
// error it was not added.
func (q *Queue) Add(ctx context.Context, name string, data any, options *JobOptions) (*Job, error) {
	if q.addOne != nil {
		return q.addThrough(ctx, name, data, options)
	}
	return q.add(ctx, name, data, options)
}

func (q *Queue) add(ctx context.Context, name string, data any, options *JobOptions) (job *Job, err error) {
	return q.addWithin(ctx, q.wait, name, data, options)
}

// addWithin adds a job, with an AddWait.
func (q *Queue) addWithin(ctx context.Context, wait addWait, name string, data any, options *JobOptions) (job *Job, err error) {
	return q.addWith(ctx, wait, name, data, options, q.options(options))
}

// addWith adds a job with the options o, which are the given ones with defaults.
func (q *Queue) addWith(ctx context.Context, wait addWait, name string, data any, options *JobOptions, o JobOptions) (job *Job, err error) {
	ctx, span := q.core.trace.startAdd(ctx, name)
	defer span.end(&err)
	begun := time.Now()
	ctx, cancel := wait.within(ctx, begun)
	defer cancel()
	o.carryAlone(q.core.trace.inject(ctx), options)
	job, add, err := q.prepare(name, data, &o)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil && o.Target != nil {
		q, err = q.routeOf(wait.retry(ctx, q.core, begun), job)
	}
	if err != nil {
		return nil, fmt.Errorf("bullmq: job %.80q was not added to %s: %w", name, q.Name(), err)
	}
	q.entry.renew(ctx)
	result, err := q.addOnce(ctx, add)
	if err != nil {
		if result, err = q.addAgain(wait.retry(ctx, q.core, begun), job, &add, err); err != nil {
			return nil, err
		}
	}
	job.added(result)
	span.describe(job)
	return job, nil
}

// AddBulk adds jobs in order, a thousand in each round trip (BullMQ:
// queue.addBulk).
//
// If the options of one job are invalid, no job is added. If Redis rejects a job,
// the error names it and the other jobs are added. A job that was not added has no
// ID. An outage of Redis has the same effects as for [Queue.Add]: after
// [ErrMaybeAdded], some of the jobs without an ID may have been added.
func (q *Queue) AddBulk(ctx context.Context, bulk []BulkJob) ([]*Job, error) {
	if q.addMany != nil && len(bulk) > 0 {
		return q.addBulkThrough(ctx, bulk)
	}
	return q.addBulk(ctx, bulk)
}

func (q *Queue) addBulk(ctx context.Context, bulk []BulkJob) (jobs []*Job, err error) {
	ctx, span := q.core.trace.start(ctx, SpanProducer, "addBulk")
	defer span.end(&err)
	begun := time.Now()
	ctx, cancel := q.wait.within(ctx, begun)
	defer cancel()
	if span.isRecording() {
		names := make([]string, len(bulk))
		for i, b := range bulk {
			names[i] = b.Name
		}
		setAttr(span, attrBulkNames, names)
		setAttr(span, attrBulkCount, len(bulk))
	}
	metadata := q.core.trace.inject(ctx)
	jobs = make([]*Job, len(bulk))
	adds := make([]*backend.Add, len(bulk))
	for i, b := range bulk {
		o := q.options(b.Options)
		o.carry(metadata, b.Options)
		var add backend.Add
		if jobs[i], add, err = q.prepare(b.Name, b.Data, &o); err != nil {
			return nil, fmt.Errorf("bullmq: none of %d jobs was added to %s: job %d, %.80q: %w", len(bulk), q.Name(), i, b.Name, err)
		}
		adds[i] = &add
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("bullmq: none of %d jobs was added to %s: %w", len(bulk), q.Name(), context.Cause(ctx))
	}
	q.entry.renew(ctx)
	results := q.sendBulk(ctx, begun, q.wait, jobs, adds)
	for i, result := range results {
		jobs[i].added(result)
	}
	return jobs, bulkError(results)
}
