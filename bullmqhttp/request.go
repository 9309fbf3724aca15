package bullmqhttp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Request is a stored request: the data of a job.
type Request struct {
	Method string `json:"method"`
	// Path is the path as the client sent it, with its escapes.
	Path string `json:"path"`
	// Route is the name that was given to [Server.Async]. It is the name of the job too.
	Route string `json:"route,omitempty"`
	// Pattern is the pattern of [http.ServeMux] that matched the request.
	Pattern string `json:"pattern,omitempty"`
	// Params are the values of the pattern's wildcards.
	Params map[string]string `json:"params,omitempty"`
	// Query is the query. The order of its keys is not stored.
	Query url.Values `json:"query,omitempty"`
	// Headers are the headers that Options.Headers and Route.Headers allow.
	Headers Header `json:"headers,omitempty"`
	// ContentType is the type of the body, with its parameters.
	ContentType string `json:"contentType,omitempty"`
	// Body is the body. It is JSON if Encoding is "", or else a JSON string.
	Body     json.RawMessage `json:"body,omitempty"`
	Encoding string          `json:"encoding,omitempty"`
	// BodyRef is the reference of the [BodyStore] to a body that is not in Body, and BodySize is its
	// size in bytes, or 0 if that is unknown.
	BodyRef  string `json:"bodyRef,omitempty"`
	BodySize int64  `json:"bodySize,omitempty"`
	// Owner is the result of Options.Owner.
	Owner string `json:"owner,omitempty"`
	// Carry is the result of Options.Carry, as JSON.
	Carry json.RawMessage `json:"carry,omitempty"`
	// Digest identifies what the client sent: method, path, query, type and body. A second request
	// with the same Idempotency-Key must have the same.
	Digest string `json:"digest,omitempty"`
}

// ReadRequest reads the stored request of a job. It returns an error if the data of the job is not
// a request.
func ReadRequest(job *bullmq.Job) (*Request, error) {
	var stored Request
	if err := json.Unmarshal(job.Data, &stored); err != nil {
		return nil, fmt.Errorf("bullmqhttp: read the request of job %s: %w", job.ID, err)
	}
	if stored.Method == "" || stored.Path == "" {
		return nil, fmt.Errorf("bullmqhttp: read the request of job %s: its data has no method or no path; add it by Server.Async, or with the fields of Request", job.ID)
	}
	return &stored, nil
}

// NewHTTPRequest returns the request for an http.Handler, with its path values and ctx. It is an error
// if the body is in a [BodyStore].
func (r *Request) NewHTTPRequest(ctx context.Context) (*http.Request, error) {
	if r.BodyRef != "" {
		return nil, fmt.Errorf("bullmqhttp: make the request %.80s: its body is stored elsewhere; use Serve with ServeOptions.Bodies", r.Path)
	}
	body, err := decodeBody(r.Body, r.Encoding)
	if err != nil {
		return nil, fmt.Errorf("bullmqhttp: make the request %.80s: %w", r.Path, err)
	}
	if len(body) == 0 {
		return r.withBody(ctx, http.NoBody)
	}
	return r.withBody(ctx, bytes.NewReader(body))
}

// withBody returns the request with a body.
func (r *Request) withBody(ctx context.Context, body io.Reader) (*http.Request, error) {
	target, err := url.ParseRequestURI(r.Path)
	if err != nil || target.Host != "" || target.RawQuery != "" {
		return nil, fmt.Errorf("bullmqhttp: make the request: the path %.80q is not the path of a request", r.Path)
	}
	target.RawQuery = r.Query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.Method, "/", body)
	if err != nil {
		return nil, fmt.Errorf("bullmqhttp: make the request %.80s: %w", r.Path, err)
	}
	req.URL, req.RequestURI, req.Pattern = target, target.RequestURI(), r.Pattern
	for name, values := range r.Headers {
		if !slices.Contains(connectionHeaders, name) {
			req.Header[name] = slices.Clone(values)
		}
	}
	if r.ContentType != "" {
		req.Header.Set("Content-Type", r.ContentType)
	}
	for name, value := range r.Params {
		req.SetPathValue(name, value)
	}
	if r.BodyRef != "" {
		if req.ContentLength = r.BodySize; r.BodySize == 0 {
			req.ContentLength = -1
		}
	}
	return req, nil
}

type requestKey struct{}

// RequestFromContext returns the stored request of the job whose handler has the context, such as
// that of an http.Request that [Serve] made. It returns nil for any other context.
func RequestFromContext(ctx context.Context) *Request {
	stored, _ := ctx.Value(requestKey{}).(*Request)
	return stored
}

// wildcard is a wildcard in a pattern of http.ServeMux.
var wildcard = regexp.MustCompile(`\{([\pL_][\pL\pN_]*)(?:\.\.\.)?\}`)

// wildcards returns the names of the wildcards in a pattern. A route has few patterns, usually one.
func (a *async) wildcards(pattern string) []string {
	if names, known := a.patterns.Load(pattern); known {
		return names.([]string)
	}
	var names []string
	for _, match := range wildcard.FindAllStringSubmatch(pattern, -1) {
		names = append(names, match[1])
	}
	a.patterns.Store(pattern, names)
	return names
}

// storeRequest returns a request as it is stored. It reads the body. known reports that a job with the
// idempotency key exists already, so that a large body was not stored.
func (a *async) storeRequest(w http.ResponseWriter, r *http.Request, id string, keyed bool) (stored *Request, known bool, err error) {
	var query url.Values
	if r.URL.RawQuery != "" {
		if query, err = url.ParseQuery(r.URL.RawQuery); err != nil {
			return nil, false, problem(http.StatusBadRequest, CodeInvalidRequest, "the query is not valid: %v", err)
		}
	}
	stored = &Request{
		Method: r.Method, Path: r.URL.EscapedPath(), Route: a.name, Pattern: r.Pattern, Query: query,
		Headers: allowed(r.Header, a.headers), ContentType: r.Header.Get("Content-Type"),
	}
	if len(query) == 0 {
		stored.Query = nil
	}
	if names := a.wildcards(r.Pattern); len(names) > 0 {
		stored.Params = make(map[string]string, len(names))
		for _, name := range names {
			stored.Params[name] = r.PathValue(name)
		}
	}
	head := len(stored.Path) + len(r.URL.RawQuery) + len(stored.ContentType) + stored.Headers.size()
	if head > a.server.o.MaxHead {
		return nil, false, problem(http.StatusRequestHeaderFieldsTooLarge, CodeTooLarge, "the path, the query and the headers have %d bytes; the limit is %d", head, a.server.o.MaxHead)
	}
	if err := stored.checkHead(); err != nil {
		return nil, false, err
	}
	limit := a.maxBody()
	if r.ContentLength > limit {
		w.Header().Set("Connection", "close") // the client is not read to its end
		return nil, false, tooLarge(limit)
	}
	body := &meter{from: r.Body, hash: sha256.New()}
	if r.Body != http.NoBody {
		body.from = http.MaxBytesReader(w, r.Body, limit)
	}
	if s := a.server; s.o.Bodies != nil { // the store may need longer than the client
		body.ended = func() { s.hold(w, r, s.o.StoreTimeout) }
	}
	known, err = a.readBody(r, id, keyed, stored, body)
	if err != nil {
		return nil, false, err
	}
	stored.Digest = digest(r.Method, stored.Path, r.URL.RawQuery, stored.ContentType, string(body.hash.Sum(nil)))
	return stored, known, nil
}
