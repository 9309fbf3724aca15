package bullmqtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// encode returns a value as it is stored as the data of a job.
func encode(value any) (json.RawMessage, error) { return (&bullmq.NewJob{Data: value}).EncodeData() }

// decode parses a JSON text. Numbers keep all their digits.
func decode(text []byte) (tree any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	err = decoder.Decode(&tree)
	return tree, err
}

// differences returns a line for each part of a JSON value that is not as wanted. The line
// has the path of the part. The order of an object's members does not count.
func differences(path string, got, want any) []string {
	switch want := want.(type) {
	case map[string]any:
		if got, ok := got.(map[string]any); ok {
			return objectDifferences(path, got, want)
		}
	case []any:
		if got, ok := got.([]any); ok {
			return arrayDifferences(path, got, want)
		}
	case json.Number:
		if got, ok := got.(json.Number); ok && sameNumber(got, want) {
			return nil
		}
	default:
		if got == want && !isTree(got) {
			return nil
		}
	}
	return []string{fmt.Sprintf("%s: %s, want %s", path, show(got), show(want))}
}

func isTree(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

func objectDifferences(path string, got, want map[string]any) (lines []string) {
	names := maps.Clone(got)
	maps.Copy(names, want)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		g, has := got[name]
		w, wanted := want[name]
		switch inner := path + "." + name; {
		case !has:
			lines = append(lines, fmt.Sprintf("%s: missing, want %s", inner, show(w)))
		case !wanted:
			lines = append(lines, fmt.Sprintf("%s: %s, want none", inner, show(g)))
		default:
			lines = append(lines, differences(inner, g, w)...)
		}
	}
	return lines
}

func arrayDifferences(path string, got, want []any) (lines []string) {
	for i := range max(len(got), len(want)) {
		switch inner := path + "[" + strconv.Itoa(i) + "]"; {
		case i >= len(got):
			lines = append(lines, fmt.Sprintf("%s: missing, want %s", inner, show(want[i])))
		case i >= len(want):
			lines = append(lines, fmt.Sprintf("%s: %s, want none", inner, show(got[i])))
		default:
			lines = append(lines, differences(inner, got[i], want[i])...)
		}
	}
	return lines
}

// sameNumber reports whether two numbers are equal, as 1 and 1.0 are.
func sameNumber(a, b json.Number) bool {
	if a == b {
		return true
	}
	_, aIsInt := strconv.ParseInt(a.String(), 10, 64)
	_, bIsInt := strconv.ParseInt(b.String(), 10, 64)
	if aIsInt == nil && bIsInt == nil {
		return false // two different integers may be the same float64
	}
	x, errX := a.Float64()
	y, errY := b.Float64()
	return errX == nil && errY == nil && x == y
}

// show returns a value as JSON in one line.
func show(value any) string {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Sprint(value)
	}
	return string(bytes.TrimSpace(text.Bytes()))
}
