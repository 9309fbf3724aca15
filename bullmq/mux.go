package bullmq

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrNoHandler is the reason why a [Mux] fails a job whose name has no handler.
var ErrNoHandler = errors.New("bullmq: no handler for the job's name")

// ErrTimeout is the cause of a handler's context when HandleOptions.Timeout has passed.
var ErrTimeout = errors.New("bullmq: the handler's timeout has passed")

// Middleware wraps a [Handler], to run code before and after it. A Middleware does not
// recover panics: the worker does, and stores the panic's stack with the job.
type Middleware func(next Handler) Handler

// Mux runs a job by the handler that is registered for its name. [Mux.ServeJob] is the
// [Handler] to give to [NewWorker]. Register handlers and middleware before the first
// job runs. The zero Mux is ready to use.
//
// A name is matched in this order:
//
//  1. the exact name, or one of HandleOptions.Aliases
//  2. the longest prefix, registered as a name that ends with "*", such as "report.*"
//  3. the handler of [Mux.NotFound]
type Mux struct {
	exact      map[string]*route
	prefixes   map[string]*route // without the star
	notFound   *route            // nil for failUnknown
	middleware []Middleware
}

// route is a handler with the middleware of its Mux around it.
type route struct{ handler, wrapped Handler }

// NewMux returns an empty Mux.
func NewMux() *Mux { return &Mux{} }

// HandleOptions configures a handler of a [Mux].
type HandleOptions struct {
	// Aliases are further names of the same jobs, such as their former names.
	Aliases []string
	// Timeout bounds each attempt. The handler's context then ends with the cause
	// [ErrTimeout]. If the handler returns an error after that, the attempt fails with
	// an error that names the timeout. A handler that ignores its context runs on.
	// Defaults to 0, no limit.
	Timeout time.Duration
	// Concurrency is how many of these jobs run at the same time in this process. A
	// job that waits for its turn takes one of the places of the worker's Concurrency.
	// Defaults to 0, no limit besides the worker's Concurrency.
	Concurrency int
	// Classify decides whether and when a job is retried, instead of
	// WorkerOptions.Classify.
	Classify func(err error, job *Job) Verdict
}

// Handle registers the handler of a job type. At most one options value may be given.
// Data that does not fit D fails the job without a retry. The result is stored as JSON.
//
// Handle panics if the options are invalid, or if the name or an alias already has a
// handler.
func Handle[D, R any](mux *Mux, t *JobType[D, R], handler func(ctx context.Context, job *Job, data D) (R, error), options ...HandleOptions) {
	if handler == nil {
		panic(fmt.Sprintf("bullmq: handle jobs named %q: the handler is nil", t.name))
	}
	mux.HandleFunc(t.name, func(ctx context.Context, job *Job) (any, error) {
		data, err := t.Data(job)
		if err != nil {
			return nil, Unrecoverable(err)
		}
		return handler(ctx, job, data)
	}, options...)
}

// HandleFunc registers a handler for a name, or for all names with a prefix if name ends
// with "*". At most one options value may be given.
//
// HandleFunc panics if the options are invalid, or if the name or an alias already has a
// handler.
func (m *Mux) HandleFunc(name string, handler Handler, options ...HandleOptions) {
	var o HandleOptions
	if len(options) > 0 {
		o = options[0]
	}
	switch {
	case handler == nil:
		panic(fmt.Sprintf("bullmq: handle jobs named %q: the handler is nil", name))
	case len(options) > 1:
		panic(fmt.Sprintf("bullmq: handle jobs named %q: %d options are given; give at most one", name, len(options)))
	case o.Timeout < 0 || o.Concurrency < 0:
		panic(fmt.Sprintf("bullmq: handle jobs named %q: Timeout %v or Concurrency %d is less than 0", name, o.Timeout, o.Concurrency))
	}
	to := m.newRoute(o.wrap(handler))
	for _, name := range append([]string{name}, o.Aliases...) {
		m.register(name, to)
	}
}

func (m *Mux) newRoute(handler Handler) *route {
	return &route{handler, Wrap(handler, m.middleware...)}
}

func (m *Mux) register(name string, to *route) {
	handlers := &m.exact
	prefix, isPrefix := strings.CutSuffix(name, "*")
	if isPrefix {
		handlers = &m.prefixes
	}
	if _, taken := (*handlers)[prefix]; taken {
		panic(fmt.Sprintf("bullmq: handle jobs named %q: the name has a handler already", name))
	}
	if *handlers == nil {
		*handlers = map[string]*route{}
	}
	(*handlers)[prefix] = to
}

