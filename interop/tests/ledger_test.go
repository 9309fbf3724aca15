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

// ledger is the account of one queue's jobs: what producers say they added,
// what handlers say they were started with, what workers say has ended.
type ledger struct {
	queue string

	mu     sync.Mutex
	added  map[string][]added // by job id, as all below
	starts map[string][]started
	ends   map[string][]ended
	faults []string // what workers complained of
}

// added is a job as its producer described it.
type added struct {
	id, name string
	data     string // JSON, as it must arrive
	opts     options
}

// options are those that decide what becomes of a job, in both the public and
// the stored spelling.
type options struct {
	Attempts         int
	Delay            float64
	Backoff          json.RawMessage
	RemoveOnComplete json.RawMessage
	RemoveOnFail     json.RawMessage
}

type started struct {
	by           string
	attemptsMade int
	name, data   string
}

type ended struct {
	by     string
	failed bool
	value  string // JSON of what a completed job returned, text of the reason of a failed one
}

func newLedger(queue string) *ledger {
	return &ledger{
		queue: queue, added: map[string][]added{}, starts: map[string][]started{}, ends: map[string][]ended{},
	}
}

func (l *ledger) noteAdded(id, name, data string, opts json.RawMessage) {
	job := added{id: id, name: name, data: data}
	if err := json.Unmarshal(opts, &job.opts); len(opts) > 0 && err != nil {
		l.noteFault(fmt.Sprintf("opts of job %s can't be read: %v in %s", id, err, opts))
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

// endedCount is how many jobs have ended.
func (l *ledger) endedCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ends)
}

// waitForEnds waits until so many jobs have ended.
func (l *ledger) waitForEnds(count int) {
	GinkgoHelper()
	Eventually(l.endedCount).WithTimeout(60*time.Second).Should(Equal(count), func() string {
		return fmt.Sprintf("jobs of %s that ended; workers complain of %q", l.queue, l.complaints())
	})
}

func (l *ledger) complaints() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.faults)
}

// plan is what must become of a job.
type plan struct {
	starts int
	fails  bool
}

// plan follows from the job's own data and options: a handler fails while the
// attempt's number is below failUntilAttempt.
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

// stays reports whether the job's hash is still there once it has ended.
func (a added) stays() bool {
	keep := a.opts.RemoveOnComplete
	if a.plan().fails {
		keep = a.opts.RemoveOnFail
	}
	return !slices.Contains([]string{"true", "0", `{"count":0}`}, string(keep))
}

// settle checks the whole account: each job added once, started once for each
// attempt that its plan has, with its own name and data, ended once, as planned;
// no other job met; and Redis holds just what the options say stays.
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
	Expect(counts).To(Equal(want), "what Node counts in %s", l.queue)
	Expect(locks(l.queue)).To(BeEmpty())
	Expect(l.changed()).To(BeEmpty())
}

// changed are jobs whose stored data isn't byte for byte what was added, at most three.
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
	for i, answer := range redis.DoMulti(soon(), reads...) {
		data, err := answer.ToString()
		Expect(err).NotTo(HaveOccurred())
		if want := l.added[ids[i]][0].data; data != want {
			changed = append(changed, fmt.Sprintf("job %s: %.200s is stored, %.200s was added", ids[i], data, want))
		}
	}
	return changed[:min(len(changed), 3)]
}

// problems is one sentence for each thing that is not as it must be, at most ten.
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
		// What workers in other processes say comes late: the order is that of the attempts.
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
			say("job %s was started and nobody had added it", id)
		}
	}
	for id := range l.ends {
		if l.added[id] == nil {
			say("job %s ended and nobody had added it", id)
		}
	}
	return problems[:min(len(problems), 10)]
}

// startsBy is how many handlers each worker has started.
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
