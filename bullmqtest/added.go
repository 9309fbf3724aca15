package bullmqtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// AddedJob is a job that was added to a queue.
type AddedJob[D any] struct {
	*bullmq.Job
	// Payload is the data of the job.
	Payload D
}

// Match selects jobs. Fields with the zero value are not compared.
type Match struct {
	// Data is the whole data of the job. It is compared as JSON, in which the order of an
	// object's members does not count.
	Data any
	// Delay, Priority, Attempts and JobID are those of JobOptions. Delay is the delay with
	// which the job was added, even if it has passed.
	Delay    time.Duration
	Priority int
	Attempts int
	JobID    string
	// Within is by how much the delay of the job may differ from Delay.
	// Defaults to 0: the delay must be equal.
	Within time.Duration
	// DeduplicationID is the ID of JobOptions.Deduplication.
	DeduplicationID string
	// Where reports whether a job is selected. It is called if all other fields match.
	Where func(job *bullmq.Job) bool
	// Times is how many jobs must match, for [RequireAdded].
	// Defaults to 0: at least one.
	Times int
}

// Expected is a job of [RequireAddedInOrder]. [Expect] makes one.
type Expected struct {
	name  string
	match Match
}

// Expect returns an Expected: a job of the given type that matches.
func Expect[D, R any](jobType *bullmq.JobType[D, R], match Match) Expected {
	return Expected{jobType.Name(), match}
}

// Added returns the jobs of a type that were added to a queue and are still stored, whatever
// their state is. They are in the order in which they were added. Added fails the test if the
// data of a job does not fit D.
func Added[D, R any](t testing.TB, k *Kit, queueName string, jobType *bullmq.JobType[D, R]) []AddedJob[D] {
	t.Helper()
	var added []AddedJob[D]
	for _, job := range k.added(t, queueName) {
		if job.Name == jobType.Name() {
			added = append(added, typed(t, jobType, job))
		}
	}
	return added
}

// RequireAdded fails the test unless a job of a type that matches was added to a queue. It
// returns the first such job. It does not find jobs that were removed, for instance because
// they finished.
func RequireAdded[D, R any](t testing.TB, k *Kit, queueName string, jobType *bullmq.JobType[D, R], match Match) AddedJob[D] {
	t.Helper()
	expected := Expect(jobType, match)
	all := k.added(t, queueName)
	var found []*bullmq.Job
	for _, job := range all {
		if faults := expected.faults(t, job); len(faults) == 0 {
			found = append(found, job)
		}
	}
	switch {
	case len(found) == 0:
		t.Fatalf("bullmqtest: no job like this was added to queue %s: %s\n%s%s",
			queueName, expected, expected.nearest(t, all), k.describe(t, queueName, all))
	case match.Times > 0 && len(found) != match.Times:
		t.Fatalf("bullmqtest: %d jobs like this were added to queue %s, want %d: %s\n%s",
			len(found), queueName, match.Times, expected, k.describe(t, queueName, all))
	}
	return typed(t, jobType, found[0])
}

// RequireNotAdded fails the test if a job of a type that matches was added to a queue.
func RequireNotAdded[D, R any](t testing.TB, k *Kit, queueName string, jobType *bullmq.JobType[D, R], match Match) {
	t.Helper()
	expected := Expect(jobType, match)
	for _, job := range k.added(t, queueName) {
		if len(expected.faults(t, job)) == 0 {
			t.Fatalf("bullmqtest: a job like this was added to queue %s: %s\n  %s", queueName, expected, line(job))
		}
	}
}

// RequireAddedInOrder fails the test unless the expected jobs were added to a queue in
// this order. Other jobs may have been added between them.
func RequireAddedInOrder(t testing.TB, k *Kit, queueName string, expected ...Expected) {
	t.Helper()
	all := k.added(t, queueName)
	rest := all
	for i, e := range expected {
		at := slices.IndexFunc(rest, func(job *bullmq.Job) bool { return len(e.faults(t, job)) == 0 })
		if at < 0 {
			where := "was added to queue " + queueName
			if i > 0 {
				where += fmt.Sprintf(" after the %d before it", i)
			}
			t.Fatalf("bullmqtest: no job like expected job %d of %d %s: %s\n%s%s",
				i+1, len(expected), where, e, e.nearest(t, rest), k.describe(t, queueName, all))
		}
		rest = rest[at+1:]
	}
}

func typed[D, R any](t testing.TB, jobType *bullmq.JobType[D, R], job *bullmq.Job) AddedJob[D] {
	t.Helper()
	data, err := jobType.Data(job)
	if err != nil {
		t.Fatalf("bullmqtest: read an added job: %v", err)
	}
	return AddedJob[D]{Job: job, Payload: data}
}

// added returns the stored jobs of a queue, in the order in which they were added.
func (k *Kit) added(t testing.TB, queueName string) []*bullmq.Job {
	t.Helper()
	ctx := t.Context()
	jobs, err := k.Queue(queueName).Jobs(ctx, bullmq.AllEntries())
	if err != nil {
		t.Fatalf("bullmqtest: read the jobs of queue %s: %v", queueName, err)
	}
	order, err := k.addOrder(ctx, queueName)
	if err != nil {
		t.Fatalf("bullmqtest: read the events of queue %s: %v", queueName, err)
	}
	number := func(job *bullmq.Job) int {
		n, _ := strconv.Atoi(job.ID)
		return n
	}
	slices.SortStableFunc(jobs, func(a, b *bullmq.Job) int {
		return cmp.Or(
			cmp.Compare(order[a.ID], order[b.ID]),
			a.Timestamp.Compare(b.Timestamp), cmp.Compare(number(a), number(b)),
		)
	})
	return jobs
}

