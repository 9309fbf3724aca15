package bullmqhttp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Action is what a client wants to do, for Options.Authorize and ManagerOptions.Authorize.
type Action string

// The actions.
const (
	ActionSubmit Action = "submit"
	ActionRead   Action = "read" // status, result and events
	ActionCancel Action = "cancel"
	ActionWork   Action = "work"   // of a worker of a [Manager]: claim, extend, succeed, fail, release
	ActionManage Action = "manage" // of a [Manager]: recover claims, start due jobs, clean up, remove
)

// Options configures a [Server]. A nil pointer and the zero value select the defaults.
type Options struct {
	// Base is the path below which the Server serves jobs. It must begin with a slash.
	// Defaults to "/jobs".
	Base string
	// Authorize is called first for each request. If it returns an error, the request is refused
	// with 403, or as the error says if that is a [*Problem].
	// Defaults to nil, which allows everything.
	Authorize func(r *http.Request, action Action) error
	// Owner returns whose job a request submits, or wants to see, such as the subject of a token.
	// It is stored in the job. A job of another owner is not found, and owners can't meet each
	// other's idempotency keys. Errors are handled as those of Authorize.
	// The empty string is an owner too, of all requests for which Owner returns it.
	// Defaults to nil: everyone who knows the id of a job may see and cancel it.
	Owner func(r *http.Request) (string, error)
	// Carry returns what the handler of the job needs besides the request, such as a tenant. It is
	// stored as JSON. It is called before the body is read, and must not read it. Errors are handled as
	// those of Authorize. If the value can't be written as JSON, the reply is 500.
	// Defaults to nil, which stores nothing.
	Carry func(r *http.Request) (any, error)
	// Headers are the names of headers of a request that are stored in addition to the default ones.
	// Authorization and Cookie are stored only if they are named here. Redis keeps them in clear text.
	Headers []string
	// ResponseHeaders are the names of headers of a stored response that are sent in addition to
	// the default ones.
	ResponseHeaders []string
	// MaxBody is the maximum size of a request's body, in bytes, also with Bodies.
	// Defaults to 1 MiB.
	MaxBody int64
	// Bodies keeps the bodies of requests that are larger than StoreAbove, and has the bodies of
	// responses that ServeOptions.Bodies has stored. Such bodies are not held in memory. If the store
	// fails, the reply is 503, or as the error says if that is a [*Problem].
	// Defaults to nil: all bodies are stored in Redis.
	Bodies BodyStore
	// StoreAbove is the size in bytes above which Bodies keeps the body of a request.
	// Defaults to 64 KiB.
	StoreAbove int
	// StoreTimeout is the longest time that Bodies may take to open a body, and between two reads or
	// writes of one. Then its context ends. The time that the client takes does not count.
	// Defaults to 1 minute.
	StoreTimeout time.Duration
	// MaxHead is the maximum size of the path, the query and the stored headers of a request, in
	// bytes.
	// Defaults to 32 KiB.
	MaxHead int
	// MaxWait is the longest time that a request waits for a job, whatever the client prefers.
	// Defaults to 25 seconds.
	MaxWait time.Duration
	// Timeout limits each call to Redis, such as a read of a job or its cancellation. If Redis does
	// not reply in time, the reply is 503. An add whose reply is lost is repeated for that time, so a
	// submit takes up to twice as long. A wait for a job is not part of it.
	// Defaults to 5 seconds.
	Timeout time.Duration
	// MaxHeld is the maximum number of requests that are held at the same time, because they wait for
	// a job or receive its events. Above it, a request that prefers to wait is answered at once, and
	// one for events is refused with 503. Each held request needs memory and a connection.
	// Defaults to 10,000.
	MaxHeld int
	// MaxWaiting refuses requests with 429 while that many jobs of the queue are ready or delayed. The
	// number is read at most four times a second, so it may be exceeded a little.
	// Defaults to 0, no limit.
	MaxWaiting int
	// KeepFor is how long a job is kept after its end: its status, its result, and its idempotency
	// key. BullMQ removes it when a later job of the queue ends, so it may be kept longer.
	// Defaults to 24 hours. It must be at least a minute.
	KeepFor time.Duration
	// DeadLetters is the queue to which jobs that have failed for good are moved, as DeadLetterOptions says.
	// Such a job is shown as failed. The letter of a job of [Post] has no owner, so with Owner it is not found.
	// Defaults to nil: a job that was moved is not found.
	DeadLetters *bullmq.Queue
	// Reason returns what a client sees of the failedReason of a job.
	// Defaults to [DefaultReason].
	Reason func(failedReason string) string
	// Logger receives the errors that clients don't see.
	// Defaults to none.
	Logger *slog.Logger
}

