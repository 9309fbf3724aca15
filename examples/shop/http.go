package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// serve returns the handler of a route. A route returns the body of its reply, nil if it
// has replied itself, or an error.
func (s *shop) serve(status int, route func(w http.ResponseWriter, r *http.Request) (body any, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := route(w, r)
		switch {
		case w.Header().Get("Content-Type") != "": // the route has begun to reply
		case errors.Is(err, bullmq.ErrJobNotFound):
			http.Error(w, "no such order", http.StatusNotFound)
		case err != nil:
			s.logger.ErrorContext(r.Context(), "the request failed", "requestId", requestID.From(r.Context()), "path", r.URL.Path, "error", err)
			http.Error(w, "try again later", http.StatusServiceUnavailable)
		default:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(body)
		}
	}
}

// sendEvent sends a server-sent event. When the client is gone, the request's context ends.
func sendEvent(w http.ResponseWriter, event string, body any) {
	w.Header().Set("Content-Type", "text/event-stream")
	data, _ := json.Marshal(body)
	fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, data)
	_ = http.NewResponseController(w).Flush()
}
