package safe

import (
	"context"
	"testing"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

func TestWaitReturnsWhenTheFunctionHasReturned(t *testing.T) {
	b := Go(context.Background(), func(ctx context.Context) { <-ctx.Done() })
	b.Cancel()
	begun := time.Now()
	b.Wait(begun.Add(time.Minute))
	if took := time.Since(begun); took > timing.BackgroundWait/2 {
		t.Errorf("waited for %v", took)
	}
}

func TestWaitGivesUpAtTheLatestTime(t *testing.T) {
	end := make(chan struct{})
	defer close(end)
	b := Go(context.Background(), func(context.Context) { <-end })
	b.Cancel()
	begun := time.Now()
	b.Wait(begun.Add(20 * time.Millisecond))
	if took := time.Since(begun); took < 20*time.Millisecond || took > timing.BackgroundWait/2 {
		t.Errorf("waited for %v", took)
	}
}
