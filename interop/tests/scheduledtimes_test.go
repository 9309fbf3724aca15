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
		repeat.StartDate = time.Now().Add(1500 * time.Millisecond).Truncate(time.Second) // so that no scheduled time passes before the scheduler exists
		upsert(name, repeat)
		queue := newGoQueue(name)
		completed := func() (int, error) {
			counts, err := queue.Counts(soon(), bullmq.StateCompleted)
			return counts[bullmq.StateCompleted], err
		}
		Eventually(completed).WithPolling(50 * time.Millisecond).Should(BeEquivalentTo(runs))

		var scheduled []string
		for n := range runs {
			scheduled = append(scheduled, fmt.Sprintf("repeat:tick:%d", repeat.StartDate.Add(first+time.Duration(n)*step).UnixMilli()))
		}
		mu.Lock()
		Expect(started).To(Equal(scheduled))
		mu.Unlock()
		for _, id := range scheduled {
			job := readJob(queue, id)
			due := job.Timestamp.Add(job.Options.Delay)
			if job.Options.Delay > 0 { // on a busy machine a job may be added after its scheduled time
				Expect(job.ID).To(Equal(fmt.Sprintf("repeat:tick:%d", due.UnixMilli())), "due at its scheduled time")
			}
			Expect(job.ProcessedOn.UnixMilli()).To(BeNumerically(">=", due.UnixMilli()), "not before it is due")
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
