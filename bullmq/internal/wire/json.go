// Package wire reads and writes numbers, times and JSON in the form in which BullMQ stores them.
package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// EncodeJSON writes a value as JSON.stringify does: without HTML escaping, without a newline
// at the end, and with U+2028 and U+2029 unescaped. It returns a valid json.RawMessage
// unchanged.
//
// It differs from Node in four ways:
//   - Invalid UTF-8 becomes U+FFFD.
//   - Integers above 2^53 keep all their digits.
//   - A nil slice or map is null.
//   - NaN and infinities cause an error. Node writes null.
func EncodeJSON(value any) (string, error) {
	if raw, ok := value.(json.RawMessage); ok && raw != nil {
		if !json.Valid(raw) {
			return "", fmt.Errorf("json.RawMessage is not valid JSON: %.60q", raw)
		}
		return string(raw), nil
	}
	w := jsonWriters.Get().(*jsonWriter)
	w.buffer.Reset()
	if err := w.encoder.Encode(value); err != nil {
		return "", err // the encoder is not reused after an error
	}
	text := string(unescapeLineSeparators(bytes.TrimSuffix(w.buffer.Bytes(), []byte("\n"))))
	if w.buffer.Cap() < 64<<10 {
		jsonWriters.Put(w)
	}
	return text, nil
}

type jsonWriter struct {
	buffer  bytes.Buffer
	encoder *json.Encoder
}

var jsonWriters = sync.Pool{New: func() any {
	w := &jsonWriter{}
	w.encoder = json.NewEncoder(&w.buffer)
	w.encoder.SetEscapeHTML(false)
	return w
}}

// unescapeLineSeparators undoes the escapes \u2028 and \u2029. encoding/json has no option
// to disable them.
func unescapeLineSeparators(text []byte) []byte {
	if !bytes.Contains(text, []byte(`\u202`)) {
		return text
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			out = append(out, text[i])
			continue
		}
		if i+6 <= len(text) {
			switch string(text[i : i+6]) {
			case `\u2028`:
				out = append(out, "\u2028"...)
				i += 5
				continue
			case `\u2029`:
				out = append(out, "\u2029"...)
				i += 5
				continue
			}
		}
		out = append(out, text[i], text[i+1]) // an escape has at least two bytes
		i++
	}
	return out
}

// DecodeJSON reads JSON into target. Numbers decoded into an interface are of type
// json.Number, so that they stay exact.
func DecodeJSON(text []byte, target any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(target); err != nil {
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return fmt.Errorf("text follows the JSON value")
	}
	return nil
}
