package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

const (
	manyFinished = 1_000_000
	longWait     = 10 * time.Second // an idle worker looks for jobs more often
	longLimit    = 5 * time.Minute  // a rate limit that lasts longer is worth a look
)

// patient is a queue that doctor looks at.
type patient struct {
	*doctor
	name    string
	summary bullmq.QueueSummary
	workers []bullmq.WorkerInfo
	raw     queueKeys
	ready   int // jobs that a worker could fetch now, if nothing else prevents it
}

// examineQueue makes the checks of a queue.
func (d *doctor) examineQueue(ctx context.Context, summary bullmq.QueueSummary, workers []bullmq.WorkerInfo) error {
	if summary.Err != nil {
		d.find(severityError, summary.Name, "keys", summary.Err.Error(), "Something else than BullMQ may have written a key of the queue. Clients can't use it.",
			"redis-cli --scan --pattern "+shellWord(d.c.prefix+":"+summary.Name+":[a-z]*"))
		return nil
	}
	q := &patient{doctor: d, name: summary.Name, summary: summary}
	q.ready = summary.Counts[bullmq.StateWaiting] + summary.Counts[bullmq.StatePrioritized]
	for _, worker := range workers {
		if slices.Contains(worker.Queues, q.name) {
			q.workers = append(q.workers, worker)
		}
	}
	if len(q.workers) == 0 && slices.ContainsFunc(workers, func(w bullmq.WorkerInfo) bool { return w.QueueCount > len(w.Queues) }) {
		var err error
		if q.workers, err = bullmq.ListWorkers(ctx, d.connection, d.c.prefix, q.name); err != nil {
			return err
		}
	}
	var err error
	if q.raw, err = q.readKeys(ctx); err != nil {
		return err
	}
	q.examineSettings()
	q.examineWorkers()
	q.examineMarker()
	q.examineRetention()
	q.examineLayout()
	if err := q.examineLocks(ctx); err != nil {
		return err
	}
	if err := q.examineParents(ctx); err != nil {
		return err
	}
	if err := q.examineLost(ctx); err != nil {
		return err
	}
	q.report()
	return nil
}

func (q *patient) found(severity, check, found, means, remedy string) {
	q.find(severity, q.name, check, found, means, remedy)
}

// ready tells how many jobs are ready.
func ready(n int) string { return count(n, "job is ready", "jobs are ready") }

func workers(n int) string { return count(n, "worker", "workers") }

func are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// report tells what the queue has, so that its section is not empty.
func (q *patient) report() {
	version := "no version written"
	if q.raw.version != "" {
		version = "written by " + q.raw.version
	}
	dialect := "V6"
	if strings.HasPrefix(q.raw.version, "bullmq:5.") || q.raw.paused > 0 {
		dialect = "V5"
	}
	q.found(severityInfo, "queue", fmt.Sprintf("%d active, %d ready, %d delayed, %d failed, %d completed jobs; %s; %s, used in dialect %s",
		q.summary.Counts[bullmq.StateActive], q.ready, q.summary.Counts[bullmq.StateDelayed], q.summary.Counts[bullmq.StateFailed], q.summary.Counts[bullmq.StateCompleted],
		workers(len(q.workers)), version, dialect), "", "")
}

