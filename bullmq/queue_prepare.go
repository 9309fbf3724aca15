package bullmq

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// prepare checks and encodes a job. It sends nothing.
func (q *Queue) prepare(name string, data any, options *JobOptions) (*Job, backend.Add, error) {
	job := &Job{Name: name, Options: *options, core: q.core}
	o := &job.Options // the copy, so that options need not escape to the heap
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
	if odd, given := o.Extra["lifo"]; given { // every other value is true in Lua
		add.LIFO = !isNull(odd) && string(odd) != "false"
	}
	if text, given := o.Extra["delay"]; given && o.Delay == 0 {
		// A delay given as text does not delay the job in other clients either. null leaves the pointer nil.
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
	job.ID, job.Data, job.RawOptions = o.JobID, json.RawMessage(payload), json.RawMessage(opts)
	job.Timestamp, job.Delay, job.Priority = timestamp, o.Delay, o.Priority
	if o.Parent != nil {
		add.Parent, add.ParentPolicy = o.Parent.ref(), childOf(o.Parent, o)
		job.ParentKey, job.RawParent = add.Parent.String(), json.RawMessage(add.ParentPolicy)
	}
	if d := o.Deduplication; d != nil {
		add.Deduplication, job.DeduplicationID = d.modes(), d.ID
	}
	return job, add, nil
}

// schedulerOption names the scheduler that a job belongs to. BullMQ keeps it as a
// field of the job (rjk), not among its options.
const schedulerOption = "repeatJobKey"

// takeSpecial reads options in Extra that are stored elsewhere: the scheduler of a
// job, and debounce, an older name of deduplication. BullMQ 6 refuses debounce.
func (c *core) takeSpecial(job *Job) error {
	o := &job.Options
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

// options returns a job's options, with the queue's defaults for the options that the job
// does not set.
func (q *Queue) options(own *JobOptions) JobOptions {
	switch {
	case own == nil:
		return q.defaults
	case len(own.Extra) == 0 && len(own.Reset) == 0 && q.defaults.plain():
		return *own
	case q.defaults.plain() && own.onlyClears(): // there is nothing to clear
		o := *own
		o.Extra = nil
		return o
	default:
		return own.withDefaults(q.defaults)
	}
}
