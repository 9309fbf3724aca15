package schedule

import "strings"

// IsLegacyKey reports whether a scheduler's id has the form of the key of a repeatable
// job of BullMQ 4 or older: name:id:endDate:tz:suffix. The suffix is a pattern or an
// interval.
func IsLegacyKey(key string) bool {
	parts := strings.SplitN(key, ":", 5)
	if len(parts) < 5 || parts[4] == "" || !isDigits(parts[2]) {
		return false
	}
	return strings.Contains(parts[4], " ") || isDigits(parts[4])
}

func isDigits(text string) bool { return strings.Trim(text, "0123456789") == "" }
