package bullmq

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/batch"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
)

// queueFeed is the feed of one queue. In a [Fetcher] it only finishes jobs.
type queueFeed struct {
	queueView
	r      *runner // nil before start
	waiter backend.Waiter
	inline bool // the goroutine of fetch runs a job, and nothing is fetched meanwhile; guarded by mu

	store backend.Consumer // finishes jobs, for ends
	open  func()           // opens the first connection of store
	ends  *batch.Batcher[backend.End, backend.Ended]

	// Used by fetch only.
	unresolved []unresolvedFetch
	batchHint  int // how many jobs a fetch requests
}

func newQueueFeed(w *queueWorker) *queueFeed {
	f := &queueFeed{queueView: queueView{w: w}}
	f.store, f.open = w.core.dedicated()
	f.ends = batch.New(batch.Options[backend.End, backend.Ended]{
		MaxSize: w.o.BatchSize, Timeout: timing.CallTimeout, SizeOf: sizeOfEnd, Send: f.send,
	})
	return f
}

// start implements feed.
func (f *queueFeed) start(r *runner) {
	f.r, f.waiter = r, f.w.core.newWaiter(f.w.core.keys.clientName(f.w.nameSuffix()))
	go f.open()
}

// interrupt implements feed.
func (f *queueFeed) interrupt() { f.waiter.Interrupt() }

// close implements feed.
func (f *queueFeed) close() { f.waiter.Close() }

// connections returns the ids in CLIENT LIST of the connections on which the feed waits.
func (f *queueFeed) connections() []int64 {
	if waiter, ok := f.waiter.(backend.Identified); ok {
		return []int64{waiter.ClientID()}
	}
	return nil
}

// signal implements feed. It interrupts a wait if there is another reason to fetch, or if
// no job may be fetched any more.
func (f *queueFeed) signal() {
	f.resumeFetching()
	if f.waiter.Waiting() && (!f.idle() || f.rateLimitLeft() > 0) {
		go f.waiter.Interrupt()
	}
}

// runInline runs a job on fetch's own goroutine, which starts it sooner than another
// goroutine would. Fetching continues in a new goroutine: at once if there is another
// free slot, otherwise when there is one.
func (f *queueFeed) runInline(job *Job, lockedAt time.Time) {
	f.setInline(true)
	f.resumeFetching()
	f.r.slot(handover{f.w, job, lockedAt})
}

// resumeFetching starts a new fetch goroutine if the last one runs a job and a slot
// is free.
func (f *queueFeed) resumeFetching() {
	if !f.r.slots.full() && f.setInline(false) {
		go f.r.fetchUntilStopped()
	}
}

// setInline returns the previous value.
func (f *queueFeed) setInline(inline bool) (before bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, f.inline = f.inline, inline
	return before
}

// fetch fetches jobs while slots are free and the worker is not paused. It returns true
// when the worker stops, and false when another goroutine continues in its place. It
// asks for jobs at the start, when the marker wakes it, when the first delayed job is
// due, when the rate limit ends, when a slot signals it, and at the latest after
// DrainDelay.
func (f *queueFeed) fetch() (stopped bool) {
	var outage timing.Backoff
	var waitAgain time.Time // after a wait that failed
	for !f.r.stopping() {
		if !f.r.slots.open() {
			f.rest(&outage)
			continue
		}
		if left := f.rateLimitLeft(); left > 0 {
			f.r.await(left)
			continue
		}
		if f.idle() {
			if left := time.Until(waitAgain); left > 0 {
				f.restIdle(left)
				continue
			}
			job, lockedAt, err := f.waitForWork()
			if errors.Is(err, backend.ErrNoConnection) {
				waitAgain = time.Now().Add(min(timing.PollInterval, f.w.o.DrainDelay))
				continue
			}
			if err != nil {
				f.w.fault(err, "waiting for a job failed; retrying")
				waitAgain = time.Now().Add(f.w.pauseAfter(err, &outage))
				continue
			}
			outage.Succeeded()
			if job != nil {
				f.runInline(job, lockedAt)
				return false
			}
			continue
		}
		jobs, lockedAt, err := f.fetchBatch()
		if err != nil {
			f.w.fault(err, "fetching a job failed; retrying")
			timing.Sleep(f.r.soft, f.w.pauseAfter(err, &outage)) // not await, which jobs that end would interrupt
			continue
		}
		outage.Succeeded()
		for _, job := range jobs {
			go f.r.slot(handover{f.w, job, lockedAt})
		}
	}
	f.releaseDelay()
	return true
}

