package wire

import "strings"

// HashTag returns the part of a key that determines its slot in a cluster, or "" if the key
// has no such part.
func HashTag(key string) string {
	_, rest, found := strings.Cut(key, "{")
	tag, _, closed := strings.Cut(rest, "}")
	if !found || !closed {
		return ""
	}
	return tag
}
