package tests

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"
)

// ledger records the jobs of one queue: what producers added, what handlers were started with, and how jobs
// ended according to the workers.
type ledger struct {
	queue string

	mu     sync.Mutex
	added  map[string][]added // by job id, as the next fields
	starts map[string][]started
	ends   map[string][]ended
	faults []string // errors reported by workers
}

// added is a job as described by its producer.
type added struct {
	id, name string
	data     string // JSON that must arrive unchanged
	opts     options
}

// options are the options that determine the outcome of a job, under their public and stored names.
type options struct {
	Attempts      int
	Delay         float64
	Backoff       json.RawMessage
	KeepCompleted json.RawMessage `json:"removeOnComplete"`
	KeepFailed    json.RawMessage `json:"removeOnFail"`
}

type started struct {
	by           string
	attemptsMade int
	name, data   string
}

type ended struct {
	by     string
	failed bool
	value  string // JSON of the return value of a completed job, or the failure reason of a failed one
}

func newLedger(queue string) *ledger {
	return &ledger{
		queue: queue, added: map[string][]added{}, starts: map[string][]started{}, ends: map[string][]ended{},
	}
}

func (l *ledger) noteAdded(id, name, data string, opts json.RawMessage) {
	job := added{id: id, name: name, data: data}
	if err := json.Unmarshal(opts, &job.opts); len(opts) > 0 && err != nil {
		l.noteFault(fmt.Sprintf("opts of job %s cannot be decoded: %v in %s", id, err, opts))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.added[id] = append(l.added[id], job)
}

func (l *ledger) noteStarted(id string, s started) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.starts[id] = append(l.starts[id], s)
}

func (l *ledger) noteEnded(id string, e ended) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends[id] = append(l.ends[id], e)
}

func (l *ledger) noteFault(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, what)
}

// endedCount returns the number of jobs that have ended.
func (l *ledger) endedCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ends)
}

// waitForEnds waits until count jobs have ended.
func (l *ledger) waitForEnds(count int) {
	GinkgoHelper()
	Eventually(l.endedCount).WithTimeout(60*time.Second).Should(Equal(count), func() string {
		return fmt.Sprintf("ended jobs of %s; errors of the workers: %q", l.queue, l.complaints())
	})
}

func (l *ledger) complaints() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.faults)
}

// plan is the expected outcome of a job.
type plan struct {
	starts int
	fails  bool
}

// plan derives the expected outcome from the job's data and options. A handler fails while the number of the
// attempt is below failUntilAttempt.
func (a added) plan() plan {
	attempts := max(a.opts.Attempts, 1)
	failUntil := max(a.payload().FailUntilAttempt, 1)
	return plan{starts: min(attempts, failUntil), fails: failUntil > attempts}
}

func (a added) payload() payload {
	var p payload
	_ = json.Unmarshal([]byte(a.data), &p)
	return p
}

// stays reports whether the job's hash remains after the job has ended.
func (a added) stays() bool {
	keep := a.opts.KeepCompleted
	if a.plan().fails {
		keep = a.opts.KeepFailed
	}
	return !slices.Contains([]string{"true", "0", `{"count":0}`}, string(keep))
}

// settle checks the ledger. Each job must have been added once, started once per planned attempt with its
// name and data, and ended once as planned. No other job may appear. Redis must contain exactly the jobs that
// the options retain.
func (l *ledger) settle(count int) {
	GinkgoHelper()
	Expect(l.problems(count)).To(BeEmpty())

	completed, failed := 0, 0
	for _, jobs := range l.added {
		switch job := jobs[0]; {
		case job.stays() && job.plan().fails:
			failed++
		case job.stays():
			completed++
		}
	}
	want := object{
		"waiting": 0., "active": 0., "delayed": 0., "prioritized": 0., "waiting-children": 0.,
		"completed": float64(completed), "failed": float64(failed),
	}
	var counts object
	node.Do("counts", object{"queue": l.queue}, &counts)
	Expect(counts).To(Equal(want), "Node's counts of %s", l.queue)
	Expect(locks(l.queue)).To(BeEmpty())
	Expect(l.changed()).To(BeEmpty())
}

// changed returns up to three jobs whose stored data differs from the data that was added.
func (l *ledger) changed() []string {
	GinkgoHelper()
	var ids []string
	var reads rueidis.Commands
	for id, jobs := range l.added {
		if jobs[0].stays() {
			ids = append(ids, id)
			reads = append(reads, redis.B().Hget().Key("bull:"+l.queue+":"+id).Field("data").Build())
		}
	}
	var changed []string
	for i, reply := range redis.DoMulti(soon(), reads...) {
		data, err := reply.ToString()
		Expect(err).NotTo(HaveOccurred())
		if want := l.added[ids[i]][0].data; data != want {
			changed = append(changed, fmt.Sprintf("job %s: %.200s is stored but %.200s was added", ids[i], data, want))
		}
	}
	return changed[:min(len(changed), 3)]
}

// problems describes up to ten discrepancies.
func (l *ledger) problems(count int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	problems := slices.Clone(l.faults)
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if len(l.added) != count {
		say("%d jobs were added, not %d", len(l.added), count)
	}
	for id, jobs := range l.added {
		job, ends := jobs[0], l.ends[id]
		// Reports of workers in other processes may arrive late, so starts are ordered by their attempts.
		starts := slices.SortedFunc(slices.Values(l.starts[id]), func(a, b started) int { return a.attemptsMade - b.attemptsMade })
		want := job.plan()
		if len(jobs) > 1 {
			say("job %s was added %d times", id, len(jobs))
		}
		if len(starts) != want.starts {
			say("job %s (%s) was started %d times, not %d", id, job.name, len(starts), want.starts)
		}
		for i, start := range starts {
			if start.attemptsMade != i {
				say("the start of attempt %d of job %s (%s) had %d attempts made", i+1, id, job.name, start.attemptsMade)
			}
			if start.name != job.name || start.data != job.data {
				say("job %s was added as %s %.200s but %s was started with %s %.200s", id, job.name, job.data, start.by, start.name, start.data)
			}
		}
		if len(ends) != 1 {
			say("job %s (%s) ended %d times: %+v", id, job.name, len(ends), ends)
			continue
		}
		if ends[0].failed != want.fails {
			say("job %s (%s) ended with failed=%v: %s", id, job.name, ends[0].failed, ends[0].value)
		}
		if !want.fails {
			var returned struct {
				By       string
				Sequence int
			}
			if json.Unmarshal([]byte(ends[0].value), &returned) != nil || returned.Sequence != job.payload().Sequence || returned.By != ends[0].by {
				say("job %s (%s), sequence %d, returned %s to %s", id, job.name, job.payload().Sequence, ends[0].value, ends[0].by)
			}
		}
	}
	for id := range l.starts {
		if l.added[id] == nil {
			say("job %s was started but never added", id)
		}
	}
	for id := range l.ends {
		if l.added[id] == nil {
			say("job %s ended but was never added", id)
		}
	}
	return problems[:min(len(problems), 10)]
}

// startsBy returns the number of handlers started by each worker.
func (l *ledger) startsBy() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	count := map[string]int{}
	for _, starts := range l.starts {
		for _, start := range starts {
			count[start.by]++
		}
	}
	return count
}
