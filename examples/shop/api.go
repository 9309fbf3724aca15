package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// handleRequests registers the routes of the HTTP API.
func (s *shop) handleRequests(web *http.ServeMux) {
	web.Handle("POST /orders", s.serve(http.StatusAccepted, s.postOrder))
	web.Handle("GET /orders/{id}", s.serve(http.StatusOK, s.getOrder))
	web.Handle("GET /orders/{id}/events", s.serve(http.StatusOK, s.watchOrder))
	web.Handle("DELETE /orders/{id}", s.serve(http.StatusAccepted, s.cancelOrder))
	web.Handle("POST /reports/{date}", s.serve(http.StatusAccepted, s.postReport))
	web.Handle("POST /dead/replay", s.serve(http.StatusOK, s.replay))
}

// Status is what GET /orders/{id} returns, and the data of each event of
// GET /orders/{id}/events.
type Status struct {
	ID       string          `json:"id"`
	State    string          `json:"state"`
	Progress json.RawMessage `json:"progress,omitempty"`
	Receipt  json.RawMessage `json:"receipt,omitempty"`
	Reason   string          `json:"reason,omitempty"`
}

// postOrder adds an order. The same number within a minute is the same order. After an
// error, even bullmq.ErrMaybeAdded, the client sends it again with that number.
func (s *shop) postOrder(w http.ResponseWriter, r *http.Request) (any, error) {
	var order Order
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&order); err != nil || order.Number == "" {
		http.Error(w, "the order must be JSON and have a number", http.StatusBadRequest)
		return nil, nil
	}
	job, err := ProcessOrder.Add(r.Context(), s.orders, order, &bullmq.JobOptions{
		Deduplication: &bullmq.Deduplication{ID: order.Number, TTL: time.Minute},
	})
	if err != nil {
		return nil, err
	}
	w.Header().Set("Location", "/orders/"+job.ID)
	return map[string]any{"id": job.ID, "outcome": job.AddOutcome()}, nil
}

// getOrder returns the status of an order, also if it has become a dead letter.
func (s *shop) getOrder(_ http.ResponseWriter, r *http.Request) (any, error) {
	id := r.PathValue("id")
	job, state, err := s.orders.JobAndState(r.Context(), id)
	if errors.Is(err, bullmq.ErrJobNotFound) {
		letter, err := s.dead.DeadLetter(r.Context(), ordersQueue, id)
		return Status{ID: id, State: string(bullmq.StateFailed), Reason: letter.Reason}, err
	}
	if err != nil {
		return nil, err
	}
	status := Status{ID: id, State: string(state), Progress: job.Progress, Receipt: job.ReturnValue}
	if state == bullmq.StateFailed {
		status.Reason = job.FailedReason
	}
	return status, nil
}

// watchOrder sends the events of an order until it has finished or the process stops.
func (s *shop) watchOrder(w http.ResponseWriter, r *http.Request) (any, error) {
	for event, err := range s.orders.WatchJob(r.Context(), r.PathValue("id")) {
		if err != nil {
			return nil, err
		}
		sendEvent(w, string(event.Type), Status{
			ID: event.JobID, State: string(event.Type), Progress: event.Progress, Receipt: event.ReturnValue, Reason: event.FailedReason,
		})
	}
	return nil, nil
}

// cancelOrder cancels an order that has not finished, in whichever process it runs.
func (s *shop) cancelOrder(w http.ResponseWriter, r *http.Request) (any, error) {
	id := r.PathValue("id")
	outcome, err := s.orders.Cancel(r.Context(), id, "by the customer")
	if errors.Is(err, bullmq.ErrJobNotFound) {
		_, err = s.dead.DeadLetter(r.Context(), ordersQueue, id)
		outcome = bullmq.CancelFinished
	}
	if err != nil {
		return nil, err
	}
	if outcome == bullmq.CancelFinished {
		http.Error(w, "the order has finished", http.StatusConflict)
		return nil, nil
	}
	return map[string]any{"outcome": outcome}, nil
}

func (s *shop) postReport(_ http.ResponseWriter, r *http.Request) (any, error) {
	id, err := s.addReport(r.Context(), r.PathValue("date"))
	return map[string]any{"id": id}, err
}

// replay puts the jobs that have failed for good back, once their cause is repaired.
func (s *shop) replay(_ http.ResponseWriter, r *http.Request) (any, error) {
	letters, err := s.dead.ReplayDeadLetters(r.Context(), nil)
	return map[string]any{"replayed": len(letters)}, err
}
