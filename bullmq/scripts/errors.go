package scripts

import "strings"

// shown returns a queue's key prefix as its name is written in errors: bull:orders.
func shown(base string) string { return strings.TrimSuffix(base, ":") }