// NotFound sets the handler of jobs whose name has no other handler. By default such a
// job fails without a retry, with [ErrNoHandler]. During a deployment a handler that
// returns [Snooze] leaves the job to a newer worker:
//
//	mux.NotFound(func(context.Context, *bullmq.Job) (any, error) { return nil, bullmq.Snooze(10 * time.Second) })
func (m *Mux) NotFound(handler Handler) { m.notFound = m.newRoute(handler) }

// Use adds middleware around all handlers, including the handlers registered before and
// the handler of NotFound. The first middleware is the outermost one.
func (m *Mux) Use(middleware ...Middleware) {
	m.middleware = append(m.middleware, middleware...)
	if m.notFound == nil {
		m.notFound = &route{handler: failUnknown}
	}
	m.notFound.wrapped = Wrap(m.notFound.handler, m.middleware...)
	for _, routes := range []map[string]*route{m.exact, m.prefixes} {
		for _, r := range routes {
			r.wrapped = Wrap(r.handler, m.middleware...)
		}
	}
}

// ServeJob runs a job by its handler. It is a [Handler].
func (m *Mux) ServeJob(ctx context.Context, job *Job) (any, error) {
	r := m.match(job.Name)
	switch {
	case r != nil:
		return r.wrapped(ctx, job)
	case m.notFound != nil:
		return m.notFound.wrapped(ctx, job)
	}
	return failUnknown(ctx, job)
}

// Wrap returns a handler with middleware around it. The first middleware is the outermost
// one. Values that middleware puts into the context are also in the context of
// ServerOptions.OnFailed, and of the line that the worker logs about a failed attempt.
func Wrap(handler Handler, middleware ...Middleware) Handler {
	for i := len(middleware) - 1; i >= 0; i-- {
		handler = middleware[i](noting(handler))
	}
	return handler
}

// Handles reports whether a name has a handler other than the handler of NotFound.
func (m *Mux) Handles(name string) bool { return m.match(name) != nil }

// match returns the route of a name, or nil if there is none.
func (m *Mux) match(name string) *route {
	if r := m.exact[name]; r != nil {
		return r
	}
	for end := len(name); end >= 0 && len(m.prefixes) > 0; end-- {
		if r := m.prefixes[name[:end]]; r != nil {
			return r
		}
	}
	return nil
}

func failUnknown(_ context.Context, job *Job) (any, error) {
	return nil, Unrecoverable(fmt.Errorf("%w: %.80q", ErrNoHandler, job.Name))
}

// wrap applies the Timeout, Concurrency and Classify of the options to the handler.
func (o HandleOptions) wrap(handler Handler) Handler {
	if o.Timeout > 0 {
		handler = withTimeout(handler, o.Timeout)
	}
	if o.Concurrency > 0 {
		handler = withConcurrency(handler, o.Concurrency)
	}
	if o.Classify != nil {
		handler = withClassify(handler, o.Classify)
	}
	return handler
}

func withTimeout(next Handler, timeout time.Duration) Handler {
	return func(ctx context.Context, job *Job) (any, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, timeout, ErrTimeout)
		defer cancel()
		value, err := next(ctx, job)
		if err != nil && context.Cause(ctx) == ErrTimeout && !isExplicit(err) {
			err = fmt.Errorf("%w after %v: %w", ErrTimeout, timeout, err)
		}
		return value, err
	}
}

func withConcurrency(next Handler, n int) Handler {
	turns := make(chan struct{}, n)
	return func(ctx context.Context, job *Job) (any, error) {
		select {
		case turns <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		defer func() { <-turns }()
		return next(ctx, job)
	}
}

func withClassify(next Handler, classify func(error, *Job) Verdict) Handler {
	return func(ctx context.Context, job *Job) (any, error) {
		value, err := next(ctx, job)
		if err != nil {
			err = &classified{err, classify}
		}
		return value, err
	}
}

// classified is an error for which classify is called instead of the worker's Classify.
type classified struct {
	error
	classify func(error, *Job) Verdict
}

func (c *classified) Unwrap() error { return c.error }

// Format implements [fmt.Formatter], so that %+v shows the stack of an error that has one.
func (c *classified) Format(s fmt.State, verb rune) {
	fmt.Fprintf(s, fmt.FormatString(s, verb), c.error)
}
