package scripts

import "strings"

// shown returns the name of a queue for errors, such as bull:orders, from its key
// prefix.
func shown(base string) string { return strings.TrimSuffix(base, ":") }
