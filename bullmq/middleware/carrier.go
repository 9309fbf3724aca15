package middleware

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// errPanicked is the [Run.Err] that [Timing] reports if the handler panicked or called
// runtime.Goexit.
var errPanicked = errors.New("middleware: the handler did not return")

// Carrier carries a text from the context of an add to the context of the handler. The text
// is stored as an option of the job. Node reads and sets it as job.opts.<option>. In Go:
//
//	requestID := middleware.RequestID()
//	queue, err := bullmq.NewQueue(ctx, "mail", &bullmq.QueueOptions{Middleware: []bullmq.AddMiddleware{requestID.Add}})
//	mux.Use(requestID.Handle)
//
//	queue.Add(requestID.With(ctx, "r-17"), "welcome", data, nil)
//
// For a [bullmq.Server], [Carrier.Install] adds both Add and Handle.
//
// If a handler adds a job with its context, or with a context made from it, that job gets
// the text as well. This requires that the middleware of the queue includes Add. The
// lines of the handler's logger, from [bullmq.LoggerFromContext], have the text in a
// field with the name of the option. So has the worker's line about a failed attempt. The
// context of ServerOptions.OnFailed has the text too. [Carrier.Of] returns the text of a
// job without a context.
type Carrier struct {
	option string
	get    func(ctx context.Context) string
	with   func(ctx context.Context, text string) context.Context
}

type carrierKey struct{ option string }

// NewCarrier returns a Carrier for an option. [Carrier.With] and [Carrier.From] access its
// text.
func NewCarrier(option string) *Carrier {
	var key any = carrierKey{option} // converted once
	return CarrierOf(option,
		func(ctx context.Context) string {
			text, _ := ctx.Value(key).(string)
			return text
		},
		func(ctx context.Context, text string) context.Context { return context.WithValue(ctx, key, text) })
}

// CarrierOf returns a Carrier for a program that already keeps the text in its contexts. get
// reads the text from a context, and returns "" if there is no text. with returns a context
// that has the text.
func CarrierOf(option string, get func(ctx context.Context) string, with func(ctx context.Context, text string) context.Context) *Carrier {
	return &Carrier{option: option, get: get, with: with}
}

// RequestID returns a Carrier of the option requestId.
func RequestID() *Carrier { return NewCarrier("requestId") }

// Tenant returns a Carrier of the option tenant.
func Tenant() *Carrier { return NewCarrier("tenant") }

// With returns a context with a text. The lines of [bullmq.LoggerFromContext] with that
// context have the text in a field with the name of the option, unless it is "".
func (c *Carrier) With(ctx context.Context, text string) context.Context {
	ctx = c.with(ctx, text)
	if text == "" {
		return ctx
	}
	return bullmq.ContextWithLogAttrs(ctx, slog.String(c.option, text))
}

// From returns the text of a context, or "" if it has none.
func (c *Carrier) From(ctx context.Context) string { return c.get(ctx) }

// Of returns the text of a job, or "" if it has none.
func (c *Carrier) Of(job *bullmq.Job) string {
	var text string
	if option := job.Options.Extra[c.option]; len(option) > 0 && json.Unmarshal(option, &text) != nil {
		return ""
	}
	return text
}

// maxHeader is the maximum length, in bytes, of a header that [Carrier.HTTP] accepts.
const maxHeader = 200

// HTTP returns middleware for handlers of package net/http. It puts the text of a header
// into the context of the request, and into the same header of the reply:
//
//	requestID.HTTP("X-Request-Id", rand.Text)(mux)
//
// If the header is missing, empty or longer than 200 bytes, missing makes the text. The
// example passes rand.Text of package crypto/rand. If missing is nil, such a request has no
// text, and its reply has no header.
//
// The lines of bullmq.LoggerFromContext(r.Context()) have the text, as for [Carrier.With].
func (c *Carrier) HTTP(header string, missing func() string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text := r.Header.Get(header)
			if len(text) > maxHeader {
				text = ""
			}
			if text == "" && missing != nil {
				text = missing()
			}
			if text != "" {
				w.Header().Set(header, text)
				r = r.WithContext(c.With(r.Context(), text))
			}
			next.ServeHTTP(w, r)
		})
	}
}

// Install adds the Carrier to the Middleware and the AddMiddleware of a server's options.
func (c *Carrier) Install(o *bullmq.ServerOptions) {
	o.Middleware = append(o.Middleware, c.Handle)
	o.AddMiddleware = append(o.AddMiddleware, c.Add)
}

// Add is the middleware of adds. It leaves a job that already has the option unchanged.
func (c *Carrier) Add(next bullmq.AddFunc) bullmq.AddFunc {
	return func(ctx context.Context, jobs []*bullmq.NewJob) error {
		if text := c.get(ctx); text != "" {
			for _, job := range jobs {
				if job.Options != nil && job.Options.Extra[c.option] != nil {
					continue
				}
				if err := job.SetExtra(c.option, text); err != nil {
					return err
				}
			}
		}
		return next(ctx, jobs)
	}
}

// Handle is the middleware of handlers.
func (c *Carrier) Handle(next bullmq.Handler) bullmq.Handler {
	return func(ctx context.Context, job *bullmq.Job) (any, error) {
		if text := c.Of(job); text != "" {
			ctx = c.With(ctx, text)
		}
		return next(ctx, job)
	}
}
