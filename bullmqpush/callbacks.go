package bullmqpush

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/jsontext"
)

// CallbacksOptions configures [Callbacks].
type CallbacksOptions struct {
	// Keys are the CallbackKeys of the senders. At least one is required.
	Keys []string
	// Wait is how long the job stays active after a callback without another one. Defaults to
	// 30 seconds.
	Wait time.Duration
	// MaxBody is the size of the largest body in bytes. Defaults to 1 MiB.
	MaxBody int64
	// Timeout limits a callback, first the reading of its body, and then the calls to Redis.
	// Defaults to 10 seconds.
	Timeout time.Duration
	// Logger receives the errors that the endpoints don't see, such as those of Redis.
	// Defaults to none.
	Logger *slog.Logger
}

// Callbacks serves the requests of endpoints that have accepted a job with 202. It can run
// in any process, or in several, since the lock of the job is in Redis. The path of a request
// ends with what the header bullmq-callback had, and one of these calls:
//
//   - complete completes the job. The body is the return value, JSON or empty.
//   - fail ends the attempt. The body is empty or a JSON object with the fields reason, a
//     text, and unrecoverable, which is true to prevent a retry.
//   - progress stores the body as the progress of the job, and extends it.
//   - extend keeps the job active for another CallbacksOptions.Wait.
//
// The method is POST. The status of the answer is 204 if the call has been made. Otherwise
// the body is a problem (RFC 9457) with one of the codes of this package:
//
//   - 400, 408 and 413 if the body is not valid, arrives too slowly, or is too large
//   - 404 if the address is not valid, or if the queue is not served
//   - 409 if the attempt has ended, for instance by an earlier call
//   - 409 if the job is cancelled, or has pending or failed children. The endpoint then calls
//     fail
//   - 503 if Redis can't be reached. The endpoint repeats the call. The first one may have been
//     carried out nevertheless. An answer of 409 with [CodeAttemptEnded] then means that it was,
//     or that the attempt has ended in another way
//
// Give the Fetcher the options of the worker that determine the end of a job, such as Classify,
// BackoffStrategy, KeepCompleted and KeepFailed. If it has no BackoffStrategy for the backoff of
// a job, fail returns 503 and leaves the job as it is. Logger receives the error.
type Callbacks struct {
	keys     []key
	wait     time.Duration
	maxBody  int64
	timeout  time.Duration
	log      *slog.Logger
	fetchers map[string]*bullmq.Fetcher
}

