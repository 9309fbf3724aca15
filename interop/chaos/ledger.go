// Package chaos breaks things under load and counts what became of every job.
//
// Go and Node add jobs to one queue, and Go and Node workers, each a process of
// its own, run them, while a fault is under way. A Ledger, kept outside Redis,
// knows of every job added, started and ended. At the end it is held against
// what Redis holds, and the account must come out: nothing lost, nothing added
// twice, and nothing run twice but for jobs whose lock has truly expired.
package chaos

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Side is the library at work.
type Side uint8

// The sides.
const (
	Go Side = iota
	Node
)

func (s Side) String() string { return [...]string{"Go", "Node"}[s] }

// outcome is what an add has answered.
type outcome uint8

const (
	offered  outcome = iota // no answer yet
	added                   // it is there
	doubtful                // it may be there: the answer was lost
	refused                 // it isn't there
)

// entry is one job, known by its sequence number whatever its id.
type entry struct {
	add      outcome
	by       Side
	failures uint8    // how many of its attempts are to fail
	attempts uint8    // how many it has
	starts   uint16   // of its handler
	seen     uint16   // the attempts that were started, a bit each
	last     Side     // that started it
	reruns   [2]uint8 // attempts that were started again after a start on each side
	ends     uint8    // how often a worker told that it has ended
	failed   bool     // as that worker told
}

// fails reports whether the job is to fail for good.
func (e entry) fails() bool { return e.failures >= e.attempts }

// Ledger is the account of one queue's jobs.
type Ledger struct {
	mu      sync.Mutex
	jobs    []entry
	strange []string // lines about jobs that nobody has offered
	begun   int      // jobs
	ended   int      // jobs
	reruns  []string // in words
	mark    time.Time
	started [2]time.Duration // from the mark to the first start on each side
	taken   [2]time.Duration // from the mark to the first add on each side
}

// Offer enters a job that is about to be added and answers its sequence number.
func (l *Ledger) Offer(by Side, attempts, failures int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs = append(l.jobs, entry{by: by, attempts: uint8(attempts), failures: uint8(failures)})
	return len(l.jobs) - 1
}

// Added, Doubtful and Refused are what the add of a job has answered.
func (l *Ledger) Added(sequence int) {
	l.with(sequence, func(e *entry) {
		e.add = added
		l.noteFirst(&l.taken[e.by])
	})
}
func (l *Ledger) Doubtful(sequence int) { l.with(sequence, func(e *entry) { e.add = doubtful }) }
func (l *Ledger) Refused(sequence int)  { l.with(sequence, func(e *entry) { e.add = refused }) }

// Started enters the start of a handler, which has the number of attempts made
// before.
func (l *Ledger) Started(sequence, attemptsMade int, on Side) {
	l.with(sequence, func(e *entry) {
		attempt := uint16(1) << min(attemptsMade, 15)
		if e.seen&attempt != 0 {
			e.reruns[e.last]++
			l.reruns = append(l.reruns, fmt.Sprintf("job %d, started in %v, is started again in %v at %s", sequence, e.last, on, time.Now().Format(time.StampMilli)))
		}
		if e.starts == 0 {
			l.begun++
		}
		e.starts, e.seen, e.last = e.starts+1, e.seen|attempt, on
		l.noteFirst(&l.started[on])
	})
}

// Ended enters what a worker tells of a job's end.
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
		l.strange = append(l.strange, "a job is told of that nobody has added")
		return
	}
	do(&l.jobs[sequence])
}

// noteFirst notes the time since the mark, the first time; the caller holds mu.
func (l *Ledger) noteFirst(first *time.Duration) {
	if *first == 0 && !l.mark.IsZero() {
		*first = time.Since(l.mark)
	}
}

// Mark sets the moment from which the first starts and adds are measured.
func (l *Ledger) Mark() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mark, l.started, l.taken = time.Now(), [2]time.Duration{}, [2]time.Duration{}
}

// Recovery is how long after the mark a side has both added a job and started
// one; 0 while it hasn't.
func (l *Ledger) Recovery(side Side) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.started[side] == 0 || l.taken[side] == 0 {
		return 0
	}
	return max(l.started[side], l.taken[side])
}

// Reruns are the attempts that were started again, in words.
func (l *Ledger) Reruns() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.reruns)
}

// StartedSoFar is of how many jobs a handler was started.
func (l *Ledger) StartedSoFar() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begun
}

// EndedSoFar is of how many jobs the end was told.
func (l *Ledger) EndedSoFar() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}
