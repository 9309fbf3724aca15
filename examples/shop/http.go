package main

import (
	"encoding/json"
	"net/http"
)

// serve returns the handler of a route that returns the body of its reply, or an error.
func (s *shop) serve(status int, route func(r *http.Request) (body any, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := route(r)
		if err != nil {
			s.logger.ErrorContext(r.Context(), "the request failed", "requestId", requestID.From(r.Context()), "path", r.URL.Path, "error", err)
			http.Error(w, "try again later", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}
}
