package bullmqhttp

import (
	"errors"
	"net/http"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// cancelReason is the reason of a cancellation by a client.
const cancelReason = "by the client"

// serveCancel cancels a job, in whichever process it runs or waits. A job that is cancelled already is
// no error.
func (s *Server) serveCancel(w http.ResponseWriter, r *http.Request, t target) error {
	status, err := s.current(r.Context(), t)
	if err != nil {
		return err
	}
	if !status.State.Ended() {
		outcome, err := s.queue.Cancel(r.Context(), t.id, cancelReason)
		switch {
		case errors.Is(err, bullmq.ErrJobNotFound):
			return notFound()
		case err != nil:
			return err
		case outcome != bullmq.CancelFinished:
			setRetryAfter(w.Header(), s.pause(r.Context(), status))
			reply(w, http.StatusAccepted, "application/json", status)
			return nil
		}
		if status, err = s.current(r.Context(), t); err != nil { // it has ended meanwhile
			return err
		}
	}
	if status.State == Cancelled {
		reply(w, http.StatusOK, "application/json", status)
		return nil
	}
	return problem(http.StatusConflict, CodeFinished, "the job has %s", status.State).about(t.id)
}
