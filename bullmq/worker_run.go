package bullmq

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// runner is the state of Run. It runs each job of a feed in a slot, and waits for the slots
// at the end.
type runner struct {
	host  *host
	slots *slots
	feed  feed

	soft context.Context // ends when no more jobs are to be fetched
	base context.Context // parent of the handlers' contexts, which end by cancel
	hard chan struct{}   // closed when Run stops waiting for handlers

	giveUp sync.Once // closes hard

	wake chan struct{} // signals that the feed or finish must check its conditions again

	mu        sync.Mutex
	fetching  bool // the feed has not ended
	running   map[*attempt]bool
	cancelled bool  // all handlers were cancelled
	cause     error // of the cancellation
}

// newRunner returns a runner and starts the feed.
func newRunner(h *host, f feed) *runner {
	r := &runner{
		host: h, slots: h.slots, feed: f,
		hard: make(chan struct{}), wake: make(chan struct{}, 1),
		running: map[*attempt]bool{},
	}
	f.start(r)
	return r
}

// run fetches jobs until ctx ends. It returns when the fetched jobs have finished, or
// at the deadline of the stop.
func (r *runner) run(ctx context.Context) (deadline time.Time, err error) {
	r.soft = ctx
	r.base = context.WithoutCancel(ctx)
	defer r.cancel(nil)
	stop := context.AfterFunc(ctx, r.feed.interrupt)
	defer stop()
	r.fetching = true
	go r.fetchUntilStopped()
	<-ctx.Done()
	r.host.log.Info("the worker stops; it fetches no more jobs, and waits for those that run", logCount, r.count())
	deadline = r.host.stopDeadline()
	closing := r.host.emitAsync(EventClosing)
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
	span := r.host.startClose(r.soft)
	defer span.end(&err)
	defer func() { setAttr(span, attrWorkerForceClose, err != nil) }()
	if !r.host.hasShutdown() {
		bound, cancel := context.WithTimeout(context.Background(), r.host.options.ShutdownTimeout)
		defer cancel()
		defer r.endBy(bound)()
	}
	if r.waitIdle() {
		return nil
	}
	return r.unfinished()
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

// fetchUntilStopped runs the feed. When the worker stops, it signals that no more jobs are
// fetched.
func (r *runner) fetchUntilStopped() {
	if !r.feed.fetch() {
		return
	}
	r.mu.Lock()
	r.fetching = false
	r.mu.Unlock()
	r.signal()
}

// signal makes the feed, or finish, check its conditions again.
func (r *runner) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
	r.feed.signal()
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

// unfinished logs the unfinished jobs of each queue. It returns an [*UnfinishedError] that
// lists them, or nil if there are none.
func (r *runner) unfinished() error {
	queues := r.unfinishedJobs()
	byName := func(a, b *queueWorker) int { return strings.Compare(a.QueueName(), b.QueueName()) }
	var errs []error
	for _, w := range slices.SortedFunc(maps.Keys(queues), byName) {
		left := queues[w]
		slices.Sort(left.JobIDs)
		slices.Sort(left.Unwritten)
		w.core.log.Warn("jobs were not finished when the shutdown timeout ended; the stalled check runs them again; allow more time with ShutdownTimeout",
			logRunning, left.JobIDs, logUnwritten, left.Unwritten)
		errs = append(errs, left)
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

func (r *runner) unfinishedJobs() map[*queueWorker]*UnfinishedError {
	r.mu.Lock()
	defer r.mu.Unlock()
	queues := map[*queueWorker]*UnfinishedError{}
	for a := range r.running {
		left := queues[a.w]
		if left == nil {
			left = &UnfinishedError{QueueName: a.w.QueueName()}
			queues[a.w] = left
		}
		if a.stage == returned {
			left.Unwritten = append(left.Unwritten, a.job.ID)
		} else {
			left.JobIDs = append(left.JobIDs, a.job.ID)
		}
	}
	return queues
}

// await sleeps until it is signalled, the given time has passed (0 for no limit), or the
// worker stops.
func (r *runner) await(most time.Duration) {
	var over <-chan time.Time
	if most > 0 {
		timer := time.NewTimer(most)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
	case <-r.wake:
	case <-r.soft.Done():
	}
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
