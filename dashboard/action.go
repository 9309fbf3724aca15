package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// action is something that a user can do. Its address shows what it will do; a POST to the
// address does it.
type action struct {
	name   string // in addresses and in Use.Action
	title  string // of its button, such as Retry
	on     target
	fields []field
	// states are the states of the jobs on which the action makes sense; nil for all.
	states []bullmq.State
	// typed makes the user type the name of the queue.
	typed bool
	// plan says what the action will do, such as "Retry 12 jobs.", and changes nothing.
	plan func(ctx context.Context, s *subject) (string, error)
	// do does it, and says what it did.
	do func(ctx context.Context, s *subject) (string, error)
}

// target is what an action is about.
type target string

const (
	onQueue target = "queue"
	onJobs  target = "jobs" // selected by their ids or by a search

	onScheduler target = "scheduler" // with the form's scheduler as its id
)

// field is an input of an action's form.
type field struct {
	Name, Label string
	Kind        string // text, number, lines or choice
	Value       string // the default
	Choices     []string
	Required    bool
}

// subject is what a request wants to act on.
type subject struct {
	dashboard *Dashboard
	queue     *bullmq.Queue
	form      url.Values
}

// actions are all actions, in the order of their buttons.
var actions = slices.Concat(jobActions, queueActions, schedulerActions)

// actionsOn returns the actions on something: jobs in a state, or a queue, for state "".
func actionsOn(on string, state bullmq.State) (found []actionView) {
	for _, a := range actions {
		if string(a.on) == on && (state == "" || a.states == nil || slices.Contains(a.states, state)) {
			found = append(found, actionView{Name: a.name, Title: a.title})
		}
	}
	return found
}

// actionView is an action in a template.
type actionView struct{ Name, Title string }

// actionPage is what the page of an action shows.
type actionPage struct {
	actionView
	Queue  string
	Plan   string // what the action will do, before it
	Done   string // what it did, afterwards
	Typed  bool
	Fields []field
	Keep   []pair // of the form, to send again
	Back   string // address of the page of the queue or the job
}

type pair struct{ Name, Value string }

// keptFields select jobs.
var keptFields = []string{"job", "state", "name", "data", "error", "all", "scheduler"}

func (d *Dashboard) askAction(w http.ResponseWriter, r *http.Request) error {
	a, s, err := d.subject(r)
	if err != nil {
		return err
	}
	defer s.queue.Close()
	if err := d.mayUse(r, s.use(a)); err != nil {
		return err
	}
	page := d.actionPage(a, s)
	if page.Plan, err = a.plan(r.Context(), s); err != nil {
		return err
	}
	d.render(w, r, http.StatusOK, "action", page)
	return nil
}

func (d *Dashboard) doAction(w http.ResponseWriter, r *http.Request) error {
	a, s, err := d.subject(r)
	if err != nil {
		return err
	}
	defer s.queue.Close()
	page := d.actionPage(a, s)
	if page.Done, err = d.act(r, a, s); err != nil {
		return err
	}
	d.render(w, r, http.StatusOK, "action", page)
	return nil
}

// act does an action if it is permitted, and tells Options.Audit.
func (d *Dashboard) act(r *http.Request, a action, s *subject) (done string, err error) {
	if err = d.mayUse(r, s.use(a)); err == nil {
		if a.typed && s.form.Get("confirm") != s.queue.Name() {
			err = badRequest{errors.New("type the name of the queue to confirm: nothing was done")}
		} else {
			done, err = a.do(r.Context(), s)
		}
	}
	if d.o.Audit != nil {
		d.o.Audit(r, Record{Use: s.use(a), Form: s.form, Done: done, Err: err})
	}
	return done, err
}

// maxForm is the largest form of an action, in bytes.
const maxForm = 4 << 20

// subject reads what a request wants to act on. The caller closes its queue.
func (d *Dashboard) subject(r *http.Request) (action, *subject, error) {
	at := slices.IndexFunc(actions, func(a action) bool { return a.name == r.PathValue("action") })
	if at < 0 {
		return action{}, nil, notFound{"there is no action " + cut(r.PathValue("action"), 80)}
	}
	r.Body = http.MaxBytesReader(nil, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return action{}, nil, badRequest{err}
	}
	queue, err := d.open(r)
	if err != nil {
		return action{}, nil, err
	}
	return actions[at], &subject{dashboard: d, queue: queue, form: r.Form}, nil
}

// use returns what Options.Access decides about.
func (s *subject) use(a action) Use {
	use := Use{Action: a.name, Queue: s.queue.Name()}
	if ids := s.form["job"]; len(ids) == 1 {
		use.Job = ids[0]
	}
	return use
}

func (d *Dashboard) actionPage(a action, s *subject) *actionPage {
	page := &actionPage{actionView: actionView{a.name, a.title}, Queue: s.queue.Name(), Typed: a.typed, Fields: a.fields, Back: d.link("queues", s.queue.Name())}
	if use := s.use(a); use.Job != "" {
		page.Back = d.link("queues", use.Queue, "jobs", use.Job)
	}
	if a.on == onScheduler {
		page.Back = d.link("queues", s.queue.Name(), "schedulers")
	}
	for _, name := range keptFields {
		for _, value := range s.form[name] {
			if value != "" {
				page.Keep = append(page.Keep, pair{name, value})
			}
		}
	}
	return page
}
