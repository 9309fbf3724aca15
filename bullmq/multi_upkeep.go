package bullmq

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/safe"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// upkeep starts the loops that run beside the jobs, for all queues together.
func (f *groupFeed) upkeep(ctx context.Context) (loops []*safe.Background, end func(time.Time)) {
	outliving := f.h.home.trace.outliving(ctx)
	o := &f.o.Worker
	if !o.SkipLockRenewal {
		loops = append(loops, safe.Go(outliving, f.renewLocks))
	}
	loops = append(loops, safe.Go(outliving, f.watchCancellations))
	if !o.SkipStalledCheck {
		loops = append(loops, safe.Go(ctx, f.checkStalled))
	}
	registration := startRegistration(ctx, f.h, f.h.home.keys.queue, f.queueNames, f.enlist, f.connections)
	if registration != nil {
		loops = append(loops, registration.loop)
	}
	if f.letters == nil {
		return loops, registration.end
	}
	loops = append(loops, safe.Go(outliving, f.letters.run))
	return loops, func(deadline time.Time) {
		registration.end(deadline)
		f.letters.finish(deadline)
	}
}

// connections returns the ids in CLIENT LIST of the connections on which the listeners wait.
func (f *groupFeed) connections() (ids []int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.listeners {
		if waiter, ok := l.waiter.(backend.Identified); ok {
			ids = append(ids, waiter.ClientID())
		}
	}
	slices.Sort(ids)
	return ids
}

// workers returns the queueWorkers that there are, by group.
func (f *groupFeed) workers() map[*queueGroup][]*queueWorker {
	f.mu.Lock()
	defer f.mu.Unlock()
	by := map[*queueGroup][]*queueWorker{}
	for m := range f.hot {
		by[m.group] = append(by[m.group], m.worker)
	}
	return by
}

// locksPerCall is how many locks one call renews.
const locksPerCall = 1000

// perGroup runs a function for each group, at the same time. While the function still runs
// for a group, because a node of the cluster does not reply, it is not started again for that
// group. The other groups do not wait for it.
type perGroup struct {
	states map[*queueGroup]*groupState
	all    sync.WaitGroup
}

// groupState is the state of a group in a perGroup.
type groupState struct {
	busy   atomic.Bool
	outage timing.Backoff // used by the function
}

// start reports whether it has started the function.
func (p *perGroup) start(g *queueGroup, run func(outage *timing.Backoff)) bool {
	state := p.states[g]
	if state == nil {
		maps.DeleteFunc(p.states, func(other *queueGroup, of *groupState) bool { return !of.busy.Load() && other.listener.isReleased() })
		state = &groupState{}
		if p.states == nil {
			p.states = map[*queueGroup]*groupState{}
		}
		p.states[g] = state
	}
	if state.busy.Swap(true) {
		return false
	}
	p.all.Go(func() {
		defer state.busy.Store(false)
		run(&state.outage)
	})
	return true
}

// renewLocks renews locks until ctx ends, as [lockKeeper.run] does.
func (f *groupFeed) renewLocks(ctx context.Context) {
	rhythm := max(f.o.Worker.LockRenewTime/2, time.Millisecond)
	var renewals perGroup
	defer renewals.all.Wait()
	for timing.Sleep(ctx, rhythm); ctx.Err() == nil; timing.Sleep(ctx, rhythm) {
		for g := range f.workers() {
			renewals.start(g, func(outage *timing.Backoff) { f.renewLocksOf(ctx, g, rhythm, outage) })
		}
	}
}

// renewLocksOf extends the locks of a group that are due. It retries a failed renewal soon,
// until it succeeds or the locks have expired.
func (f *groupFeed) renewLocksOf(ctx context.Context, g *queueGroup, rhythm time.Duration, outage *timing.Backoff) {
	var reported time.Time
	for ctx.Err() == nil {
		renewal := groupRenewal{f: f, g: g, begun: time.Now()}
		for _, w := range f.workers()[g] {
			due, first := w.locks.due(renewal.begun)
			for some := range slices.Chunk(due, locksPerCall) {
				renewal.add(ctx, w, some, first)
			}
		}
		renewal.send(ctx)
		if renewal.failed == nil {
			outage.Succeeded()
			return
		}
		pause := outage.Next()
		if ctx.Err() == nil && time.Since(reported) >= pause {
			reported = time.Now()
			f.h.reportFault(f.h.log, "", renewal.failed, notRenewed)
		}
		timing.Sleep(ctx, min(rhythm, pause))
	}
}