// NewCallbacks returns a Callbacks for the queues of the fetchers, which the caller closes
// afterwards. A Fetcher that is used for nothing else fetches no jobs.
func NewCallbacks(options *CallbacksOptions, fetchers ...*bullmq.Fetcher) (*Callbacks, error) {
	var o CallbacksOptions
	if options != nil {
		o = *options
	}
	keys, err := parseKeys(o.Keys)
	switch {
	case err != nil:
		return nil, fmt.Errorf("bullmqpush: make callbacks: %w", err)
	case o.Wait < 0 || o.MaxBody < 0 || o.Timeout < 0:
		return nil, errors.New("bullmqpush: make callbacks: Wait, MaxBody or Timeout is less than 0")
	case len(fetchers) == 0:
		return nil, errors.New("bullmqpush: make callbacks: there is no Fetcher; give one for each queue")
	}
	setDefault(&o.Wait, 30*time.Second)
	setDefault(&o.MaxBody, 1<<20)
	setDefault(&o.Timeout, 10*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Callbacks{
		keys: keys, wait: max(o.Wait.Truncate(time.Millisecond), time.Millisecond), maxBody: min(o.MaxBody, math.MaxInt64-1),
		timeout: o.Timeout, log: o.Logger,
		fetchers: map[string]*bullmq.Fetcher{},
	}
	for i, fetcher := range fetchers {
		if fetcher == nil {
			return nil, fmt.Errorf("bullmqpush: make callbacks: Fetcher %d of %d is nil", i+1, len(fetchers))
		}
		if c.fetchers[fetcher.QueueName()] != nil {
			return nil, fmt.Errorf("bullmqpush: make callbacks: there are two Fetchers for queue %s; make one Callbacks for each of them", fetcher.QueueName())
		}
		c.fetchers[fetcher.QueueName()] = fetcher
	}
	return c, nil
}

// ServeHTTP implements [http.Handler].
func (c *Callbacks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The server reads the body of a request that is refused too.
	limited := http.NewResponseController(w).SetReadDeadline(time.Now().Add(c.timeout)) == nil
	to, p := c.target(r)
	if p == nil {
		p = c.serve(w, r, to, limited)
	}
	if p != nil {
		p.send(w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// target is what a request calls.
type target struct {
	ticket
	fetcher *bullmq.Fetcher
	name    string // of the call
	call    callbackFunc
}

// target returns what a request calls.
func (c *Callbacks) target(r *http.Request) (target, *problem) {
	parts := strings.Split(r.URL.Path, "/")
	if len(parts) < 2 {
		return target{}, &problem{http.StatusNotFound, CodeInvalidAddress, "the address is not valid"}
	}
	t, valid := parseTicket(c.keys, parts[len(parts)-2])
	to := target{ticket: t, fetcher: c.fetchers[t.queue], name: parts[len(parts)-1]}
	if !valid || to.fetcher == nil {
		return to, &problem{http.StatusNotFound, CodeInvalidAddress, "the address is not valid"}
	}
	if to.call = c.call(to.name); to.call == nil {
		return to, &problem{http.StatusNotFound, CodeUnknownCall, "there is no such call"}
	}
	if r.Method != http.MethodPost {
		return to, &problem{http.StatusMethodNotAllowed, CodeMethodNotAllowed, "use POST"}
	}
	return to, nil
}

// serve makes the call of a request. limited reports that the read of the body has a deadline. serve
// returns nil if the call has been made.
func (c *Callbacks) serve(w http.ResponseWriter, r *http.Request, to target, limited bool) *problem {
	body, p := c.read(r)
	if p != nil {
		return p
	}
	if limited { // otherwise the deadline would end the request's context
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	}
	// An endpoint that goes away does not interrupt a call that may be half done.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), c.timeout)
	defer cancel()
	err := to.call(ctx, to.fetcher, to.fetcher.JobRef(to.jobID).WithToken(to.token), body)
	if err == nil {
		return nil
	}
	p = problemOf(err)
	if p.status == http.StatusServiceUnavailable {
		c.log.ErrorContext(ctx, "a callback failed", "call", to.name, "queue", to.queue, "job", to.jobID, "error", err)
	}
	return p
}

// read reads the body of a request, which is empty or JSON.
func (c *Callbacks) read(r *http.Request) ([]byte, *problem) {
	body, err := io.ReadAll(io.LimitReader(r.Body, c.maxBody+1))
	switch {
	case int64(len(body)) > c.maxBody:
		return nil, &problem{http.StatusRequestEntityTooLarge, CodeTooLarge, "the body is too large"}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &problem{http.StatusRequestTimeout, CodeTooSlow, "the body did not arrive in time"}
	case err != nil:
		return nil, &problem{http.StatusBadRequest, CodeInvalidBody, "the body could not be read"}
	case len(body) > 0 && !jsontext.Valid(body):
		return nil, &problem{http.StatusBadRequest, CodeInvalidBody, fmt.Sprintf("the body is not JSON in UTF-8, or is nested more than %d deep", jsontext.MaxDepth)}
	}
	return body, nil
}

// callbackFunc makes a call for a job. The body is JSON or empty.
type callbackFunc func(ctx context.Context, fetcher *bullmq.Fetcher, job *bullmq.Job, body []byte) error

// call returns the function of a call, or nil if there is no such call.
func (c *Callbacks) call(name string) callbackFunc {
	switch name {
	case "complete":
		return c.complete
	case "fail":
		return c.fail
	case "progress":
		return c.progress
	case "extend":
		return func(ctx context.Context, _ *bullmq.Fetcher, job *bullmq.Job, _ []byte) error {
			return c.extend(ctx, job)
		}
	}
	return nil
}

func (c *Callbacks) complete(ctx context.Context, fetcher *bullmq.Fetcher, job *bullmq.Job, body []byte) error {
	if len(body) == 0 {
		return fetcher.Complete(ctx, job, nil)
	}
	return fetcher.Complete(ctx, job, json.RawMessage(body))
}

func (c *Callbacks) fail(ctx context.Context, fetcher *bullmq.Fetcher, job *bullmq.Job, body []byte) error {
	var failure struct {
		Reason        string `json:"reason"`
		Unrecoverable bool   `json:"unrecoverable"`
	}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &failure); err != nil {
			return &problem{http.StatusBadRequest, CodeInvalidBody, "the body is not an object with reason and unrecoverable"}
		}
	}
	if failure.Reason == "" {
		failure.Reason = "the endpoint failed the job"
	}
	reason := errors.New(failure.Reason)
	if failure.Unrecoverable {
		reason = bullmq.Unrecoverable(reason)
	}
	if err := c.extend(ctx, job); errors.Is(err, bullmq.ErrCancelled) {
		reason = err // by which Fail recognises the cancellation
	} else if err != nil {
		return err
	}
	return fetcher.Fail(ctx, job, reason)
}

func (c *Callbacks) progress(ctx context.Context, _ *bullmq.Fetcher, job *bullmq.Job, body []byte) error {
	if len(body) == 0 {
		return &problem{http.StatusBadRequest, CodeInvalidBody, "the body is empty"}
	}
	if err := c.extend(ctx, job); err != nil {
		return err
	}
	return job.UpdateProgress(ctx, json.RawMessage(body))
}

// extend renews the lock. Its error is ErrLockLost if the ticket is void.
func (c *Callbacks) extend(ctx context.Context, job *bullmq.Job) error {
	ours, err := job.ExtendLock(ctx, c.wait)
	if err == nil && !ours {
		err = bullmq.ErrLockLost
	}
	return err
}
