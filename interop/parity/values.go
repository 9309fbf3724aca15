package parity

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
)

// sameJSON compares two texts as JSON values. Formatting and the order of an object's fields are ignored.
// Texts that are not JSON must be identical.
func sameJSON(a, b string, sameNumber func(a, b float64) bool) bool {
	if a == b {
		return true
	}
	first, err1 := decodeJSON(a)
	second, err2 := decodeJSON(b)
	return err1 == nil && err2 == nil && sameValue(first, second, sameNumber)
}

func decodeJSON(text string) (any, error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, io.ErrUnexpectedEOF
	}
	return value, nil
}

// sameValue compares two decoded JSON values (numbers as json.Number).
func sameValue(a, b any, sameNumber func(a, b float64) bool) bool {
	switch first := a.(type) {
	case map[string]any:
		second, ok := b.(map[string]any)
		if !ok || len(first) != len(second) {
			return false
		}
		for name, value := range first {
			other, ok := second[name]
			if !ok || !sameValue(value, other, sameNumber) {
				return false
			}
		}
		return true
	case []any:
		second, ok := b.([]any)
		if !ok || len(first) != len(second) {
			return false
		}
		for index := range first {
			if !sameValue(first[index], second[index], sameNumber) {
				return false
			}
		}
		return true
	case json.Number:
		second, ok := b.(json.Number)
		return ok && sameJSONNumber(first, second, sameNumber)
	}
	return a == b
}

// sameJSONNumber compares integers by their digits, because float64 cannot distinguish large ones, and other
// numbers by value.
func sameJSONNumber(a, b json.Number, sameNumber func(a, b float64) bool) bool {
	if a == b {
		return true
	}
	first, err1 := a.Float64()
	second, err2 := b.Float64()
	if err1 != nil || err2 != nil {
		return false
	}
	if isInteger(a) && isInteger(b) && first == second {
		return false
	}
	return sameNumber(first, second)
}

func isInteger(number json.Number) bool { return !strings.ContainsAny(string(number), ".eE") }

// exactly compares numbers that are not times.
func exactly(a, b float64) bool { return a == b }

// compactJSON returns a JSON text without insignificant white space, for reports.
func compactJSON(text []byte) string {
	var compact bytes.Buffer
	if json.Compact(&compact, text) != nil {
		return string(text)
	}
	return compact.String()
}
