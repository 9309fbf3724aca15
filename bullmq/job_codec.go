package bullmq

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// jobOption is an option of a job: its public name in BullMQ, its key in the stored
// opts of bullmq 6.7.0, its field in JobOptions, and functions to write and read it.
// write returns nil if the option is not set.
//
// A new option needs a field in JobOptions, a check in job_check.go, a row in jobOptions
// and a line in docs/wire-protocol.md.
type jobOption struct {
	name, wire string
	field      *jobField
	write      func(o *JobOptions) any
	read       func(o *JobOptions, value any) bool
}

// jobField is a field of JobOptions. Several options may share one.
type jobField struct {
	isSet func(o *JobOptions) bool
	copy  func(to, from *JobOptions)
}

// fieldOf returns a jobField for one field of JobOptions. at returns a pointer to that
// field.
func fieldOf[T comparable](at func(o *JobOptions) *T) *jobField {
	var zero T
	return &jobField{
		isSet: func(o *JobOptions) bool { return *at(o) != zero },
		copy:  func(to, from *JobOptions) { *at(to) = *at(from) },
	}
}

var (
	attemptsField  = fieldOf(func(o *JobOptions) *int { return &o.Attempts })
	onFailureField = fieldOf(func(o *JobOptions) *ParentPolicy { return &o.OnFailure })
	telemetryField = fieldOf(func(o *JobOptions) **JobTelemetry { return &o.Telemetry })
)

