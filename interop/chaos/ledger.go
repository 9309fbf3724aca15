// Package chaos injects faults under load and checks the outcome of every job.
//
// Producers and workers in Go and Node share one queue while a fault is active. Each worker is a process. A
// [Ledger] outside Redis records every job that was added, started and finished. At the end it is compared
// with the contents of Redis. No job may be lost, added twice, or run twice unless its lock expired.
package chaos

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Library is a library: this SDK or the npm package.
type Library uint8

// The libraries that are tested.
const (
	Go Library = iota
	Node
)

func (s Library) String() string { return [...]string{"Go", "Node"}[s] }

// outcome is the result of an add.
type outcome uint8

const (
	offered  outcome = iota // no reply yet
	added                   // the job exists
	doubtful                // the job may exist: the reply was lost
	refused                 // the job does not exist
)

// entry is one job, identified by its sequence number.
type entry struct {
	add      outcome
	by       Library
	failures uint8    // number of attempts that should fail
	attempts uint8    // maximum number of attempts
	starts   uint16   // starts of its handler
	seen     uint16   // bit set of the attempts that were started
	last     Library  // library of the last start, in the order of the fetches
	fetch    int      // which fetch of the job the last start belongs to
	reruns   [2]uint8 // attempts started again, by the library that had fetched the job before
	ends     uint8    // how often a worker reported its end
	failed   bool     // outcome that the worker reported
}

// fails reports whether the job should fail without a retry.
func (e entry) fails() bool { return e.failures >= e.attempts }

// Ledger records the jobs of one queue.
type Ledger struct {
	mu      sync.Mutex
	jobs    []entry
	strange []string // reports about unknown jobs
	begun   int      // jobs
	ended   int      // jobs
	reruns  []string // descriptions
	mark    time.Time
	started [2]time.Duration // from the mark to the first start, by library
	taken   [2]time.Duration // from the mark to the first add, by library
}

// Offer records a job that is about to be added and returns its sequence number.
func (l *Ledger) Offer(by Library, attempts, failures int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs = append(l.jobs, entry{by: by, attempts: uint8(attempts), failures: uint8(failures)})
	return len(l.jobs) - 1
}

// Added records that a job was added. Doubtful and Refused record the other results
// of an add.
func (l *Ledger) Added(sequence int) {
	l.with(sequence, func(e *entry) {
		e.add = added
		l.noteFirst(&l.taken[e.by])
	})
}
func (l *Ledger) Doubtful(sequence int) { l.with(sequence, func(e *entry) { e.add = doubtful }) }
func (l *Ledger) Refused(sequence int)  { l.with(sequence, func(e *entry) { e.add = refused }) }

// Started records the start of a handler, with the number of attempts made before it, and the number of times
// the job has been fetched.
//
// A handler may start late. During an outage, a worker of BullMQ keeps jobs that it has fetched, and starts them
// when Redis is back, even if their locks have expired. Then the job has been fetched again, and may have been
// started before.
func (l *Ledger) Started(sequence, attemptsMade, fetches int, on Library) {
	l.with(sequence, func(e *entry) {
		attempt, late := uint16(1)<<min(attemptsMade, 15), fetches < e.fetch
		if e.seen&attempt != 0 {
			before, how := e.last, "again"
			if late {
				before, how = on, "late"
			}
			e.reruns[before]++
			l.reruns = append(l.reruns, fmt.Sprintf("job %d, started in %v, is started %s in %v at %s", sequence, e.last, how, on, time.Now().Format(time.StampMilli)))
		}
		if e.starts == 0 {
			l.begun++
		}
		e.starts, e.seen = e.starts+1, e.seen|attempt
		if !late {
			e.last, e.fetch = on, fetches
		}
		l.noteFirst(&l.started[on])
	})
}

// Ended records the end of a job as reported by a worker.
func (l *Ledger) Ended(sequence int, failed bool) {
	l.with(sequence, func(e *entry) {
		if e.ends == 0 {
			l.ended++
		}
		e.ends, e.failed = e.ends+1, failed
	})
}

func (l *Ledger) with(sequence int, do func(*entry)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sequence < 0 || sequence >= len(l.jobs) {
		l.strange = append(l.strange, "a worker reported a job that nobody added")
		return
	}
	do(&l.jobs[sequence])
}

// noteFirst records the time since the mark when it is first called. The caller holds mu.
func (l *Ledger) noteFirst(first *time.Duration) {
	if *first == 0 && !l.mark.IsZero() {
		*first = time.Since(l.mark)
	}
}

// Mark sets the time from which the first starts and adds are measured.
func (l *Ledger) Mark() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mark, l.started, l.taken = time.Now(), [2]time.Duration{}, [2]time.Duration{}
}

// Recovery returns the time from the mark until a library had both added and started a job, or 0 if it has
// not.
func (l *Ledger) Recovery(library Library) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.started[library] == 0 || l.taken[library] == 0 {
		return 0
	}
	return max(l.started[library], l.taken[library])
}

// Reruns describes the attempts that were started again.
func (l *Ledger) Reruns() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.reruns)
}

// HasEnded reports whether the end of a job was reported.
func (l *Ledger) HasEnded(sequence int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.jobs[sequence].ends > 0
}

// StartedSoFar returns the number of jobs whose handler was started.
func (l *Ledger) StartedSoFar() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begun
}

// EndedSoFar returns the number of jobs whose end was reported.
func (l *Ledger) EndedSoFar() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}
