package safe

import (
	"context"
	"testing"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// quickest returns the shortest of several waits for the end of a function, since a busy machine may hold one up.
func quickest(function func(context.Context), latest time.Duration) time.Duration {
	shortest := time.Hour
	for range 5 {
		b := Go(context.Background(), function)
		b.Cancel()
		begun := time.Now()
		b.Wait(begun.Add(latest))
		shortest = min(shortest, time.Since(begun))
	}
	return shortest
}

func TestWaitReturnsWhenTheFunctionHasReturned(t *testing.T) {
	if took := quickest(func(ctx context.Context) { <-ctx.Done() }, time.Minute); took > timing.BackgroundWait/2 {
		t.Errorf("waited for %v", took)
	}
}

func TestWaitGivesUpAtTheLatestTime(t *testing.T) {
	end := make(chan struct{})
	defer close(end)
	took := quickest(func(context.Context) { <-end }, 20*time.Millisecond)
	if took < 20*time.Millisecond || took > timing.BackgroundWait/2 {
		t.Errorf("waited for %v", took)
	}
}
