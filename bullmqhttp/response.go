package bullmqhttp

import (
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
	BodyRef     string          `json:"bodyRef,omitempty"` // as Request.BodyRef
	BodySize    int64           `json:"bodySize,omitempty"`
}

// responseFields are the fields of a Response in JSON.
var responseFields = []string{"status", "headers", "contentType", "body", "encoding", "bodyRef", "bodySize"}

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

// Bytes returns the body as it is sent. It is an error if the body is in a [BodyStore].
func (r *Response) Bytes() ([]byte, error) {
	if r.BodyRef != "" {
		return nil, fmt.Errorf("bullmqhttp: the body of the response is stored elsewhere; open %.80q in the BodyStore", r.BodyRef)
	}
	return decodeBody(r.Body, r.Encoding)
}

// hasBody reports whether a response with the status may have a body.
func (r *Response) hasBody() bool {
	return r.Status != http.StatusNoContent && r.Status != http.StatusNotModified
}

// ErrResponseTooLarge is returned by the http.ResponseWriter of [Serve] when a response exceeds
// ServeOptions.MaxResponse. The job then fails without a retry.
var ErrResponseTooLarge = errors.New("bullmqhttp: the response is too large to be stored")
