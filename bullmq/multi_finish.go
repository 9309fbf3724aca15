package bullmq

import (
	"context"
	"slices"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/batch"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/turns"
)

// memberEnd is the end of a job of a queue.
type memberEnd struct {
	m   *memberQueue
	end backend.End
}

// memberEnded is the result of a memberEnd.
type memberEnded struct {
	err  error // the reason why the job was not finished
	next found
}

func newQueueGroup(f *groupFeed, l *listener, dialect Dialect) *queueGroup {
	g := &queueGroup{f: f, listener: l, dialect: dialect}
	var open func()
	g.store, g.finisher, open = l.home.groups(dialect)
	go open()
	g.ends = batch.New(batch.Options[memberEnd, memberEnded]{
		MaxSize: f.o.Worker.BatchSize, Timeout: timing.CallTimeout, Send: g.finish,
		SizeOf: func(e *memberEnd) int { return sizeOfEnd(&e.end) },
	})
	return g
}

// finish ends jobs in one call, which also fetches jobs for their slots. Those jobs are of
// the queues whose turn it is.
func (g *queueGroup) finish(ctx context.Context, ends []*memberEnd) func() ([]memberEnded, error) {
	f, begun := g.f, time.Now()
	ctx, cancel := context.WithTimeout(ctx, endTimeout(&f.o.Worker))
	defer cancel()
	sections := newSections(ends)
	f.mu.Lock()
	for _, e := range ends {
		f.done(e.end.Token) // the queue has room for another job once this call has ended it
	}
	var fetch *groupFetch
	if !f.ending { // the reply of a fetch must be awaited
		fetch = f.choose(g, sections.fetches)
	}
	if fetch != nil {
		f.work.Add(1)
		f.glance(begun)
	}
	f.mu.Unlock()
	read := g.finisher.ServeQueues(ctx, f.request(sections.ends, fetch))
	return func() ([]memberEnded, error) {
		if fetch != nil {
			defer f.work.Done()
		}
		served, err := read()
		return g.finished(sections, fetch, served, err, begun)
	}
}

// sections are the ends of a call, by queue.
type sections struct {
	ends    []backend.QueueEnds
	queues  []*memberQueue // of ends
	places  []endPlace     // of each job
	fetches int            // ends with Fetch
}

// endPlace is the place of an end in the sections.
type endPlace struct {
	section, index int
	fetch          bool
}

func newSections(ends []*memberEnd) *sections {
	s := &sections{places: make([]endPlace, len(ends))}
	numbers := make(map[*memberQueue]int, len(ends))
	for i, e := range ends {
		n, known := numbers[e.m]
		if !known {
			n = len(s.ends)
			numbers[e.m] = n
			s.ends, s.queues = append(s.ends, backend.QueueEnds{Queue: e.m.base}), append(s.queues, e.m)
		}
		s.places[i] = endPlace{n, len(s.ends[n].Ends), e.end.Fetch}
		s.ends[n].Ends = append(s.ends[n].Ends, &e.end)
		if e.end.Fetch {
			s.fetches++
		}
	}
	return s
}

// groupFetch is the part of a call that fetches jobs.
type groupFetch struct {
	turns.Call[*memberQueue, *queueGroup]
	takes  []backend.Take
	dues   []int // memberQueue.dues when the call was prepared
	tokens []string
}

// prepare returns what a call requests. The caller holds mu.
func (f *groupFeed) prepare(call turns.Call[*memberQueue, *queueGroup]) *groupFetch {
	fetch := &groupFetch{Call: call, takes: make([]backend.Take, len(call.Quotas)), dues: make([]int, len(call.Quotas)), tokens: make([]string, call.Jobs)}
	for i, quota := range call.Quotas {
		m := quota.Queue
		fetch.takes[i] = backend.Take{Queue: m.base, Most: quota.Jobs, Limit: m.limit()}
		fetch.dues[i] = m.dues
	}
	for i := range fetch.tokens {
		fetch.tokens[i] = f.h.token()
	}
	return fetch
}

// request returns a call that ends jobs, and fetches others if fetch is not nil.
func (f *groupFeed) request(ends []backend.QueueEnds, fetch *groupFetch) backend.Serve {
	o := &f.o.Worker
	s := backend.Serve{
		Now: f.h.home.now(), MetricsPoints: o.MetricsPoints, Worker: backend.Worker{LockDuration: o.LockDuration, Name: o.Name}, Ends: ends,
	}
	if fetch != nil {
		s.Takes, s.Tokens = fetch.takes, fetch.tokens
	}
	return s
}

