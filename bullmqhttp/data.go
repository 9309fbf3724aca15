package bullmqhttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/17a2ac88/bullmq-go/internal/jsontext"
)

// decodeBodyOf decodes the body of a request into the data of a job. It returns the data as JSON.
func decodeBodyOf(w http.ResponseWriter, r *http.Request, limit int64, into any) (json.RawMessage, error) {
	switch {
	case r.ContentLength > limit:
		w.Header().Set("Connection", "close") // the client is not read to its end
		return nil, tooLarge(limit)
	case len(r.Header["Content-Encoding"]) > 0 || !isJSON(mediaType(r.Header.Get("Content-Type"))):
		return nil, problem(http.StatusUnsupportedMediaType, CodeUnsupportedType, "the body must have the Content-Type application/json, and no Content-Encoding")
	}
	var body bytes.Buffer
	if r.ContentLength > 0 {
		body.Grow(int(min(r.ContentLength, firstRead)) + bytes.MinRead)
	}
	if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, limit)); err != nil {
		return nil, unreadable(err)
	}
	text := bytes.TrimSpace(body.Bytes())
	if !json.Valid(text) {
		return nil, problem(http.StatusBadRequest, CodeInvalidRequest, "the body is not valid JSON%s", syntaxError(text))
	}
	if !utf8.Valid(text) || jsontext.IsDeep(text) { // other readers of a job could not parse it
		return nil, problem(http.StatusBadRequest, CodeInvalidRequest, "the body is not UTF-8, or nested more than %d deep", jsontext.MaxDepth)
	}
	if string(text) == "null" {
		return nil, problem(http.StatusBadRequest, CodeInvalidRequest, "the body is null")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // as a worker does
	if err := decoder.Decode(into); err != nil {
		return nil, misfit(text, err)
	}
	data, err := marshal(into)
	if err != nil {
		return nil, problem(http.StatusBadRequest, CodeInvalidRequest, "the body can't be stored: %v", err)
	}
	return data, nil
}

// syntaxError describes why a text is not JSON.
func syntaxError(text []byte) string {
	var any json.RawMessage
	var syntax *json.SyntaxError
	if err := json.Unmarshal(text, &any); errors.As(err, &syntax) {
		return fmt.Sprintf(": %v, at byte %d", err, syntax.Offset)
	}
	return ""
}

// misfit returns the problem for JSON that does not fit the data of a job.
func misfit(text []byte, err error) *Problem {
	var mismatch *json.UnmarshalTypeError
	if !errors.As(err, &mismatch) { // of a type with its own decoding, such as a time
		return problem(http.StatusBadRequest, CodeInvalidRequest, "the body is not valid: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	path := jsontext.Path(text, mismatch.Offset)
	p := problem(http.StatusBadRequest, CodeInvalidRequest, "%s must be %s, and is %s", path, wanted(mismatch), given(mismatch.Value))
	p.Path = path
	return p
}

// wanted describes the JSON that a Go type needs.
func wanted(mismatch *json.UnmarshalTypeError) string {
	isNumber := strings.HasPrefix(mismatch.Value, "number")
	switch kind := mismatch.Type.Kind(); kind {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if isNumber {
			return fmt.Sprintf("an integer of %d bits", mismatch.Type.Bits())
		}
		return "an integer"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		if isNumber {
			return fmt.Sprintf("an integer of %d bits that is not negative", mismatch.Type.Bits())
		}
		return "an integer"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Map, reflect.Struct:
		return "an object"
	default:
		return "another value"
	}
}

// given describes a JSON value, as encoding/json names it.
func given(value string) string {
	switch {
	case value == "bool":
		return "true or false"
	case value == "array" || value == "object":
		return "an " + value
	case strings.HasPrefix(value, "number "):
		return "the " + value
	default:
		return "a " + value
	}
}
