package bullmq

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/batch"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/safe"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// DefaultMaxEvents is about how many entries the events stream keeps.
const DefaultMaxEvents = 10000

// NoEvents as MaxEvents keeps no events (BullMQ: maxLen 0).
const NoEvents = backend.NoEvents

// QueueOptions configure a Queue; nil and the zero value hold the defaults.
type QueueOptions struct {
	// Connection is shared with others that use it. Whoever made it closes it.
	// Defaults to a connection of its own, to URL.
	Connection *Connection
	// URL is the address of Redis, for a connection of its own, instead of a
	// Connection. It is printed as it is, with a password.
	// Defaults to [DefaultURL].
	URL string
	// Prefix is the first part of all keys, the same on all clients; "bull"
	// unless given.
	Prefix string
	// Dialect is the version of BullMQ that the queue is to look like; found out
	// unless given.
	Dialect Dialect
	// DefaultJobOptions hold for jobs added without options of their own that
	// say otherwise. A job takes one back by an explicit zero, where its options
	// were read from JSON, or by naming it in JobOptions.Reset. JobID is never
	// inherited.
	DefaultJobOptions *JobOptions
	// MaxEvents is about how many entries the events stream keeps;
	// DefaultMaxEvents unless given. Each Queue writes it anew, as Node's does
	// (BullMQ: streams.events.maxLen).
	//
	// NoEvents keeps none: QueueEvents then reads only some events, those that the
	// next call to Redis would remove, and WaitForJob may notice the end of a job
	// up to 5 seconds late.
	MaxEvents int
	// AddWait is how long Add and AddBulk wait for a Redis that can't be reached
	// or can't serve, counted from when they are called; 0: they fail at once. They
	// also return when AddWait is over if Redis accepts connections and doesn't
	// answer; with 0 such a connection is given up after 10 to 12 seconds (rueidis'
	// ConnWriteTimeout), or when the call's context ends. An add of which nobody knows whether it was carried out is sent again only if
	// that can't add the job twice, and ends with ErrMaybeAdded otherwise: a
	// job with a JobID that stays when it has ended, by its own options and the
	// workers', or with a Deduplication that throttles (TTL) for longer than the wait.
	AddWait time.Duration
	// OnHealth is called when Redis gets out of reach and when it is back, one
	// call at a time.
	OnHealth func(Health)
	// SkipMetaUpdate leaves the queue's meta hash alone (BullMQ: skipMetasUpdate).
	SkipMetaUpdate bool
	// BatchSize is how many jobs one call to Redis adds at most, when goroutines
	// call Add at the same time; 100 unless given. Adds that come while a call is
	// under way share the next one, and none waits for others: with 1 each has a
	// call of its own.
	BatchSize int
	// Telemetry traces and measures what the queue does; nothing unless given.
	Telemetry Telemetry
	// Logger receives log lines. Defaults to none.
	Logger Logger
	// Now is the clock; time.Now unless given. For tests.
	Now func() time.Time
}

// Queue adds jobs to a queue, reads them and administers it. It is safe for
// concurrent use (BullMQ: Queue).
type Queue struct {
	core     *core
	defaults JobOptions
	addWait  time.Duration
	// addWaitOver ends an add when addWait is over.
	addWaitOver error
	results     *resultTail
	adds        *batch.Batcher[backend.Add, backend.AddResult]
	closed      atomic.Bool
}

// NewQueue connects to a queue and writes its meta hash. name must not contain a
// colon. ctx bounds the call, which fails within 5 seconds in any case when Redis
// can't be reached; the Queue lives on when ctx ends.
func NewQueue(ctx context.Context, name string, options *QueueOptions) (*Queue, error) {
	var o QueueOptions
	if options != nil {
		o = *options
	}
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("bullmq: queue %s: %w", name, err)
	}
	c, err := newCore(ctx, name, o.Prefix, o.Connection, o.URL, o.Now, o.Dialect, o.Logger.with(logQueue, name))
	if err != nil {
		return nil, err
	}
	c.trace.telemetry = o.Telemetry
	c.watchHealth(o.OnHealth)
	q := &Queue{core: c, addWait: o.AddWait, results: newResultTail(c)}
	q.addWaitOver = fmt.Errorf("the AddWait of %v is over", o.AddWait)
	q.adds = batch.New(batch.Options[backend.Add, backend.AddResult]{
		MaxSize: o.BatchSize, Timeout: timing.CallTimeout, SizeOf: sizeOfAdd, Send: q.sendAdds,
	})
	if o.DefaultJobOptions != nil {
		q.defaults = o.DefaultJobOptions.asDefaults()
	}
	if !o.SkipMetaUpdate {
		if err := q.introduce(ctx, cmp.Or(o.MaxEvents, DefaultMaxEvents)); err != nil {
			_ = q.Close()
			return nil, err
		}
	}
	return q, nil
}

// check refuses bad options, and puts in the default of BatchSize.
func (o *QueueOptions) check() error {
	if o.DefaultJobOptions != nil {
		if err := o.DefaultJobOptions.checkDefaults(); err != nil {
			return err
		}
	}
	return cmp.Or(
		checkBatchSize(&o.BatchSize), checkMillis("AddWait", o.AddWait, 0),
		checkMaxEvents(o.MaxEvents),
	)
}

