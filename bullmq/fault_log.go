package bullmq

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// faultLog writes the errors of a loop that retries. It writes at most one line a second, or one
// in ten seconds while Redis is unreachable. A line has the number of those that were left out
// before it.
type faultLog struct {
	mu      sync.Mutex
	last    time.Time
	leftOut int
}

// write writes a line, unless there was one shortly before.
func (f *faultLog) write(log *slog.Logger, level slog.Level, reachable bool, message string, err error, fields ...any) {
	pause := timing.FaultLogInterval
	if !reachable {
		pause = timing.OutageLogInterval
	}
	f.mu.Lock()
	silent := time.Since(f.last) < pause
	left := f.leftOut
	if silent {
		f.leftOut++
	} else {
		f.last, f.leftOut = time.Now(), 0
	}
	f.mu.Unlock()
	if silent {
		return
	}
	fields = append(fields, logError, err)
	if left > 0 {
		fields = append(fields, logSuppressed, left)
	}
	log.Log(context.Background(), level, message, fields...)
}