var jobOptions = []jobOption{
	{"attempts", "attempts", attemptsField,
		func(o *JobOptions) any { return o.Attempts }, // always stored
		func(o *JobOptions, v any) bool {
			read := readInt(v, &o.Attempts)
			o.noAttempts = read && o.Attempts == 0
			return read
		}},
	{"delay", "delay", fieldOf(func(o *JobOptions) *time.Duration { return &o.Delay }),
		func(o *JobOptions) any { return millisOrNil(o.Delay) },
		func(o *JobOptions, v any) bool { return readMillis(v, &o.Delay) }},
	{"priority", "priority", fieldOf(func(o *JobOptions) *int { return &o.Priority }),
		func(o *JobOptions) any { return intOrNil(o.Priority) },
		func(o *JobOptions, v any) bool { return readInt(v, &o.Priority) }},
	{"lifo", "lifo", fieldOf(func(o *JobOptions) *bool { return &o.LIFO }),
		func(o *JobOptions) any { return boolOrNil(o.LIFO) },
		func(o *JobOptions, v any) bool { return readBool(v, &o.LIFO) }},
	{"jobId", "jobId", fieldOf(func(o *JobOptions) *string { return &o.JobID }),
		func(o *JobOptions) any { return textOrNil(o.JobID) },
		func(o *JobOptions, v any) bool { return readText(v, &o.JobID) }},
	{"timestamp", "timestamp", fieldOf(func(o *JobOptions) *time.Time { return &o.Timestamp }),
		func(o *JobOptions) any {
			if o.Timestamp.IsZero() {
				return nil
			}
			return json.RawMessage(wire.FormatTime(o.Timestamp))
		},
		func(o *JobOptions, v any) bool {
			var ms time.Duration
			if !readMillis(v, &ms) || ms == 0 {
				return false
			}
			o.Timestamp = time.UnixMicro(ms.Microseconds())
			return true
		}},
	{"backoff", "backoff", fieldOf(func(o *JobOptions) **Backoff { return &o.Backoff }), writeBackoff, readBackoff},
	{"removeOnComplete", "removeOnComplete", fieldOf(func(o *JobOptions) *Retention { return &o.KeepCompleted }),
		func(o *JobOptions) any { return retentionOrNil(o.KeepCompleted) },
		func(o *JobOptions, v any) bool { return readRetention(v, &o.KeepCompleted) }},
	{"removeOnFail", "removeOnFail", fieldOf(func(o *JobOptions) *Retention { return &o.KeepFailed }),
		func(o *JobOptions) any { return retentionOrNil(o.KeepFailed) },
		func(o *JobOptions, v any) bool { return readRetention(v, &o.KeepFailed) }},
	{"keepLogs", "kl", fieldOf(func(o *JobOptions) *int { return &o.KeepLogs }),
		func(o *JobOptions) any { return intOrNil(o.KeepLogs) },
		func(o *JobOptions, v any) bool { return readInt(v, &o.KeepLogs) }},
	{"stackTraceLimit", "stackTraceLimit", fieldOf(func(o *JobOptions) *int { return &o.StackTraceLimit }),
		func(o *JobOptions) any {
			if o.StackTraceLimit < 0 {
				return 0
			}
			return intOrNil(o.StackTraceLimit)
		},
		func(o *JobOptions, v any) bool {
			if !readInt(v, &o.StackTraceLimit) {
				return false
			}
			if o.StackTraceLimit == 0 {
				o.StackTraceLimit = NoStackTraces
			}
			return true
		}},
	{"sizeLimit", "sizeLimit", fieldOf(func(o *JobOptions) *int { return &o.SizeLimit }),
		func(o *JobOptions) any { return intOrNil(o.SizeLimit) },
		func(o *JobOptions, v any) bool { return readInt(v, &o.SizeLimit) }},
	{"deduplication", "de", fieldOf(func(o *JobOptions) **Deduplication { return &o.Deduplication }), writeDeduplication, readDeduplication},
	{"target", "target", fieldOf(func(o *JobOptions) **Target { return &o.Target }), writeTarget, readTarget},
	{"parent", "parent", fieldOf(func(o *JobOptions) **ParentRef { return &o.Parent }),
		func(o *JobOptions) any {
			if o.Parent == nil {
				return nil
			}
			return map[string]any{"id": o.Parent.ID, "queue": o.Parent.QueueKey}
		},
		func(o *JobOptions, v any) bool {
			fields, ok := v.(map[string]any)
			parent := &ParentRef{}
			if !ok || !readText(fields["id"], &parent.ID) || !readText(fields["queue"], &parent.QueueKey) {
				return false
			}
			o.Parent = parent
			return true
		}},
	{"failParentOnFailure", "fpof", onFailureField, writePolicy(FailParent), readPolicy(FailParent)},
	{"continueParentOnFailure", "cpof", onFailureField, writePolicy(ContinueParent), readPolicy(ContinueParent)},
	{"ignoreDependencyOnFailure", "idof", onFailureField, writePolicy(IgnoreDependency), readPolicy(IgnoreDependency)},
	{"removeDependencyOnFailure", "rdof", onFailureField, writePolicy(RemoveDependency), readPolicy(RemoveDependency)},
	{"", "tm", telemetryField,
		func(o *JobOptions) any {
			if o.Telemetry == nil {
				return nil
			}
			return textOrNil(o.Telemetry.Metadata)
		},
		func(o *JobOptions, v any) bool { return readText(v, &o.telemetry().Metadata) }},
	{"", "omc", telemetryField,
		func(o *JobOptions) any {
			if o.Telemetry == nil {
				return nil
			}
			return boolOrNil(o.Telemetry.OmitContext)
		},
		func(o *JobOptions, v any) bool { return readBool(v, &o.telemetry().OmitContext) }},
	{"telemetry", "", telemetryField,
		nil,
		func(o *JobOptions, v any) bool {
			fields, ok := v.(map[string]any)
			if !ok {
				return false
			}
			readText(fields["metadata"], &o.telemetry().Metadata)
			readBool(fields["omitContext"], &o.telemetry().OmitContext)
			return true
		}},
}

func (o *JobOptions) telemetry() *JobTelemetry {
	if o.Telemetry == nil {
		o.Telemetry = &JobTelemetry{}
	}
	return o.Telemetry
}

// noOptions is the stored opts of a job without options.
const noOptions = `{"attempts":0}`

// encode returns opts in the stored form.
func (o *JobOptions) encode() (string, error) {
	if o.plain() {
		return noOptions, nil
	}
	return wire.EncodeJSON(o.fields())
}

