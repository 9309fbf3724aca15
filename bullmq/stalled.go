package bullmq

import (
	"context"
	"time"
)

// startStalledCheck looks for jobs whose worker is gone, at once and then each
// StalledInterval, until ctx ends or the answered function is called.
func (w *Worker) startStalledCheck(ctx context.Context) (stop func()) {
	if w.o.SkipStalledCheck {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	w.checkStalled(ctx)
	go func() {
		defer close(done)
		ticker := time.NewTicker(w.o.StalledInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				w.checkStalled(ctx)
			}
		}
	}()
	return func() { cancel(); <-done }
}

func (w *Worker) checkStalled(ctx context.Context) {
	callCtx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	ids, err := w.CheckStalled(callCtx)
	if err != nil && ctx.Err() == nil {
		w.fault(err, "the check for stalled jobs failed; it is made again after StalledInterval")
	}
	for _, id := range ids {
		w.core.log.Warn().Str("job", id).Msg("a stalled job goes back to wait")
		if w.o.Events.Stalled != nil {
			w.guard("Stalled", func() { w.o.Events.Stalled(id) })
		}
	}
}

// CheckStalled makes one check for jobs whose worker is gone and answers those
// that went back to wait. A job counts as stalled when two checks find it
// without a lock; over all workers one check is made in StalledInterval. Run
// does this by itself; who takes jobs by hand calls it in a loop of their own
// (BullMQ: startStalledCheckTimer).
func (w *Worker) CheckStalled(ctx context.Context) ([]string, error) {
	return w.core.store.MoveStalled(ctx, w.core.nowMs(), int64(*w.o.MaxStalledCount), w.o.StalledInterval.Milliseconds())
}
