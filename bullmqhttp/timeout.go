package bullmqhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// writeTime is the time that a client has to take a reply, if the http.Server has a WriteTimeout that
// is shorter.
const writeTime = 10 * time.Second

// defaultTimeout is the default of Options.Timeout and ManagerOptions.Timeout.
const defaultTimeout = 5 * time.Second

// inTime makes a call to Redis, with a context that ends after Options.Timeout. It repeats a call that has
// failed, once: after a restart of Redis, each of the connections fails the first call that uses it. So the
// call must be one that may be repeated.
func (s *Server) inTime(ctx context.Context, call func(ctx context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	err := call(limited)
	if err != nil && limited.Err() == nil && !errors.Is(err, bullmq.ErrJobNotFound) && !errors.Is(err, bullmq.ErrClosed) {
		err = call(limited)
	}
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("bullmqhttp: Redis has not replied within %v: %w", s.o.Timeout, err)
	}
	return err
}

func (s *Server) hold(w http.ResponseWriter, r *http.Request, wait time.Duration) {
	// The longest are an add, which is repeated if its reply is lost, and then a read for Retry-After.
	hold(w, r, wait+3*s.o.Timeout)
}

// hold lets a reply come after a time, even if that is longer than the timeouts of the http.Server. Its
// ReadTimeout would end the context of the request, and its WriteTimeout would drop the reply.
func hold(w http.ResponseWriter, r *http.Request, most time.Duration) {
	server, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
	if !ok {
		return
	}
	control, latest := http.NewResponseController(w), time.Now().Add(most)
	if server.ReadTimeout > 0 {
		_ = control.SetReadDeadline(latest.Add(max(server.ReadTimeout, writeTime)))
	}
	if server.WriteTimeout > 0 {
		_ = control.SetWriteDeadline(latest.Add(max(server.WriteTimeout, writeTime)))
	}
}
