package bullmqpush

import (
	"context"
	"errors"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

const (
	// extendTimeout limits a call that extends the lock of an accepted job.
	extendTimeout = 5 * time.Second
	// The pause between these calls doubles from the first to the longest one.
	firstExtendPause, longestExtendPause = 50 * time.Millisecond, 2 * time.Second
)

// accepted leaves a job to the callbacks. It returns the error that the handler returns.
//
// That is ErrHandedOver in any case, since after another error the job would be sent again,
// although the endpoint works on it. While Redis can't be reached, accepted tries again until
// ctx ends. A worker ends it when the lock is lost.
func (p *pusher) accepted(ctx context.Context, job *bullmq.Job) error {
	for pause := firstExtendPause; ; pause = min(2*pause, longestExtendPause) {
		limited, cancel := context.WithTimeout(ctx, extendTimeout)
		_, err := job.ExtendLock(limited, p.client.options.CallbackWait)
		cancel()
		if err == nil || isFinal(err) {
			return bullmq.ErrHandedOver
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			bullmq.LoggerFromContext(ctx).Warn("the lock of an accepted job could not be extended; the job may be sent again", "error", err)
			return bullmq.ErrHandedOver
		}
	}
}

// isFinal reports whether a call that extends a lock would return the error again. After a
// cancellation the lock has been extended.
func isFinal(err error) bool {
	var state *bullmq.Error
	return errors.As(err, &state) || errors.Is(err, bullmq.ErrCancelled) || errors.Is(err, bullmq.ErrNoQueue) || errors.Is(err, bullmq.ErrClosed)
}
