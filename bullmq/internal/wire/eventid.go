package wire

import (
	"strconv"
	"strings"
)

// The id of an event is that of its entry in a Redis stream: milliseconds, a dash and a
// number.

// IsEventID reports whether text is the id of an event. The number may be omitted.
func IsEventID(id string) bool {
	ms, number, both := strings.Cut(id, "-")
	_, err := strconv.ParseUint(ms, 10, 64)
	if err == nil && both {
		_, err = strconv.ParseUint(number, 10, 64)
	}
	return err == nil
}

// EventComesAfter reports whether the event id was written after the event other.
func EventComesAfter(id, other string) bool {
	part := func(id string) (ms, number uint64) {
		before, after, _ := strings.Cut(id, "-")
		ms, _ = strconv.ParseUint(before, 10, 64)
		number, _ = strconv.ParseUint(after, 10, 64)
		return ms, number
	}
	ms, number := part(id)
	otherMs, otherNumber := part(other)
	return ms > otherMs || ms == otherMs && number > otherNumber
}
