package bullmqhttp

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// call is a request to a Manager.
type call struct {
	w      http.ResponseWriter
	r      *http.Request
	id     string // of the job, if the path has one
	worker string // if the call is one of a worker
}

// managerRoute is one of the calls of a Manager. A "{id}" in the path is the id of a job.
type managerRoute struct {
	method, path string
	action       Action
	serve        func(*Manager, *call) error
}

var managerRoutes = []managerRoute{
	{http.MethodPost, "jobs", ActionSubmit, (*Manager).serveSubmit},
	{http.MethodGet, "jobs", ActionRead, (*Manager).serveList},
	{http.MethodGet, "jobs/{id}", ActionRead, (*Manager).serveGet},
	{http.MethodDelete, "jobs/{id}", ActionManage, (*Manager).serveRemove},
	{http.MethodPost, "jobs/{id}/cancel", ActionCancel, (*Manager).serveCancel},
	{http.MethodPost, "claims", ActionWork, (*Manager).serveClaim},
	{http.MethodPost, "jobs/{id}/extend", ActionWork, (*Manager).serveExtend},
	{http.MethodPost, "jobs/{id}/succeed", ActionWork, (*Manager).serveSucceed},
	{http.MethodPost, "jobs/{id}/fail", ActionWork, (*Manager).serveFail},
	{http.MethodPost, "jobs/{id}/release", ActionWork, (*Manager).serveRelease},
	{http.MethodGet, "claims/stale", ActionRead, (*Manager).serveStale},
	{http.MethodPost, "claims/stale", ActionManage, (*Manager).serveRecover},
	{http.MethodGet, "due", ActionRead, (*Manager).serveDue},
	{http.MethodPost, "due", ActionManage, (*Manager).serveStartDue},
	{http.MethodGet, "stats", ActionRead, (*Manager).serveStats},
	{http.MethodPost, "cleanup", ActionManage, (*Manager).serveCleanUp},
}

// ServeHTTP serves the calls below ManagerOptions.Base:
//
//	POST   /manage/jobs               submit
//	GET    /manage/jobs?status=queued list; also ?limit=
//	GET    /manage/jobs/{id}          get
//	DELETE /manage/jobs/{id}          remove
//	POST   /manage/jobs/{id}/cancel   cancel
//	POST   /manage/claims             claim, as a worker
//	POST   /manage/jobs/{id}/extend   extend a claim, as its worker
//	POST   /manage/jobs/{id}/succeed  end a claim, as its worker
//	POST   /manage/jobs/{id}/fail     end an attempt, as its worker
//	POST   /manage/jobs/{id}/release  give the job back, as its worker
//	GET    /manage/claims/stale       list stale claims; also ?limit=
//	POST   /manage/claims/stale       recover stale claims
//	GET    /manage/due                list due jobs; also ?limit=
//	POST   /manage/due                start due jobs; also ?limit=
//	GET    /manage/stats              count
//	POST   /manage/cleanup            remove old jobs
//
// Bodies are JSON, with durations in seconds. An id in a path is escaped as a path segment.
func (m *Manager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := m.serve(w, r); err != nil {
		send(w, r, m.o.Logger, err)
	}
}

func (m *Manager) serve(w http.ResponseWriter, r *http.Request) error {
	rest, found := strings.CutPrefix(r.URL.EscapedPath(), m.address(""))
	if !found {
		return noCall()
	}
	var allow []string
	for _, route := range managerRoutes {
		id, ok := match(route.path, rest)
		if !ok {
			continue
		}
		if method := r.Method; method != route.method && (method != http.MethodHead || route.method != http.MethodGet) {
			allow = append(allow, route.method)
			continue
		}
		return m.serveRoute(route, &call{w: w, r: r, id: id})
	}
	if allow == nil {
		return noCall()
	}
	if slices.Contains(allow, http.MethodGet) {
		allow = append(allow, http.MethodHead)
	}
	slices.Sort(allow)
	w.Header().Set("Allow", strings.Join(allow, ", "))
	return problem(http.StatusMethodNotAllowed, CodeMethodNotAllowed, "use %s", strings.Join(allow, ", "))
}

// address returns a path below the base, escaped.
func (m *Manager) address(path string) string {
	return (&url.URL{Path: m.o.Base + "/" + path}).EscapedPath()
}

func noCall() *Problem { return problem(http.StatusNotFound, CodeNotFound, "there is no such call") }

// match reports whether an escaped path is that of a route, and returns the id in it.
func match(pattern, path string) (id string, ok bool) {
	before, after, hasID := strings.Cut(pattern, "{id}")
	if !hasID {
		return "", path == pattern
	}
	if path, ok = strings.CutPrefix(path, before); !ok {
		return "", false
	}
	if path, ok = strings.CutSuffix(path, after); !ok || path == "" || strings.Contains(path, "/") {
		return "", false
	}
	id, err := url.PathUnescape(path)
	return id, err == nil
}

