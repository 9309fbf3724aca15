package bullmq

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// withDefaults returns o with defaults for the options that it does not set. As in
// BullMQ, an explicit zero, null and a name in Reset count as set. If o has a policy for
// the parent, it replaces the policy of the defaults. BullMQ refuses a job if its policy
// differs from the policy of the defaults.
func (o JobOptions) withDefaults(defaults JobOptions) JobOptions {
	o.normalize()
	if defaults.plain() {
		return o
	}
	stated := func(field *jobField) bool {
		if field.isSet(&o) || field == attemptsField && o.noAttempts {
			return true
		}
		for name := range o.Extra {
			if option := jobOptionsByName[name]; option != nil && option.field == field {
				// Only the option of the default's policy states something about it.
				if field != onFailureField || option.name == string(defaults.OnFailure) {
					return true
				}
			}
		}
		return false
	}
	extra := maps.Clone(defaults.Extra)
	for name := range extra {
		switch option := jobOptionsByName[name]; {
		case option == nil:
		case option.field == onFailureField:
			if o.OnFailure != KeepParentWaiting && !isFalsy(extra[name]) {
				delete(extra, name)
			}
		case stated(option.field):
			delete(extra, name)
		}
	}
	o.noAttempts = o.noAttempts || !stated(attemptsField) && defaults.noAttempts
	for _, field := range jobFields {
		if !stated(field) {
			field.copy(&o, &defaults)
		}
	}
	if extra == nil {
		extra = o.Extra
	} else {
		maps.Copy(extra, o.Extra)
	}
	o.Extra, o.foreign = extra, o.foreign || defaults.foreign
	return o
}

// normalize moves options from Extra into their fields. A value in Extra is dropped if its
// field is set. A value under the public name is also dropped if Extra has the stored name.
// A value that the field can't express stays in Extra, under the stored name. For each name
// in Reset, Extra gets null, unless the option is set.
func (o *JobOptions) normalize() {
	known := len(o.Reset) > 0
	for name := range o.Extra {
		known = known || jobOptionsByName[name] != nil
	}
	if !known {
		return
	}
	given, extra := *o, make(map[string]json.RawMessage, len(o.Extra)+len(o.Reset))
	for name, text := range given.Extra {
		option := jobOptionsByName[name]
		if option != nil {
			if option.isSet(&given) || hasStored(given.Extra, option, name) {
				continue
			}
			var value any
			if wire.DecodeJSON(text, &value) == nil && option.read(o, value) && !option.lost(o) {
				continue
			}
		}
		extra[option.storedName(name)] = text
	}
	for _, name := range o.Reset {
		option := jobOptionsByName[name]
		if _, there := extra[option.storedName(name)]; !there && option != nil && !option.isSet(o) {
			extra[option.storedName(name)] = json.RawMessage("null")
		}
	}
	if o.Extra = extra; len(extra) == 0 {
		o.Extra = nil
	}
}

// onlyClears reports whether Reset and Extra only clear options, which has no effect without
// defaults. Two names have one: attempts, because the job is then stored without them, and
// debounce, which BullMQ 6 refuses.
func (o *JobOptions) onlyClears() bool {
	for _, name := range o.Reset {
		if option := jobOptionsByName[name]; option == nil || option.field == attemptsField {
			return false
		}
	}
	for name, text := range o.Extra {
		if !isNull(text) || jobOptionsByName[name] != nil || name == "debounce" {
			return false
		}
	}
	return true
}

// asDefaults returns o as the defaults of a queue, without the job id, which is never
// inherited.
func (o JobOptions) asDefaults() JobOptions {
	o.normalize()
	o.JobID = ""
	if _, odd := o.Extra["jobId"]; odd {
		o.Extra = maps.Clone(o.Extra)
		delete(o.Extra, "jobId")
	}
	return o
}

// checkDefaults returns an error for defaults with which no job could be added.
func (o *JobOptions) checkDefaults() error {
	err := cmp.Or(o.checkReset(), o.OnFailure.check())
	if err == nil && !o.foreign {
		err = o.checkRanges()
	}
	if err == nil {
		err = o.checkValues()
	}
	if err != nil {
		return fmt.Errorf("DefaultJobOptions: %w", err)
	}
	return nil
}

