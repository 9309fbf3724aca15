package bullmqhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Names of server-sent events.
const (
	eventStatus   = "status"   // a Status at first, and then a Change
	eventProgress = "progress" // {"progress": …}
	eventEnd      = "end"      // a Status; the last event
	eventRemoved  = "removed"  // {}; the last event of a job that was removed before its end
)

// Change is a change of a job's state, as JSON in a server-sent event.
type Change struct {
	State State     `json:"status"`
	At    time.Time `json:"at"`
	Due   time.Time `json:"due,omitzero"` // of a job in the state Scheduled or Retrying
}

const (
	endID         = "end"            // the id of the last event
	commentPause  = 15 * time.Second // between comments, which keep a silent connection open
	eventsTimeout = 30 * time.Second // for a client to take an event
)

// isEventID reports whether a text is the id of an event in the stream of a queue: two numbers of 64 bits.
func isEventID(text string) bool {
	ms, number, _ := strings.Cut(text, "-")
	_, err := strconv.ParseUint(ms, 10, 64)
	if err == nil {
		_, err = strconv.ParseUint(number, 10, 64)
	}
	return err == nil
}

// serveEvents sends the events of a job as server-sent events, until the job ends. Their ids are those
// of the queue's events stream, so a client that sends Last-Event-ID continues after that event. After
// the last event the reply is 204, which ends the attempts of an EventSource to connect again.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request, t target) error {
	last := r.Header.Get("Last-Event-Id")
	switch {
	case last == endID:
		w.WriteHeader(http.StatusNoContent)
		return nil
	case last != "" && !isEventID(last):
		return problem(http.StatusBadRequest, CodeInvalidRequest, "Last-Event-ID %.40q is not the id of an event", last)
	}
	status, err := s.current(r.Context(), t)
	if err != nil {
		return err
	}
	leave, entered := s.enter()
	if !entered {
		return tooManyHeld()
	}
	defer leave()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.closed, cancel)()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // a proxy must not hold events back
	h.Set("X-Content-Type-Options", "nosniff")
	stream := &eventStream{server: s, target: t, route: status.Route, w: w, out: http.NewResponseController(w), ran: !status.Started.IsZero()}
	_ = stream.out.SetReadDeadline(time.Time{}) // http.Server.ReadTimeout would end the stream
	if stream.flush() != nil {
		return nil
	}
	stream.send(ctx, last)
	return nil
}

// eventStream is a reply with server-sent events.
type eventStream struct {
	server *Server
	target target
	route  string
	w      http.ResponseWriter
	out    *http.ResponseController
	ran    bool // the job has started before
}

// watched is what a watch of a job has yielded.
type watched struct {
	event  bullmq.Event
	status Status // of the present state, and of a job that has ended
	err    error
}

// rereadPause is the pause between two attempts to read the status of a job.
const rereadPause = time.Second

// watch yields the events of the job to a channel, which it closes.
func (e *eventStream) watch(ctx context.Context, last string) <-chan watched {
	events := make(chan watched)
	all := e.server.queue.WatchJob(ctx, e.target.id)
	if last != "" {
		all = e.server.queue.WatchJobAfter(ctx, e.target.id, last)
	}
	go func() {
		defer close(events)
		for event, err := range all {
			next := watched{event: event, err: err}
			if err == nil {
				next.status, next.err = e.statusAt(ctx, event)
			}
			select {
			case events <- next:
			case <-ctx.Done():
				return
			}
			if next.err != nil {
				return
			}
		}
	}()
	return events
}

// send sends events until the job has ended, the client leaves, or the Server is closed.
func (e *eventStream) send(ctx context.Context, last string) {
	ctx, cancel := context.WithCancel(ctx)
	events := e.watch(ctx, last)
	defer func() {
		cancel()
		for range events { // until the watch has ended
		}
	}()
	comments := time.NewTicker(commentPause)
	defer comments.Stop()
	for {
		select {
		case next, more := <-events:
			if !more {
				return
			}
			if next.err != nil {
				e.failed(ctx, next.err)
				return
			}
			if ended, err := e.write(next.event, next.status); err != nil || ended {
				return
			}
		case <-comments.C:
			if e.text(":\n\n") != nil {
				return
			}
		}
	}
}