// choose returns what a call of a group fetches for n slots, or nil for nothing. If it is the
// turn of a queue of another group, the dispatcher fetches for the slot once it is free. The
// caller holds mu.
func (f *groupFeed) choose(g *queueGroup, n int) (fetch *groupFetch) {
	if n == 0 {
		return nil
	}
	f.ring.Advance(time.Now(), f.h.home.now())
	for _, call := range f.ring.Take(n) {
		if call.Group == g && g.lost == 0 {
			fetch = f.prepare(call)
			continue
		}
		for _, quota := range call.Quotas {
			f.ring.Settle(quota, 0, turns.End{})
		}
	}
	return fetch
}

// finished records the reply to a call of finish, and divides the fetched jobs among the
// slots.
func (g *queueGroup) finished(s *sections, fetch *groupFetch, served backend.Served, err error, begun time.Time) ([]memberEnded, error) {
	f := g.f
	var result settled
	if fetch != nil {
		result = f.settle(fetch, served, err)
		defer func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.placing--
			f.letWait()
		}()
		if result.lost > 0 {
			f.r.slots.keep(result.lost)
			f.mu.Lock()
			f.held += result.lost
			f.mu.Unlock()
		}
		f.report(result)
	}
	if err != nil {
		f.wake() // resolves the lost fetches
		return nil, err
	}
	drained := append(result.drained, g.noteEnds(s, fetch, served)...)
	ended := make([]memberEnded, len(s.places))
	jobs := result.jobs
	for i, at := range s.places {
		section := served.Ends[at.section]
		if section.Err != nil {
			ended[i].err = section.Err
			continue
		}
		if ended[i].err = section.Errs[at.index]; ended[i].err != nil {
			continue
		}
		next := found{looked: at.fetch}
		if at.fetch && len(jobs) > 0 {
			next, jobs = jobs[0], jobs[1:]
		}
		drained = slices.DeleteFunc(drained, func(m *memberQueue) bool {
			if m == s.queues[at.section] && s.isLast(i, served) {
				next.drained = append(next.drained, m)
				return true
			}
			return false
		})
		ended[i].next = next
	}
	// The slots of ends that were refused resolve them first, and get no job.
	for _, next := range jobs {
		f.r.slots.keep(1)
		f.run(next, begun)
	}
	if len(drained) > 0 {
		go f.emitDrained(drained)
	}
	if f.mayDispatch() {
		f.wake()
	}
	return ended, nil
}

// isLast reports whether no end after this one, of the same queue, has succeeded.
func (s *sections) isLast(i int, served backend.Served) bool {
	for _, later := range s.places[i+1:] {
		if later.section == s.places[i].section && served.Ends[later.section].Errs[later.index] == nil {
			return false
		}
	}
	return true
}

// noteEnds records that jobs have ended. It returns the queues for which EventDrained is
// due.
func (g *queueGroup) noteEnds(s *sections, fetch *groupFetch, served backend.Served) (drained []*memberQueue) {
	f := g.f
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, ended := range served.Ends {
		m := s.queues[i]
		if ended.Err != nil {
			continue
		}
		f.ring.Unblock(m) // another call may have found the queue at its global concurrency meanwhile
		switch {
		case ended.Waiting:
			f.ring.Ready(m)
		case fetch.visited(m, served), !slices.Contains(ended.Errs, nil), m.emittedDrained:
		default:
			m.emittedDrained = true
			drained = append(drained, m)
		}
		f.changed(m)
	}
	return drained
}

// visited reports whether a call has fetched from a queue.
func (fetch *groupFetch) visited(m *memberQueue, served backend.Served) bool {
	if fetch == nil {
		return false
	}
	for _, quota := range fetch.Quotas[:len(served.Takes)] {
		if quota.Queue == m {
			return true
		}
	}
	return false
}

