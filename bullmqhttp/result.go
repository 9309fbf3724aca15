package bullmqhttp

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// serveResult replies with the response of the handler. With a wait, it waits for the end of the job.
func (s *Server) serveResult(w http.ResponseWriter, r *http.Request, t target) error {
	wait, err := s.waitOf(w, r)
	if err != nil {
		return err
	}
	job, state, err := s.finished(r.Context(), t)
	if wait > 0 && errors.Is(err, errNotFinished) {
		s.hold(w, r, wait)
		s.untilEnd(r, t.id, wait)
		job, state, err = s.finished(r.Context(), t)
	}
	switch {
	case errors.Is(err, errNotFinished):
		status := s.status(job, state)
		return problem(http.StatusConflict, CodeNotFinished, "the job is %s", status.State).about(t.id).after(s.pause(r.Context(), status))
	case err != nil:
		return err
	}
	return s.sendResult(w, r, job, state)
}

var errNotFinished = errors.New("bullmqhttp: the job has not finished")

// finished reads a job that must have ended. If it has not, it also returns errNotFinished.
func (s *Server) finished(ctx context.Context, t target) (*bullmq.Job, bullmq.State, error) {
	job, state, err := s.read(ctx, t)
	var p *Problem
	switch {
	case errors.As(err, &p) && p.Code == CodeJobNotFound:
		return nil, "", problem(http.StatusGone, CodeResultGone, "there is no such job any more")
	case err != nil:
		return nil, "", err
	case state != bullmq.StateCompleted && state != bullmq.StateFailed:
		return job, state, errNotFinished
	}
	return job, state, nil
}

// sendResult replies with the result of a job that has ended.
func (s *Server) sendResult(w http.ResponseWriter, r *http.Request, job *bullmq.Job, state bullmq.State) error {
	if state == bullmq.StateFailed {
		status := s.status(job, state)
		if status.State == Cancelled {
			return problem(http.StatusGone, CodeCancelled, "%s", status.Error).about(job.ID)
		}
		return problem(http.StatusInternalServerError, CodeJobFailed, "%s", status.Error).about(job.ID)
	}
	response, err := ReadResponse(job)
	var body []byte
	if err == nil {
		body, err = response.Bytes()
	}
	if err != nil {
		s.o.Logger.ErrorContext(r.Context(), "a stored response is not valid", "job", job.ID, "error", err)
		return problem(http.StatusInternalServerError, CodeJobFailed, "the job has no valid response").about(job.ID)
	}
	h := w.Header()
	for name, values := range response.Headers {
		if slices.Contains(s.responseHeaders, name) {
			h[name] = slices.Clone(values)
		}
	}
	if response.ContentType != "" {
		h.Set("Content-Type", response.ContentType)
	} else {
		h["Content-Type"] = nil // which is not guessed
	}
	h.Set("X-Content-Type-Options", "nosniff")
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "private, no-cache")
	}
	if response.Status != http.StatusNoContent && response.Status != http.StatusNotModified {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(response.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
	return nil
}
