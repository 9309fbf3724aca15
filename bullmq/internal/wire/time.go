package wire

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// BullMQ stores times and durations as milliseconds, in decimal text. Other
// clients may write fractions.

// FormatMillis writes a duration, with a fraction only if it has one.
func FormatMillis(d time.Duration) string {
	if d%time.Millisecond == 0 {
		return strconv.FormatInt(d.Milliseconds(), 10)
	}
	return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', -1, 64)
}

// FormatTime writes a time, with a fraction only if it has one.
func FormatTime(t time.Time) string {
	if sub := t.Nanosecond() % int(time.Millisecond); sub != 0 {
		return strconv.FormatFloat(float64(t.UnixMilli())+float64(sub)/1e6, 'f', -1, 64)
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}

// ParseNumber reads a whole number as Node's parseInt does: it reads the digits up to the
// first character that is not a digit. ok is false if there are no digits.
func ParseNumber(text string) (n int64, ok bool) {
	text = strings.TrimSpace(text)
	end := 0
	for end < len(text) && (text[end] >= '0' && text[end] <= '9' || end == 0 && (text[0] == '-' || text[0] == '+')) {
		end++
	}
	n, err := strconv.ParseInt(text[:end], 10, 64)
	return n, err == nil
}

// MaxSafeInteger is the largest integer up to which JavaScript represents every
// integer exactly.
const MaxSafeInteger = 1<<53 - 1

// ParseTime parses a time. It returns the zero time for 0 and for text that is not a
// number.
func ParseTime(text string) time.Time {
	ms, ok := ParseNumber(text)
	if !ok || ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// ParseMillis parses a duration in milliseconds, which may have a fraction. It returns 0 for
// text that is not a number.
func ParseMillis(text string) time.Duration {
	ms, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(ms) || math.Abs(ms) > math.MaxInt64/float64(time.Millisecond) {
		return 0
	}
	return time.Duration(math.Round(ms * float64(time.Millisecond))) // rounded so that ParseMillis is the inverse of FormatMillis
}

// IsDecimalInteger reports whether text is an integer as JavaScript prints it:
// "12" and "-5", but not "012" or "1e3".
func IsDecimalInteger(text string) bool {
	digits := strings.TrimPrefix(text, "-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" || (digits[0] == '0' && text != "0") {
		return false
	}
	f, err := strconv.ParseFloat(text, 64)
	return err == nil && math.Abs(f) < 1e21 && strconv.FormatFloat(f, 'f', -1, 64) == text
}
