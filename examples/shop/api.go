package main

import (
	"errors"
	"net/http"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
)

// handleRequests registers the routes of the HTTP API.
func (s *shop) handleRequests(web *http.ServeMux) {
	orders := bullmqhttp.New(s.orders, &bullmqhttp.Options{
		Base: "/orders", KeepFor: 48 * time.Hour, DeadLetters: s.dead, Logger: s.logger,
		Reason: func(reason string) string { return reason },
	})
	web.Handle("POST /orders", bullmqhttp.Post(orders, ProcessOrder, checkOrder))
	web.Handle("/orders/", orders) // status, result, events, cancel
	web.Handle("POST /reports/{date}", s.serve(http.StatusAccepted, s.postReport))
	web.Handle("POST /dead/replay", s.serve(http.StatusOK, s.replay))
}

// checkOrder makes an order with the same number within a minute the same order. After an
// error 503, the client sends it again with that number.
func checkOrder(_ *http.Request, order *Order, options *bullmq.JobOptions) error {
	if order.Number == "" {
		return errors.New("the order has no number")
	}
	options.Deduplication = &bullmq.Deduplication{ID: order.Number, TTL: time.Minute}
	return nil
}

func (s *shop) postReport(r *http.Request) (any, error) {
	id, err := s.addReport(r.Context(), r.PathValue("date"))
	return map[string]any{"id": id}, err
}

// replay puts the jobs that have failed for good back, once their cause is repaired.
func (s *shop) replay(r *http.Request) (any, error) {
	letters, err := s.dead.ReplayDeadLetters(r.Context(), nil)
	return map[string]any{"replayed": len(letters)}, err
}