// rest waits for a free slot, or for the end of a pause. If a fetch whose reply was lost
// has locked a job, that job runs even during a pause, because no other worker can run
// it until its lock expires.
func (f *queueFeed) rest(outage *timing.Backoff) {
	if f.r.slots.full() {
		f.r.await(0)
		return
	}
	if len(f.unresolved) == 0 {
		f.releaseDelay()
		f.r.await(0)
		return
	}
	job, lockedAt, err := f.resolveFetches()
	switch {
	case job != nil:
		outage.Succeeded()
		go f.r.slot(handover{f.w, job, lockedAt})
	case err != nil:
		f.w.fault(err, "a fetch whose reply was lost could not be resolved; retrying")
		timing.Sleep(f.r.soft, f.w.pauseAfter(err, outage))
	default:
		f.r.await(outage.Next())
	}
}

// releaseDelay writes the time when the first delayed job is due back to the marker
// before the worker pauses or stops. Other workers may not know that time, and would
// notice the job only after their DrainDelay.
func (f *queueFeed) releaseDelay() {
	f.mu.Lock()
	due := f.nextDue
	f.nextDue = time.Time{}
	f.mu.Unlock()
	if !due.IsZero() {
		f.returnWake(backend.Wake{Woken: true, NextDue: due})
	}
}

// unresolvedFetch is a fetch whose reply was lost: the token with which it may have
// locked a job, and until when the server may still run it. Its slot stays
// reserved until the outcome is known.
type unresolvedFetch struct {
	token string
	until time.Time
}

// fetchBatch makes one fetch. If the last one returned as many jobs as it asked for,
// this one asks for twice as many. fetchBatch also returns the time from which the
// jobs' locks count.
func (f *queueFeed) fetchBatch() ([]*Job, time.Time, error) {
	if job, lockedAt, err := f.resolveFetches(); job != nil || err != nil {
		return []*Job{job}, lockedAt, err
	}
	n := f.r.slots.reserve(max(1, min(f.batchHint, f.w.o.BatchSize)))
	if n == 0 {
		return nil, time.Time{}, nil
	}
	tokens := make([]string, n)
	for i := range tokens {
		tokens[i] = f.w.token()
	}
	since, begun := f.currentEpoch(), time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), timing.CallTimeout)
	defer cancel()
	each, err := f.w.core.store.MoveToActive(ctx, f.w.core.now(), f.w.backendWorker(), tokens...)
	if mayHaveRun(err) {
		for _, token := range tokens {
			f.unresolved = append(f.unresolved, unresolvedFetch{token: token})
		}
		if job, lockedAt, _ := f.resolveFetches(); job != nil {
			return []*Job{job}, lockedAt, nil
		}
		return nil, begun, err
	}
	if err != nil {
		for range tokens {
			f.r.slots.settle(false)
		}
		return nil, begun, err
	}
	for _, fetched := range each {
		f.r.slots.settle(fetched.Job != nil) // before an event is emitted whose receiver may wait for that
	}
	var jobs []*Job
	for i, fetched := range each {
		if fetched.Job != nil || i == 0 {
			if job := f.newJob(fetched, tokens[i], since); job != nil {
				jobs = append(jobs, job)
			}
		}
	}
	f.batchHint = 0
	if len(jobs) == n {
		f.batchHint = 2 * n
	}
	return jobs, begun, nil
}

// resolveFetches looks for the jobs of fetches whose reply was lost and returns the
// first. After an error the outcome is still unknown: fetch calls it again before
// it fetches another job, or the job would be left to the stalled check.
func (f *queueFeed) resolveFetches() (*Job, time.Time, error) {
	for _, d := range slices.Clone(f.unresolved) {
		job, lockedAt, err := f.resolveFetch(d.token)
		if err != nil {
			return nil, lockedAt, err
		}
		if job != nil || time.Now().After(d.until) {
			f.unresolved = slices.DeleteFunc(f.unresolved, func(o unresolvedFetch) bool { return o == d })
			f.r.slots.settle(job != nil)
		}
		if job != nil {
			return job, lockedAt, nil
		}
	}
	return nil, time.Time{}, nil
}

