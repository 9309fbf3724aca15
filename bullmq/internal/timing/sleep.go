package timing

import (
	"context"
	"time"
)

// Sleep waits for a duration, or until ctx ends.
func Sleep(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
