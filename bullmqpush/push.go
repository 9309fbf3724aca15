package bullmqpush

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Names of the headers of a request. The first three are those of Standard Webhooks.
const (
	HeaderID        = "Webhook-Id"        // <queue>/<id>, the same in each attempt
	HeaderTimestamp = "Webhook-Timestamp" // when the request was sent, in seconds since 1970
	HeaderSignature = "Webhook-Signature" // v1,<base64>, separated by spaces
	HeaderQueue     = "Bullmq-Queue"      // percent-encoded
	HeaderName      = "Bullmq-Name"       // of the job, percent-encoded
	HeaderAttempt   = "Bullmq-Attempt"    // starting at 1
	HeaderDeadline  = "Bullmq-Deadline"   // until when the answer must be complete, in milliseconds since 1970
	HeaderCallback  = "Bullmq-Callback"   // the address for callbacks, with Options.CallbackURL
)

// errNoAnswer is the cause of a request's context when Options.Timeout has passed.
var errNoAnswer = errors.New("no answer in time")

// pusher sends jobs to one endpoint.
type pusher struct {
	client   *Client
	endpoint *url.URL
	allowed  []hostPattern
}

// serveJob is the [bullmq.Handler].
func (p *pusher) serveJob(ctx context.Context, job *bullmq.Job) (any, error) {
	to, deadline := p.endpoint, time.Time{}
	for redirects := 0; ; redirects++ {
		a, wait, err := p.visit(ctx, to, &deadline, job)
		switch {
		case err != nil:
			return nil, fmt.Errorf("bullmqpush: POST %s: %w", place(to), err)
		case wait > 0:
			return nil, snooze(wait)
		}
		target, err := p.redirect(to, a, redirects)
		if err != nil {
			return nil, fmt.Errorf("bullmqpush: POST %s: %w", place(to), err)
		}
		if target == nil {
			if a.status == http.StatusAccepted && p.client.callback != nil {
				return nil, p.accepted(ctx, job)
			}
			return p.outcome(ctx, to, a)
		}
		to = target
	}
}

// visit sends the job to a URL when its host may get a request. If it may not get one now,
// visit returns how long to wait. The first request sets the deadline of all.
func (p *pusher) visit(ctx context.Context, to *url.URL, deadline *time.Time, job *bullmq.Job) (*answer, time.Duration, error) {
	turn := ctx
	if !deadline.IsZero() {
		var cancel context.CancelFunc
		turn, cancel = context.WithDeadlineCause(ctx, *deadline, errNoAnswer)
		defer cancel()
	}
	visit, wait, err := p.client.hosts.enter(turn, hostname(to)+":"+portOf(to))
	if visit == nil {
		return nil, wait, err
	}
	told, asked := unknown, time.Duration(0)
	defer func() { visit.end(told, asked) }()

	if deadline.IsZero() {
		*deadline = time.Now().Add(p.client.options.Timeout)
	}
	limited, cancel := context.WithDeadlineCause(ctx, *deadline, errNoAnswer)
	defer cancel()
	a, err := p.send(limited, to, job)
	switch {
	case err == nil:
		a.wait = p.askedWait(a)
		told, asked = a.verdict()
	case ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded): // the job was stopped
		return nil, 0, context.Cause(ctx)
	case errors.Is(err, ErrAddressRefused): // not a fault of the host
	case limited.Err() != nil && ctx.Err() == nil:
		told, err = failing, fmt.Errorf("%w: Timeout is %v", errNoAnswer, p.client.options.Timeout)
	default:
		told = failing
	}
	return a, 0, err
}

// send sends one request and reads its answer.
func (p *pusher) send(ctx context.Context, to *url.URL, job *bullmq.Job) (*answer, error) {
	request, err := p.request(ctx, to, job)
	if err != nil {
		return nil, err
	}
	response, err := p.client.transport.RoundTrip(request) // which follows no redirects
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode < 200 { // after 101 a read would not end with ctx
		return &answer{status: response.StatusCode, header: response.Header}, nil
	}
	limit := p.client.options.MaxAnswer
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	a := &answer{status: response.StatusCode, header: response.Header, body: body}
	if int64(len(body)) > limit {
		a.body, a.tooLarge = body[:limit], true
	} else if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return a, nil
}