// resolveFetch looks for the job that a fetch locked with a token.
func (f *queueFeed) resolveFetch(token string) (*Job, time.Time, error) {
	since, begun := f.currentEpoch(), time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), timing.CallTimeout)
	defer cancel()
	_, fetched, err := f.w.core.store.ResolveFetch(ctx, token, "")
	if err != nil || fetched.Job == nil {
		return nil, begun, err
	}
	// The lock is as old as the lost reply. Renewed now, it counts from now.
	held, err := f.w.core.store.ExtendLock(ctx, backend.Lock{JobID: fetched.Job.ID, Token: token}, f.w.o.LockDuration)
	if err != nil || !held {
		return nil, begun, err
	}
	return f.newJob(fetched, token, since), begun, nil
}

// newJob records the result of a fetch and returns the job, if any. since is as for
// applyFetch.
func (f *queueFeed) newJob(fetched backend.Fetched, token string, since int) *Job {
	if f.applyFetch(fetched, since) {
		f.w.emit(WorkerEvent{Type: EventDrained})
	}
	if fetched.Job == nil {
		return nil
	}
	job := f.w.core.newJob(fetched.Job)
	job.token, job.hint = token, fetched.Hint
	return job
}

// restIdle waits for at most the given time, while the worker can't wait for the marker.
// It returns earlier if there is a reason to fetch.
func (f *queueFeed) restIdle(most time.Duration) {
	if due, delayed := f.untilDue(); delayed {
		if due <= 0 {
			f.markDirty()
			return
		}
		most = min(most, due)
	}
	f.r.await(most)
}

// waitForWork waits for the marker, and fetches a job in the same step if possible. The
// wait is interrupted in three cases:
//
//   - The first delayed job is due. This needs a timer, because Redis checks the
//     timeouts of blocked clients only every 100 ms.
//   - A slot signals that there may be work, or that no job may be fetched any more.
//   - The worker stops.
func (f *queueFeed) waitForWork() (*Job, time.Time, error) {
	// The wait begins before the conditions are checked, so that a change in between
	// interrupts it.
	f.waiter.Begin()
	defer f.waiter.End()
	if f.r.stopping() || !f.idle() || f.rateLimitLeft() > 0 {
		return nil, time.Time{}, nil
	}
	block := f.w.o.DrainDelay
	due, delayed := f.untilDue()
	if delayed {
		if due <= 0 {
			f.markDirty()
			return nil, time.Time{}, nil
		}
		// The timer ends the wait. If it can't, the wait ends by itself soon after.
		block = min(block, due+timing.TimerDelay)
		defer timing.After(due, f.waiter.Interrupt)()
	}
	if f.r.slots.reserve(1) == 0 {
		return nil, time.Time{}, nil
	}
	token, since, begun := f.w.token(), f.currentEpoch(), time.Now()
	wake, found, err := f.waiter.WaitAndFetch(block, f.w.core.now(), f.w.backendWorker(), token)
	if mayHaveRun(err) {
		// It may also run later: Redis may not have noticed yet that the connection is
		// closed.
		f.unresolved = append(f.unresolved, unresolvedFetch{token, begun.Add(block + timing.BlockMargin)})
	} else {
		f.r.slots.settle(found.Job != nil)
	}
	isKnown := err == nil && !found.Unknown
	if isKnown {
		if job := f.newJob(found, token, since); job != nil {
			return job, f.fetchedAt(job), nil
		}
	}
	switch {
	case wake.Err != nil:
		f.markDirty()
		return nil, time.Time{}, wake.Err
	case f.r.stopping() || !f.r.slots.open():
		f.returnWake(wake)
	case !isKnown:
		f.applyWake(wake)
	}
	return nil, time.Time{}, nil
}

// fetchedAt returns when a job was fetched, according to its ProcessedOn.
func (f *queueFeed) fetchedAt(job *Job) time.Time {
	return time.Now().Add(-max(0, f.w.core.now().Sub(job.ProcessedOn)))
}

// returnWake puts back a wake-up that this worker does not use, for another worker.
func (f *queueFeed) returnWake(wake backend.Wake) {
	if err := f.waiter.Return(wake); err != nil {
		f.w.core.log.Warn("a marker could not be written back; idle workers fetch again after their DrainDelay at the latest", logError, err)
	}
}