// Server adds requests to a queue as jobs, and serves these jobs below Options.Base:
//
//	GET    /jobs/{id}         status
//	GET    /jobs/{id}/result  the response or the result of the handler
//	GET    /jobs/{id}/events  events, as they happen
//	DELETE /jobs/{id}         cancel
//	POST   /jobs/{id}/cancel  cancel
//
// It serves only jobs that [Server.Async] has added, and those with the job types of [Post]. It is safe for concurrent use. All requests
// that wait share one connection to Redis.
type Server struct {
	queue           *bullmq.Queue
	o               Options
	base            string // Options.Base with a slash, as it is in an escaped path
	headers         []string
	responseHeaders []string
	load            load
	held            atomic.Int64 // requests

	closed context.Context
	close  context.CancelFunc

	typed atomic.Bool // there is a route of Post
	mu    sync.Mutex
	names map[string]bool // of the routes, and whether they are those of Post
}

// outagePause is the Retry-After of replies without Redis.
const outagePause = 5 * time.Second

// New returns a Server for the jobs of a queue. options may be nil. New panics if the options are
// invalid.
func New(queue *bullmq.Queue, options *Options) *Server {
	if queue == nil {
		panic("bullmqhttp: the queue is nil")
	}
	var o Options
	if options != nil {
		o = *options
	}
	o.setDefaults()
	s := &Server{
		queue: queue, o: o, names: map[string]bool{},
		headers: allowList(requestHeaders, o.Headers), responseHeaders: allowList(responseHeaders, o.ResponseHeaders),
	}
	s.load.queue, s.load.timeout = queue, min(loadTimeout, o.Timeout)
	s.base = (&url.URL{Path: o.Base + "/"}).EscapedPath()
	s.closed, s.close = context.WithCancel(context.Background())
	return s
}

