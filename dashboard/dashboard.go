package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Options configures a [Dashboard]. A nil pointer and the zero value select the defaults.
type Options struct {
	// Base is the path below which the pages are, such as /queues. Don't remove it from the
	// path of requests.
	// Defaults to "", the root.
	Base string
	// Prefix is the prefix of the queues.
	// Defaults to [bullmq.DefaultPrefix].
	Prefix string
	// Queues are the queues to show. Others are not found.
	// Defaults to nil, all queues with the prefix.
	Queues []string
	// Authorize decides about each request. An error refuses it with 403, and its text is shown.
	// Defaults to nil, which refuses requests that don't come from this machine. A proxy on
	// this machine makes all requests appear to come from it, so set Authorize behind one.
	Authorize func(r *http.Request) error
	// Access decides whether a request may do what it asks for, a page or an action, after
	// Authorize. An error refuses it with 403, and its text is shown. Pages leave out the
	// buttons of actions that it refuses.
	// Defaults to nil, which permits all.
	Access func(r *http.Request, use Use) error
	// ReadOnly refuses all actions.
	// Defaults to false.
	ReadOnly bool
	// Audit is told of each action that was tried, also of those that were refused. It is called
	// before the reply is sent.
	// Defaults to nil.
	Audit func(r *http.Request, done Record)
	// Redact returns what to show in place of the data, the result and the progress of a job,
	// and of the data of a scheduler's jobs. job is the name of the job. For a dead letter it is
	// called twice, first with the queue where the job has failed. Jobs can then not be searched
	// by their data. It does not concern logs and errors, see RedactText.
	// Defaults to nil, which shows them as they are.
	Redact func(queue, job string, value []byte) []byte
	// RedactText returns what to show in place of a text that a program has written about a job:
	// a line of its log, its failed reason, a stack trace, or the reason of a dead letter. It gets
	// each text whole, and the same queue and job as Redact. Jobs can then not be searched by
	// their error, and dead letters not be counted or selected by their reason.
	// Defaults to nil, which shows them as they are.
	RedactText func(queue, job, text string) string
	// JobTypes are the kinds of jobs that the form for a new job offers, with an example of their
	// data. Data of such a job that doesn't fit is refused.
	// Defaults to nil: the form takes any name and any JSON.
	JobTypes []JobType
	// User returns the name of the user of a request. It is used to count the open pages of a
	// user, see MaxStreamsPerUser.
	// Defaults to nil, which uses the user name of basic authentication, or else the address.
	User func(r *http.Request) string
	// MaxStreams is the number of open pages that are updated by a stream of events, in this
	// process. Further ones are updated by requests, every 5 seconds.
	// Defaults to 200.
	MaxStreams int
	// MaxStreamsPerUser is the number of such pages of one user.
	// Defaults to 20.
	MaxStreamsPerUser int
	// Timeout bounds one request, with its calls to Redis. An action that needs longer stops, and
	// tells what is left.
	// Defaults to 10 seconds.
	Timeout time.Duration
	// Now returns the current time. Tests may replace it.
	// Defaults to [time.Now].
	Now func() time.Time
}

// Dashboard serves the pages. It is safe for concurrent use.
type Dashboard struct {
	connection *bullmq.Connection
	o          Options
	catalog    *catalog
	mux        *http.ServeMux
	patterns   []string // of mux
	tries      tries
	live       *live
	shared     shared
	rates      rates
}

// New returns a Dashboard for the queues of a connection, which the caller closes. It makes
// no calls. It returns an error if there is no connection, or if an option is invalid.
func New(connection *bullmq.Connection, options *Options) (*Dashboard, error) {
	if connection == nil {
		return nil, errors.New("dashboard: there is no Connection: make one with bullmq.Connect")
	}
	var o Options
	if options != nil {
		o = *options
	}
	if o.Base != "" && (!strings.HasPrefix(o.Base, "/") || strings.HasSuffix(o.Base, "/") || strings.ContainsAny(o.Base, "{}") || path.Clean(o.Base) != o.Base || (&url.URL{Path: o.Base}).EscapedPath() != o.Base) {
		return nil, fmt.Errorf("dashboard: Options.Base %.80q must begin with one slash, end without one and need no escapes, such as /queues", o.Base)
	}
	if o.Timeout < 0 {
		return nil, fmt.Errorf("dashboard: Options.Timeout %v is less than 0", o.Timeout)
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	if o.MaxStreams < 0 || o.MaxStreamsPerUser < 0 {
		return nil, fmt.Errorf("dashboard: Options.MaxStreams %d or MaxStreamsPerUser %d is less than 0", o.MaxStreams, o.MaxStreamsPerUser)
	}
	o.MaxStreams, o.MaxStreamsPerUser = cmp.Or(o.MaxStreams, 200), cmp.Or(o.MaxStreamsPerUser, 20)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Prefix == "" {
		o.Prefix = bullmq.DefaultPrefix
	}
	d := &Dashboard{connection: connection, o: o, catalog: newCatalog(connection, &o), mux: http.NewServeMux()}
	d.live = &live{d: d}
	d.routes()
	return d, nil
}

// ServeHTTP implements http.Handler.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("X-Frame-Options", "DENY")
	head.Set("Referrer-Policy", "same-origin")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Cache-Control", "no-store")
	d.bodyDeadline(w, r)
	if err := d.authorize(r); err != nil {
		d.fail(w, r, http.StatusForbidden, err)
		return
	}
	if err := fromElsewhere(r); err != nil && r.Method == http.MethodGet { // for others see handle
		d.fail(w, r, http.StatusForbidden, err)
		return
	}
	if r.URL.Path == d.o.Base+livePath {
		d.mux.ServeHTTP(w, r) // a stream has no time limit
		return
	}
	if d.missesAPI(w, r) {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), d.o.Timeout)
	defer cancel()
	d.mux.ServeHTTP(w, r.WithContext(ctx))
}
