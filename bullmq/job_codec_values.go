package bullmq

import (
	"bytes"
	"encoding/json"
	"math"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// How the values of options are written and read.

// isNull reports whether a value is null or an empty json.RawMessage.
func isNull(text json.RawMessage) bool {
	text = bytes.TrimSpace(text)
	return len(text) == 0 || string(text) == "null"
}

// isFalsy reports whether a value is falsy in JavaScript.
func isFalsy(text json.RawMessage) bool {
	var value any
	if json.Unmarshal(text, &value) != nil {
		return false
	}
	return value == nil || value == false || value == 0.0 || value == ""
}

func intOrNil(n int) any {
	if n == 0 {
		return nil
	}
	return n
}

func boolOrNil(set bool) any {
	if !set {
		return nil
	}
	return true
}

func textOrNil(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func millisOrNil(d time.Duration) any {
	if d == 0 {
		return nil
	}
	return json.RawMessage(wire.FormatMillis(d))
}

func keepOrNil(k Retention) any {
	if k.IsZero() {
		return nil
	}
	return k
}

func readInt(v any, target *int) bool {
	number, ok := v.(json.Number)
	if !ok {
		return false
	}
	f, err := number.Float64()
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return false
	}
	*target = int(f)
	return true
}

func readBool(v any, target *bool) bool {
	b, ok := v.(bool)
	if ok {
		*target = b
	}
	return ok
}

func readText(v any, target *string) bool {
	text, ok := v.(string)
	if ok {
		*target = text
	}
	return ok
}

func readMillis(v any, target *time.Duration) bool {
	number, ok := v.(json.Number)
	if !ok {
		return false
	}
	f, err := number.Float64()
	if err != nil || math.Abs(f) > math.MaxInt64/float64(time.Millisecond) {
		return false
	}
	*target = time.Duration(math.Round(f*1e3)) * time.Microsecond
	return true
}

func readKeep(v any, target *Retention) bool {
	keep, ok := keepOf(v)
	if ok && v != nil {
		*target = keep
	}
	return ok && v != nil
}
