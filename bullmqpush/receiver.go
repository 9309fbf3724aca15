package bullmqpush

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Errors of a [Receiver].
var (
	// ErrSignature means that no signature of a request is valid. Return status 401.
	ErrSignature = errors.New("the request has no valid signature")
	// ErrTimestamp means that a request is too old, or from the future. Return status 401.
	ErrTimestamp = errors.New("the timestamp of the request is outside of the tolerance")
	// ErrTooLarge means that a body is larger than Receiver.MaxBody. Return status 413.
	ErrTooLarge = errors.New("the body of the request is too large")
)

// Receiver verifies and decodes the requests that this package sends, in the program that
// serves the endpoint. Its methods are safe for concurrent use.
type Receiver struct {
	// Keys are the keys of the sender. While a key is replaced, these are the old and the new
	// one. A request must be signed by one of them.
	Keys []string
	// Tolerance is how far the timestamp of a request may be from the time of the receiver.
	// Defaults to 5 minutes.
	Tolerance time.Duration
	// MaxBody is the size of the largest body in bytes. Defaults to 1 MiB.
	MaxBody int64
}

// Delivery is a received job.
type Delivery struct {
	// MessageID is the header webhook-id. It is the same in each attempt of a job.
	MessageID string
	// Queue and JobID are the name of the queue and the id of the job. They are from
	// MessageID, so they are signed.
	Queue, JobID string
	// Name is the name of the job, Attempt the number of the attempt, and Deadline when the
	// sender stops waiting. Like all other headers, they are not signed.
	Name     string
	Attempt  int       // starting at 1
	Deadline time.Time // zero if it is not known
	// Callback is the address for callbacks, if the sender offers it. An endpoint that answers
	// with 202 makes its requests to [Callbacks] there. It is not signed either.
	Callback string
	// Data is the payload, byte for byte as it is stored with the job.
	Data json.RawMessage
}

// Decode decodes the data into a value, which is a pointer.
func (d *Delivery) Decode(value any) error {
	if err := json.Unmarshal(d.Data, value); err != nil {
		return fmt.Errorf("bullmqpush: decode the data of %s: %w", d.MessageID, err)
	}
	return nil
}

// Verify returns an error if the headers of a request contain no valid signature of its
// body, or if its timestamp is outside of the tolerance. The error wraps [ErrSignature] or
// [ErrTimestamp], unless the keys are invalid. The time of the comparison does not depend on the
// signature.
//
// Within the tolerance the same request is valid again. A receiver that must not run a
// job twice has to remember the MessageIDs of the jobs that it has run.
func (r *Receiver) Verify(header http.Header, body []byte) error {
	keys, err := parseKeys(r.Keys)
	if err != nil {
		return fmt.Errorf("bullmqpush: verify a request: %w", err)
	}
	id, timestamp := header.Get(HeaderID), header.Get(HeaderTimestamp)
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if id == "" || strings.Contains(id, ".") || err != nil || !signedBy(keys, header.Get(HeaderSignature), id, timestamp, body) {
		return fmt.Errorf("bullmqpush: verify a request: %w", ErrSignature)
	}
	tolerance := r.Tolerance
	setDefault(&tolerance, 5*time.Minute)
	if age := time.Since(time.Unix(seconds, 0)); age > tolerance || age < -tolerance {
		return fmt.Errorf("bullmqpush: verify a request: %w: it differs by %v", ErrTimestamp, age.Round(time.Second))
	}
	return nil
}

// Receive reads, verifies and decodes a request. It returns an error that wraps
// [ErrTooLarge] if the body is too large. Otherwise its errors are those of [Receiver.Verify],
// and of the read.
func (r *Receiver) Receive(request *http.Request) (*Delivery, error) {
	limit := r.MaxBody
	setDefault(&limit, 1<<20)
	limit = min(limit, math.MaxInt64-1) // one more byte is read
	body, err := io.ReadAll(io.LimitReader(request.Body, limit+1))
	switch {
	case int64(len(body)) > limit:
		return nil, fmt.Errorf("bullmqpush: receive a request: %w: MaxBody is %d bytes", ErrTooLarge, limit)
	case err != nil:
		return nil, fmt.Errorf("bullmqpush: receive a request: %w", err)
	}
	if err := r.Verify(request.Header, body); err != nil {
		return nil, err
	}
	d := &Delivery{MessageID: request.Header.Get(HeaderID), Data: body}
	queue, id, _ := strings.Cut(d.MessageID, "/")
	d.Queue, d.JobID, d.Name = unescape(queue), unescape(id), unescape(request.Header.Get(HeaderName))
	d.Callback = request.Header.Get(HeaderCallback)
	d.Attempt, _ = strconv.Atoi(request.Header.Get(HeaderAttempt))
	if ms, err := strconv.ParseInt(request.Header.Get(HeaderDeadline), 10, 64); err == nil {
		d.Deadline = time.UnixMilli(ms)
	}
	return d, nil
}

// unescape decodes a percent-encoded text. It returns a text that is not encoded as it is.
func unescape(text string) string {
	if decoded, err := url.PathUnescape(text); err == nil {
		return decoded
	}
	return text
}
