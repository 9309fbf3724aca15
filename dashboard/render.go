package dashboard

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

//go:embed templates/*.gohtml
var templateFiles embed.FS

//go:embed assets
var assetFiles embed.FS

// notFound is the error of a page that does not exist.
type notFound struct{ what string }

func (e notFound) Error() string { return e.what }

// badRequest is the error of a request that can't be read.
type badRequest struct{ error }

// unavailable is the error of a request that can be made later.
type unavailable struct{ error }

// refused is the error of a request that its user may not make.
type refused struct{ error }

func (e refused) Unwrap() error { return e.error }

// conflict is the error of a request that does not fit what is stored.
type conflict struct{ error }

// rejected is the error of a request that the SDK or Redis has refused.
type rejected struct{ error }

// tooLarge and unsupported are the errors of a body that is too large, or of another type.
type (
	tooLarge    struct{ error }
	unsupported struct{ error }
)

func statusOf(err error) int {
	var missing notFound
	var bad badRequest
	var no refused
	switch {
	case errors.As(err, &missing), errors.Is(err, bullmq.ErrJobNotFound), errors.Is(err, bullmq.ErrSchedulerNotFound):
		return http.StatusNotFound
	case errors.As(err, &bad):
		return http.StatusBadRequest
	case errors.As(err, &no):
		return http.StatusForbidden
	case isConflict(err):
		return http.StatusConflict
	case errors.As(err, new(rejected)):
		return http.StatusUnprocessableEntity
	case errors.As(err, new(tooLarge)):
		return http.StatusRequestEntityTooLarge
	case errors.As(err, new(unsupported)):
		return http.StatusUnsupportedMediaType
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout
	}
	return http.StatusServiceUnavailable
}

// isConflict reports whether the state of a job or a queue is why something was refused.
func isConflict(err error) bool {
	if errors.As(err, new(conflict)) {
		return true
	}
	for _, refusal := range []error{
		bullmq.ErrJobLocked, bullmq.ErrNotInState, bullmq.ErrActiveJobs, bullmq.ErrNotPaused, bullmq.ErrSchedulerJob, bullmq.ErrInFlow, bullmq.ErrMoveConflict, bullmq.ErrPendingChildren,
		bullmq.ErrFailedChildren, bullmq.ErrLockNotFound, bullmq.ErrLockMismatch, bullmq.ErrParentNotFound, bullmq.ErrMaybeAdded,
	} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

func (e badRequest) Unwrap() error { return e.error }

// plain returns the error of a job or a scheduler that does not exist as its user should read it.
func plain(err error, queue, id string) error {
	switch {
	case errors.As(err, new(notFound)):
	case errors.Is(err, bullmq.ErrJobNotFound) && id == "":
		return notFound{"there is no such job in " + cut(queue, 80)}
	case errors.Is(err, bullmq.ErrJobNotFound):
		return notFound{"there is no job " + cut(id, 80) + " in " + cut(queue, 80)}
	case errors.Is(err, bullmq.ErrSchedulerNotFound):
		return notFound{"there is no such scheduler in " + cut(queue, 80)}
	}
	return err
}

// fail shows an error.
func (d *Dashboard) fail(w http.ResponseWriter, r *http.Request, status int, err error) {
	err = plain(err, r.PathValue("queue"), r.PathValue("job"))
	if d.isAPI(r) {
		failJSON(w, status, err)
		return
	}
	d.render(w, r, status, "error", struct {
		Status string
		Text   string
	}{http.StatusText(status), err.Error()})
}

// view is what the layout shows.
type view struct {
	Page     string // name of the template of the content
	Content  any
	ReadOnly bool
	Live     *liveView // nil if the page is not updated
}

// render writes a page. Nothing is written before the template has ended, so that an error is
// a page of its own.
func (d *Dashboard) render(w http.ResponseWriter, r *http.Request, status int, name string, content any) {
	var text bytes.Buffer
	if err := d.templates(r, name).ExecuteTemplate(&text, "layout.gohtml", view{name, content, d.o.ReadOnly, d.liveOf(content)}); err != nil {
		http.Error(w, "dashboard: show the page "+name+": "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(text.Bytes())
}

// templates returns the layout with the content of one page.
func (d *Dashboard) templates(r *http.Request, name string) *template.Template {
	parsed := pages[name]
	clone, err := parsed.Clone()
	if err != nil {
		panic(err) // a template that was executed can't be cloned; those in pages never are
	}
	return clone.Funcs(template.FuncMap{
		"link":   func(parts ...string) string { return d.link(parts...) },
		"now":    d.o.Now,
		"pathOf": func(l navLink) string { return d.link(l.Path...) },
		"pathIn": func(l navLink, queue string) string { return d.link(append([]string{"queues", queue}, l.Path...)...) },
		// may reports whether the reader may use an action.
		"may": func(action, queue, job string) bool {
			return d.mayUse(r, Use{Action: action, Queue: queue, Job: job}) == nil
		},
	})
}

// link returns the path of a page below the base. Each part is escaped.
func (d *Dashboard) link(parts ...string) string {
	path := d.o.Base
	for _, part := range parts {
		path += "/" + url.PathEscape(escapeDots(part))
	}
	if len(parts) == 0 {
		path += "/"
	}
	return path
}

// pages are the templates by the names of their files.
var pages = func() map[string]*template.Template {
	functions := template.FuncMap{
		"link": func(...string) string { return "" }, "now": time.Now, "may": func(string, string, string) bool { return false }, // see templates
		"count": formatCount, "number": number, "age": formatAge, "time": formatTime, "clock": formatClock, "bars": bars, "rate": formatRate, "brief": formatShort, "total": sum,
		"newestFirst": func(all []bucket) []bucket { all = slices.Clone(all); slices.Reverse(all); return all },
		"cells": func(of string, p percentiles) any {
			return struct {
				Of string
				P  percentiles
			}{of, p}
		},
		"onlyQueues": func() (all []pair) {
			for _, o := range onlyQueues {
				all = append(all, pair{o.key, o.title})
			}
			return all
		}, "cut": cut, "states": func() []bullmq.State { return shownStates },
		"actions": actionsOn, "short": short, "bytes": formatBytes, "long": func(n int64) string { return formatCount(int(n)) }, "escape": url.PathEscape, "when": when, "ago": ago, "next": next, "tone": tone, "tabs": func(page, queue string) any { return struct{ Page, Queue string }{page, queue} },
		"navigation": func() []navLink { return navigation }, "queueTabs": func() []navLink { return queueTabs },
		"pathOf": func(navLink) string { return "" }, "pathIn": func(navLink, string) string { return "" }, // see templates
	}
	all := map[string]*template.Template{}
	files, err := templateFiles.ReadDir("templates")
	if err != nil {
		panic(err)
	}
	for _, file := range files {
		if name := strings.TrimSuffix(file.Name(), path.Ext(file.Name())); name != "layout" {
			all[name] = template.Must(template.New(name).Funcs(functions).ParseFS(templateFiles, "templates/layout.gohtml", "templates/"+file.Name()))
		}
	}
	return all
}()