// fields returns the stored opts before they are encoded. Options that are null, and a
// backoff that is falsy in JavaScript, are not stored.
func (o *JobOptions) fields() map[string]any {
	fields := make(map[string]any, 4+len(o.Extra))
	for name, value := range o.Extra {
		if !isNull(value) && !(name == "backoff" && isFalsy(value)) {
			fields[name] = value
		}
	}
	for _, option := range jobOptions {
		if option.write == nil {
			continue
		}
		if value := option.write(o); value != nil {
			if _, extra := o.Extra[option.wire]; extra && option.wire == "attempts" && o.Attempts == 0 {
				continue
			}
			fields[option.wire] = value
		}
	}
	return fields
}

// plain reports whether no option is set, which is so for most jobs.
func (o *JobOptions) plain() bool {
	return o.JobID == "" && o.Delay == 0 && o.Priority == 0 && !o.LIFO && o.Attempts == 0 && o.Backoff == nil &&
		o.KeepCompleted.IsZero() && o.KeepFailed.IsZero() && o.KeepLogs == 0 && o.StackTraceLimit == 0 &&
		o.SizeLimit == 0 && o.Timestamp.IsZero() && o.Deduplication == nil && o.Target == nil && o.Parent == nil &&
		o.OnFailure == KeepParentWaiting && o.Telemetry == nil && len(o.Extra) == 0
}

// UnmarshalJSON parses options under BullMQ's public names (keepLogs) or stored names
// (kl). If both names of an option are present, the stored one takes precedence.
//
// It accepts every form that a client may write. Unknown options, and values of the
// wrong type, are kept in Extra. So is an explicit zero, such as delay: 0, because the
// wire distinguishes it from an option that is not set.
func (o *JobOptions) UnmarshalJSON(text []byte) error {
	var values map[string]any
	if err := wire.DecodeJSON(text, &values); err != nil {
		// An empty list is how some clients write an empty object.
		var list []any
		if json.Unmarshal(text, &list) == nil && len(list) == 0 {
			return nil
		}
		return err
	}
	var raw map[string]json.RawMessage // decoded only if a value must be kept unchanged
	for name, value := range values {
		option := jobOptionsByName[name]
		if option != nil && (hasStored(values, option, name) || option.read(o, value) && !option.lost(o)) {
			continue
		}
		if raw == nil {
			if err := json.Unmarshal(text, &raw); err != nil {
				return err
			}
			if o.Extra == nil {
				o.Extra = map[string]json.RawMessage{}
			}
		}
		o.Extra[option.storedName(name)] = raw[name]
	}
	o.orderPolicies()
	o.foreign = o.checkRanges() != nil
	return nil
}

// jobOptionsByName finds an option by its public name and by its stored one.
var jobOptionsByName = map[string]*jobOption{}

// jobFields are the fields of all options.
var jobFields []*jobField

func init() {
	for i := range jobOptions {
		option := &jobOptions[i]
		for _, name := range []string{option.name, option.wire} {
			if name != "" {
				jobOptionsByName[name] = option
			}
		}
		if !slices.Contains(jobFields, option.field) {
			jobFields = append(jobFields, option.field)
		}
	}
}

// storedName returns the name under which Extra has an option, known or unknown.
func (option *jobOption) storedName(name string) string {
	if option == nil || option.wire == "" {
		return name
	}
	return option.wire
}

// hasStored reports whether the value under name must be ignored because values also has
// the option under its stored name. It returns false if name is the stored name.
func hasStored[V any](values map[string]V, option *jobOption, name string) bool {
	if name == option.wire {
		return false
	}
	stored := []string{option.wire}
	if name == "telemetry" {
		stored = []string{"tm", "omc"}
	}
	return slices.ContainsFunc(stored, func(wire string) bool { _, there := values[wire]; return there })
}

// isSet reports whether the option's own field is set.
func (option *jobOption) isSet(o *JobOptions) bool {
	switch option.name {
	case "attempts":
		return o.Attempts != 0 || o.noAttempts
	case "telemetry":
		return o.Telemetry != nil
	}
	return option.write(o) != nil
}

