package bullmq

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
	"github.com/17a2ac88/bullmq-go/bullmq/scripts"
)

// Retention selects which finished jobs stay in Redis (BullMQ: removeOnComplete,
// removeOnFail). With the zero Retention the worker's option applies, and if that is
// not set either, all jobs stay. Old jobs are removed when a newer one finishes.
type Retention struct{ rule *keepRule }

type keepRule struct {
	wire string // the JSON in opts
	keep scripts.Keep
	flaw error // why the rule is invalid in a program's options; nil if it is valid
}

func newKeep(wire string, keep scripts.Keep) Retention {
	return Retention{&keepRule{wire: wire, keep: keep}}
}

var (
	removeAll = newKeep("true", scripts.Keep{Count: "0"})
	keepAll   = newKeep("false", scripts.Keep{Count: "-1"})
)

// KeepNone returns a Retention that removes each job as soon as it finishes (BullMQ:
// true).
func KeepNone() Retention { return removeAll }

// KeepAll returns a Retention that keeps every job (BullMQ: false).
func KeepAll() Retention { return keepAll }

// KeepLast returns a Retention that keeps the newest n jobs (BullMQ: a number). A
// negative n is an error where the option is used. Use [KeepAll] to keep every job.
func KeepLast(n int) Retention {
	count := strconv.Itoa(n)
	k := newKeep(count, scripts.Keep{Count: count})
	if n < 0 {
		k.rule.flaw = fmt.Errorf("KeepLast(%d) is less than 0; KeepAll() keeps every job", n)
	}
	return k
}

// KeepFor returns a Retention that keeps jobs up to an age, and at most the newest
// count of them (BullMQ: {age, count, limit}). age is rounded up to whole seconds. A
// count of 0 sets no limit. limit is the maximum number of jobs to remove each time a
// job finishes; 0 selects 1000.
//
// A negative argument, or an age that is not a whole number of milliseconds, is an
// error where the option is used.
func KeepFor(age time.Duration, count, limit int) Retention {
	seconds := strconv.FormatInt(int64((age+time.Second-1)/time.Second), 10)
	wire, keep := `{"age":`+seconds, scripts.Keep{Age: seconds}
	if count > 0 {
		keep.Count = strconv.Itoa(count)
		wire += `,"count":` + keep.Count
	}
	if limit > 0 {
		keep.Limit = strconv.Itoa(limit)
		wire += `,"limit":` + keep.Limit
	}
	k := newKeep(wire+"}", keep)
	k.rule.flaw = cmp.Or(checkMillis("the age of KeepFor", age, 0),
		checkCount("the count of KeepFor", count, "no limit"), checkCount("the limit of KeepFor", limit, "1000"))
	return k
}

// check returns an error if the Retention was made with invalid arguments.
func (k Retention) check(option string) error {
	if k.IsZero() || k.rule.flaw == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", option, k.rule.flaw)
}

// IsZero reports whether no rule is set.
func (k Retention) IsZero() bool { return k.rule == nil }

// staysAll reports whether the option removes no jobs.
func (k Retention) staysAll() bool {
	return k.IsZero() || k.rule.keep.Age == "" && (k.rule.keep.Count == "" || k.rule.keep.Count == "-1")
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
	keep, ok := keepOf(value)
	if !ok {
		return fmt.Errorf("%s is none of true, false, a number or {age, count, limit}", text)
	}
	*k = keep
	return nil
}

// keepOf converts a decoded JSON value. It reports whether the value is valid.
func keepOf(value any) (Retention, bool) {
	switch v := value.(type) {
	case nil:
		return Retention{}, true
	case bool:
		if v {
			return KeepNone(), true
		}
		return KeepAll(), true
	case json.Number:
		return newKeep(v.String(), scripts.Keep{Count: wholeText(v)}), true
	case map[string]any:
		text, err := wire.EncodeJSON(v)
		return newKeep(text, scripts.Keep{Count: wholeText(v["count"]), Age: wholeText(v["age"]), Limit: wholeText(v["limit"])}), err == nil
	default:
		return Retention{}, false
	}
}

// wholeText returns a decoded number, rounded down, as text for the scripts. It
// returns "" for any other value and for numbers that are not safe integers.
func wholeText(value any) string {
	number, ok := value.(json.Number)
	if !ok {
		return ""
	}
	f, err := number.Float64()
	if err != nil || math.Abs(f) > wire.MaxSafeInteger {
		return ""
	}
	return strconv.FormatInt(int64(math.Floor(f)), 10)
}

// orElse returns the rule that applies to a job: its option, else the worker's, else
// the rule that keeps all jobs.
func (k Retention) orElse(worker Retention) scripts.Keep {
	if !k.IsZero() {
		return k.rule.keep
	}
	if !worker.IsZero() {
		return worker.rule.keep
	}
	return keepAll.rule.keep
}
