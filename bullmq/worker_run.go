package bullmq

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// runner is the state of Worker.Run. It fetches jobs, runs each in a slot, and waits
// for the slots at the end.
type runner struct {
	w      *queueWorker
	slots  *slots
	waiter backend.Waiter

	soft context.Context // ends when no more jobs are to be fetched
	base context.Context // parent of the handlers' contexts, which end by cancel
	hard chan struct{}   // closed when Run stops waiting for handlers

	giveUp sync.Once // closes hard

	wake chan struct{} // signals that fetch or finish must check its conditions again

	// Used by fetch only.
	unresolved []unresolvedFetch
	batchHint  int // how many jobs a fetch requests

	mu             sync.Mutex
	fetching       bool // fetch has not ended
	inline         bool // its goroutine runs a job, and nothing is fetched meanwhile
	running        map[*attempt]bool
	cancelled      bool      // all handlers were cancelled
	cause          error     // of the cancellation
	epoch          int       // counts changes that are a reason to fetch
	drained        bool      // the last fetch found nothing to run
	emittedDrained bool      // EventDrained was emitted, and no job has been fetched since
	nextDue        time.Time // when the first delayed job is due; zero for none
	limitedUntil   time.Time // end of the rate limit, by the real clock
	stoppedUntil   time.Time // end of a rate limit that a handler returned although there is no limiter
}

func newRunner(w *queueWorker) *runner {
	return &runner{
		w: w, slots: w.slots, waiter: w.core.newWaiter(w.core.keys.clientName(w.nameSuffix())),
		hard: make(chan struct{}), wake: make(chan struct{}, 1),
		running: map[*attempt]bool{},
	}
}

// run fetches jobs until ctx ends. It returns when the fetched jobs have finished, or
// at the deadline of the stop.
func (r *runner) run(ctx context.Context) (deadline time.Time, err error) {
	r.soft = ctx
	r.base = context.WithoutCancel(ctx)
	defer r.cancel(nil)
	stop := context.AfterFunc(ctx, r.waiter.Interrupt)
	defer stop()
	r.fetching = true
	go r.fetchUntilStopped()
	<-ctx.Done()
	r.w.core.log.Info("the worker stops; it fetches no more jobs, and waits for those that run", logCount, r.count())
	deadline = r.w.stopDeadline()
	closing := r.w.emitAsync(EventClosing)
	err = r.finish()
	if r.hardStopped() {
		deadline = time.Now()
	}
	closing.Wait(deadline)
	return deadline, err
}

// finish waits for the running jobs, and for a fetch in flight, which may return
// another job, until the deadline of the stop.
func (r *runner) finish() (err error) {
	span := r.w.startClose(r.soft)
	defer span.end(&err)
	defer func() { setAttr(span, attrWorkerForceClose, err != nil) }()
	if !r.w.hasShutdown() {
		bound, cancel := context.WithTimeout(context.Background(), r.w.o.ShutdownTimeout)
		defer cancel()
		defer r.endBy(bound)()
	}
	if r.waitIdle() {
		return nil
	}
	left := r.unfinished()
	if left == nil {
		return nil
	}
	r.w.core.log.Warn("jobs were not finished when the shutdown timeout ended; the stalled check runs them again; allow more time with ShutdownTimeout",
		logRunning, left.JobIDs, logUnwritten, left.Unwritten)
	return left
}

// endBy cancels the handlers' contexts shortly before the deadline of ctx, or when
// ctx is cancelled. Soon after, it ends the wait for the handlers. stop ends its
// effect.
func (r *runner) endBy(ctx context.Context) (stop context.CancelFunc) {
	left := timing.HandlerGrace
	soon, cancelSoon := context.WithCancel(ctx)
	if deadline, bounded := ctx.Deadline(); bounded {
		left = min(timing.HandlerGrace, max(0, time.Until(deadline)/10))
		soon, cancelSoon = context.WithDeadline(ctx, deadline.Add(-left))
	}
	stopped, stop := context.WithCancel(context.Background())
	go func() {
		defer cancelSoon()
		select {
		case <-soon.Done():
		case <-stopped.Done():
			return
		}
		r.cancel(ErrShutdown)
		select {
		case <-time.After(left):
			r.giveUp.Do(func() { close(r.hard) })
		case <-stopped.Done():
		}
	}()
	return stop
}