// request returns the signed request for a job.
func (p *pusher) request(ctx context.Context, to *url.URL, job *bullmq.Job) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(job.Data))
	if err != nil {
		return nil, errors.New("the URL is not valid")
	}
	header := request.Header
	if to.Host == p.endpoint.Host {
		for name, values := range p.client.options.Header {
			header[http.CanonicalHeaderKey(name)] = values
		}
	}
	id, timestamp := messageID(job.QueueName(), job.ID), strconv.FormatInt(time.Now().Unix(), 10)
	header.Set("Content-Type", "application/json")
	header.Set("Accept", "application/json")
	header.Set("User-Agent", "bullmq-go")
	header.Set(HeaderID, id)
	header.Set(HeaderTimestamp, timestamp)
	header.Set(HeaderSignature, signatures(p.client.keys, id, timestamp, job.Data))
	header.Set(HeaderQueue, url.PathEscape(job.QueueName()))
	header.Set(HeaderName, url.PathEscape(job.Name))
	header.Set(HeaderAttempt, strconv.Itoa(job.AttemptsMade+1))
	if deadline, ok := ctx.Deadline(); ok {
		header.Set(HeaderDeadline, strconv.FormatInt(deadline.UnixMilli(), 10))
	}
	if p.client.callback != nil {
		to := ticket{job.QueueName(), job.ID, job.Token()}.encode(p.client.callback)
		header.Set(HeaderCallback, strings.TrimSuffix(p.client.options.CallbackURL, "/")+"/"+to)
	}
	p.trace(ctx, header, job)
	return request, nil
}

// messageID returns the header webhook-id. It has no full stop, because a signature uses that
// to separate the id from the timestamp.
func messageID(queue, id string) string {
	return strings.ReplaceAll(url.PathEscape(queue)+"/"+url.PathEscape(id), ".", "%2E")
}

// trace sets the headers of W3C Trace Context.
func (p *pusher) trace(ctx context.Context, header http.Header, job *bullmq.Job) {
	metadata := ""
	if t := p.client.options.Telemetry; t != nil {
		metadata = t.Inject(ctx)
	} else if stored := job.Options.Telemetry; stored != nil {
		metadata = stored.Metadata
	}
	var carrier map[string]any
	if json.Unmarshal([]byte(metadata), &carrier) != nil {
		return
	}
	for _, name := range []string{"traceparent", "tracestate"} {
		if text, ok := carrier[name].(string); ok && text != "" && isPrintable(text) {
			header.Set(name, text)
		}
	}
}

// isPrintable reports whether a text has only printable ASCII characters.
func isPrintable(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// redirect returns the URL to which an answer redirects, or nil if it is no redirect that
// keeps the method. followed is how many redirects were followed before.
func (p *pusher) redirect(from *url.URL, a *answer, followed int) (*url.URL, error) {
	if a.status != http.StatusTemporaryRedirect && a.status != http.StatusPermanentRedirect {
		return nil, nil
	}
	if followed >= p.client.options.MaxRedirects {
		return nil, fmt.Errorf("%w; MaxRedirects is %d", a.failure(), p.client.options.MaxRedirects)
	}
	to, err := from.Parse(a.header.Get("Location"))
	if err != nil || a.header.Get("Location") == "" {
		return nil, fmt.Errorf("%w to no valid URL", a.failure())
	}
	if from.Scheme == "https" && to.Scheme == "http" {
		return nil, fmt.Errorf("%w from https to http", a.failure())
	}
	if err := checkTarget(to, p.allowed, p.client.options.AllowHTTP); err != nil {
		return nil, fmt.Errorf("%w to %s: %w", a.failure(), place(to), err)
	}
	to.Fragment, to.RawFragment = "", ""
	return to, nil
}
