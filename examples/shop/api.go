package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Status is what GET /orders/{id} returns, and the data of each event of
// GET /orders/{id}/events.
type Status struct {
	ID       string          `json:"id"`
	State    string          `json:"state"`
	Progress json.RawMessage `json:"progress,omitempty"`
	Receipt  json.RawMessage `json:"receipt,omitempty"`
	Reason   string          `json:"reason,omitempty"`
}

// api returns the handler of the HTTP API.
func (s *shop) api() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", s.postOrder)
	mux.HandleFunc("GET /orders/{id}", s.getOrder)
	mux.HandleFunc("GET /orders/{id}/events", s.watchOrder)
	mux.HandleFunc("DELETE /orders/{id}", s.cancelOrder)
	mux.HandleFunc("POST /reports/{date}", s.postReport)
	mux.HandleFunc("POST /dead/replay", s.replay)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("X-Request-Id")
		if id == "" {
			id = rand.Text()
		}
		w.Header().Set("X-Request-Id", id)
		mux.ServeHTTP(w, r.WithContext(requestID.With(r.Context(), id)))
	})
}

// postOrder adds an order. The same number within a minute is the same order.
func (s *shop) postOrder(w http.ResponseWriter, r *http.Request) {
	var order Order
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&order); err != nil || order.Number == "" {
		http.Error(w, "the order must be JSON and have a number", http.StatusBadRequest)
		return
	}
	job, err := ProcessOrder.Add(r.Context(), s.orders, order, &bullmq.JobOptions{
		Deduplication: &bullmq.Deduplication{ID: order.Number, TTL: time.Minute},
	})
	if err != nil {
		s.replyError(w, r, err)
		return
	}
	w.Header().Set("Location", "/orders/"+job.ID)
	reply(w, http.StatusAccepted, map[string]any{"id": job.ID, "outcome": job.AddOutcome()})
}

func (s *shop) getOrder(w http.ResponseWriter, r *http.Request) {
	job, state, err := s.orders.JobAndState(r.Context(), r.PathValue("id"))
	if err != nil {
		s.replyError(w, r, err)
		return
	}
	status := Status{ID: job.ID, State: string(state), Progress: job.Progress, Receipt: job.ReturnValue}
	if state == bullmq.StateFailed {
		status.Reason = job.FailedReason
	}
	reply(w, http.StatusOK, status)
}

// watchOrder sends the events of an order until it has finished, as server-sent events.
func (s *shop) watchOrder(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.streams, cancel)() // the process stops
	begun := false
	for event, err := range s.orders.WatchJob(ctx, r.PathValue("id")) {
		if err != nil {
			if !begun {
				s.replyError(w, r, err)
			}
			return
		}
		begun = true
		w.Header().Set("Content-Type", "text/event-stream")
		data, _ := json.Marshal(Status{
			ID: event.JobID, State: string(event.Type), Progress: event.Progress, Receipt: event.ReturnValue, Reason: event.FailedReason,
		})
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event.Type, data)
		if http.NewResponseController(w).Flush() != nil {
			return
		}
	}
}

// cancelOrder cancels an order that has not finished, in whichever process it runs.
func (s *shop) cancelOrder(w http.ResponseWriter, r *http.Request) {
	outcome, err := s.orders.Cancel(r.Context(), r.PathValue("id"), "by the customer")
	switch {
	case err != nil:
		s.replyError(w, r, err)
	case outcome == bullmq.CancelFinished:
		http.Error(w, "the order has finished", http.StatusConflict)
	default:
		reply(w, http.StatusAccepted, map[string]any{"outcome": outcome})
	}
}

func (s *shop) postReport(w http.ResponseWriter, r *http.Request) {
	id, err := s.addReport(r.Context(), r.PathValue("date"))
	if err != nil {
		s.replyError(w, r, err)
		return
	}
	reply(w, http.StatusAccepted, map[string]any{"id": id})
}

// replay puts the jobs that have failed for good back, once their cause is repaired.
func (s *shop) replay(w http.ResponseWriter, r *http.Request) {
	letters, err := s.dead.ReplayDeadLetters(r.Context(), nil)
	if err != nil {
		s.replyError(w, r, err)
		return
	}
	reply(w, http.StatusOK, map[string]any{"replayed": len(letters)})
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func (s *shop) replyError(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, bullmq.ErrJobNotFound) {
		http.Error(w, "no such order", http.StatusNotFound)
		return
	}
	// Also after bullmq.ErrMaybeAdded: an order that is sent again has the same number.
	s.logger.ErrorContext(r.Context(), "the request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	http.Error(w, "try again later", http.StatusServiceUnavailable)
}