// check returns an error for options that Node rejects and for values that can only
// be a mistake. It is called before anything is sent.
func (o *JobOptions) check(data string) error {
	if err := o.checkReset(); err != nil {
		return err
	}
	if !o.foreign {
		if err := o.checkRanges(); err != nil {
			return err
		}
	}
	if err := o.checkExtra(); err != nil {
		return err
	}
	if o.SizeLimit != 0 && len(data) > o.SizeLimit {
		return &SizeLimitError{Size: len(data), Limit: o.SizeLimit}
	}
	if err := o.checkPolicies(); err != nil {
		return err
	}
	if err := checkJobID(o.JobID); err != nil {
		return err
	}
	if err := o.checkValues(); err != nil {
		return err
	}
	if o.Deduplication != nil && o.Parent != nil {
		return errors.New("the options Deduplication and Parent can't be set together")
	}
	return nil
}

// checkValues returns an error for single options that Node rejects, wherever they come
// from.
func (o *JobOptions) checkValues() error {
	if p := o.Parent; p != nil {
		switch err := cmp.Or(checkText("Parent.ID", p.ID), checkText("Parent.QueueKey", p.QueueKey)); {
		case err != nil:
			return err
		case p.ID == "":
			return errors.New("Parent.ID is empty")
		case p.QueueKey == "":
			return errors.New("Parent.QueueKey is empty; it is the parent's queue with its prefix, such as bull:orders")
		}
	}
	if o.Priority > maxPriority {
		return fmt.Errorf("priority %d is above the highest, %d", o.Priority, maxPriority)
	}
	if d := o.Deduplication; d != nil {
		if d.ID == "" {
			return errors.New("Deduplication.ID is empty")
		}
		if err := checkText("Deduplication.ID", d.ID); err != nil {
			return err
		}
	}
	if err := o.Target.check(); err != nil {
		return err
	}
	if b := o.Backoff; b != nil && !(b.Jitter >= 0 && b.Jitter <= 1) { // NaN is neither
		return fmt.Errorf("Backoff.Jitter %v is not between 0 and 1", b.Jitter)
	}
	return nil
}

// checkExtra returns an error for invalid values in Extra that can't be ignored,
// because they determine which job is added or when it runs. BullMQ rejects nearly all
// of them too.
func (o *JobOptions) checkExtra() error {
	if len(o.Extra) == 0 {
		return nil
	}
	for _, need := range []struct {
		name, wire, what string
		falsy            bool // a falsy value counts as not set
		fits             func(value any) bool
	}{
		{"jobId", "jobId", "a string", false, isString}, // an empty one
		{"parent", "parent", "an object with the strings id and queue", true, nil},
		{"deduplication", "de", "an object with an id", true, nil},
		{"priority", "priority", "a whole number", true, nil},
		{"delay", "delay", "a number of milliseconds", true, isString},
		{"timestamp", "timestamp", "a number of milliseconds", true, func(v any) bool { return stringMillis(v) != "" }},
	} {
		text, given := o.Extra[need.wire]
		if !given || isNull(text) || need.falsy && isFalsy(text) {
			continue
		}
		var value any
		if wire.DecodeJSON(text, &value) == nil && need.fits != nil && need.fits(value) {
			continue
		}
		return fmt.Errorf("%s %.80s is not %s", need.name, text, need.what)
	}
	return nil
}

// check returns an error for an unknown policy.
func (p ParentPolicy) check() error {
	if p == KeepParentWaiting || slices.Contains(parentPolicies, p) {
		return nil
	}
	return fmt.Errorf("OnFailure %.80q is not one of the constants of ParentPolicy", p)
}

// checkPolicies returns an error for an unknown policy for the parent, or for several.
func (o *JobOptions) checkPolicies() error {
	if err := o.OnFailure.check(); err != nil {
		return err
	}
	if set := o.policies(); len(set) > 1 {
		var names []string
		for _, policy := range set {
			names = append(names, string(policy))
		}
		return fmt.Errorf("%s can't be set together: choose one", strings.Join(names, " and "))
	}
	return nil
}

func isString(v any) bool {
	_, ok := v.(string)
	return ok
}

// stringMillis returns a whole number of milliseconds that was given as a string;
// "" for any other value.
func stringMillis(v any) string {
	text, ok := v.(string)
	if n, err := strconv.ParseInt(text, 10, 64); !ok || err != nil || n <= 0 {
		return ""
	}
	return text
}