// checkMaxEvents refuses a bound by which every add of Node would fail.
func checkMaxEvents(maxEvents int) error {
	if maxEvents < NoEvents {
		return fmt.Errorf("MaxEvents %d is less than 0: use NoEvents to keep none", maxEvents)
	}
	return nil
}

// introduce writes what a queue says of itself.
func (q *Queue) introduce(ctx context.Context, maxEvents int) error {
	ctx, cancel := context.WithTimeout(ctx, timing.ConnectTimeout)
	defer cancel()
	if err := q.core.store.InitMeta(ctx, maxEvents, q.core.dialect.version()); err != nil {
		return fmt.Errorf("bullmq: can't write %s: %w; a queue needs the right to write its keys", q.core.keys.of("meta"), err)
	}
	return nil
}

// Name is the queue's name, without its prefix.
func (q *Queue) Name() string { return q.core.keys.queue }

// Close ends the queue's connection, unless the client is the caller's own.
func (q *Queue) Close() (err error) {
	if !q.closed.CompareAndSwap(false, true) {
		return nil
	}
	_, span := q.core.trace.start(context.Background(), SpanInternal, "close")
	defer span.end(&err)
	safe.Together(q.results.close, q.core.conn.Close)
	return nil
}

// BulkJob is one job of AddBulk.
type BulkJob struct {
	Name    string
	Data    any
	Options *JobOptions
}

// Add adds a job and returns it with its id. data becomes JSON; nil is an
// empty object, json.RawMessage passes byte for byte. options may be nil.
//
// When a job with the same JobID exists, or another job owns the
// deduplication id, nothing is added. The returned Job then has the id of that job,
// and its AddOutcome is AlreadyExists or Deduplicated.
//
// When Redis can't be reached, Add fails at once, or waits for AddWait. After
// ErrMaybeAdded the job may have been added or not, after any other error it was
// not. (BullMQ: queue.add)
func (q *Queue) Add(ctx context.Context, name string, data any, options *JobOptions) (job *Job, err error) {
	ctx, span := q.core.trace.startAdd(ctx, name)
	defer span.end(&err)
	begun := time.Now()
	ctx, cancel := q.withinAddWait(ctx, begun)
	defer cancel()
	o := q.options(options)
	o.carryAlone(q.core.trace.inject(ctx), options)
	job, add, err := q.prepare(name, data, &o)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("bullmq: job %.80q was not added to %s: %w", name, q.Name(), err)
	}
	result, err := q.addOnce(ctx, add)
	if err != nil {
		if result, err = q.addAgain(ctx, begun, job, &add, err); err != nil {
			return nil, err
		}
	}
	job.added(result)
	span.describe(job)
	return job, nil
}