func (o *Options) setDefaults() {
	if o.Base == "" {
		o.Base = "/jobs"
	}
	if o.Base = strings.TrimSuffix(o.Base, "/"); o.Base != "" && o.Base[0] != '/' {
		panic(fmt.Sprintf("bullmqhttp: Base %q does not begin with a slash", o.Base))
	}
	if o.MaxBody < 0 || o.StoreAbove < 0 || o.StoreTimeout < 0 || o.MaxHead < 0 || o.MaxWait < 0 || o.MaxHeld < 0 || o.MaxWaiting < 0 {
		panic("bullmqhttp: MaxBody, StoreAbove, StoreTimeout, MaxHead, MaxWait, MaxHeld or MaxWaiting is less than 0")
	}
	if o.Timeout < 0 {
		panic(fmt.Sprintf("bullmqhttp: Timeout %v is less than 0", o.Timeout))
	}
	if o.KeepFor == 0 {
		o.KeepFor = 24 * time.Hour
	}
	if o.KeepFor < time.Minute || o.KeepFor%time.Second != 0 {
		panic(fmt.Sprintf("bullmqhttp: KeepFor %v: use whole seconds, at least a minute", o.KeepFor))
	}
	if o.MaxBody == 0 {
		o.MaxBody = 1 << 20
	}
	if o.StoreAbove == 0 {
		o.StoreAbove = defaultStoreAbove
	}
	if o.StoreTimeout == 0 {
		o.StoreTimeout = time.Minute
	}
	if o.MaxHeld == 0 {
		o.MaxHeld = defaultMaxHeld
	}
	if o.MaxHead == 0 {
		o.MaxHead = 32 << 10
	}
	if o.MaxWait == 0 {
		o.MaxWait = 25 * time.Second
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Reason == nil {
		o.Reason = DefaultReason
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// DefaultReason returns the failedReason of a job if that is the status of a response, as in
// [StatusError], or a cancellation. For any other it returns "the job failed", because the text of
// an error may have details that are not for clients.
func DefaultReason(failedReason string) string {
	if strings.HasPrefix(failedReason, statusPrefix) || failedReason == "cancelled" || strings.HasPrefix(failedReason, "cancelled: ") {
		return failedReason
	}
	return "the job failed"
}

// Close makes all requests that wait for a job reply at once. Give it to RegisterOnShutdown of the
// http.Server. It does not close the queue.
func (s *Server) Close() { s.close() }

// waiting returns the context of a request that waits for at most the duration.
func (s *Server) waiting(r *http.Request, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	stop := context.AfterFunc(s.closed, cancel)
	return ctx, func() { stop(); cancel() }
}

// ServeHTTP serves the jobs below Options.Base.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := s.serve(w, r); err != nil {
		s.send(w, r, err)
	}
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) error {
	// An escaped slash is no separator: a proxy that checks paths may not see it as one.
	rest, found := strings.CutPrefix(r.URL.EscapedPath(), s.base)
	segment, part, hasPart := strings.Cut(rest, "/")
	id, valid := s.idOf(segment)
	if !found || !valid || hasPart && part == "" {
		return notFound()
	}
	var methods []string
	serve, action := s.serveStatus, ActionRead
	switch part {
	case "":
		if methods = []string{http.MethodGet, http.MethodHead, http.MethodDelete}; r.Method == http.MethodDelete {
			serve, action = s.serveCancel, ActionCancel
		}
	case "result":
		serve, methods = s.serveResult, []string{http.MethodGet, http.MethodHead}
	case "events":
		serve, methods = s.serveEvents, []string{http.MethodGet}
	case "cancel":
		serve, action, methods = s.serveCancel, ActionCancel, []string{http.MethodPost}
	default:
		return notFound()
	}
	if allow := strings.Join(methods, ", "); !strings.Contains(", "+allow+",", ", "+r.Method+",") {
		w.Header().Set("Allow", allow)
		return problem(http.StatusMethodNotAllowed, CodeMethodNotAllowed, "use %s", allow)
	}
	owner, err := s.admit(r, action)
	if err != nil {
		return err
	}
	s.hold(w, r, 0)
	return serve(w, r, target{id: id, owner: owner})
}

// idOf returns the id of a job in a segment of a path. It is not valid if the Server serves no job with it.
func (s *Server) idOf(segment string) (id string, valid bool) {
	if isID(segment) {
		return segment, true
	}
	id, err := url.PathUnescape(segment)
	return id, s.typed.Load() && err == nil && checkPathID(id) == nil
}

func notFound() *Problem {
	return problem(http.StatusNotFound, CodeJobNotFound, "there is no such job")
}

// target is the job that a request is about.
type target struct{ id, owner string }

// admit calls Authorize and Owner.
func (s *Server) admit(r *http.Request, action Action) (owner string, err error) {
	if s.o.Authorize != nil {
		if err := s.o.Authorize(r, action); err != nil {
			return "", s.refused(r, err)
		}
	}
	if s.o.Owner != nil {
		if owner, err = s.o.Owner(r); err == nil && !utf8.ValidString(owner) { // JSON would change it into that of another one
			err = fmt.Errorf("bullmqhttp: the owner %.40q is not UTF-8", owner)
		}
		if err != nil {
			return "", s.refused(r, err)
		}
	}
	return owner, nil
}

// refused returns the problem for an error of a function of the options.
func (s *Server) refused(r *http.Request, err error) error { return refused(r, s.o.Logger, err) }

func refused(r *http.Request, log *slog.Logger, err error) error {
	var own *Problem
	if errors.As(err, &own) && own.isValid() {
		return own
	}
	log.InfoContext(r.Context(), "a request was refused", "method", r.Method, "path", r.URL.Path, "error", err)
	return problem(http.StatusForbidden, CodeForbidden, "the request is not allowed")
}
