package bullmqhttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Response is a stored response: the return value of a job.
type Response struct {
	Status      int             `json:"status"`
	Headers     Header          `json:"headers,omitempty"`
	ContentType string          `json:"contentType,omitempty"`
	Body        json.RawMessage `json:"body,omitempty"` // as Request.Body
	Encoding    string          `json:"encoding,omitempty"`
}

// responseFields are the fields of a Response in JSON.
var responseFields = []string{"status", "headers", "contentType", "body", "encoding"}

// ReadResponse reads the stored response of a job that has completed. If the return value has other
// fields than a [Response], or no number as status, it is itself the body of a response with status
// 200, so a handler in Node may return any value. A job without a return value has a response with
// status 204.
func ReadResponse(job *bullmq.Job) (*Response, error) { return readResponse(job.ID, job.ReturnValue) }

func readResponse(id string, value json.RawMessage) (*Response, error) {
	if len(value) == 0 || string(value) == "null" {
		return &Response{Status: http.StatusNoContent}, nil
	}
	plain := &Response{Status: http.StatusOK, ContentType: "application/json", Body: value}
	var fields map[string]json.RawMessage
	if json.Unmarshal(value, &fields) != nil {
		return plain, nil
	}
	var status int
	if json.Unmarshal(fields["status"], &status) != nil {
		return plain, nil
	}
	for name := range fields {
		if !slices.Contains(responseFields, name) {
			return plain, nil
		}
	}
	var stored Response
	if err := json.Unmarshal(value, &stored); err != nil {
		return nil, fmt.Errorf("bullmqhttp: read the response of job %s: %w", id, err)
	}
	if status < 200 || status > 599 {
		return nil, fmt.Errorf("bullmqhttp: read the response of job %s: its status is %d; use 200 to 599", id, status)
	}
	return &stored, nil
}

// Bytes returns the body as it is sent.
func (r *Response) Bytes() ([]byte, error) { return decodeBody(r.Body, r.Encoding) }

// ErrResponseTooLarge is returned by the http.ResponseWriter of [Serve] when a response exceeds
// ServeOptions.MaxResponse. The job then fails without a retry.
var ErrResponseTooLarge = errors.New("bullmqhttp: the response is too large to be stored")

// recorder is the http.ResponseWriter of a job.
type recorder struct {
	header   http.Header
	sent     http.Header // as it was when the status was written
	status   int         // 0 before
	body     bytes.Buffer
	limit    int
	tooLarge bool
}

// Header implements [http.ResponseWriter].
func (w *recorder) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter]. It ignores statuses below 200.
func (w *recorder) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("bullmqhttp: invalid status %d", status))
	}
	if w.status == 0 && status >= 200 {
		w.status, w.sent = status, w.header.Clone()
	}
}

// Write implements [http.ResponseWriter].
func (w *recorder) Write(part []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	switch {
	case w.status == http.StatusNoContent || w.status == http.StatusNotModified:
		return 0, http.ErrBodyNotAllowed
	case w.tooLarge || w.body.Len()+len(part) > w.limit:
		w.tooLarge = true
		return 0, ErrResponseTooLarge
	}
	return w.body.Write(part)
}

// Flush implements [http.Flusher]. The response is stored when the handler has returned.
func (w *recorder) Flush() { w.WriteHeader(http.StatusOK) }

// response returns the response as it is stored.
func (w *recorder) response(headers []string) *Response {
	w.WriteHeader(http.StatusOK)
	stored := &Response{Status: w.status, Headers: allowed(w.sent, headers), ContentType: w.sent.Get("Content-Type")}
	body := w.body.Bytes()
	if _, set := w.sent["Content-Type"]; !set && len(body) > 0 && w.sent.Get("Content-Encoding") == "" {
		stored.ContentType = http.DetectContentType(body)
	}
	stored.Body, stored.Encoding = encodeBody(body, isJSON(mediaType(stored.ContentType)) && w.sent.Get("Content-Encoding") == "")
	return stored
}