// groupRenewal renews locks of a group in calls of about locksPerCall.
type groupRenewal struct {
	f      *groupFeed
	g      *queueGroup
	begun  time.Time
	failed error

	workers []*queueWorker
	locks   []backend.QueueLocks // of each
	count   int
	first   time.Time // when the first of the locks expires
}

func (r *groupRenewal) add(ctx context.Context, w *queueWorker, locks []backend.Lock, first time.Time) {
	if r.count > 0 && r.count+len(locks) > locksPerCall {
		r.send(ctx)
	}
	if r.count == 0 || first.Before(r.first) {
		r.first = first
	}
	r.workers, r.locks = append(r.workers, w), append(r.locks, backend.QueueLocks{Queue: w.core.keys.base, Locks: locks})
	r.count += len(locks)
}

// send makes the call.
func (r *groupRenewal) send(ctx context.Context) {
	if r.count == 0 {
		return
	}
	workers, locks, h := r.workers, r.locks, r.f.h
	r.workers, r.locks, r.count = nil, nil, 0
	// If Redis does not reply, the handlers must still be cancelled when their locks expire.
	ctx, cancel := context.WithTimeout(ctx, max(time.Until(r.first), timing.LastRenewal))
	defer cancel()
	ctx, span := h.home.trace.start(ctx, SpanInternal, "extendLocks")
	h.describe(span)
	renewals, err := r.g.store.ExtendLocksOf(ctx, locks, r.f.o.Worker.LockDuration)
	span.end(&err)
	for i, w := range workers {
		var failed error
		if failed = err; failed == nil {
			failed = renewals[i].Err
		}
		if failed != nil {
			r.failed = failed
			w.locks.expire()
			continue
		}
		w.locks.applyRenewal(locks[i].Locks, renewals[i].Renewal, r.begun)
	}
}

// stalledPerCall is in how many queues one call checks for stalled jobs.
const stalledPerCall = 50

// checkStalled checks for stalled jobs at once and then every StalledInterval, until ctx
// ends. Like [queueWorker.runStalledCheck], it makes no check while the worker is paused. It
// checks only queues with active jobs, because a check leaves a key.
func (f *groupFeed) checkStalled(ctx context.Context) {
	select {
	case <-f.admitted:
	case <-ctx.Done():
		return
	}
	var outage timing.Backoff
	for ctx.Err() == nil {
		paused, turn := f.h.slots.paused()
		var next <-chan time.Time
		if !paused {
			pause := f.o.Worker.StalledInterval
			err := f.findStalled(ctx)
			if err == nil {
				outage.Succeeded()
			} else {
				pause = max(pause, outage.Next())
			}
			if err != nil && ctx.Err() == nil {
				f.h.reportFault(f.h.log, "", err, "the check for stalled jobs failed; it is repeated after StalledInterval")
			}
			next = time.After(pause)
		}
		select {
		case <-next:
		case <-turn.Done():
		case <-ctx.Done():
		}
	}
}

// findStalled makes one check in each queue that has active jobs. It returns the last error
// of a call. Groups whose calls succeed are checked all the same.
func (f *groupFeed) findStalled(ctx context.Context) error {
	return eachGroup(f.byGroup(f.all()), func(g *queueGroup, queues []*memberQueue) error {
		looked := f.lookAtGroup(ctx, g, queues, backend.Look{})
		f.mu.Lock()
		queues = slices.DeleteFunc(queues, func(m *memberQueue) bool { return !m.mayStall || !m.admitted })
		f.mu.Unlock()
		var failed error
		for some := range slices.Chunk(queues, stalledPerCall) {
			called, err := f.findStalledIn(ctx, g, some)
			if err != nil {
				failed = err
			}
			if !called {
				break
			}
		}
		return cmp.Or(failed, looked)
	})
}

