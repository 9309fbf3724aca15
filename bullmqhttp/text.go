package bullmqhttp

import (
	"net/http"
	"unicode/utf8"
)

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