// examineSettings looks at what keeps all workers from fetching jobs.
func (q *patient) examineSettings() {
	s := q.summary
	if s.Paused {
		severity := severityWarning
		if q.ready > 0 {
			severity = severityError
		}
		q.found(severity, "paused", fmt.Sprintf("the queue is paused; %s", ready(q.ready)), "No worker fetches jobs until the queue is resumed.", q.typed("resume", q.name))
	}
	active := s.Counts[bullmq.StateActive]
	switch {
	case s.Concurrency > 0 && active >= s.Concurrency && q.ready > 0:
		q.found(severityWarning, "concurrency", fmt.Sprintf("the global concurrency is %d, %s, and %s", s.Concurrency, count(active, "job is active", "jobs are active"), ready(q.ready)),
			"No worker fetches a job before another has ended.", q.typed("limit", q.name, "--concurrency", fmt.Sprint(2*s.Concurrency)))
	case q.raw.concurrency == "0":
		q.found(severityError, "concurrency", fmt.Sprintf("the global concurrency is 0; %s", ready(q.ready)), "No worker fetches jobs.", q.typed("limit", q.name, "--concurrency", "none"))
	case s.Concurrency > 0:
		q.found(severityInfo, "concurrency", fmt.Sprintf("the global concurrency is %d, for all workers together", s.Concurrency), "", "")
	}
	limit := ""
	if s.LimitMax > 0 {
		limit = fmt.Sprintf("; the global rate limit is %s in %s", jobs(s.LimitMax), short(s.LimitDuration))
	}
	switch {
	case s.LimitedFor > longLimit && q.ready > 0 && q.raw.limited:
		q.found(severityWarning, "limited", fmt.Sprintf("a call has limited the rate, for %s more%s", short(s.LimitedFor), limit),
			"No worker fetches jobs until then. The limit may protect another service: end it only if it was set by mistake.", q.typed("limit", q.name, "--end"))
	case s.LimitedFor > longLimit && q.ready > 0:
		q.found(severityWarning, "limited", fmt.Sprintf("the rate limit is reached, for %s more%s", short(s.LimitedFor), limit), "No worker fetches jobs until then.", q.typed("limit", q.name))
	case s.LimitedFor > 0 && q.ready > 0:
		q.found(severityInfo, "limited", fmt.Sprintf("the rate limit is reached, for %s more%s", short(s.LimitedFor), limit), "Workers fetch jobs again then.", "")
	case limit != "":
		q.found(severityInfo, "limited", "no job waits for the rate limit"+limit, "", "")
	}
}

// examineWorkers looks at the workers of the queue.
func (q *patient) examineWorkers() {
	unfinished := q.ready + q.summary.Counts[bullmq.StateActive] + q.summary.Counts[bullmq.StateDelayed]
	if len(q.workers) == 0 {
		severity := severityInfo
		switch {
		case q.summary.DeadLetters: // they wait for a person
		case q.ready > 0:
			severity = severityError
		case unfinished > 0:
			severity = severityWarning
		}
		means, remedy := "Start a worker with this address, database, prefix and name of the queue.", q.typed("workers", "")
		if there := q.elsewhere[q.name]; there.workers > 0 {
			means = fmt.Sprintf("%s to the queue of this name with the prefix %s. Use the same prefix in the producer and the worker.", count(there.workers, "worker listens", "workers listen"), there.prefix)
			remedy = q.typedFor(there.prefix, "workers", q.name)
		}
		q.found(severity, "workers", fmt.Sprintf("the queue has no workers; %s", ready(q.ready)), means, remedy)
		return
	}
	var paused, stopping, busy []string
	for _, w := range q.workers {
		title := fmt.Sprintf("%s (process %d on %s)", w.Name, w.PID, w.Host)
		switch {
		case w.Stopping:
			stopping = append(stopping, title)
		case w.Paused:
			paused = append(paused, title)
		case w.IsRegistered() && w.Concurrency > 0 && w.Running >= w.Concurrency:
			busy = append(busy, title)
		}
	}
	severity := severityWarning
	if len(paused)+len(stopping) == len(q.workers) && q.ready > 0 {
		severity = severityError
	}
	if len(paused) > 0 {
		q.found(severity, "worker-paused", fmt.Sprintf("%d of %s %s paused: %s", len(paused), workers(len(q.workers)), are(len(paused)), some(paused)),
			"Worker.Pause was called. They fetch no jobs until their program calls Worker.Resume. A restart of the process does the same.", q.typed("workers", q.name))
	}
	if len(stopping) > 0 {
		q.found(severity, "worker-stopping", fmt.Sprintf("%d of %s %s stopping: %s", len(stopping), workers(len(q.workers)), are(len(stopping)), some(stopping)),
			"They fetch no more jobs, and end when their running jobs have ended.", q.typed("jobs", q.name, "--state", "active"))
	}
	if len(busy) == len(q.workers) && q.ready > 0 {
		all := fmt.Sprintf("all %d workers run as many jobs as they may", len(busy))
		if len(busy) == 1 {
			all = "the only worker runs as many jobs as it may"
		}
		q.found(severityWarning, "busy", all+"; "+ready(q.ready),
			"Jobs wait until others have ended. Raise the Concurrency of the workers, or start more.", q.typed("workers", q.name))
	}
}