// failed ends the stream after an error. The client connects again.
func (e *eventStream) failed(ctx context.Context, err error) {
	if errors.Is(err, bullmq.ErrJobNotFound) {
		if status, err := e.server.current(ctx, e.target); err == nil && status.State.Ended() { // a dead letter
			_ = e.event(eventEnd, endID, status)
			return
		}
		_ = e.event(eventRemoved, endID, struct{}{})
		return
	}
	if !errors.Is(err, bullmq.ErrClosed) && ctx.Err() == nil {
		e.server.o.Logger.ErrorContext(ctx, "watching a job failed", "job", e.target.id, "error", err)
	}
}

// write sends an event of the job. ended reports that it was the last one.
func (e *eventStream) write(event bullmq.Event, status Status) (ended bool, err error) {
	switch event.Type {
	case bullmq.EventProgress:
		return false, e.event(eventProgress, event.ID, map[string]json.RawMessage{"progress": readable(event.Progress)})
	case bullmq.EventRemoved:
		return true, e.event(eventRemoved, endID, struct{}{})
	case bullmq.EventCompleted, bullmq.EventFailed:
		return true, e.event(eventEnd, endID, status)
	}
	if event.ID == "" { // the present state
		e.ran = e.ran || !status.Started.IsZero()
		return false, e.event(eventStatus, "", status)
	}
	change := Change{At: event.Time().UTC()}
	switch event.Type {
	case bullmq.EventActive, bullmq.EventWaitingChildren:
		change.State, e.ran = Running, true
	case bullmq.EventDelayed:
		change.State, change.Due = Scheduled, utc(event.DelayedUntil)
		if e.ran {
			change.State = Retrying
		}
	case bullmq.EventWaiting:
		if change.State = Queued; e.ran {
			change.State = Retrying
		}
	default:
		return false, nil
	}
	return false, e.event(eventStatus, event.ID, change)
}

// statusAt reads the status of the job for an event that is sent with it.
func (e *eventStream) statusAt(ctx context.Context, event bullmq.Event) (Status, error) {
	switch {
	case event.Type == bullmq.EventCompleted || event.Type == bullmq.EventFailed:
		return e.final(ctx, event)
	case event.Type == bullmq.EventRemoved || event.ID != "":
		return Status{}, nil
	}
	status, err := e.current(ctx)
	var p *Problem
	if errors.As(err, &p) { // it was removed meanwhile
		err = bullmq.ErrJobNotFound
	}
	return status, err
}

// current reads the status of the job. While Redis can't be reached, it tries again, as the watch of the
// job does.
func (e *eventStream) current(ctx context.Context) (Status, error) {
	for {
		status, err := e.server.current(ctx, e.target)
		var p *Problem
		if err == nil || errors.As(err, &p) || errors.Is(err, bullmq.ErrClosed) || ctx.Err() != nil {
			return status, err
		}
		select {
		case <-time.After(rereadPause):
		case <-ctx.Done():
			return Status{}, ctx.Err()
		}
	}
}

// final returns the status of a job that has ended, from the job or, if it is removed or runs again,
// from its last event.
func (e *eventStream) final(ctx context.Context, event bullmq.Event) (Status, error) {
	status, err := e.current(ctx)
	var p *Problem
	switch {
	case err == nil && status.State.Ended():
		return status, nil
	case err != nil && !errors.As(err, &p):
		return Status{}, err
	}
	status = Status{ID: e.target.id, State: Succeeded, Route: e.route, Ended: event.Time().UTC(), Links: e.server.links(e.target.id)}
	if e.server.isTyped(e.route) && event.Type == bullmq.EventCompleted {
		status.Result = resultOf(event.ReturnValue)
	}
	if event.Type == bullmq.EventFailed {
		status.State, status.Error = Failed, e.server.o.Reason(event.FailedReason)
	}
	return status, nil
}

// event sends one event. Without an id, the client keeps the id of the last event.
func (e *eventStream) event(name, id string, data any) error {
	text, err := marshal(data)
	if err != nil {
		return err
	}
	var message bytes.Buffer
	fmt.Fprintf(&message, "event: %s\n", name)
	if id != "" {
		fmt.Fprintf(&message, "id: %s\n", id)
	}
	fmt.Fprintf(&message, "data: %s\n\n", text) // JSON has no line breaks
	return e.text(message.String())
}

func (e *eventStream) text(text string) error {
	_ = e.out.SetWriteDeadline(time.Now().Add(eventsTimeout)) // a test's ResponseWriter may have none
	if _, err := e.w.Write([]byte(text)); err != nil {
		return err
	}
	return e.flush()
}

func (e *eventStream) flush() error { return e.out.Flush() }
