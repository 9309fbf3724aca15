package bullmqhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// ServeOptions configures [Serve]. The zero value selects the defaults.
type ServeOptions struct {
	// Headers are the names of headers of a response that are stored in addition to the default
	// ones. Set-Cookie is stored only if it is named here. The [Server] sends only the headers that
	// its Options.ResponseHeaders allow.
	Headers []string
	// MaxResponse is the maximum size of a response's body, in bytes, also with Bodies.
	// Defaults to 1 MiB.
	MaxResponse int
	// Bodies has the bodies of requests that Options.Bodies has stored, and keeps the bodies of
	// responses that are larger than StoreAbove. Such bodies are not held in memory. If the store
	// fails, the attempt fails. If it no longer has the body of a request, the job fails without a
	// retry.
	// Defaults to nil: all bodies are stored in Redis.
	Bodies BodyStore
	// StoreAbove is the size in bytes above which Bodies keeps the body of a response.
	// Defaults to 64 KiB.
	StoreAbove int
	// Fails reports whether a response with this status is a failed attempt.
	// Defaults to [IsFailure].
	Fails func(status int) bool
}

// IsFailure reports whether a status means that another attempt may succeed: 408, 425, 429 and those
// from 500 on.
func IsFailure(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}

// StatusError is the error of an attempt whose response is a failure. Its text begins with
// "HTTP 503" and becomes the failedReason of the job.
type StatusError struct {
	Status     int
	RetryAfter time.Duration // of the response's header; 0 if it has none
	Message    string        // the begin of the body, if that is text
}

func (e *StatusError) Error() string {
	text := statusPrefix + strconv.Itoa(e.Status)
	if name := http.StatusText(e.Status); name != "" {
		text += " " + name
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// statusPrefix begins the text of a StatusError.
const statusPrefix = "HTTP "

// maxMessage is how much of a body becomes part of the text of an error.
const maxMessage = 500

// Classify is a function for WorkerOptions.Classify. It retries a job as the Retry-After header of
// its failed response says, and otherwise as the job's options define it.
func Classify(err error, _ *bullmq.Job) bullmq.Verdict {
	var failed *StatusError
	if errors.As(err, &failed) && failed.RetryAfter > 0 {
		return bullmq.RetryAfter(failed.RetryAfter)
	}
	return bullmq.Transient()
}

// Serve returns the handler of a job that runs a stored [Request] by an http.Handler. The job's
// return value is the [Response]. At most one options value may be given.
//
// The handler gets the method, path, path values, query, stored headers and body of the request. The
// context of the request is that of the job, so [bullmq.JobFromContext], [bullmq.UpdateProgress] and
// [RequestFromContext] work.
//
// The end of an attempt depends on the response:
//
//   - A failure, as [IsFailure] reports, is a failed attempt with a [*StatusError]. It is retried if
//     the job has an attempt left.
//   - Any other status, also 404 or 422, completes the job.
//   - A panic is a failed attempt with a [*bullmq.PanicError]. So is a panic with
//     [http.ErrAbortHandler], without a stack.
//   - If the context of the job has ended when the handler returns, the response is dropped,
//     because the handler may have stopped halfway. The attempt ends with the cause of the context: a
//     cancelled job fails, and after [bullmq.ErrShutdown] the job runs again.
//   - A response that is too large, and data that is not a request, fail the job without a retry.
//
// Serve panics if the options are invalid.
func Serve(handler http.Handler, options ...ServeOptions) bullmq.Handler {
	var o ServeOptions
	switch {
	case handler == nil:
		panic("bullmqhttp: serve: the handler is nil")
	case len(options) > 1:
		panic(fmt.Sprintf("bullmqhttp: serve: %d options are given; give at most one", len(options)))
	case len(options) == 1:
		o = options[0]
	}
	if o.MaxResponse < 0 || o.StoreAbove < 0 {
		panic(fmt.Sprintf("bullmqhttp: serve: MaxResponse %d or StoreAbove %d is less than 0", o.MaxResponse, o.StoreAbove))
	}
	if o.StoreAbove == 0 {
		o.StoreAbove = defaultStoreAbove
	}
	if o.MaxResponse == 0 {
		o.MaxResponse = 1 << 20
	}
	if o.Fails == nil {
		o.Fails = IsFailure
	}
	headers := allowList(responseHeaders, o.Headers)
	return func(ctx context.Context, job *bullmq.Job) (any, error) {
		stored, err := ReadRequest(job)
		if err != nil {
			return nil, bullmq.Unrecoverable(err)
		}
		return serve(context.WithValue(ctx, requestKey{}, stored), handler, &o, headers, job.ID, stored)
	}
}

// serve runs the handler for a stored request, and returns its response as it is stored.
func serve(ctx context.Context, handler http.Handler, o *ServeOptions, headers []string, id string, stored *Request) (any, error) {
	r, body, err := stored.open(ctx, o.Bodies)
	if err != nil {
		return nil, err
	}
	if body != nil {
		defer func() { _ = body.Close() }()
	}
	w := &recorder{ctx: ctx, o: o, jobID: id, header: http.Header{}}
	defer w.abort() // unless it is finished
	if err := run(handler, w, r); err != nil {
		return nil, err
	}
	w.WriteHeader(http.StatusOK)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case body != nil && body.failure() != nil: // so the handler has not seen the request
		return nil, fmt.Errorf("bullmqhttp: read the stored body %.80q: %w", stored.BodyRef, body.failure())
	case w.tooLarge:
		return nil, bullmq.Unrecoverable(fmt.Errorf("%w: the limit is %d bytes", ErrResponseTooLarge, o.MaxResponse))
	case w.failed:
		return nil, w.statusError()
	}
	response, err := w.response(headers)
	switch {
	case ctx.Err() != nil && err != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	}
	return marshal(response)
}

// open returns the request for a handler, and its body if that is in the store.
func (r *Request) open(ctx context.Context, store BodyStore) (*http.Request, *storedBody, error) {
	if r.BodyRef == "" {
		req, err := r.NewHTTPRequest(ctx)
		if err != nil {
			return nil, nil, bullmq.Unrecoverable(err)
		}
		return req, nil, nil
	}
	body, err := openBody(ctx, store, r.BodyRef, r.BodySize, 0)
	if err != nil {
		return nil, nil, err
	}
	req, err := r.withBody(ctx, body)
	if err != nil {
		_ = body.Close()
		return nil, nil, bullmq.Unrecoverable(err)
	}
	return req, body, nil
}

// run calls the handler. The worker recovers any panic but http.ErrAbortHandler.
func run(handler http.Handler, w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		switch p := recover(); {
		case p == nil:
		case p == http.ErrAbortHandler:
			err = http.ErrAbortHandler
		default:
			panic(p)
		}
	}()
	handler.ServeHTTP(w, r)
	return nil
}

// retryAfter parses a Retry-After header: seconds, or a date. It is at most a day.
func retryAfter(text string, now time.Time) time.Duration {
	var wait time.Duration
	if seconds, ok := parseSeconds(text); ok {
		wait = seconds
	} else if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), 24*time.Hour)
}
