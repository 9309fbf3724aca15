package bullmqhttp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"
)

// Codes of problems.
const (
	CodeInvalidRequest   = "INVALID_REQUEST"    // 400
	CodeForbidden        = "FORBIDDEN"          // 403
	CodeJobNotFound      = "JOB_NOT_FOUND"      // 404
	CodeMethodNotAllowed = "METHOD_NOT_ALLOWED" // 405
	CodeNotFinished      = "NOT_FINISHED"       // 409: there is no result yet
	CodeFinished         = "FINISHED"           // 409: the job can't be cancelled any more
	CodeResultGone       = "RESULT_GONE"        // 410: the job is no longer in Redis, or its response no longer in the BodyStore
	CodeCancelled        = "CANCELLED"          // 410: the job was cancelled, so it has no result
	CodeTooLarge         = "TOO_LARGE"          // 413, and 431 for path, query and headers
	CodeUnsupportedType  = "UNSUPPORTED_TYPE"   // 415
	CodeInvalidData      = "INVALID_DATA"       // 422: the function of [Post] has refused the data
	CodeKeyReused        = "KEY_REUSED"         // 422: the Idempotency-Key belongs to another request
	CodeTooManyWaiting   = "TOO_MANY_WAITING"   // 429
	CodeJobFailed        = "JOB_FAILED"         // 500: the job failed, so it has no result
	CodeInternal         = "INTERNAL"           // 500: a function of the program has returned what is not valid
	CodeUnavailable      = "UNAVAILABLE"        // 503: Redis or the BodyStore can't be reached; nothing was added
	CodeMaybeAdded       = "MAYBE_ADDED"        // 503: the reply of Redis was lost; see Location
	CodeTooManyHeld      = "TOO_MANY_HELD"      // 503: too many requests wait, so no events are sent
)

// Problem is a refused request (RFC 9457). It is an error, so that the functions of [Options] may
// return it.
type Problem struct {
	Status int    `json:"status"`
	Title  string `json:"title"`
	Detail string `json:"detail,omitempty"`
	// Code is one of the codes of this package, or your own.
	Code string `json:"code,omitempty"`
	// JobID is the id of the job, if there is one.
	JobID string `json:"id,omitempty"`
	// Path is the place of the value that is not valid in the body, such as $.items[2].price.
	Path string `json:"path,omitempty"`

	retryAfter time.Duration
	cause      error // of a Manager
}

func (p *Problem) Error() string {
	return fmt.Sprintf("bullmqhttp: %d %s: %s", p.Status, p.Title, p.Detail)
}

// isValid reports whether the problem may be sent. Functions of the program make problems too.
func (p *Problem) isValid() bool { return p.Status >= 400 && p.Status <= 599 }

// internal is the reply to a request that fails by a fault of the program.
func internal() *Problem {
	return problem(http.StatusInternalServerError, CodeInternal, "the request could not be handled")
}

func problem(status int, code, detail string, args ...any) *Problem {
	return &Problem{Status: status, Title: http.StatusText(status), Code: code, Detail: fmt.Sprintf(detail, args...)}
}

// after returns the problem with a Retry-After header.
func (p *Problem) after(wait time.Duration) *Problem {
	p.retryAfter = wait
	return p
}

// about returns the problem with the id of a job.
func (p *Problem) about(id string) *Problem {
	p.JobID = id
	return p
}

func (s *Server) send(w http.ResponseWriter, r *http.Request, err error) {
	send(w, r, s.o.Logger, err)
}

// send replies with an error. An error that is no Problem is logged, and the reply does not show it.
//
// It also replies when the context of the request has ended, because a function around the handler
// may have ended it, and not the client. Without a reply, net/http would send 200.
func send(w http.ResponseWriter, r *http.Request, log *slog.Logger, err error) {
	var p *Problem
	if !errors.As(err, &p) {
		p = unavailable(err)
	}
	switch {
	case !p.isValid():
		log.ErrorContext(r.Context(), "a Problem has no status from 400 to 599", "method", r.Method, "path", r.URL.Path, "error", err)
		p = internal()
	case p.Code == CodeUnavailable && p.cause != nil && !errors.Is(r.Context().Err(), context.Canceled): // otherwise the client is gone
		log.ErrorContext(r.Context(), "a request failed", "method", r.Method, "path", r.URL.Path, "error", p.cause)
	}
	if p.Title == "" {
		titled := *p
		titled.Title = http.StatusText(p.Status)
		p = &titled
	}
	setRetryAfter(w.Header(), p.retryAfter)
	reply(w, p.Status, "application/problem+json", p)
}

// broken logs a fault of the program, and returns the problem for the client.
func (s *Server) broken(ctx context.Context, route string, err error) *Problem {
	s.o.Logger.ErrorContext(ctx, "a request can't be added", "route", route, "error", err)
	return internal()
}

// setRetryAfter sets the header in whole seconds, unless wait is 0.
func setRetryAfter(h http.Header, wait time.Duration) {
	if wait > 0 {
		h.Set("Retry-After", strconv.Itoa(int((wait-1)/time.Second)+1))
	}
}

func reply(w http.ResponseWriter, status int, contentType string, body any) {
	text, err := marshal(body)
	if err != nil { // such as a progress that is not JSON
		status, contentType = http.StatusInternalServerError, "application/problem+json"
		text, _ = marshal(internal())
	}
	replyText(w, status, contentType, text)
}

func replyText(w http.ResponseWriter, status int, contentType string, text []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("X-Content-Type-Options", "nosniff")
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	w.WriteHeader(status)
	_, _ = w.Write(text)
}
