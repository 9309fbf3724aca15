package bullmq

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// HandleHTTP makes [Server.Run] serve HTTP beside the queues: an API, probes, metrics.
// Set the Addr and the Handler of web. If web has a TLSConfig with certificates, Run serves
// HTTPS. HandleHTTP may be called for several addresses. It panics if the Server runs
// already.
//
// Run starts to serve HTTP before it opens the workers, and continues until they have
// stopped, so that probes are answered all the time. Then Run shuts web down. Requests have
// 5 seconds to end, and Run returns an error if some have not ended by then.
//
// Requests may use the queues of [Server.Queue]. A call that waits for a job, or watches
// one, returns [ErrClosed] when the workers have stopped, so that no request is held up.
// Other calls of these queues succeed until the last request has ended.
//
// If an address can't be listened on, or serving fails later, the Server stops and Run
// returns the error.
func (s *Server) HandleHTTP(web *http.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != serverNew {
		panic("bullmq: serve HTTP on " + web.Addr + ": the server runs already")
	}
	s.web = append(s.web, web)
}

// webServers are the HTTP servers that run beside the workers.
type webServers struct {
	servers []*http.Server
	running sync.WaitGroup
	errs    []error // of each server
}

// serveHTTP starts the HTTP servers. stop is called when one of them fails.
func (s *Server) serveHTTP(stop context.CancelFunc) (*webServers, error) {
	var listeners []net.Listener
	for _, web := range s.web {
		listener, err := net.Listen("tcp", cmp.Or(web.Addr, ":http"))
		if err != nil {
			for _, listener := range listeners {
				_ = listener.Close()
			}
			return nil, fmt.Errorf("bullmq: serve HTTP: %w", err)
		}
		listeners = append(listeners, listener)
	}
	v := &webServers{servers: s.web, errs: make([]error, len(s.web))}
	for i, web := range s.web {
		s.o.Logger.with().Info("serving HTTP", logListen, listeners[i].Addr().String())
		v.running.Go(func() {
			var err error
			if web.TLSConfig != nil {
				err = web.ServeTLS(listeners[i], "", "")
			} else {
				err = web.Serve(listeners[i])
			}
			if !errors.Is(err, http.ErrServerClosed) {
				v.errs[i] = fmt.Errorf("bullmq: serve HTTP on %s: %w", listeners[i].Addr(), err)
				stop()
			}
		})
	}
	return v, nil
}

// shutdown waits until no request runs. It cuts requests off when hard ends, or after some
// seconds.
func (v *webServers) shutdown(hard context.Context) error {
	ctx, cancel := context.WithTimeout(hard, timing.RequestGrace)
	defer cancel()
	var ending sync.WaitGroup
	errs := make([]error, len(v.servers))
	for i, web := range v.servers {
		ending.Go(func() {
			if err := web.Shutdown(ctx); err != nil {
				_ = web.Close()
				errs[i] = fmt.Errorf("bullmq: serve HTTP on %s: requests were cut off: %w", web.Addr, err)
			}
		})
	}
	ending.Wait()
	v.running.Wait()
	return errors.Join(append(v.errs, errs...)...)
}

// Health returns whether Redis can be reached. Redis is unreachable if any user of the
// connection can't reach it. Health makes no call.
func (s *Server) Health() Health { return s.conn.Health() }

// ServerStatus is the status that the handlers of [Server.Live] and [Server.Ready] write,
// as JSON.
type ServerStatus struct {
	// Status is "starting", "running", "stopping" or "unreachable".
	Status string `json:"status"`
	// Queues are the queues of the server. Of each [Server.HandleQueues], it has the
	// first hundred.
	Queues []string `json:"queues"`
	// Error is why Redis can't be reached.
	Error string `json:"error,omitempty"`
}

// Live returns a handler for liveness probes. It replies 200 until Run has returned, and
// 503 after that. It also replies 200 while Redis can't be reached, because a restart of
// the process would not help.
func (s *Server) Live() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		live := true
		select {
		case <-s.ended:
			live = false
		default:
		}
		s.reply(w, live)
	})
}

// Ready returns a handler for readiness probes. It replies 200 while the Server runs and
// Redis can be reached, and 503 otherwise.
func (s *Server) Ready() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.reply(w, s.status().Status == "running")
	})
}

func (s *Server) reply(w http.ResponseWriter, ok bool) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(s.status())
}

// shownQueues is how many queues of each [MultiWorker] a [ServerStatus] has.
const shownQueues = 100

func (s *Server) status() ServerStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := ServerStatus{Status: "running", Queues: []string{}}
	for _, q := range s.queues {
		status.Queues = append(status.Queues, q.queue)
	}
	for _, q := range s.many {
		names := q.names()
		status.Queues = append(status.Queues, names[:min(len(names), shownQueues)]...)
	}
	switch health := s.conn.Health(); {
	case s.state < serverRunning:
		status.Status = "starting"
	case s.state > serverRunning:
		status.Status = "stopping"
	case !health.Reachable:
		status.Status = "unreachable"
		if health.Err != nil {
			status.Error = health.Err.Error()
		}
	}
	return status
}
