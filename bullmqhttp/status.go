package bullmqhttp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// State is the state of a job, as clients see it.
type State string

// The states. The last three are final.
const (
	Queued    State = "queued"    // it has not started
	Scheduled State = "scheduled" // it has a delay that is not over
	Running   State = "running"   // it runs, or waits for its children
	Retrying  State = "retrying"  // an attempt has failed, and it waits for the next one
	Succeeded State = "succeeded" // there is a response, of any status that is no failure
	Failed    State = "failed"
	Cancelled State = "cancelled"
)

// Ended reports whether the state is final.
func (s State) Ended() bool { return s == Succeeded || s == Failed || s == Cancelled }

// Status is what clients see of a job, as JSON.
type Status struct {
	ID    string `json:"id"`
	State State  `json:"status"`
	// Route is the name of the route, or of the type of a job of [Post].
	Route string `json:"route"`
	// Attempts is how many attempts have ended.
	Attempts int             `json:"attempts"`
	Progress json.RawMessage `json:"progress,omitempty"`
	Created  time.Time       `json:"created,omitzero"`
	Due      time.Time       `json:"due,omitzero"`     // of a job in the state Scheduled
	Started  time.Time       `json:"started,omitzero"` // of the last attempt
	Ended    time.Time       `json:"ended,omitzero"`
	// Expires is when the job may be removed.
	Expires time.Time `json:"expires,omitzero"`
	// ResponseStatus is the status of the response, in the state Succeeded. A job of [Post] has none.
	ResponseStatus int `json:"responseStatus,omitempty"`
	// Result is the result of a job of [Post], in the state Succeeded.
	Result json.RawMessage `json:"result,omitempty"`
	// Error is why the last attempt failed, as Options.Reason shows it.
	Error string `json:"error,omitempty"`
	Links Links  `json:"links"`
}

// Links are the addresses of a job.
type Links struct {
	Self   string `json:"self"`
	Result string `json:"result"`
	Events string `json:"events"`
	Cancel string `json:"cancel"`
}

func (s *Server) address(id string) string { return s.o.Base + "/" + url.PathEscape(id) }

func (s *Server) links(id string) Links {
	self := s.address(id)
	return Links{Self: self, Result: self + "/result", Events: self + "/events", Cancel: self + "/cancel"}
}

// read reads a job of an owner. The job of another owner is not found.
func (s *Server) read(ctx context.Context, t target) (*bullmq.Job, bullmq.State, error) {
	var job *bullmq.Job
	var state bullmq.State
	err := s.inTime(ctx, func(ctx context.Context) (err error) {
		job, state, err = s.queue.JobAndState(ctx, t.id)
		if errors.Is(err, bullmq.ErrJobNotFound) && s.o.DeadLetters != nil {
			job, err = s.deadLetter(ctx, t.id)
			state = bullmq.StateFailed
		}
		return err
	})
	switch {
	case errors.Is(err, bullmq.ErrJobNotFound):
		return nil, "", notFound()
	case err != nil:
		return nil, "", err
	}
	if owner, _, known := s.origin(job); !known || owner != t.owner {
		return nil, "", notFound()
	}
	return job, state, nil
}

// deadLetter returns a job that has failed for good, from its dead letter.
func (s *Server) deadLetter(ctx context.Context, id string) (*bullmq.Job, error) {
	letter, err := s.o.DeadLetters.DeadLetter(ctx, s.queue.Name(), id)
	if err != nil {
		return nil, err
	}
	return &bullmq.Job{
		ID: id, Name: letter.Name, Data: letter.Letter.Data, AttemptsMade: letter.AttemptsMade, FailedReason: letter.Reason, FinishedOn: letter.FailedAt,
	}, nil
}

// status returns what clients see of a job.
func (s *Server) status(job *bullmq.Job, state bullmq.State) Status {
	status := Status{
		ID: job.ID, Route: job.Name, Attempts: job.AttemptsMade, Progress: readable(job.Progress), Links: s.links(job.ID),
		Created: utc(job.Timestamp), Started: utc(job.ProcessedOn),
	}
	status.State = lifecycle(job, state)
	typed := s.isTyped(job.Name)
	switch status.State {
	case Succeeded:
		if typed {
			status.Result = resultOf(job.ReturnValue)
		} else if response, err := ReadResponse(job); err == nil {
			status.ResponseStatus = response.Status
		}
	case Scheduled:
		status.Due = utc(job.Timestamp.Add(job.Delay))
	}
	if status.State.Ended() {
		status.Ended = utc(job.FinishedOn)
		status.Expires = status.Ended.Add(s.o.KeepFor)
		if typed {
			status.Expires = expiryOf(job, status.State)
		}
	}
	if job.FailedReason != "" && status.State != Succeeded {
		status.Error = s.o.Reason(job.FailedReason)
	}
	return status
}

