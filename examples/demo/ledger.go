package main

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// account is how many jobs somebody says were added, completed, failed for good, and how often one
// was tried again.
type account struct{ added, completed, failed, retried int }

// ledger is what everybody says about one queue. Nobody copies from another: the producer counts the
// ids that it was given, the worker how its handlers ended, the events what stands in the stream.
type ledger struct {
	due account // what must come out

	mu                       sync.Mutex
	producer, worker, events account
	ids                      map[string]bool // that the producer was given
	other                    []string        // what went wrong beside
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

// produced enters an add; a dropped one has the id of the job that stands for it.
func (l *ledger) produced(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ids[id] {
		l.ids[id] = true
		l.producer.added++
	}
}

// worked enters the end of an attempt as its worker saw it.
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

// happened enters an event; again says that it is a later start of a job.
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

// wrong enters what should not have happened.
func (l *ledger) wrong(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.other = append(l.other, what)
}

// note enters an error, if there is one.
func (l *ledger) note(err error) {
	if err != nil {
		l.wrong(err.Error())
	}
}

// done reports whether as many jobs have ended as there must be, or something has gone wrong.
func (l *ledger) done() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events.completed+l.events.failed >= l.due.completed+l.due.failed || len(l.other) > 0
}

// sums are what the events say.
func (l *ledger) sums() account {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events
}

// faults lists where somebody's account, or what Redis holds in the end, isn't as it must be.
func (l *ledger) faults(queue string, held map[bullmq.State]int64) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var faults []string
	compare := func(who, what string, said, due int) {
		if said != due {
			faults = append(faults, fmt.Sprintf("%s: %s: %d %s, not %d", queue, who, said, what, due))
		}
	}
	compare("the producer", "added", l.producer.added, l.due.added)
	compare("the events", "added", l.events.added, l.due.added)
	for _, account := range []struct {
		who  string
		said account
	}{{"the worker", l.worker}, {"the events", l.events}} {
		compare(account.who, "completed", account.said.completed, l.due.completed)
		compare(account.who, "failed", account.said.failed, l.due.failed)
		compare(account.who, "retried", account.said.retried, l.due.retried)
	}
	due := map[bullmq.State]int{bullmq.Completed: l.due.completed, bullmq.Failed: l.due.failed} // nothing else
	for _, state := range slices.Sorted(maps.Keys(held)) {
		compare("Redis", string(state), int(held[state]), due[state])
	}
	for _, what := range l.other {
		faults = append(faults, queue+": "+what)
	}
	return faults
}
