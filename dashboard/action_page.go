package dashboard

import (
	"crypto/rand"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// actionPage is what the page of an action shows.
type actionPage struct {
	actionView
	Queue   string
	Job     string // if the action is about one job
	IDs     []string
	Plan    string // what the action will do
	Warn    string
	Error   string // why it was refused
	Confirm string // what the user must type
	Fields  []field
	Keep    []pair // of the form, to send again
	Once    string
	Back    string // address of the page of the queue or the job
	Asks    bool   // the plan depends on the fields
	Types   []typeChoice
	Again   []pair // the form that continues; empty if there is nothing more to do
	outcome
}

type pair struct{ Name, Value string }

// keptFields select jobs, dead letters or a scheduler.
var keptFields = []string{"state", "name", "data", "error", "older", "newer", "all", "scheduler", "reason", "origin", "after"}

// askAction shows what an action will do.
func (d *Dashboard) askAction(w http.ResponseWriter, r *http.Request) error {
	a, s, err := d.subject(w, r)
	if err != nil {
		return err
	}
	return d.ask(w, a, s, nil)
}

// doAction does an action. A form with the field ask asks for the plan first.
func (d *Dashboard) doAction(w http.ResponseWriter, r *http.Request) error {
	a, s, err := d.subject(w, r)
	if err != nil {
		return err
	}
	if s.form.Get("ask") != "" {
		return d.ask(w, a, s, nil)
	}
	done, err := d.do(a, s)
	if err != nil {
		var no refused
		var missing notFound
		if errors.As(err, &no) || errors.As(err, &missing) {
			return err
		}
		return d.ask(w, a, s, err)
	}
	page := d.actionPage(a, s)
	page.outcome = done
	if done.More {
		page.Again = s.again(done.After)
	}
	d.render(w, r, http.StatusOK, "action", page)
	return nil
}

// ask shows the form of an action. failed is why it was refused before: what the user has typed
// is kept then.
func (d *Dashboard) ask(w http.ResponseWriter, a action, s *subject, failed error) error {
	page := d.actionPage(a, s)
	plan, values, err := d.planned(s.request.Context(), a, s)
	status := http.StatusOK
	switch {
	case failed != nil:
		status, page.Error = statusOf(failed), failed.Error()
	case err != nil && s.form.Get("sent") != "" && isBad(err):
		status, page.Error = statusOf(err), err.Error()
	case err != nil:
		return err
	}
	page.Plan, page.Once = plan, rand.Text()
	if a.name == addAction.name {
		page.Types = s.typeChoices()
	}
	page.fill(s.form, values)
	d.render(w, s.request, status, "action", page)
	return nil
}

// again returns the form that repeats an action, and continues its search.
func (s *subject) again(after string) []pair {
	form := []pair{{"once", rand.Text()}, {"after", after}}
	for _, name := range slices.Sorted(maps.Keys(s.form)) {
		for _, value := range s.form[name] {
			switch {
			case name == "once" || name == "after" || value == "":
			case name == "job":
				form = append(form, pair{"id", url.PathEscape(value)})
			default:
				form = append(form, pair{name, value})
			}
		}
	}
	return form
}

func isBad(err error) bool {
	var bad badRequest
	return errors.As(err, &bad)
}

func (d *Dashboard) actionPage(a action, s *subject) *actionPage {
	page := &actionPage{actionView: a.view(), Queue: s.name, Warn: a.warn, Fields: slices.Clone(a.fields), Back: d.link("queues", s.name), Asks: len(a.fields) > 0}
	if a.typed {
		if page.Confirm = s.name; !isTypeable(s.name) {
			page.Confirm = url.PathEscape(s.name)
		}
	}
	if use := s.use(a); use.Job != "" {
		page.Job, page.Back = use.Job, d.link("queues", s.name, "jobs", use.Job)
	} else if state := s.form.Get("state"); a.on == onJobs && state != "" {
		page.Back += "?" + url.Values{"state": {state}}.Encode()
	}
	switch a.on {
	case onScheduler:
		page.Back = d.link("queues", s.name, "schedulers")
	case onLetters:
		page.Back = d.link("queues", s.name, "dead-letters")
	}
	if a.on == onQueue {
		return page
	}
	for _, id := range s.ids() {
		page.IDs = append(page.IDs, id)
		page.Keep = append(page.Keep, pair{"id", url.PathEscape(id)})
	}
	for _, name := range keptFields {
		if slices.ContainsFunc(a.fields, func(f field) bool { return f.Name == name }) {
			continue
		}
		for _, value := range s.form[name] {
			if value != "" {
				page.Keep = append(page.Keep, pair{name, value})
			}
		}
	}
	return page
}

// fill sets the inputs to what the user has sent before, or to their defaults.
func (p *actionPage) fill(form url.Values, values map[string]string) {
	sent := form.Get("sent") != ""
	for i := range p.Fields {
		f := &p.Fields[i]
		if value, ok := values[f.Name]; ok {
			f.Value = value
		}
		if form.Has(f.Name) || sent {
			f.Value = form.Get(f.Name)
		}
	}
}

// isTypeable reports whether a user can type a name, and a form sends it unchanged.
func isTypeable(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError || r >= 0x2000 && r < 0x2070 })
}
