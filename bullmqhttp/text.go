package bullmqhttp

import (
	"encoding/json"
	"net/http"
	"unicode/utf8"
)

// maxDepth is how deep arrays and objects in JSON may be nested. Readers of a job have limits too:
// encoding/json stops at 10,000, and the JSON of the body is itself part of an object.
const maxDepth = 1000

// validJSON reports whether a text is JSON in UTF-8 that every reader can parse. json.Valid accepts
// strings that are not UTF-8.
func validJSON(text []byte) bool { return utf8.Valid(text) && json.Valid(text) && !isDeep(text) }

// isDeep reports whether valid JSON is nested deeper than maxDepth.
func isDeep(text []byte) bool {
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
			if depth++; depth > maxDepth {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}

// checkHead refuses what JSON can't hold without a change, or what is not the path of a request.
func (r *Request) checkHead() error {
	if r.Path == "" || r.Path[0] != '/' { // of CONNECT, or *
		return problem(http.StatusBadRequest, CodeInvalidRequest, "the path does not begin with a slash")
	}
	for _, value := range r.Params {
		if !utf8.ValidString(value) {
			return notUTF8("path")
		}
	}
	for name, values := range r.Query {
		if !utf8.ValidString(name) || !allUTF8(values) {
			return notUTF8("query")
		}
	}
	for name, values := range r.Headers {
		if !allUTF8(values) {
			return notUTF8("header " + name)
		}
	}
	if !utf8.ValidString(r.ContentType) {
		return notUTF8("header Content-Type")
	}
	return nil
}

func notUTF8(what string) *Problem {
	return problem(http.StatusBadRequest, CodeInvalidRequest, "the %s is not UTF-8", what)
}

func allUTF8(texts []string) bool {
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return false
		}
	}
	return true
}