// checkReset returns an error for a name that is not an option.
func (o *JobOptions) checkReset() error {
	for _, name := range o.Reset {
		if option := jobOptionsByName[name]; option == nil || option.name != name {
			var known []string
			for _, option := range jobOptions {
				if option.name != "" {
					known = append(known, option.name)
				}
			}
			slices.Sort(known)
			return fmt.Errorf("name %.80q in Reset is not an option; the options are %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// checkRanges returns an error for numbers and durations that can only be a mistake.
// Options parsed from JSON may have them, since Node accepts them.
func (o *JobOptions) checkRanges() error {
	if err := cmp.Or(
		checkDelay("Delay", o.Delay),
		checkCount("Attempts", o.Attempts, "one attempt"), checkCount("Priority", o.Priority, "none"),
		checkCount("KeepLogs", o.KeepLogs, "all rows"), checkCount("SizeLimit", o.SizeLimit, "no limit"),
		o.KeepCompleted.check("KeepCompleted"), o.KeepFailed.check("KeepFailed"),
	); err != nil {
		return err
	}
	if o.StackTraceLimit < NoStackTraces {
		return fmt.Errorf("StackTraceLimit %d is less than 0; 0 means all, NoStackTraces none", o.StackTraceLimit)
	}
	if !o.Timestamp.IsZero() && o.Timestamp.UnixMilli() <= 0 {
		return fmt.Errorf("the Timestamp %v is not after the start of 1970; the zero time means now", o.Timestamp)
	}
	if d := o.Deduplication; d != nil && d.rest == nil {
		if err := checkMillis("Deduplication.TTL", d.TTL, 0); err != nil {
			return fmt.Errorf("%w; 0 means that the job owns the id until it finishes", err)
		}
	}
	if o.Backoff != nil {
		return o.Backoff.check()
	}
	return nil
}

// checkText returns an error for a name that is not valid UTF-8, since Node clients
// could not refer to it.
func checkText(what, name string) error {
	if utf8.ValidString(name) {
		return nil
	}
	return fmt.Errorf("%s %.80q is not valid UTF-8; Node clients could not refer to it", what, name)
}

const maxPriority = 1<<21 - 1

// checkJobID returns an error for ids that could collide with other keys or with
// BullMQ's generated ids.
func checkJobID(id string) error {
	switch {
	case id == "":
		return nil
	case id == "0" || strings.HasPrefix(id, "0:"):
		return fmt.Errorf("job id %.80q: ids must not be 0 or start with 0:, which old clients use for wake-ups", id)
	case wire.IsDecimalInteger(id), id == "NaN": // JavaScript converts both to a number
		return fmt.Errorf("job id %.80q: ids must not be whole numbers, which the queue assigns; put a letter before it", id)
	case isKeyName(id):
		return fmt.Errorf("job id %.80q: the queue has a key of that name; put a letter before it", id)
	case strings.Contains(id, ":") && strings.Count(id, ":") != 2:
		return fmt.Errorf("job id %.80q: ids must contain no colon or exactly two, because colons separate the parts of a key", id)
	}
	return checkText("job id", id)
}

// The checks that all options and arguments share. An error names the option, its
// value and the remedy. The caller adds the operation that failed.

// checkCount returns an error for a negative number. zero describes the meaning of 0.
func checkCount(name string, n int, zero string) error {
	if n >= 0 {
		return nil
	}
	return fmt.Errorf("%s %d is less than 0; 0 means %s", name, n, zero)
}

// checkMillis returns an error for a duration that is less than least or not a whole
// number of milliseconds. Such a duration is often a plain number, which counts
// nanoseconds. least is 0 or a millisecond.
func checkMillis(name string, d, least time.Duration) error {
	switch {
	case d >= least && d%time.Millisecond == 0:
		return nil
	case d < 0 && least == 0:
		return fmt.Errorf("%s %v is less than 0", name, d)
	case d <= 0:
		return fmt.Errorf("%s %v is less than a millisecond", name, d)
	case d < time.Millisecond:
		return fmt.Errorf("%s %v is less than a millisecond; %s", name, d, inMillis)
	default:
		return fmt.Errorf("%s %v is not a whole number of milliseconds; %s", name, d, inMillis)
	}
}

// checkDelay returns an error for a delay that is not a whole number of milliseconds.
// A negative delay, as time.Until may return it, means no delay.
func checkDelay(name string, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	return checkMillis(name, d, 0)
}

// checkPriority returns an error for a priority that is out of range.
func checkPriority(priority int) error {
	if priority > maxPriority {
		return fmt.Errorf("priority %d is above the highest, %d", priority, maxPriority)
	}
	return checkCount("priority", priority, "none")
}

const inMillis = "for 500 milliseconds write 500*time.Millisecond, and round a computed duration with Round(time.Millisecond)"

const defaultBatchSize = 100 // limits how long a call blocks the server for other clients

// checkBatchSize sets the default of BatchSize and returns an error if it is out of
// range.
func checkBatchSize(size *int) error {
	if *size == 0 {
		*size = defaultBatchSize
	}
	if *size < 1 || *size > 1000 {
		return fmt.Errorf("BatchSize %d is not between 1 and 1000", *size)
	}
	return nil
}
