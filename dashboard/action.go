package dashboard

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// action is something that a user can do. A GET of its address shows what it will do, and a POST
// does it. The JSON API has the same actions.
type action struct {
	name   string // in addresses and in Use.Action
	title  string // of its button, such as Retry
	on     target
	fields []field
	// states are the states of the jobs on which the action makes sense; nil for all.
	states []bullmq.State
	// single actions are about one job.
	single bool
	// typed makes the user type the name of the queue.
	typed bool
	// warn is what the user should know before the action.
	warn string
	// values returns what to show in fields whose default depends on the subject. It may be nil.
	values func(ctx context.Context, s *subject) (map[string]string, error)
	// plan says what the action will do, such as "Retry 12 jobs.", and changes nothing.
	plan func(ctx context.Context, s *subject) (string, error)
	// do does it, and says what it did. It stops in time, see subject.bounded.
	do func(ctx context.Context, s *subject) (string, error)
}

// target is what an action is about.
type target string

const (
	onQueue target = "queue"
	onJobs  target = "jobs" // selected by their ids or by a search

	onLetters   target = "letters"   // selected by their ids, or by the form's reason and origin
	onScheduler target = "scheduler" // with the form's scheduler as its id
)

// field is an input of an action's form.
type field struct {
	Name, Label string
	Kind        string // text, number, lines, json, check or choice
	Value       string // the default
	Hint        string
	Choices     []string
	Required    bool
	None        bool // an empty number means that there is none
}

// Multiline reports whether the input has several lines.
func (f field) Multiline() bool { return f.Kind == "lines" || f.Kind == "json" }

// subject is what a request wants to act on.
type subject struct {
	dashboard *Dashboard
	request   *http.Request
	name      string        // of the queue
	queue     *bullmq.Queue // nil until the user's permission was checked
	form      url.Values
	once      string // identifies the try; "" if the same request may act again
	requested int    // jobs that run, and whose cancellation was requested

	outcome // of do
}

// outcome is what an action has done.
type outcome struct {
	Done   string
	More   bool   // there is more to do: repeat the action
	After  string // where a repeated action continues its search; "" at the beginning
	Links  []link
	Failed []failure // some of the jobs that were refused
}

// link is an address to show after an action.
type link struct {
	Text string `json:"text"`
	URL  string `json:"url"`
}

// failure tells why an action was refused for a job.
type failure struct {
	Job   string `json:"job"`
	Error string `json:"error"`
}

// actions are all actions, in the order of their buttons.
var actions = slices.Concat(jobActions, queueActions, schedulerActions, letterActions)

// actionNamed returns an action.
func actionNamed(name string) (action, error) {
	at := slices.IndexFunc(actions, func(a action) bool { return a.name == name })
	if at < 0 {
		return action{}, notFound{"there is no action " + cut(name, 80)}
	}
	return actions[at], nil
}

// actionsOn returns the actions on something: jobs in a state, or a queue, for state "".
func actionsOn(on string, state bullmq.State) (found []actionView) {
	for _, a := range actions {
		if string(a.on) == on && (state == "" || a.states == nil || slices.Contains(a.states, state)) {
			found = append(found, a.view())
		}
	}
	return found
}

// actionView is an action in a template.
type actionView struct {
	Name, Title string
	Single      bool // it is about one job
	Danger      bool
}

func (a action) view() actionView {
	return actionView{Name: a.name, Title: a.title, Single: a.single, Danger: a.typed || a.warn != ""}
}

// do does an action, at most once for each form, if it is permitted. Options.Audit is told.
func (d *Dashboard) do(a action, s *subject) (o outcome, err error) {
	// A browser that reloads or closes the page does not stop the action half-way.
	ctx := context.WithoutCancel(s.request.Context())
	if deadline, ok := s.request.Context().Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	if err := d.mayAct(a, s); err != nil {
		d.audit(a, s, outcome{}, err)
		return outcome{}, err
	}
	return d.tries.once(s.request.Context(), s.key(a), func() (outcome, error) {
		err := d.openSubject(ctx, s)
		if err == nil {
			defer s.queue.Close()
			if a.typed && !s.confirmed() {
				err = badRequest{errConfirm}
			} else if s.Done, err = a.do(ctx, s); err != nil {
				s.Done, err = "", plain(err, s.name, s.use(a).Job)
				// If Redis can be reached, what was asked for is why it was refused.
				if statusOf(err) == http.StatusServiceUnavailable && s.queue.Ping(ctx) == nil {
					err = rejected{err}
				}
			}
		}
		d.audit(a, s, s.outcome, err)
		return s.outcome, err
	})
}

var errConfirm = errors.New("type the name of the queue to confirm: nothing was done")

// key identifies a try of an action.
func (s *subject) key(a action) string {
	if s.once == "" {
		return ""
	}
	return fmt.Sprintf("%q %q %q %q %s", a.name, s.name, s.dashboard.userOf(s.request), s.once, digest([]byte(s.form.Encode())))
}

// confirmed reports whether the user has typed the name of the queue.
func (s *subject) confirmed() bool {
	typed := s.form.Get("confirm")
	return typed != "" && (typed == s.name || typed == url.PathEscape(s.name))
}

// audit tells Options.Audit of a try.
func (d *Dashboard) audit(a action, s *subject, o outcome, err error) {
	if d.o.Audit != nil {
		d.o.Audit(s.request, Record{Use: s.use(a), Jobs: s.ids(), Form: s.form, Done: o.Done, Err: err})
	}
}