// lifecycle returns the state of a job, as clients see it.
func lifecycle(job *bullmq.Job, state bullmq.State) State {
	switch state {
	case bullmq.StateActive, bullmq.StateWaitingChildren:
		return Running
	case bullmq.StateCompleted:
		return Succeeded
	case bullmq.StateFailed:
		if _, cancelled := job.Cancelled(); cancelled {
			return Cancelled
		}
		return Failed
	case bullmq.StateDelayed:
		if job.AttemptsMade == 0 && job.ProcessedOn.IsZero() {
			return Scheduled
		}
		return Retrying
	default:
		if job.AttemptsMade > 0 {
			return Retrying
		}
		return Queued
	}
}

// utc returns a stored time as it is shown. A time that JSON can't hold is not shown.
func utc(at time.Time) time.Time {
	if at = at.UTC(); at.Year() < 0 || at.Year() > 9999 || at.IsZero() {
		return time.Time{}
	}
	return at
}

// pause returns when a client should ask for the status again, or 0 for a job that has ended.
func (s *Server) pause(ctx context.Context, status Status) time.Duration {
	switch {
	case status.State.Ended():
		return 0
	case status.State == Running:
		return withinPauses(time.Since(status.Started) / 2)
	case status.State == Scheduled:
		return withinPauses(time.Until(status.Due))
	default:
		return s.load.pause(ctx)
	}
}

// etag returns the ETag of a status.
func (status Status) etag() string {
	text, _ := marshal(status)
	return `"` + digest(string(text))[:idLength] + `"`
}

// matches reports whether an If-None-Match header has an ETag.
func matches(header, etag string) bool {
	for candidate := range strings.SplitSeq(header, ",") {
		candidate = strings.TrimSpace(candidate)
		if candidate == "*" || strings.TrimPrefix(candidate, "W/") == etag {
			return true
		}
	}
	return false
}

// serveStatus replies with the status of a job. With a wait, it replies when the job has ended, or,
// with If-None-Match, when the status has another ETag.
func (s *Server) serveStatus(w http.ResponseWriter, r *http.Request, t target) error {
	wait, leave, err := s.waitOf(w, r)
	if err != nil {
		return err
	}
	defer leave()
	status, err := s.current(r.Context(), t)
	if err != nil {
		return err
	}
	known := r.Header.Get("If-None-Match")
	if wait > 0 && !status.State.Ended() && (known == "" || matches(known, status.etag())) {
		s.hold(w, r, wait)
		if status, err = s.changed(r, t, wait, status, known); err != nil {
			return err
		}
	}
	h := w.Header()
	h.Add("Vary", "Prefer")
	h.Set("Etag", status.etag())
	h.Set("Cache-Control", "private, no-cache")
	setRetryAfter(h, s.pause(r.Context(), status))
	switch {
	case preferencesOf(r).result && status.State == Succeeded:
		apply(h, "return=representation")
		h.Set("Location", status.Links.Result)
		reply(w, http.StatusSeeOther, "application/json", status)
	case matches(known, status.etag()):
		w.WriteHeader(http.StatusNotModified)
	default:
		reply(w, http.StatusOK, "application/json", status)
	}
	return nil
}

// current reads the status of a job.
func (s *Server) current(ctx context.Context, t target) (Status, error) {
	job, state, err := s.read(ctx, t)
	if err != nil {
		return Status{}, err
	}
	return s.status(job, state), nil
}

// changed waits until a job has ended, or, if the client knows an ETag, has another one. It returns the
// status after the wait.
func (s *Server) changed(r *http.Request, t target, wait time.Duration, status Status, known string) (Status, error) {
	ctx, cancel := s.waiting(r, wait)
	defer cancel()
	if known == "" {
		_, _ = s.queue.WaitForJob(ctx, t.id)
		return s.current(r.Context(), t)
	}
	for _, err := range s.queue.WatchJob(ctx, t.id) {
		if err != nil {
			break
		}
		next, err := s.current(ctx, t)
		if err != nil {
			break
		}
		if status = next; !matches(known, status.etag()) {
			return status, nil
		}
	}
	return s.current(r.Context(), t)
}

// untilEnd waits until a job has ended, and reports whether it has.
func (s *Server) untilEnd(r *http.Request, id string, wait time.Duration) bool {
	ctx, cancel := s.waiting(r, wait)
	defer cancel()
	_, err := s.queue.WaitForJob(ctx, id)
	var failed *bullmq.JobFailedError
	return err == nil || errors.As(err, &failed)
}
