package main

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// account counts the jobs that were added, completed and failed permanently, and the retries, according to one
// participant.
type account struct{ added, completed, failed, retried int }

// ledger holds the accounts of one queue. Each has its own source: the producer counts the ids that it
// received, the worker counts the results of its handlers, and the events count the entries of the stream.
type ledger struct {
	due account // expected

	mu                       sync.Mutex
	producer, worker, events account
	ids                      map[string]bool // returned to the producer
	other                    []string        // other errors
}

func newLedger(jobs []jobSpec) *ledger {
	l := &ledger{ids: map[string]bool{}}
	for _, job := range jobs {
		if job.dropped {
			continue
		}
		l.due.added++
		l.due.retried += job.retries
		if job.fails {
			l.due.failed++
		} else {
			l.due.completed++
		}
	}
	return l
}

// produced records an add. A deduplicated add returns the id of the existing job.
func (l *ledger) produced(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ids[id] {
		l.ids[id] = true
		l.producer.added++
	}
}

// worked records the end of an attempt as seen by its worker.
func (l *ledger) worked(outcome string, final bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case outcome == "completed":
		l.worker.completed++
	case final:
		l.worker.failed++
	default:
		l.worker.retried++
	}
}

// happened records an event. again reports that it is a further start of a job.
func (l *ledger) happened(event bullmq.EventType, again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case event == bullmq.EventAdded:
		l.events.added++
	case event == bullmq.EventCompleted:
		l.events.completed++
	case event == bullmq.EventFailed:
		l.events.failed++
	case event == bullmq.EventActive && again:
		l.events.retried++
	}
}

// wrong records an unexpected event.
func (l *ledger) wrong(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.other = append(l.other, what)
}

// note records an error, if there is one.
func (l *ledger) note(err error) {
	if err != nil {
		l.wrong(err.Error())
	}
}

// done reports whether all jobs have ended or something has gone wrong.
func (l *ledger) done() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events.completed+l.events.failed >= l.due.completed+l.due.failed || len(l.other) > 0
}

// sums returns the account of the events.
func (l *ledger) sums() account {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events
}

// faults lists the differences between the accounts, the contents of Redis, and the expected values.
func (l *ledger) faults(queue string, held map[bullmq.State]int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var faults []string
	compare := func(who, what string, reported, due int) {
		if reported != due {
			faults = append(faults, fmt.Sprintf("%s: %s: %d %s, not %d", queue, who, reported, what, due))
		}
	}
	compare("the producer", "added", l.producer.added, l.due.added)
	compare("the events", "added", l.events.added, l.due.added)
	for _, account := range []struct {
		who      string
		reported account
	}{{"the worker", l.worker}, {"the events", l.events}} {
		compare(account.who, "completed", account.reported.completed, l.due.completed)
		compare(account.who, "failed", account.reported.failed, l.due.failed)
		compare(account.who, "retried", account.reported.retried, l.due.retried)
	}
	due := map[bullmq.State]int{bullmq.StateCompleted: l.due.completed, bullmq.StateFailed: l.due.failed} // all other states must be empty
	for _, state := range slices.Sorted(maps.Keys(held)) {
		compare("Redis", string(state), held[state], due[state])
	}
	for _, what := range l.other {
		faults = append(faults, queue+": "+what)
	}
	return faults
}
