// Package jsontext checks JSON that is stored in jobs.
package jsontext

import (
	"encoding/json"
	"unicode/utf8"
)

// MaxDepth is how deep arrays and objects in JSON may be nested. Readers of a job have limits too:
// encoding/json stops at 10,000, and the JSON of a body may itself be part of an object.
const MaxDepth = 1000

// Valid reports whether a text is JSON in UTF-8 that every reader can parse. json.Valid accepts
// strings that are not UTF-8.
func Valid(text []byte) bool { return utf8.Valid(text) && json.Valid(text) && !IsDeep(text) }

// IsDeep reports whether valid JSON is nested deeper than MaxDepth.
func IsDeep(text []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted:
			if c == '\\' {
				i++
			}
		case c == '[' || c == '{':
			if depth++; depth > MaxDepth {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}
