package bullmq

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// Retention selects which finished jobs stay in Redis (BullMQ: removeOnComplete,
// removeOnFail). With the zero Retention the worker's option applies, and if that is
// not set either, all jobs stay. Old jobs are removed when a newer one finishes.
type Retention struct{ rule *retentionRule }

type retentionRule struct {
	wire    string // the JSON in opts
	keep    backend.Keep
	invalid error // why the rule is invalid in a program's options; nil if it is valid
}

func newRetention(wire string, keep backend.Keep) Retention {
	return Retention{&retentionRule{wire: wire, keep: keep}}
}

var (
	keepNone = newRetention("true", backend.Keep{Count: backend.Int(0)})
	keepAll  = newRetention("false", backend.Keep{Count: backend.Int(-1)})
)

// KeepNone returns a Retention that removes each job as soon as it finishes (BullMQ:
// true).
func KeepNone() Retention { return keepNone }

// KeepAll returns a Retention that keeps every job (BullMQ: false).
func KeepAll() Retention { return keepAll }

// KeepLast returns a Retention that keeps the newest n jobs (BullMQ: a number). A
// negative n is an error where the option is used. Use [KeepAll] to keep every job.
func KeepLast(n int) Retention {
	k := newRetention(strconv.Itoa(n), backend.Keep{Count: backend.Int(n)})
	if n < 0 {
		k.rule.invalid = fmt.Errorf("KeepLast(%d) is less than 0; KeepAll() keeps every job", n)
	}
	return k
}

// KeepFor returns a Retention that keeps jobs up to an age, which is rounded up to whole
// seconds (BullMQ: {age}). An age that is negative, or not in whole milliseconds, is an
// error where the option is used.
func KeepFor(age time.Duration) Retention {
	return keepWithin(RetentionLimits{Age: age}, true)
}

// RetentionLimits are the limits of [KeepWithin].
type RetentionLimits struct {
	// Age is how long jobs are kept, as in [KeepFor].
	// Defaults to 0, any age.
	Age time.Duration
	// Count is the number of the newest jobs that are kept.
	// Defaults to 0, any number.
	Count int
	// Removals is the maximum number of jobs that are removed when a job ends (BullMQ:
	// limit).
	// Defaults to 1000.
	Removals int
}

// KeepWithin returns a Retention that keeps the jobs that are within both Age and Count
// (BullMQ: {age, count, limit}). If neither Age nor Count is set, or if a limit is negative,
// this is an error where the option is used.
func KeepWithin(limits RetentionLimits) Retention {
	return keepWithin(limits, limits.Age != 0)
}

func keepWithin(limits RetentionLimits, aged bool) Retention {
	var keep backend.Keep
	var fields []string
	if aged {
		seconds := limits.Age / time.Second
		if limits.Age%time.Second > 0 { // without an addition, which could overflow
			seconds++
		}
		keep.Age = backend.Int(int(seconds))
		fields = append(fields, `"age":`+strconv.Itoa(keep.Age.Value))
	}
	if limits.Count > 0 {
		keep.Count = backend.Int(limits.Count)
		fields = append(fields, `"count":`+strconv.Itoa(limits.Count))
	}
	if limits.Removals > 0 {
		keep.Removals = backend.Int(limits.Removals)
		fields = append(fields, `"limit":`+strconv.Itoa(limits.Removals))
	}
	k := newRetention("{"+strings.Join(fields, ",")+"}", keep)
	k.rule.invalid = cmp.Or(checkMillis("Age", limits.Age, 0),
		checkCount("Count", limits.Count, "any number"), checkCount("Removals", limits.Removals, "1000"))
	if k.rule.invalid == nil && !aged && limits.Count == 0 {
		k.rule.invalid = errors.New("KeepWithin needs an Age or a Count; KeepAll() keeps every job")
	}
	return k
}

// check returns an error if the Retention was made with invalid arguments.
func (k Retention) check(option string) error {
	if k.IsZero() || k.rule.invalid == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", option, k.rule.invalid)
}

// IsZero reports whether no rule is set.
func (k Retention) IsZero() bool { return k.rule == nil }

// keepsAll reports whether the option removes no jobs.
func (k Retention) keepsAll() bool {
	return k.IsZero() || k.rule.keep.All()
}

// String returns the option's JSON, or "" if no rule is set.
func (k Retention) String() string {
	if k.IsZero() {
		return ""
	}
	return k.rule.wire
}

// MarshalJSON returns the option in BullMQ's form: true, false, a number or an
// object.
func (k Retention) MarshalJSON() ([]byte, error) {
	if k.IsZero() {
		return []byte("null"), nil
	}
	return []byte(k.rule.wire), nil
}

// UnmarshalJSON parses every form that BullMQ writes.
func (k *Retention) UnmarshalJSON(text []byte) error {
	var value any
	if err := wire.DecodeJSON(text, &value); err != nil {
		return err
	}
	keep, ok := parseRetention(value)
	if !ok {
		return fmt.Errorf("%s is none of true, false, a number or {age, count, limit}", text)
	}
	*k = keep
	return nil
}

// parseRetention converts a decoded JSON value. It reports whether the value is valid.
func parseRetention(value any) (Retention, bool) {
	switch v := value.(type) {
	case nil:
		return Retention{}, true
	case bool:
		if v {
			return KeepNone(), true
		}
		return KeepAll(), true
	case json.Number:
		return newRetention(v.String(), backend.Keep{Count: whole(v)}), true
	case map[string]any:
		text, err := wire.EncodeJSON(v)
		return newRetention(text, backend.Keep{Count: whole(v["count"]), Age: whole(v["age"]), Removals: whole(v["limit"])}), err == nil
	default:
		return Retention{}, false
	}
}

// whole returns a decoded number, rounded down. The result is not set for any other
// value and for numbers beyond the safe integers of JavaScript.
func whole(value any) backend.OptionalInt {
	number, ok := value.(json.Number)
	if !ok {
		return backend.OptionalInt{}
	}
	f, err := number.Float64()
	if err != nil || math.Abs(f) > wire.MaxSafeInteger {
		return backend.OptionalInt{}
	}
	return backend.Int(int(math.Floor(f)))
}

// withDefault returns the rule that applies to a job: its option, else the worker's, else
// the rule that keeps all jobs.
func (k Retention) withDefault(worker Retention) backend.Keep {
	if !k.IsZero() {
		return k.rule.keep
	}
	if !worker.IsZero() {
		return worker.rule.keep
	}
	return keepAll.rule.keep
}
