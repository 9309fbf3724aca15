package bullmqhttp

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// serveResult replies with the response of the handler. With a wait, it waits for the end of the job.
func (s *Server) serveResult(w http.ResponseWriter, r *http.Request, t target) error {
	wait, leave, err := s.waitOf(w, r)
	if err != nil {
		return err
	}
	defer leave()
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
	if s.isTyped(job.Name) {
		sendResultOf(w, resultOf(job.ReturnValue))
		return nil
	}
	response, err := ReadResponse(job)
	if err == nil && response.BodyRef != "" && response.hasBody() {
		return s.sendStored(w, r, job.ID, response)
	}
	var body []byte
	if err == nil && response.hasBody() {
		body, err = response.Bytes()
	}
	if err != nil {
		s.o.Logger.ErrorContext(r.Context(), "a stored response is not valid", "job", job.ID, "error", err)
		return problem(http.StatusInternalServerError, CodeJobFailed, "the job has no valid response").about(job.ID)
	}
	s.setResponseHeader(w.Header(), response, int64(len(body)))
	w.WriteHeader(response.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
	return nil
}

// sendStored replies with a response whose body is in the store. It holds a part of the body at a time.
func (s *Server) sendStored(w http.ResponseWriter, r *http.Request, id string, response *Response) error {
	size := response.BodySize
	if size == 0 {
		size = -1
	}
	if r.Method == http.MethodHead {
		s.setResponseHeader(w.Header(), response, size)
		w.WriteHeader(response.Status)
		return nil
	}
	s.hold(w, r, s.o.StoreTimeout)
	body, err := openBody(r.Context(), s.o.Bodies, response.BodyRef, response.BodySize, s.o.StoreTimeout)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return problem(http.StatusGone, CodeResultGone, "the response was removed").about(id)
	case err != nil:
		if r.Context().Err() == nil {
			s.o.Logger.ErrorContext(r.Context(), "a stored response can't be read", "job", id, "error", err)
		}
		return problem(http.StatusServiceUnavailable, CodeUnavailable, "the response can't be read; try again later").about(id).after(outagePause)
	}
	defer func() { _ = body.Close() }()
	s.setResponseHeader(w.Header(), response, size)
	w.WriteHeader(response.Status)
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{}) // http.Server.ReadTimeout would end the context
	if _, err := io.Copy(patient{w, out}, body); err != nil {
		if err := body.failure(); err != nil && r.Context().Err() == nil {
			s.o.Logger.ErrorContext(r.Context(), "a stored response can't be read to its end", "job", id, "error", err)
		}
		panic(http.ErrAbortHandler) // the client notices that the body is not whole
	}
	return nil
}

// patient gives the client time for each part of a body, however large the whole is.
type patient struct {
	w   io.Writer
	out *http.ResponseController
}

func (p patient) Write(part []byte) (int, error) {
	_ = p.out.SetWriteDeadline(time.Now().Add(partTime))
	return p.w.Write(part)
}

// partTime is the time that a client has to take a part of a stored body.
const partTime = 30 * time.Second

// setResponseHeader sets the header of a reply with a response. size is that of its body, or -1 if it
// is unknown.
func (s *Server) setResponseHeader(h http.Header, response *Response, size int64) {
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
	if response.hasBody() && size >= 0 {
		h.Set("Content-Length", strconv.FormatInt(size, 10))
	}
}