// waitIdle waits until fetch has ended and all slots are free. It returns false if the
// wait for the handlers ended first.
func (r *runner) waitIdle() bool {
	for r.busy() {
		select {
		case <-r.wake:
		case <-r.hard:
			return !r.busy()
		}
	}
	return true
}

func (r *runner) busy() bool {
	r.mu.Lock()
	fetching := r.fetching
	r.mu.Unlock()
	return fetching || r.slots.occupied()
}

// stopping reports whether the worker no longer fetches jobs.
func (r *runner) stopping() bool { return r.soft.Err() != nil }

// hardStopped reports whether Run no longer waits for handlers.
func (r *runner) hardStopped() bool {
	select {
	case <-r.hard:
		return true
	default:
		return false
	}
}

// signal makes fetch, or finish, check its conditions again.
func (r *runner) signal() {
	r.resumeFetching()
	select {
	case r.wake <- struct{}{}:
	default:
	}
	if r.waiter.Waiting() && (!r.idle() || r.rateLimitLeft() > 0) {
		go r.waiter.Interrupt()
	}
}

func (r *runner) vacate() {
	r.slots.vacate()
	r.signal()
}

func (r *runner) track(a *attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running[a] = true
	if r.cancelled {
		a.cancel(r.cause)
	}
}

// cancel cancels the contexts of all handlers, including those that start later. The
// contexts have no common parent, because registering each with it is slow.
func (r *runner) cancel(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancelled, r.cause = true, cause
	for a := range r.running {
		a.cancel(cause)
	}
}

func (r *runner) untrack(a *attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, a)
}

// count returns how many jobs run.
func (r *runner) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.running)
}

// unfinished returns an error that lists the unfinished jobs, or nil if there are
// none.
func (r *runner) unfinished() *UnfinishedError {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.running) == 0 {
		return nil
	}
	left := &UnfinishedError{QueueName: r.w.QueueName()}
	for a := range r.running {
		if a.stage == returned {
			left.Unwritten = append(left.Unwritten, a.job.ID)
		} else {
			left.JobIDs = append(left.JobIDs, a.job.ID)
		}
	}
	slices.Sort(left.JobIDs)
	slices.Sort(left.Unwritten)
	return left
}

// runInline runs a job on fetch's own goroutine, which starts it sooner than another
// goroutine would. Fetching continues in a new goroutine: at once if there is another
// free slot, otherwise when there is one.
func (r *runner) runInline(job *Job, lockedAt time.Time) {
	r.setInline(true)
	r.resumeFetching()
	r.slot(handover{r.w, job, lockedAt})
}

// resumeFetching starts a new fetch goroutine if the last one runs a job and a slot
// is free.
func (r *runner) resumeFetching() {
	if !r.slots.full() && r.setInline(false) {
		go r.fetchUntilStopped()
	}
}

// setInline returns the previous value.
func (r *runner) setInline(inline bool) (before bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, r.inline = r.inline, inline
	return before
}

// pauseAfter returns how long to wait after a failure before a call is repeated. If only
// a connection broke and Redis is not known to be unreachable, the pauses are short at
// first, because the client's other connections may have broken too.
func (h *host) pauseAfter(failure error, outage *timing.Backoff) time.Duration {
	wait := outage.Next()
	if classify(failure) == backend.Lost && wait <= timing.LastQuickPause && h.Health().Reachable {
		wait = timing.ShortestPause
	}
	return wait
}
