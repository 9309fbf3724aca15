package bullmqpush

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Codes of the problems with which [Callbacks] answer.
const (
	CodeInvalidBody      = "INVALID_BODY"       // 400
	CodeInvalidAddress   = "INVALID_ADDRESS"    // 404: the address was not signed by a key, or the queue is not served
	CodeUnknownCall      = "UNKNOWN_CALL"       // 404
	CodeMethodNotAllowed = "METHOD_NOT_ALLOWED" // 405
	CodeTooSlow          = "TOO_SLOW"           // 408: the body did not arrive within CallbacksOptions.Timeout
	CodeAttemptEnded     = "ATTEMPT_ENDED"      // 409: the endpoint stops
	CodeCancelled        = "CANCELLED"          // 409: the endpoint calls fail
	CodePendingChildren  = "PENDING_CHILDREN"   // 409
	CodeFailedChildren   = "FAILED_CHILDREN"    // 409: the endpoint calls fail
	CodeNotAllowed       = "NOT_ALLOWED"        // 409: the state of the job does not allow the call
	CodeTooLarge         = "TOO_LARGE"          // 413
	CodeUnavailable      = "UNAVAILABLE"        // 503: the endpoint repeats the call
)

// retryPause is the Retry-After of 503, in seconds.
const retryPause = 5

// problem is an answer other than 204 (RFC 9457).
type problem struct {
	status       int
	code, detail string
}

func (p *problem) Error() string { return p.detail }

// problemOf returns the answer for an error of a call.
func problemOf(err error) *problem {
	var own *problem
	var cancelled *bullmq.CancelledError
	var state *bullmq.Error
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &cancelled) && cancelled.Reason != "":
		return &problem{http.StatusConflict, CodeCancelled, "the job is cancelled: " + cancelled.Reason}
	case errors.Is(err, bullmq.ErrCancelled):
		return &problem{http.StatusConflict, CodeCancelled, "the job is cancelled"}
	case isOver(err):
		return &problem{http.StatusConflict, CodeAttemptEnded, "the attempt has ended"}
	case errors.Is(err, bullmq.ErrPendingChildren):
		return &problem{http.StatusConflict, CodePendingChildren, "the job has children that have not finished yet"}
	case errors.Is(err, bullmq.ErrFailedChildren):
		return &problem{http.StatusConflict, CodeFailedChildren, "a child of the job has failed"}
	case errors.As(err, &state):
		return &problem{http.StatusConflict, CodeNotAllowed, "the state of the job does not allow the call: " + state.Error()}
	}
	return &problem{http.StatusServiceUnavailable, CodeUnavailable, "try again later"} // the error may have addresses of Redis
}

// isOver reports whether an error means that the attempt of a ticket has ended.
func isOver(err error) bool {
	for _, over := range []error{bullmq.ErrLockLost, bullmq.ErrLockNotFound, bullmq.ErrLockMismatch, bullmq.ErrJobNotFound, bullmq.ErrNotInState} {
		if errors.Is(err, over) {
			return true
		}
	}
	return false
}

func (p *problem) send(w http.ResponseWriter) {
	text, _ := json.Marshal(map[string]any{"status": p.status, "title": http.StatusText(p.status), "detail": p.detail, "code": p.code})
	h := w.Header()
	switch p.status {
	case http.StatusMethodNotAllowed:
		h.Set("Allow", http.MethodPost)
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", strconv.Itoa(retryPause))
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(p.status)
	_, _ = w.Write(text)
}