// AddBulk adds jobs in order, in one round trip for each thousand. Bad options
// of any job add none. A refusal by Redis concerns a job alone: the error names
// it, the others are added, and a job that wasn't has no ID. When Redis can't be
// reached, it is as with Add: after ErrMaybeAdded some of the jobs without an
// ID may have been added. (BullMQ: queue.addBulk)
func (q *Queue) AddBulk(ctx context.Context, bulk []BulkJob) (jobs []*Job, err error) {
	ctx, span := q.core.trace.start(ctx, SpanProducer, "addBulk")
	defer span.end(&err)
	begun := time.Now()
	ctx, cancel := q.withinAddWait(ctx, begun)
	defer cancel()
	if span.on() {
		names := make([]string, len(bulk))
		for i, b := range bulk {
			names[i] = b.Name
		}
		set(span, attrBulkNames, names)
		set(span, attrBulkCount, len(bulk))
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
	results := q.core.store.AddBatch(ctx, adds)
	if bulkError(results) != nil {
		q.addManyAgain(ctx, begun, jobs, adds, results)
	}
	for i, result := range results {
		jobs[i].added(result)
	}
	return jobs, bulkError(results)
}

// addOnce adds a job, together with others if it is a plain one.
func (q *Queue) addOnce(ctx context.Context, add backend.Add) (backend.AddResult, error) {
	var result backend.AddResult
	var err error
	if add.IsPlain() {
		result, err = q.adds.Do(ctx, add)
	} else {
		result = q.core.store.AddBatch(ctx, []*backend.Add{&add})[0]
	}
	return result, cmp.Or(err, result.Err)
}

// sendAdds adds jobs that share a call.
func (q *Queue) sendAdds(ctx context.Context, adds []*backend.Add) (read func() ([]backend.AddResult, error)) {
	results := q.core.store.AddBatch(ctx, adds)
	return func() ([]backend.AddResult, error) { return results, nil }
}

func sizeOfAdd(a *backend.Add) int { return len(a.Name) + len(a.Data) + len(a.Opts) }

// prepare checks and encodes a job; nothing is sent.
func (q *Queue) prepare(name string, data any, options *JobOptions) (*Job, backend.Add, error) {
	job := &Job{Name: name, Opts: *options, core: q.core}
	o := &job.Opts // options stays where its caller has it, which costs no memory
	if err := checkText("its name", name); err != nil {
		return nil, backend.Add{}, err
	}
	if err := q.core.takeSpecial(job); err != nil {
		return nil, backend.Add{}, err
	}
	payload := "{}"
	if data != nil {
		var err error
		if payload, err = wire.EncodeJSON(data); err != nil {
			return nil, backend.Add{}, fmt.Errorf("its data can't be written as JSON: %w", err)
		}
	}
	if err := o.check(payload); err != nil {
		return nil, backend.Add{}, err
	}
	if o.Parent != nil {
		if err := q.core.store.CheckReach(o.Parent.ref().Prefix, o.Parent.ref().Queue); err != nil {
			return nil, backend.Add{}, err
		}
	}
	opts, err := o.encode()
	if err != nil {
		return nil, backend.Add{}, fmt.Errorf("its options can't be written as JSON: %w", err)
	}
	timestamp := o.Timestamp
	if timestamp.IsZero() {
		timestamp = q.core.now()
	}
	timestamp = timestamp.Truncate(time.Microsecond)
	if o.Timestamp.IsZero() {
		timestamp = time.UnixMilli(timestamp.UnixMilli())
	}
	add := backend.Add{
		State: backend.Waiting, ID: o.JobID, Name: name, Data: payload, Opts: opts,
		Timestamp: timestamp, Delay: o.Delay, Priority: o.Priority, LIFO: o.LIFO,
	}
	if odd, given := o.Extra["lifo"]; given { // Lua takes all else for true
		add.LIFO = !isNull(odd) && string(odd) != "false"
	}
	if text, given := o.Extra["delay"]; given && o.Delay == 0 {
		// Other clients take a text for no delay. null leaves the pointer nil.
		var delay *string
		if json.Unmarshal(text, &delay) == nil {
			add.DelayText = delay
		}
	}
	if text, given := o.Extra["timestamp"]; given {
		var value any
		if wire.DecodeJSON(text, &value) == nil && stringMillis(value) != "" {
			add.TimestampText = stringMillis(value)
			timestamp = wire.ParseTime(add.TimestampText)
		}
	}
	add.SchedulerID = job.SchedulerID
	switch {
	case o.Delay > 0:
		add.State = backend.Delayed
	case o.Priority != 0:
		add.State = backend.Prioritized
	}
	job.ID, job.Data, job.RawOpts = o.JobID, json.RawMessage(payload), json.RawMessage(opts)
	job.Timestamp, job.Delay, job.Priority = timestamp, o.Delay, o.Priority
	if o.Parent != nil {
		add.Parent, add.ParentPolicy = o.Parent.ref(), childOf(o.Parent, o)
		job.ParentKey, job.ParentPolicy = add.Parent.String(), json.RawMessage(add.ParentPolicy)
	}
	if d := o.Deduplication; d != nil {
		add.Deduplication = backend.Deduplication{
			ID: d.ID, TTL: d.TTL, Extend: d.Extend, Replace: d.Replace,
			KeepLastIfActive: d.KeepLastIfActive, Reschedule: d.Reschedule,
		}
		job.DeduplicationID = d.ID
	}
	return job, add, nil
}

// schedulerOption names the scheduler that a job belongs to. BullMQ keeps it as a
// field of the job (rjk), not among its options.
const schedulerOption = "repeatJobKey"

// takeSpecial reads options in Extra that are stored elsewhere: the scheduler of a
// job, and debounce, an older name of deduplication. BullMQ 6 refuses debounce.
func (c *core) takeSpecial(job *Job) error {
	o := &job.Opts
	scheduler, scheduled := o.Extra[schedulerOption]
	debounce, debounced := o.Extra["debounce"]
	if !scheduled && !debounced {
		return nil
	}
	o.Extra = maps.Clone(o.Extra)
	delete(o.Extra, schedulerOption)
	delete(o.Extra, "debounce")
	if scheduled && !isNull(scheduler) && json.Unmarshal(scheduler, &job.SchedulerID) != nil {
		return fmt.Errorf("%s %.80s is not a string", schedulerOption, scheduler)
	}
	if !debounced {
		return nil
	}
	if c.dialect != V5 {
		return errors.New("the option debounce was removed in BullMQ 6; use deduplication, which is JobOptions.Deduplication")
	}
	var value any
	if o.Deduplication == nil && !isNull(debounce) && !isFalsy(debounce) && (wire.DecodeJSON(debounce, &value) != nil || !readDeduplication(o, value)) {
		return fmt.Errorf("debounce %.80s is not an object with an id", debounce)
	}
	return nil
}

// options are a job's own options, and the queue's defaults for those that it
// doesn't state.
func (q *Queue) options(own *JobOptions) JobOptions {
	switch {
	case own == nil:
		return q.defaults
	case len(own.Extra) == 0 && len(own.Reset) == 0 && q.defaults.plain():
		return *own
	default:
		return own.over(q.defaults)
	}
}
