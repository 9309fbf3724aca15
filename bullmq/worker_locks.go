package bullmq

import (
	"context"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// lockKeeper renews the locks of all jobs that a worker runs, in shared calls. It
// cancels a handler's context when the lock is lost: when Redis reports the loss, or
// when LockDuration has passed without a successful renewal. A renewal that fails for
// another reason is retried.
type lockKeeper struct {
	worker *queueWorker
	mu     sync.Mutex
	held   map[string]*heldLock // by job id
}

type heldLock struct {
	token   string
	renewed time.Time // when the last confirmed renewal began, with a monotonic reading
	lose    context.CancelCauseFunc
	cancel  func(backend.Cancellation) // of a Fetcher; called once
	leaving int                        // calls in flight by which the handler itself releases the lock
}

func newLockKeeper(w *queueWorker) *lockKeeper {
	return &lockKeeper{worker: w, held: map[string]*heldLock{}}
}

// hold starts renewing a lock.
func (k *lockKeeper) hold(jobID string, lock heldLock) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held[jobID] = &lock
}

// release stops renewing a lock and returns when it expires.
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

// any reports whether there are locks to renew.
func (k *lockKeeper) any() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.held) > 0
}

// leave announces a call by which a handler itself releases its lock. A renewal that
// finds the lock gone during that call does not report a loss. After the call, the
// caller calls the returned function and reports whether the job was moved. leave does
// nothing for locks that are not renewed, such as those of a [Fetcher] without renewal.
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

// run renews locks until ctx ends. It retries a failed renewal soon, before the locks
// expire. It reports errors at growing intervals, even if it retries more often.
func (k *lockKeeper) run(ctx context.Context) {
	renewRepeatedly(ctx, &k.worker.o, k.renew, func(err error) { k.worker.fault(err, notRenewed) })
}

const notRenewed = "locks could not be renewed; retrying until they expire"

// renewRepeatedly is [lockKeeper.run] with the functions that renew locks and report an
// error.
func renewRepeatedly(ctx context.Context, o *WorkerOptions, renew func(context.Context) error, report func(error)) {
	rhythm := max(o.LockRenewTime/2, time.Millisecond)
	var outage timing.Backoff
	var reported time.Time
	wait := rhythm
	for timing.Sleep(ctx, wait); ctx.Err() == nil; timing.Sleep(ctx, wait) {
		wait = rhythm
		err := renew(ctx)
		if err == nil {
			outage.Succeeded()
			continue
		}
		pause := outage.Next()
		if ctx.Err() == nil && time.Since(reported) >= pause {
			reported = time.Now()
			report(err)
		}
		wait = min(rhythm, pause)
	}
}

// renew extends the locks that are due, a thousand in each call.
func (k *lockKeeper) renew(ctx context.Context) (failed error) {
	w := k.worker
	begun := time.Now()
	due, first := k.due(begun)
	for from := 0; from < len(due); from += 1000 {
		some := due[from:min(from+1000, len(due))]
		// If Redis does not reply, the handlers must still be cancelled when their locks expire.
		callCtx, cancel := context.WithTimeout(ctx, max(time.Until(first), timing.LastRenewal))
		callCtx, span := w.startExtendLocks(callCtx, some)
		renewal, err := w.core.store.ExtendLocks(callCtx, some, w.o.LockDuration)
		span.end(&err)
		cancel()
		if err != nil {
			k.expire()
			failed = err
			continue
		}
		k.applyRenewal(some, renewal, begun)
	}
	return failed
}

// due returns the locks to renew now, and when the first of all locks expires, but not
// later than that of a lock which is acquired now.
func (k *lockKeeper) due(now time.Time) (due []backend.Lock, first time.Time) {
	o := &k.worker.o
	first = now.Add(o.LockDuration)
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, lock := range k.held {
		if now.Sub(lock.renewed) >= o.LockRenewTime/2 {
			due = append(due, backend.Lock{JobID: id, Token: lock.token})
		}
		if end := lock.renewed.Add(o.LockDuration); end.Before(first) {
			first = end
		}
	}
	return due, first
}

// notify tells the program of a Fetcher once that a job is cancelled. It does not wait for
// the program.
func (k *lockKeeper) notify(c backend.Cancellation) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if lock := k.held[c.JobID]; lock != nil && lock.cancel != nil {
		go lock.cancel(c)
		lock.cancel = nil
	}
}

// applyRenewal records the result of a renewal that began at when, and cancels the jobs
// that [Queue.Cancel] has cancelled.
func (k *lockKeeper) applyRenewal(asked []backend.Lock, renewal backend.Renewal, when time.Time) {
	gone := map[string]bool{}
	for _, id := range renewal.Lost {
		gone[id] = true
	}
	var lostIDs, renewed []string
	k.mu.Lock()
	for _, lock := range asked {
		held := k.held[lock.JobID]
		if held == nil || held.token != lock.Token {
			continue // the job has finished meanwhile
		}
		switch {
		case gone[lock.JobID] && held.leaving > 0: // the handler released it
		case gone[lock.JobID]:
			held.lose(ErrLockLost)
			lostIDs = append(lostIDs, lock.JobID)
			delete(k.held, lock.JobID)
		default:
			held.renewed = when
			renewed = append(renewed, lock.JobID)
		}
	}
	k.mu.Unlock()
	k.emitLost(lostIDs)
	if len(renewed) > 0 {
		k.worker.emit(WorkerEvent{Type: EventLocksRenewed, JobIDs: renewed})
	}
	for _, cancelled := range renewal.Cancelled {
		k.worker.cancelOwn(cancelled)
		k.notify(cancelled)
	}
}

// expire reports as lost the locks that were not renewed within LockDuration.
func (k *lockKeeper) expire() {
	var lostIDs []string
	k.mu.Lock()
	for id, lock := range k.held {
		if time.Since(lock.renewed) >= k.worker.o.LockDuration {
			lock.lose(ErrLockLost)
			lostIDs = append(lostIDs, id)
			delete(k.held, id)
		}
	}
	k.mu.Unlock()
	k.emitLost(lostIDs)
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
