package bullmq

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// The wire counts time in milliseconds, as decimal text. Other clients may
// write fractions of them; ours are written only where a caller asks for less
// than a millisecond.

func millisText(d time.Duration) string {
	if d%time.Millisecond == 0 {
		return strconv.FormatInt(d.Milliseconds(), 10)
	}
	return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', -1, 64)
}

func timeText(t time.Time) string {
	if sub := t.Nanosecond() % int(time.Millisecond); sub != 0 {
		return strconv.FormatFloat(float64(t.UnixMilli())+float64(sub)/1e6, 'f', -1, 64)
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}

// parseNumber reads a number of the wire as Node's parseInt would: digits up
// to the first that is none. ok is false where there are none.
func parseNumber(text string) (n int64, ok bool) {
	text = strings.TrimSpace(text)
	end := 0
	for end < len(text) && (text[end] >= '0' && text[end] <= '9' || end == 0 && (text[0] == '-' || text[0] == '+')) {
		end++
	}
	n, err := strconv.ParseInt(text[:end], 10, 64)
	return n, err == nil
}

// maxSafeInteger is the largest number up to which JavaScript counts without gaps.
const maxSafeInteger = 1<<53 - 1

func parseTime(text string) time.Time {
	ms, ok := parseNumber(text)
	if !ok || ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

func parseMillis(text string) time.Duration {
	ms, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(ms) || math.Abs(ms) > math.MaxInt64/float64(time.Millisecond) {
		return 0
	}
	return time.Duration(math.Round(ms * float64(time.Millisecond))) // what is written is read back the same
}

// isDecimalInteger says whether JavaScript would print the number that the
// text begins with as the very same text: "12", "-5", not "012" or "1e3".
func isDecimalInteger(text string) bool {
	digits := strings.TrimPrefix(text, "-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" || (digits[0] == '0' && text != "0") {
		return false
	}
	f, err := strconv.ParseFloat(text, 64)
	return err == nil && math.Abs(f) < 1e21 && strconv.FormatFloat(f, 'f', -1, 64) == text
}
