package bullmqtest_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/17a2ac88/bullmq-go/bullmqtest"
)

var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Location", "/orders/1")
	w.WriteHeader(http.StatusAccepted)
	fmt.Fprintf(w, "%s %s [%s] %s", r.Method, r.URL, r.Header.Get("Content-Type"), body)
})

func TestRequireReplySendsARequestAndReturnsTheReply(t *testing.T) {
	reply := bullmqtest.RequireReply(t, echo, "POST /orders?a=1", Email{To: "ada"}, http.StatusAccepted, "POST /orders?a=1 [application/json]", `"to":"ada"`)
	equal(t, "location", reply.Header().Get("Location"), "/orders/1")
	equal(t, "a text", bullmqtest.RequireReply(t, echo, "PUT /x", `{"a`, http.StatusAccepted).Body.String(), `PUT /x [application/json] {"a`)
	equal(t, "bytes", bullmqtest.RequireReply(t, echo, "PUT /x", []byte("b"), http.StatusAccepted).Body.String(), "PUT /x [application/json] b")
	equal(t, "no body", bullmqtest.RequireReply(t, echo, "GET /x", nil, http.StatusAccepted).Body.String(), "GET /x [] ")
}

func TestRequireReplyFailsUnlessTheReplyHasTheStatusAndTheTexts(t *testing.T) {
	expectFailure(t, func(tb testing.TB) {
		bullmqtest.RequireReply(tb, echo, "GET /orders/1", nil, http.StatusOK)
	}, "GET /orders/1 replied 202, want 200: GET /orders/1")
	expectFailure(t, func(tb testing.TB) {
		bullmqtest.RequireReply(tb, echo, "GET /orders/1", nil, http.StatusAccepted, "orders", "missing")
	}, `the reply to GET /orders/1 does not contain "missing": GET /orders/1`)
	expectFailure(t, func(tb testing.TB) {
		bullmqtest.RequireReply(tb, echo, "/orders/1", nil, http.StatusAccepted)
	}, "is not a method and a path")
	expectFailure(t, func(tb testing.TB) {
		bullmqtest.RequireReply(tb, echo, "POST /orders", func() {}, http.StatusAccepted)
	}, "can't be written as JSON")
}