func (m *Manager) serveRoute(route managerRoute, c *call) error {
	if m.o.Authorize != nil {
		if err := m.o.Authorize(c.r, route.action); err != nil {
			return refused(c.r, m.o.Logger, err)
		}
	}
	if route.action == ActionWork {
		if m.o.Authenticate == nil {
			return problem(http.StatusForbidden, CodeForbidden, "there is no Authenticate that tells workers apart")
		}
		var err error
		if c.worker, err = m.o.Authenticate(c.r); err != nil {
			return refused(c.r, m.o.Logger, err)
		}
	}
	hold(c.w, c.r, endTimeout)
	if route.method != http.MethodPost {
		ctx, cancel := m.inTime(c)
		defer cancel()
		c.r = c.r.WithContext(ctx)
	}
	return route.serve(m, c)
}

// inTime returns the context of a call that ends after ManagerOptions.Timeout.
func (m *Manager) inTime(c *call) (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.r.Context(), m.o.Timeout)
}

type submission struct {
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Data     json.RawMessage `json:"data"`
	Delay    seconds         `json:"delay"`
	Priority int             `json:"priority"`
	Attempts int             `json:"attempts"`
	Backoff  *struct {
		Type  string  `json:"type"`
		Delay seconds `json:"delay"`
	} `json:"backoff"`
}

func (m *Manager) serveSubmit(c *call) error {
	var s submission
	if err := m.decode(c, CodeInvalidJob, &s); err != nil {
		return err
	}
	if s.Data == nil {
		s.Data = json.RawMessage(`{}`)
	}
	o := bullmq.JobOptions{JobID: s.ID, Delay: time.Duration(s.Delay), Priority: s.Priority, Attempts: s.Attempts}
	if s.Backoff != nil {
		o.Backoff = &bullmq.Backoff{Type: s.Backoff.Type, Delay: time.Duration(s.Backoff.Delay)}
	}
	ctx, cancel := detached(c.r)
	defer cancel()
	info, err := m.Submit(ctx, s.Name, s.Data, &o)
	if err != nil {
		return err
	}
	c.w.Header().Set("Location", m.address("jobs/")+url.PathEscape(info.ID))
	reply(c.w, http.StatusCreated, "application/json", info)
	return nil
}

// jobList is the body of a reply with several jobs.
type jobList struct {
	Jobs []*JobInfo `json:"jobs"`
}

// idList is the body of a reply with the ids of jobs.
type idList struct {
	IDs []string `json:"ids"`
}

func (m *Manager) serveList(c *call) error {
	limit, err := c.limit()
	if err != nil {
		return err
	}
	jobs, err := m.List(c.r.Context(), State(c.r.URL.Query().Get("status")), limit)
	return c.answer(jobList{jobs}, err)
}

func (m *Manager) serveGet(c *call) error {
	info, err := m.Get(c.r.Context(), c.id)
	return c.answer(info, err)
}

func (m *Manager) serveRemove(c *call) error { return c.nothing(m.Remove(c.r.Context(), c.id)) }

// nothing replies with 204, unless there is an error.
func (c *call) nothing(err error) error {
	if err == nil {
		c.w.WriteHeader(http.StatusNoContent)
	}
	return err
}

func (m *Manager) serveCancel(c *call) error {
	var body struct {
		Reason string `json:"reason"`
	}
	if err := m.decode(c, CodeInvalidRequest, &body); err != nil {
		return err
	}
	ctx, cancel := m.inTime(c)
	defer cancel()
	if err := m.Cancel(ctx, c.id, body.Reason); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusAccepted)
	return nil
}

func (m *Manager) serveStale(c *call) error {
	limit, err := c.limit()
	if err != nil {
		return err
	}
	jobs, err := m.StaleClaims(c.r.Context(), limit)
	return c.answer(jobList{jobs}, err)
}

func (m *Manager) serveRecover(c *call) error {
	ids, err := m.RecoverStale(c.r.Context())
	return c.answer(idList{ids}, err)
}

func (m *Manager) serveDue(c *call) error {
	limit, err := c.limit()
	if err != nil {
		return err
	}
	jobs, err := m.Due(c.r.Context(), limit)
	return c.answer(jobList{jobs}, err)
}

func (m *Manager) serveStartDue(c *call) error {
	limit, err := c.limit()
	if err != nil {
		return err
	}
	ids, err := m.StartDue(c.r.Context(), limit)
	return c.answer(idList{ids}, err)
}

func (m *Manager) serveStats(c *call) error {
	stats, err := m.Stats(c.r.Context())
	return c.answer(stats, err)
}

func (m *Manager) serveCleanUp(c *call) error {
	var body struct {
		Status    State    `json:"status"`
		OlderThan *seconds `json:"olderThan"`
	}
	if err := m.decode(c, CodeInvalidRequest, &body); err != nil {
		return err
	}
	if body.OlderThan == nil {
		return problem(http.StatusBadRequest, CodeInvalidRequest, "the body needs olderThan, in seconds")
	}
	removed, err := m.CleanUp(c.r.Context(), body.Status, time.Duration(*body.OlderThan))
	return c.answer(struct {
		Removed int `json:"removed"`
	}{removed}, err)
}
