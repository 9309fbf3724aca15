package bullmqhttp

import (
	"context"
	"errors"
	"net/http"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// cancelReason is the reason of a cancellation by a client.
const cancelReason = "by the client"

// serveCancel cancels a job, in whichever process it runs or waits. A job that is cancelled already is
// no error. So a client may repeat a cancellation whose outcome it does not know.
func (s *Server) serveCancel(w http.ResponseWriter, r *http.Request, t target) error {
	status, err := s.current(r.Context(), t)
	if err != nil {
		return err
	}
	if !status.State.Ended() {
		var outcome bullmq.CancelOutcome
		err := s.inTime(r.Context(), func(ctx context.Context) (err error) {
			outcome, err = s.queue.Cancel(ctx, t.id, cancelReason)
			return err
		})
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
