package bullmq

import (
	"context"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// lockKeeper renews the locks of all jobs that a worker runs, together, and
// tells a handler when its lock is lost: when Redis says so, or when the
// lock's own time is over without a renewal having come through. One renewal
// that fails for another reason loses nothing.
type lockKeeper struct {
	worker *Worker
	mu     sync.Mutex
	held   map[string]*heldLock // by job id
}

type heldLock struct {
	token   string
	renewed time.Time // when Redis last confirmed it, by the monotonic clock
	lose    context.CancelCauseFunc
	leaving int // calls under way by which the handler itself gives the lock up
}

func newLockKeeper(w *Worker) *lockKeeper {
	return &lockKeeper{worker: w, held: map[string]*heldLock{}}
}

// hold takes charge of a lock that was taken at a time.
func (k *lockKeeper) hold(jobID, token string, taken time.Time, lose context.CancelCauseFunc) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held[jobID] = &heldLock{token: token, renewed: taken, lose: lose}
}

// release ends the renewals and answers until when the lock is the worker's.
func (k *lockKeeper) release(jobID, token string) (until time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	lock := k.held[jobID]
	if lock == nil || lock.token != token {
		return time.Time{}
	}
	delete(k.held, jobID)
	return lock.renewed.Add(k.worker.o.LockDuration)
}

// holds reports whether the worker runs the job under the token.
func (k *lockKeeper) holds(jobID, token string) bool {
	if k == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	lock := k.held[jobID]
	return lock != nil && lock.token == token
}

// leave is for a call by which a handler itself gives up the lock that it holds:
// a renewal that finds it gone meanwhile is no loss. What is answered is called
// with whether the job has gone, after the call. Where no keeper has charge of
// the lock, as for a queue's jobs and for those of a [Fetcher] that renews none, it does nothing.
func (k *lockKeeper) leave(jobID, token string) func(gone bool) {
	if k == nil {
		return func(bool) {}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	lock := k.held[jobID]
	if lock == nil || lock.token != token {
		return func(bool) {}
	}
	lock.leaving++
	return func(gone bool) {
		k.mu.Lock()
		defer k.mu.Unlock()
		lock.leaving--
		if gone && k.held[jobID] == lock {
			delete(k.held, jobID)
		}
	}
}

// run renews until ctx ends. What fails is tried again soon, since the locks
// go on growing old. Its errors are reported like those of the other loops, less
// and less often, even where short locks must be renewed more often than that.
func (k *lockKeeper) run(ctx context.Context) {
	rhythm := max(k.worker.o.LockRenewTime/2, time.Millisecond)
	var outage timing.Backoff
	var reported time.Time
	wait := rhythm
	for timing.Sleep(ctx, wait); ctx.Err() == nil; timing.Sleep(ctx, wait) {
		wait = rhythm
		err := k.renew(ctx)
		if err == nil {
			outage.Succeeded()
			continue
		}
		pause := outage.Next()
		if ctx.Err() == nil && time.Since(reported) >= pause {
			reported = time.Now()
			k.worker.fault(err, "locks could not be renewed; retrying until they expire")
		}
		wait = min(rhythm, pause)
	}
}

// renew extends the locks that are old enough, in one call for a thousand.
func (k *lockKeeper) renew(ctx context.Context) (failed error) {
	w := k.worker
	begun := time.Now()
	first := begun.Add(w.o.LockDuration) // when the first of them is over
	k.mu.Lock()
	var due []backend.Lock
	for id, lock := range k.held {
		if begun.Sub(lock.renewed) >= w.o.LockRenewTime/2 {
			due = append(due, backend.Lock{JobID: id, Token: lock.token})
		}
		if end := lock.renewed.Add(w.o.LockDuration); end.Before(first) {
			first = end
		}
	}
	k.mu.Unlock()
	for from := 0; from < len(due); from += 1000 {
		some := due[from:min(from+1000, len(due))]
		// A silent Redis must not keep a handler from hearing that its lock is over.
		callCtx, cancel := context.WithTimeout(ctx, max(time.Until(first), timing.LastRenewal))
		callCtx, span := w.startExtendLocks(callCtx, some)
		lost, err := w.core.store.ExtendLocks(callCtx, some, w.o.LockDuration)
		span.end(&err)
		cancel()
		if err != nil {
			k.expire()
			failed = err
			continue
		}
		k.applyRenewal(some, lost, begun)
	}
	return failed
}

// applyRenewal records the outcome of a renewal: which locks were lost.
func (k *lockKeeper) applyRenewal(asked []backend.Lock, lost []string, when time.Time) {
	gone := map[string]bool{}
	for _, id := range lost {
		gone[id] = true
	}
	var told, renewed []string
	k.mu.Lock()
	for _, lock := range asked {
		held := k.held[lock.JobID]
		if held == nil || held.token != lock.Token {
			continue // its job has ended meanwhile
		}
		switch {
		case gone[lock.JobID] && held.leaving > 0: // its handler is about to say so
		case gone[lock.JobID]:
			held.lose(ErrLockLost)
			told = append(told, lock.JobID)
			delete(k.held, lock.JobID)
		default:
			held.renewed = when
			renewed = append(renewed, lock.JobID)
		}
	}
	k.mu.Unlock()
	k.emitLost(told)
	if len(renewed) > 0 {
		k.worker.emit(WorkerEvent{Type: EventLocksRenewed, JobIDs: renewed})
	}
}

// expire gives up locks whose own time is over.
func (k *lockKeeper) expire() {
	var told []string
	k.mu.Lock()
	for id, lock := range k.held {
		if time.Since(lock.renewed) >= k.worker.o.LockDuration {
			lock.lose(ErrLockLost)
			told = append(told, id)
			delete(k.held, id)
		}
	}
	k.mu.Unlock()
	k.emitLost(told)
}

func (k *lockKeeper) emitLost(jobIDs []string) {
	if len(jobIDs) == 0 {
		return
	}
	w := k.worker
	w.core.log.Error("locks were lost, so other workers may run these jobs again; their handlers' contexts are cancelled; return from a handler when its context ends",
		logJobs, jobIDs)
	w.emit(WorkerEvent{Type: EventLocksLost, JobIDs: jobIDs})
}
