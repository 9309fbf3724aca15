package bullmqhttp

import (
	"net/http"
	"time"
)

// defaultMaxHeld is the default of Options.MaxHeld.
const defaultMaxHeld = 10_000

// enter counts a request that is held. It reports false if there are too many already. Otherwise leave
// must be called at the end.
func (s *Server) enter() (leave func(), entered bool) {
	if s.held.Add(1) > int64(s.o.MaxHeld) {
		s.held.Add(-1)
		return nil, false
	}
	return func() { s.held.Add(-1) }, true
}

// enterWait counts a request that waits, if it has a wait. The wait becomes 0 if too many requests are
// held. leave must be called at the end.
func (s *Server) enterWait(wait time.Duration) (allowed time.Duration, leave func()) {
	if wait > 0 {
		if leave, entered := s.enter(); entered {
			return wait, leave
		}
	}
	return 0, func() {}
}

// tooManyHeld is the reply to a request for events while too many requests are held.
func tooManyHeld() *Problem {
	return problem(http.StatusServiceUnavailable, CodeTooManyHeld, "too many requests wait for jobs; try again later").after(outagePause)
}