// idle reports whether a worker should fetch ready jobs at once.
func (q *patient) idle() bool {
	if q.summary.Paused || q.summary.LimitedFor > 0 || q.summary.Concurrency > 0 && q.summary.Counts[bullmq.StateActive] >= q.summary.Concurrency {
		return false
	}
	return slices.ContainsFunc(q.workers, func(w bullmq.WorkerInfo) bool {
		return !w.Paused && !w.Stopping && (w.Concurrency == 0 || w.Running < w.Concurrency)
	})
}

// examineMarker looks for jobs of which no worker is notified.
func (q *patient) examineMarker() {
	const means = "An idle worker waits for the marker of the queue, and looks for jobs without one only every 5 seconds (drainDelay). Clients older than BullMQ 5 set no marker."
	if late := time.Since(q.raw.due); !q.raw.due.IsZero() && late > longWait && !q.raw.marker && !q.summary.Paused {
		q.found(severityError, "marker", fmt.Sprintf("the delayed job %s is overdue by %s, and the queue has no marker", q.raw.delayed, short(late)), means,
			q.typed("promote", q.name)+" "+shellWord(q.raw.delayed))
		return
	}
	if oldest := max(q.summary.Ages[bullmq.StateWaiting], q.summary.Ages[bullmq.StatePrioritized]); q.idle() && oldest > longWait && !q.raw.marker {
		q.found(severityWarning, "marker", fmt.Sprintf("%s, the oldest for %s, and the queue has no marker", ready(q.ready), short(oldest)), means, q.typed("repair", q.name))
	}
}

// examineRetention looks for finished jobs that nobody removes.
func (q *patient) examineRetention() {
	for _, state := range []bullmq.State{bullmq.StateCompleted, bullmq.StateFailed} {
		if count := q.summary.Counts[state]; count >= manyFinished {
			option := map[bullmq.State]string{bullmq.StateCompleted: "removeOnComplete", bullmq.StateFailed: "removeOnFail"}[state]
			q.found(severityWarning, "retention", fmt.Sprintf("the queue keeps %d %s jobs", count, state),
				"They fill the memory of Redis. Set "+option+" in the options of jobs or of the worker, and remove the old ones.",
				q.typed("clean", q.name, "--state", string(state), "--older-than", "24h"))
		}
	}
}

// examineLayout looks for what software of other versions has left.
func (q *patient) examineLayout() {
	if q.raw.paused > 0 && !q.summary.Paused {
		q.found(severityError, "paused-list", fmt.Sprintf("%s in the list of paused jobs, but the queue is not paused", count(int(q.raw.paused), "job is", "jobs are")),
			"Workers do not read that list. Clients of BullMQ 5 and 6 on one queue cause it: do not pause or resume with BullMQ 5.", q.typed("repair", q.name))
	}
	if len(q.raw.legacy) > 0 {
		q.found(severityWarning, "legacy", "the queue has keys of Bull, or of BullMQ before version 5: "+strings.Join(q.raw.legacy, ", "),
			"Its jobs run. Its repeatable jobs stop: save them before a new client lists schedulers. Do not run old and new software at once. See docs/legacy-queues.md.",
			"redis-cli ZRANGE "+shellWord(q.key("repeat"))+" 0 -1 WITHSCORES")
	}
}
