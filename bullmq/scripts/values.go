package scripts

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// stateKey returns the suffix of the key that holds the jobs of a state.
func stateKey(state backend.State) string {
	if state == backend.Waiting {
		return "wait"
	}
	return string(state)
}

// number reads a count.
func number(text string) int {
	n, _ := wire.ParseNumber(text)
	return safeCount(n)
}

// safeCount limits a count to the integers of JavaScript: a larger one would overflow
// when it is incremented.
func safeCount(n int64) int {
	return int(min(max(n, -wire.MaxSafeInteger), wire.MaxSafeInteger))
}

// validJSON returns text if it is JSON, nil otherwise.
func validJSON(text string) []byte {
	if text == "" || !json.Valid([]byte(text)) {
		return nil
	}
	return []byte(text)
}

// The following functions write an optional value. They write "" for zero.

func optionalMillis(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return wire.FormatMillis(d)
}

func optionalTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}

func optionalNumber(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// optional writes a number, or "" if it is not set.
func optional(n backend.OptionalInt) string {
	if !n.IsSet {
		return ""
	}
	return strconv.Itoa(n.Value)
}