// mayAct returns an error if the user may not act on the subject, or may not see its queue. It
// is asked before the queue is looked up, so that the reply does not tell whether it exists.
func (d *Dashboard) mayAct(a action, s *subject) error {
	if err := d.mayUse(s.request, Use{Action: ActionRead, Queue: s.name}); err != nil {
		return err
	}
	if err := d.mayUse(s.request, s.use(a)); err != nil {
		return err
	}
	if ids := s.ids(); len(ids) > 1 {
		for _, id := range ids {
			if err := d.mayUse(s.request, Use{Action: a.name, Queue: s.name, Job: id}); err != nil {
				return err
			}
		}
	}
	return nil
}

// use returns what Options.Access decides about.
func (s *subject) use(a action) Use {
	use := Use{Action: a.name, Queue: s.name}
	if ids := s.ids(); len(ids) == 1 && a.on != onQueue {
		use.Job = ids[0]
	}
	return use
}

// Bounds of what a request may ask for.
const (
	maxBody = 4 << 20 // bytes of a form or of JSON
	maxIDs  = 1000    // jobs that are selected by their ids
)

// readForm reads a form within the time and the size that are permitted.
func (d *Dashboard) readForm(w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodPost {
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
			return unsupported{errors.New("send a form as application/x-www-form-urlencoded")}
		}
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseForm(); err != nil {
		return bodyError(err)
	}
	if r.Method == http.MethodPost {
		bodyRead(w)
	}
	return nil
}

// bodyDeadline bounds how long a body may take. The server reads the rest of a body that the
// handler has not read, before it replies.
func (d *Dashboard) bodyDeadline(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(d.o.Timeout)) // a writer of a middleware may have none
	}
}

// bodyRead ends the deadline after a body was read. Afterwards the server reads to notice that
// the client has gone.
func bodyRead(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
}

// bodyError returns the error of a body that can't be read.
func bodyError(err error) error {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return tooLarge{fmt.Errorf("the request has more than %s bytes", formatCount(maxBody))}
	}
	return badRequest{err}
}

// subject returns what a request with a form wants to act on.
func (d *Dashboard) subject(w http.ResponseWriter, r *http.Request) (action, *subject, error) {
	a, err := actionNamed(r.PathValue("action"))
	if err != nil {
		return action{}, nil, err
	}
	s := &subject{dashboard: d, request: r, name: r.PathValue("queue")}
	err = d.readForm(w, r)
	if err == nil {
		s.form, s.once = r.Form, r.Form.Get("once")
		err = s.readIDs()
	}
	if err != nil {
		if r.Method == http.MethodPost { // a GET tries nothing
			d.audit(a, s, outcome{}, err)
		}
		return action{}, nil, err
	}
	return a, s, nil
}

// readIDs reads the ids of jobs. Text in a form or in JSON can't have all bytes, so there is a
// field for escaped ids too.
func (s *subject) readIDs() error {
	for _, escaped := range s.form["id"] {
		id, err := url.PathUnescape(escaped)
		if err != nil {
			return badRequest{err}
		}
		s.form["job"] = append(s.form["job"], id)
	}
	delete(s.form, "id")
	if n := len(s.form["job"]); n > maxIDs {
		return badRequest{fmt.Errorf("%s are selected; select at most %s", number(n, "job"), formatCount(maxIDs))}
	}
	return nil
}

// openSubject opens the queue of a subject, which the caller closes.
func (d *Dashboard) openSubject(ctx context.Context, s *subject) (err error) {
	s.queue, err = d.open(s.request.WithContext(ctx))
	return err
}

// ids are the selected jobs; none if all that match a search are selected.
func (s *subject) ids() []string {
	if s.form.Get("all") != "" {
		return nil
	}
	return s.form["job"]
}

// planned returns what an action will do, and the values of its fields.
func (d *Dashboard) planned(ctx context.Context, a action, s *subject) (plan string, values map[string]string, err error) {
	if err := d.mayAct(a, s); err != nil {
		return "", nil, err
	}
	if err := d.openSubject(ctx, s); err != nil {
		return "", nil, err
	}
	defer s.queue.Close()
	if a.values != nil {
		if values, err = a.values(ctx, s); err != nil {
			return "", nil, plain(err, s.name, s.use(a).Job)
		}
	}
	plan, err = a.plan(ctx, s)
	return plan, values, plain(err, s.name, s.use(a).Job)
}

// bounded returns a context for the longer part of an action. Afterwards there is time to find
// out what remains.
func (s *subject) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.dashboard.o.Timeout*7/10)
}

// link adds an address to show after the action.
func (s *subject) link(text string, parts ...string) {
	s.Links = append(s.Links, link{text, s.dashboard.link(parts...)})
}

// checked reports whether a box of the form is ticked.
func (s *subject) checked(name string) bool { return s.form.Get(name) != "" }

// whole returns a number of the form; 0 if it is empty.
func (s *subject) whole(name, label string) (int, error) {
	text := s.form.Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, badRequest{fmt.Errorf("%s is %q; write a whole number", label, cut(text, 40))}
	}
	return n, nil
}

// duration returns a duration of the form; 0 if it is empty.
func (s *subject) duration(name, label string) (time.Duration, error) {
	d, err := parseAge(s.form.Get(name))
	if err != nil {
		return 0, badRequest{fmt.Errorf("%s: %w", label, err)}
	}
	return d, nil
}
