package dashboard

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
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
	// Redact returns what to show in place of the data, the result and the progress of a job.
	// Defaults to nil, which shows them as they are.
	Redact func(queue, job string, value []byte) []byte
	// Timeout bounds the calls to Redis of one request.
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
}

//go:embed templates/*.gohtml
var templateFiles embed.FS

//go:embed assets
var assetFiles embed.FS

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
	if o.Base != "" && (!strings.HasPrefix(o.Base, "/") || strings.HasSuffix(o.Base, "/") || strings.ContainsAny(o.Base, "{}?#")) {
		return nil, fmt.Errorf("dashboard: Options.Base %.80q must begin with a slash and end without one, such as /queues", o.Base)
	}
	if o.Timeout < 0 {
		return nil, fmt.Errorf("dashboard: Options.Timeout %v is less than 0", o.Timeout)
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Prefix == "" {
		o.Prefix = bullmq.DefaultPrefix
	}
	d := &Dashboard{connection: connection, o: o, catalog: newCatalog(connection, &o), mux: http.NewServeMux()}
	page := func(path, name string, read func(*http.Request) (any, error)) {
		d.mux.Handle("GET "+o.Base+path, d.page(name, read))
	}
	page("/{$}", "overview", d.overview)
	page("/queues/{queue}", "queue", d.queue)
	page("/queues/{queue}/jobs/{job}", "job", d.job)
	page("/workers", "workers", d.workers)
	d.mux.HandleFunc("GET "+o.Base+"/queues/{queue}/jobs/{job}/raw/{part}", d.raw)
	d.mux.Handle("GET "+o.Base+"/assets/", http.StripPrefix(o.Base, http.FileServerFS(assetFiles)))
	return d, nil
}

// ServeHTTP implements http.Handler.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("X-Frame-Options", "DENY")
	head.Set("Referrer-Policy", "same-origin")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cache-Control", "no-store")
	if err := d.authorize(r); err != nil {
		d.fail(w, r, http.StatusForbidden, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), d.o.Timeout)
	defer cancel()
	d.mux.ServeHTTP(w, r.WithContext(ctx))
}

// notFound is the error of a page that does not exist.
type notFound struct{ what string }

func (e notFound) Error() string { return e.what }

// badRequest is the error of a request that can't be read.
type badRequest struct{ error }

// page returns the handler of a page. read reads what the template shows.
func (d *Dashboard) page(name string, read func(*http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, err := read(r)
		if err != nil {
			d.fail(w, r, statusOf(err), err)
			return
		}
		d.render(w, http.StatusOK, name, content)
	})
}

func statusOf(err error) int {
	var missing notFound
	var bad badRequest
	switch {
	case errors.As(err, &missing), errors.Is(err, bullmq.ErrJobNotFound):
		return http.StatusNotFound
	case errors.As(err, &bad):
		return http.StatusBadRequest
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout
	}
	return http.StatusServiceUnavailable
}

// fail shows an error.
func (d *Dashboard) fail(w http.ResponseWriter, _ *http.Request, status int, err error) {
	d.render(w, status, "error", struct {
		Status string
		Text   string
	}{http.StatusText(status), err.Error()})
}

// render writes a page. Nothing is written before the template has ended, so that an error is
// a page of its own.
func (d *Dashboard) render(w http.ResponseWriter, status int, name string, content any) {
	var text bytes.Buffer
	if err := d.templates(name).ExecuteTemplate(&text, "layout.gohtml", content); err != nil {
		http.Error(w, "dashboard: show the page "+name+": "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(text.Bytes())
}

// templates returns the layout with the content of one page.
func (d *Dashboard) templates(name string) *template.Template {
	parsed := pages[name]
	clone, err := parsed.Clone()
	if err != nil {
		panic(err) // a template that was executed can't be cloned; those in pages never are
	}
	return clone.Funcs(template.FuncMap{
		"link": func(parts ...string) string { return d.link(parts...) },
		"now":  d.o.Now,
	})
}

// link returns the path of a page below the base. Each part is escaped.
func (d *Dashboard) link(parts ...string) string {
	path := d.o.Base
	for _, part := range parts {
		path += "/" + url.PathEscape(part)
	}
	if len(parts) == 0 {
		path += "/"
	}
	return path
}

var pages = func() map[string]*template.Template {
	functions := template.FuncMap{
		"link": func(...string) string { return "" }, "now": time.Now, // see templates
		"count": formatCount, "number": number, "age": formatAge, "time": formatTime, "clock": formatClock, "bars": bars, "cut": cut, "states": func() []bullmq.State { return shownStates },
	}
	all := map[string]*template.Template{}
	for _, name := range []string{"overview", "queue", "job", "workers", "error"} {
		all[name] = template.Must(template.New(name).Funcs(functions).ParseFS(templateFiles, "templates/layout.gohtml", "templates/"+name+".gohtml"))
	}
	return all
}()
