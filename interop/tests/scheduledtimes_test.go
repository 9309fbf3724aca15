package tests

import (
	"context"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A scheduler", func() {
	const runs = 3
	idAt := func(scheduled time.Time) string { return fmt.Sprintf("repeat:tick:%d", scheduled.UnixMilli()) }
	// byNode and byGo run jobs in one library only and report each start.
	byNode := func(queue string, started func(id string)) {
		process := startNode("worker.mjs", "-queue", queue)
		go func() {
			defer GinkgoRecover()
			for line := range process.Lines() {
				var message struct{ Event, ID string }
				Expect(line.Decode(&message)).To(Succeed())
				Expect(message.Event).NotTo(Equal("error"), "%s", line)
				if message.Event == "started" {
					started(message.ID)
				}
			}
		}()
	}
	byGo := func(queue string, started func(id string)) {
		runGoWorker(queue, func(_ context.Context, job *bullmq.Job) (any, error) { started(job.ID); return nil, nil }, bullmq.WorkerOptions{})
	}
	inNode := func(queue string, repeat bullmq.Repeat) {
		GinkgoHelper()
		asNode := object{"limit": repeat.Limit, "startDate": repeat.StartDate.UnixMilli()}
		if repeat.Every > 0 {
			asNode["every"] = repeat.Every.Milliseconds()
		} else {
			asNode["pattern"], asNode["tz"] = repeat.Pattern, repeat.TimeZone
		}
		node.Do("upsertScheduler", object{"queue": queue, "id": "tick", "repeat": asNode, "template": object{"name": "tock"}}, nil)
	}
	inGo := func(queue string, repeat bullmq.Repeat) {
		GinkgoHelper()
		_, err := newGoQueue(queue).UpsertScheduler(soon(), "tick", repeat, &bullmq.JobTemplate{Name: "tock"})
		Expect(err).NotTo(HaveOccurred())
	}

	DescribeTable("created in one library and run by the other keeps to its scheduled times and its limit:", func(
		upsert func(string, bullmq.Repeat), work func(string, func(string)), repeat bullmq.Repeat, step, first time.Duration,
	) {
		name := newQueueName()
		var mu sync.Mutex
		var started []string
		work(name, func(id string) {
			mu.Lock()
			defer mu.Unlock()
			started = append(started, id)
		})
		repeat.Limit = runs
		repeat.StartDate = time.Now().Add(4 * time.Second).Truncate(time.Second) // so that no scheduled time passes before the scheduler exists
		upsert(name, repeat)
		queue := newGoQueue(name)
		completed := func() (int, error) {
			counts, err := queue.Counts(soon(), bullmq.StateCompleted)
			return counts[bullmq.StateCompleted], err
		}
		Eventually(completed).WithPolling(50 * time.Millisecond).Should(BeEquivalentTo(runs))

		mu.Lock()
		defer mu.Unlock()
		Expect(started).To(HaveLen(runs))
		next := repeat.StartDate.Add(first)
		for _, id := range started {
			job := readJob(queue, id)
			for id != idAt(next) { // on a busy machine some pass before the next job is added, which are then left out
				Expect(next).To(BeTemporally("<=", job.Timestamp), "%v, %s added at %v", started, id, job.Timestamp)
				next = next.Add(step)
			}
			due := job.Timestamp.Add(job.Options.Delay)
			if job.Options.Delay > 0 { // or its own passes before it is added
				Expect(id).To(Equal(idAt(due)), "due at its scheduled time")
			}
			Expect(job.ProcessedOn.UnixMilli()).To(BeNumerically(">=", due.UnixMilli()), "not before it is due")
			next = next.Add(step)
		}
		// The last run starts without a next one, so nothing remains to wait for.
		Expect(queue.Counts(soon(), bullmq.StateWaiting, bullmq.StateDelayed, bullmq.StatePrioritized, bullmq.StateActive, bullmq.StateFailed)).To(
			HaveEach(BeZero()))
		Expect(queue.Scheduler(soon(), "tick")).To(HaveField("Iterations", runs))
	},
		Entry("with an interval, created by Node and run in Go", inNode, byGo, bullmq.Repeat{Every: 750 * time.Millisecond}, 750*time.Millisecond, time.Duration(0)),
		Entry("with a pattern of seconds, created by Node and run in Go", inNode, byGo, bullmq.Repeat{Pattern: "* * * * * *", TimeZone: "Asia/Kolkata"}, time.Second, time.Second),
		Entry("with an interval, created by Go and run in Node", inGo, byNode, bullmq.Repeat{Every: 750 * time.Millisecond}, 750*time.Millisecond, time.Duration(0)),
		Entry("with a pattern of seconds, created by Go and run in Node", inGo, byNode, bullmq.Repeat{Pattern: "* * * * * *", TimeZone: "Asia/Kolkata"}, time.Second, time.Second),
	)
})