// mayDispatch reports whether the dispatcher can fetch a job now.
func (f *groupFeed) mayDispatch() bool {
	if !f.r.slots.open() {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ring.AnyReady()
}

// lostFetch is a call that fetched jobs and whose reply was lost. Its slots stay reserved
// until it is known which jobs it has fetched.
type lostFetch struct {
	group  *queueGroup
	quotas []turns.Quota[*memberQueue, *queueGroup]
	tokens []string
	whole  bool      // and not the part of one queue
	since  time.Time // when the reply was lost
	tried  bool      // since the worker stops
}

// lose records a lost call, or the part of one that concerns one queue. The caller holds mu.
func (f *groupFeed) lose(l *lostFetch) {
	if l.since = time.Now(); l.whole {
		l.group.lost++
	}
	f.lost = append(f.lost, l)
}

// resolveLost begins to resolve the lost calls. The caller holds mu.
func (f *groupFeed) resolveLost() {
	if len(f.lost) > 0 && !f.resolving {
		f.resolving = f.spawn(f.resolve)
	}
}

// resolveLast resolves the calls whose replies were lost while the worker was about to stop.
func (f *groupFeed) resolveLast() {
	f.mu.Lock()
	untried := slices.ContainsFunc(f.lost, func(l *lostFetch) bool { return !l.tried })
	f.mu.Unlock()
	if untried {
		f.resolve()
	}
}

// resolve resolves the lost calls, and runs the jobs that they have fetched, even during a
// pause: no other worker can run these until their locks expire. When the worker stops, it
// tries once more, and again within a moment: what cut the connection of the lost call may
// have cut that of the first try too.
func (f *groupFeed) resolve() {
	var outage timing.Backoff
	var stopped time.Time // when the first try began after the worker was stopped
	for {
		f.mu.Lock()
		lost := f.lost
		if f.lost = nil; len(lost) == 0 {
			f.resolving = false
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		if stopped.IsZero() && f.r.stopping() {
			stopped = time.Now()
		}
		var failed error
		for _, l := range lost {
			l.tried = f.r.stopping()
			err := f.resolveFetch(l)
			if err != nil && time.Since(l.since) > f.o.Worker.LockDuration {
				f.resolved(l, nil, time.Time{}) // the locks have expired; the stalled check finds the jobs
				err = nil
			}
			if err != nil {
				failed = err
				f.mu.Lock()
				f.lost = append(f.lost, l)
				f.mu.Unlock()
			}
		}
		f.wake()
		if failed == nil {
			continue
		}
		if f.r.stopping() {
			if !stopped.IsZero() && time.Since(stopped) > timing.LastTries {
				return
			}
			time.Sleep(outage.Next())
			continue
		}
		f.h.reportFault(f.h.log, "", failed, "a fetch whose reply was lost could not be resolved; retrying")
		timing.Sleep(f.r.soft, f.h.pauseAfter(failed, &outage))
	}
}

// resolveFetch looks for the jobs that a lost call has fetched.
func (f *groupFeed) resolveFetch(l *lostFetch) error {
	ctx, cancel := context.WithTimeout(context.Background(), timing.CallTimeout)
	defer cancel()
	queues := make([]string, len(l.quotas))
	for i, quota := range l.quotas {
		queues[i] = quota.Queue.base
	}
	locked, err := l.group.store.ResolveFetches(ctx, queues, l.tokens)
	if err != nil {
		return err
	}
	// The locks are as old as the lost reply. Renewed now, they count from now.
	begun := time.Now()
	held, err := f.renewed(ctx, l.group, locked)
	if err != nil {
		return err
	}
	f.resolved(l, held, begun)
	return nil
}

// resolved runs the jobs that a lost call has fetched, and frees its other slots. lockedAt is
// from when the locks of the jobs count.
func (f *groupFeed) resolved(l *lostFetch, locked []backend.LockedJob, lockedAt time.Time) {
	members, got := map[string]*memberQueue{}, map[string]int{}
	for _, quota := range l.quotas {
		members[quota.Queue.base] = quota.Queue
	}
	var jobs []found
	f.mu.Lock()
	for _, one := range locked {
		got[one.Queue]++
		jobs = append(jobs, f.adopt(members[one.Queue], one.Job, 0, one.Token))
	}
	for _, quota := range l.quotas {
		f.ring.Settle(quota, got[quota.Queue.base], turns.End{Reason: turns.More})
		f.changed(quota.Queue)
	}
	if l.whole {
		l.group.lost--
	}
	f.mu.Unlock()
	for _, next := range jobs {
		f.run(next, lockedAt)
	}
	for range len(l.tokens) - len(jobs) {
		f.r.slots.settle(false)
	}
	f.mu.Lock()
	f.held -= len(l.tokens)
	f.mu.Unlock()
}

// renewed extends the locks of jobs, and returns those whose lock is still held.
func (f *groupFeed) renewed(ctx context.Context, g *queueGroup, jobs []backend.LockedJob) (held []backend.LockedJob, err error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	var locks []backend.QueueLocks
	for _, job := range jobs {
		lock := backend.Lock{JobID: job.Job.ID, Token: job.Token}
		if n := len(locks); n > 0 && locks[n-1].Queue == job.Queue {
			locks[n-1].Locks = append(locks[n-1].Locks, lock)
		} else {
			locks = append(locks, backend.QueueLocks{Queue: job.Queue, Locks: []backend.Lock{lock}})
		}
	}
	renewals, err := g.store.ExtendLocksOf(ctx, locks, f.o.Worker.LockDuration)
	if err != nil {
		return nil, err
	}
	type place struct{ queue, jobID string }
	lost := map[place]bool{}
	for i, renewal := range renewals {
		for _, lock := range locks[i].Locks {
			if renewal.Err != nil || slices.Contains(renewal.Lost, lock.JobID) {
				lost[place{locks[i].Queue, lock.JobID}] = true
			}
		}
	}
	return slices.DeleteFunc(jobs, func(job backend.LockedJob) bool { return lost[place{job.Queue, job.Job.ID}] }), nil
}