// addOrder returns the position of each job in the order in which the jobs were added. It
// takes the order from the queue's events. A job without an event is older than all others.
func (k *Kit) addOrder(ctx context.Context, queueName string) (map[string]int, error) {
	entries, err := k.redis.client.Do(ctx, k.redis.client.B().Xrange().Key(k.key(queueName, "events")).Start("-").End("+").Build()).AsXRange()
	order := map[string]int{}
	for i, entry := range entries {
		if entry.FieldValues["event"] == "added" {
			order[entry.FieldValues["jobId"]] = i + 1
		}
	}
	return order, err
}

// faults returns how a job differs from what is expected.
func (e Expected) faults(t testing.TB, job *bullmq.Job) (faults []string) {
	t.Helper()
	if job.Name != e.name {
		return []string{fmt.Sprintf("name: %q, want %q", job.Name, e.name)}
	}
	m := e.match
	if m.Data != nil {
		faults = append(faults, dataFaults(t, job, m.Data)...)
	}
	if off := job.Options.Delay - m.Delay; m.Delay != 0 && off.Abs() > m.Within {
		faults = append(faults, fmt.Sprintf("delay: %v, want %v", job.Options.Delay, m.Delay))
	}
	if m.Priority != 0 && job.Options.Priority != m.Priority {
		faults = append(faults, fmt.Sprintf("priority: %d, want %d", job.Options.Priority, m.Priority))
	}
	if m.Attempts != 0 && job.Options.Attempts != m.Attempts {
		faults = append(faults, fmt.Sprintf("attempts: %d, want %d", job.Options.Attempts, m.Attempts))
	}
	if m.JobID != "" && job.ID != m.JobID {
		faults = append(faults, fmt.Sprintf("id: %q, want %q", job.ID, m.JobID))
	}
	if m.DeduplicationID != "" && job.DeduplicationID != m.DeduplicationID {
		faults = append(faults, fmt.Sprintf("deduplication id: %q, want %q", job.DeduplicationID, m.DeduplicationID))
	}
	if len(faults) == 0 && m.Where != nil && !m.Where(job) {
		faults = append(faults, "Where returns false")
	}
	return faults
}

func dataFaults(t testing.TB, job *bullmq.Job, data any) []string {
	t.Helper()
	text, err := encode(data)
	if err != nil {
		t.Fatalf("bullmqtest: Match.Data: %v", err)
	}
	want, err := decode(text)
	if err != nil {
		t.Fatalf("bullmqtest: Match.Data: %v", err)
	}
	got, err := decode(job.Data)
	if err != nil {
		return []string{fmt.Sprintf("data: %v", err)}
	}
	return differences("data", got, want)
}

// nearest describes the job of the expected name with the fewest faults.
func (e Expected) nearest(t testing.TB, jobs []*bullmq.Job) string {
	t.Helper()
	var nearest *bullmq.Job
	var fewest []string
	for _, job := range jobs {
		if job.Name != e.name {
			continue
		}
		if faults := e.faults(t, job); len(faults) > 0 && (nearest == nil || len(faults) < len(fewest)) {
			nearest, fewest = job, faults
		}
	}
	if nearest == nil {
		return ""
	}
	return fmt.Sprintf("the nearest is job %s:\n  %s\n", nearest.ID, strings.Join(fewest, "\n  "))
}

// String describes in one line what is expected.
func (e Expected) String() string {
	parts := []string{strconv.Quote(e.name)}
	add := func(name string, value any, set bool) {
		if set {
			parts = append(parts, fmt.Sprintf("%s %v", name, value))
		}
	}
	m := e.match
	if m.Data != nil {
		text, _ := encode(m.Data)
		parts = append(parts, string(text))
	}
	add("delay", m.Delay, m.Delay != 0)
	add("±", m.Within, m.Within != 0)
	add("priority", m.Priority, m.Priority != 0)
	add("attempts", m.Attempts, m.Attempts != 0)
	add("id", m.JobID, m.JobID != "")
	add("deduplication id", m.DeduplicationID, m.DeduplicationID != "")
	return strings.Join(parts, ", ")
}

// line describes a job in one line.
func line(job *bullmq.Job) string {
	text := fmt.Sprintf("%s %q %s", job.ID, job.Name, job.Data)
	if options := string(job.RawOptions); options != "" && options != "{}" {
		text += " " + options
	}
	return text
}

// describe lists the jobs of a queue, or the queues that have jobs.
func (k *Kit) describe(t testing.TB, queueName string, jobs []*bullmq.Job) string {
	t.Helper()
	if len(jobs) > 0 {
		text := "added to queue " + queueName + ":"
		for i, job := range jobs {
			if i == 20 {
				return fmt.Sprintf("%s\n  and %d more", text, len(jobs)-i)
			}
			text += "\n  " + line(job)
		}
		return text
	}
	names, err := k.queueNames(t.Context())
	var others []string
	for _, name := range names {
		if name == queueName {
			continue
		}
		stored, readErr := k.Queue(name).JobIDs(t.Context(), bullmq.AllEntries())
		if err = errors.Join(err, readErr); len(stored) > 0 {
			others = append(others, fmt.Sprintf("%s (%d)", name, len(stored)))
		}
	}
	switch {
	case err != nil:
		return fmt.Sprintf("no job was added to queue %s; the other queues can't be read: %v", queueName, err)
	case len(others) == 0:
		return "no job was added to any queue"
	}
	return fmt.Sprintf("no job was added to queue %s; queues with jobs: %s", queueName, strings.Join(others, ", "))
}