// lost reports whether a parsed value would not be written again.
func (option *jobOption) lost(o *JobOptions) bool {
	return option.write != nil && option.write(o) == nil
}

// MarshalJSON returns the options in the stored form.
func (o JobOptions) MarshalJSON() ([]byte, error) {
	o.normalize()
	text, err := o.encode()
	return []byte(text), err
}

func writeBackoff(o *JobOptions) any {
	if o.Backoff == nil {
		return nil
	}
	fields := o.Backoff.rest.fields()
	if _, had := fields["type"]; had || o.Backoff.Type != "" {
		fields["type"] = o.Backoff.Type
	}
	write(fields, "delay", o.Backoff.Delay != 0 || o.Backoff.number, json.RawMessage(wire.FormatMillis(o.Backoff.Delay)))
	write(fields, "jitter", o.Backoff.Jitter != 0, o.Backoff.Jitter)
	return fields
}

func readBackoff(o *JobOptions, v any) bool {
	b := &Backoff{Type: "fixed"}
	switch v := v.(type) {
	case json.Number: // a number means fixed
		if !readMillis(v, &b.Delay) {
			return false
		}
		b.number = true
	case map[string]any:
		b.Type = "" // not BackoffFixed; Node also treats a missing type as an unknown one
		if kind, has := v["type"]; has && !readText(kind, &b.Type) {
			return false
		}
		readMillis(v["delay"], &b.Delay)
		if jitter, ok := v["jitter"].(json.Number); ok {
			b.Jitter, _ = jitter.Float64()
		}
		b.rest = v
	default:
		return false
	}
	o.Backoff = b
	return true
}

func writeDeduplication(o *JobOptions) any {
	d := o.Deduplication
	if d == nil {
		return nil
	}
	fields := d.rest.fields()
	if numberID(fields["id"]) != d.ID || d.ID == "" {
		write(fields, "id", d.ID != "", d.ID)
	}
	write(fields, "ttl", d.TTL != 0, json.RawMessage(wire.FormatMillis(d.TTL)))
	write(fields, "extend", d.Extend, true)
	write(fields, "replace", d.Replace, true)
	write(fields, "keepLastIfActive", d.KeepLastIfActive, true)
	write(fields, "reschedule", d.Reschedule, true)
	return fields
}

func readDeduplication(o *JobOptions, v any) bool {
	fields, ok := v.(map[string]any)
	if !ok {
		return false
	}
	d := &Deduplication{}
	if !readText(fields["id"], &d.ID) {
		d.ID = numberID(fields["id"])
	}
	readMillis(fields["ttl"], &d.TTL)
	readBool(fields["extend"], &d.Extend)
	readBool(fields["replace"], &d.Replace)
	readBool(fields["keepLastIfActive"], &d.KeepLastIfActive)
	readBool(fields["reschedule"], &d.Reschedule)
	d.rest = fields
	o.Deduplication = d
	return true
}

// rest is the JSON object from which a value was parsed. It keeps the members for which
// the value has no field, and zeros that were given. Encoding the value writes both again.
type rest map[string]any

// fields returns a copy to modify.
func (r rest) fields() map[string]any {
	fields := make(map[string]any, len(r)+4)
	maps.Copy(fields, r)
	return fields
}

// write sets a member of an object that may have been parsed. set is false if the field of
// the value is zero. A parsed member that is not zero is then removed, because the program
// has cleared the field since. Other parsed members are kept.
func write(fields map[string]any, name string, set bool, value any) {
	if set {
		fields[name] = value
		return
	}
	_, flag := value.(bool)
	switch was := fields[name].(type) {
	case bool:
		set = flag && was
	case json.Number:
		var ms time.Duration
		set = !flag && readMillis(was, &ms) && ms != 0
	}
	if set {
		delete(fields, name)
	}
}

// numberID returns the text of an id that is a whole number in the JSON. It returns "" for
// any other value.
func numberID(v any) string {
	number, ok := v.(json.Number)
	var n int
	if !ok || !readInt(number, &n) || strconv.Itoa(n) != number.String() || n == 0 {
		return ""
	}
	return number.String()
}
