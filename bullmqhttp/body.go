package bullmqhttp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/17a2ac88/bullmq-go/internal/jsontext"
)

// Encodings of a stored body.
const (
	// EncodingText means that the body is a JSON string with the text of the body.
	EncodingText = "text"
	// EncodingBase64 means that the body is a JSON string with the bytes in base64.
	EncodingBase64 = "base64"
)

const mediaJSON = "application/json"

// mediaType returns a content type without its parameters, or "" if it is not valid.
func mediaType(contentType string) string {
	if contentType == mediaJSON { // most are
		return mediaJSON
	}
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return ""
	}
	return media
}

// isJSON reports whether a media type is that of JSON, such as application/json or
// application/problem+json.
func isJSON(media string) bool { return media == mediaJSON || strings.HasSuffix(media, "+json") }

// encodeBody returns a body as it is stored. asJSON stores JSON as it is, without white space
// between its tokens. JSON that is nested too deeply is stored as text.
func encodeBody(body []byte, asJSON bool) (stored json.RawMessage, encoding string) {
	switch {
	case len(body) == 0:
		return nil, ""
	case !utf8.Valid(body):
		return quote(base64.StdEncoding.EncodeToString(body)), EncodingBase64
	case asJSON && jsontext.Valid(body):
		return compact(body), ""
	default:
		return quote(string(body)), EncodingText
	}
}

// compact returns valid JSON without white space between its tokens.
func compact(text []byte) json.RawMessage {
	var without bytes.Buffer
	without.Grow(len(text))
	_ = json.Compact(&without, text)
	return without.Bytes()
}

// decodeBody returns the bytes of a stored body.
func decodeBody(stored json.RawMessage, encoding string) ([]byte, error) {
	if len(stored) == 0 {
		return nil, nil
	}
	if encoding == "" {
		return stored, nil
	}
	var text string
	if err := json.Unmarshal(stored, &text); err != nil {
		return nil, fmt.Errorf("the body with encoding %q is not a string", encoding)
	}
	switch encoding {
	case EncodingText:
		return []byte(text), nil
	case EncodingBase64:
		body, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("the body is not base64: %w", err)
		}
		return body, nil
	default:
		return nil, fmt.Errorf("the body has the encoding %.40q: use none for JSON, %s or %s", encoding, EncodingText, EncodingBase64)
	}
}

// quote returns a text as JSON, without the escapes that HTML needs.
func quote(text string) json.RawMessage {
	encoded, _ := marshal(text)
	return encoded
}

// marshal encodes a value as JSON, without the escapes that HTML needs.
func marshal(value any) (json.RawMessage, error) {
	var buffer bytes.Buffer
	buffer.Grow(512) // for most statuses and requests
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), nil
}
