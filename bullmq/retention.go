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

// Retention says which finished jobs stay in Redis (BullMQ: removeOnComplete,
// removeOnFail). The zero Retention sets nothing: the worker's own holds, and
// without that all stay. Old jobs are removed when a newer one ends.
type Retention struct{ rule *keepRule }

type keepRule struct {
	wire string // as JSON in opts
	keep scripts.Keep
	flaw error // why the rule is refused from a program, nil for most
}

func newKeep(wire string, keep scripts.Keep) Retention {
	return Retention{&keepRule{wire: wire, keep: keep}}
}

var (
	removeAll = newKeep("true", scripts.Keep{Count: "0"})
	keepAll   = newKeep("false", scripts.Keep{Count: "-1"})
)

// KeepNone removes each job as soon as it ends (BullMQ: true).
func KeepNone() Retention { return removeAll }

// KeepAll keeps every job (BullMQ: false).
func KeepAll() Retention { return keepAll }

// KeepLast keeps the newest n jobs (BullMQ: a number). An option with a negative
// n is refused where it is used: KeepAll keeps every job.
func KeepLast(n int) Retention {
	count := strconv.Itoa(n)
	k := newKeep(count, scripts.Keep{Count: count})
	if n < 0 {
		k.rule.flaw = fmt.Errorf("KeepLast(%d) is less than 0; KeepAll() keeps every job", n)
	}
	return k
}

// KeepFor keeps jobs for an age, in whole seconds (part of one counts as one),
// and of those at most the newest count (0 for no limit). limit is how many are
// removed at most when a job ends, 0 for 1000. An option with a negative one of
// these, or an age with part of a millisecond, is refused where it is used
// (BullMQ: {age, count, limit}).
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

// check refuses a rule that was made of values which make no sense.
func (k Retention) check(option string) error {
	if k.IsZero() || k.rule.flaw == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", option, k.rule.flaw)
}

// IsZero says whether nothing is set.
func (k Retention) IsZero() bool { return k.rule == nil }

// staysAll says whether the option removes no job, as far as it goes.
func (k Retention) staysAll() bool {
	return k.IsZero() || k.rule.keep.Age == "" && (k.rule.keep.Count == "" || k.rule.keep.Count == "-1")
}

// String is the option as it stands on the wire.
func (k Retention) String() string {
	if k.IsZero() {
		return ""
	}
	return k.rule.wire
}

// MarshalJSON writes the option as BullMQ spells it: true, false, a number or
// an object.
func (k Retention) MarshalJSON() ([]byte, error) {
	if k.IsZero() {
		return []byte("null"), nil
	}
	return []byte(k.rule.wire), nil
}

// UnmarshalJSON reads every form that BullMQ writes.
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

// keepOf reads a decoded value.
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

// wholeText is a decoded number as the scripts can count with it: whole; "" for
// what is none, or beyond all counting.
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

// orElse is what holds for a job: its own choice, else the worker's, else all.
func (k Retention) orElse(worker Retention) scripts.Keep {
	if !k.IsZero() {
		return k.rule.keep
	}
	if !worker.IsZero() {
		return worker.rule.keep
	}
	return keepAll.rule.keep
}