// findStalledIn makes the check in some queues. called reports whether the call as a whole
// has succeeded.
func (f *groupFeed) findStalledIn(ctx context.Context, g *queueGroup, queues []*memberQueue) (called bool, failed error) {
	o := &f.o.Worker
	ctx, span := f.h.home.trace.start(ctx, SpanInternal, "moveStalledJobsToWait")
	defer span.end(&failed)
	f.h.describe(span)
	ctx, forget := f.h.untilClosed(ctx)
	defer forget()
	ctx, cancel := context.WithTimeout(ctx, timing.CallTimeout)
	defer cancel()
	moved, err := g.store.MoveStalledJobsOf(ctx, basesOf(queues), f.h.home.now(), max(o.MaxStalledCount, 0), o.StalledInterval)
	if err != nil {
		return false, err
	}
	for i, of := range moved {
		m := queues[i]
		if of.Err != nil {
			failed = of.Err
			continue
		}
		if len(of.JobIDs) > 0 {
			m.markDirty()
		}
		for _, id := range of.JobIDs {
			f.h.reportStalled(f.h.home.log.With(logQueue, m.name), m.name, id)
		}
	}
	return true, failed
}

// watchCancellations notices jobs that [Queue.Cancel] has cancelled, as [cancelWatch] does.
func (f *groupFeed) watchCancellations(ctx context.Context) {
	first, polled := firstCancelRequest(), time.Now()
	var reads perGroup
	defer reads.all.Wait()
	for {
		if timing.Sleep(ctx, timing.CancelPollInterval); ctx.Err() != nil {
			return
		}
		queues := f.runningSince(time.Now().Add(-timing.CancelPollInterval))
		if time.Since(polled) >= timing.IdleCancelPollInterval {
			polled = time.Now()
			queues = append(queues, f.withCancellations()...)
		}
		for g, of := range f.byGroup(queues) {
			reads.start(g, func(outage *timing.Backoff) {
				err := f.readCancellations(ctx, g, of, first)
				if err == nil {
					outage.Succeeded()
					return
				}
				f.h.log.Debug("cancellations could not be read; the renewal of locks returns them later", logError, err)
				pause := outage.Next()
				if classify(err).Lasting() { // such as for want of permission
					pause = timing.IdleCancelPollInterval
				}
				timing.Sleep(ctx, pause)
			})
		}
	}
}

// runningSince returns the queues of which a job runs that was fetched before a time.
func (f *groupFeed) runningSince(before time.Time) (queues []*memberQueue) {
	r := f.h.current()
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	found := map[*memberQueue]bool{}
	for a := range r.running {
		if m, ok := a.w.source.(*memberQueue); ok && a.lockedAt.Before(before) && !found[m] {
			found[m] = true
			queues = append(queues, m)
		}
	}
	return queues
}

// withCancellations returns the queues in which the last look has found requests.
func (f *groupFeed) withCancellations() (queues []*memberQueue) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for m := range f.ring.States() {
		if m.cancelled {
			queues = append(queues, m)
		}
	}
	return queues
}

// readCancellations reads the requests of some queues of a group since they were last read.
// first is the id after which it reads for the first time.
func (f *groupFeed) readCancellations(ctx context.Context, g *queueGroup, queues []*memberQueue, first string) error {
	slices.SortFunc(queues, func(a, b *memberQueue) int { return strings.Compare(a.name, b.name) })
	queues = slices.Compact(queues)
	for _, m := range queues {
		m.cancelledAfter = cmp.Or(m.cancelledAfter, first)
	}
	for some := range slices.Chunk(queues, lookSize) {
		for len(some) > 0 {
			more, err := f.readSomeCancellations(ctx, g, some)
			if err != nil {
				return err
			}
			some = more
		}
	}
	return nil
}

// readSomeCancellations returns the queues that may have further requests.
func (f *groupFeed) readSomeCancellations(ctx context.Context, g *queueGroup, queues []*memberQueue) (more []*memberQueue, err error) {
	ctx, cancel := context.WithTimeout(ctx, timing.CallTimeout)
	defer cancel()
	positions := make([]backend.QueuePosition, len(queues))
	for i, m := range queues {
		positions[i] = backend.QueuePosition{Queue: m.base, After: m.cancelledAfter}
	}
	requests, err := g.store.CancelRequestsOf(ctx, positions)
	if err != nil {
		return nil, err
	}
	for i, m := range queues {
		if len(requests[i]) == 0 {
			continue
		}
		f.mu.Lock()
		w := m.working()
		f.mu.Unlock()
		if err := w.applyCancelRequests(ctx, requests[i]); err != nil {
			return nil, err
		}
		m.cancelledAfter = requests[i][len(requests[i])-1].ID
		more = append(more, m)
	}
	return more, nil
}
