package bullmqtest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// RequireReply sends a request to an http.Handler and returns the reply. The test fails
// unless the reply has the status, and its body contains all the texts. No network is
// involved.
//
// request is a method and a path, such as "POST /orders". body is a string or a []byte that
// is sent as it is, nil for no body, or a value that is sent as JSON. A request with a body
// has the Content-Type application/json.
func RequireReply(t testing.TB, handler http.Handler, request string, body any, status int, texts ...string) *httptest.ResponseRecorder {
	t.Helper()
	method, path, found := strings.Cut(request, " ")
	if !found || !strings.HasPrefix(path, "/") {
		t.Fatalf("bullmqtest: request %q is not a method and a path, such as POST /orders", request)
	}
	var sent []byte
	switch body := body.(type) {
	case nil:
	case string:
		sent = []byte(body)
	case []byte:
		sent = body
	default:
		var err error
		if sent, err = json.Marshal(body); err != nil {
			t.Fatalf("bullmqtest: the body of %s can't be written as JSON: %v", request, err)
		}
	}
	r, reply := httptest.NewRequestWithContext(t.Context(), method, path, bytes.NewReader(sent)), httptest.NewRecorder()
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	handler.ServeHTTP(reply, r)
	if reply.Code != status {
		t.Fatalf("bullmqtest: %s replied %d, want %d: %s", request, reply.Code, status, reply.Body)
	}
	for _, text := range texts {
		if !strings.Contains(reply.Body.String(), text) {
			t.Fatalf("bullmqtest: the reply to %s does not contain %q: %s", request, text, reply.Body)
		}
	}
	return reply
}
