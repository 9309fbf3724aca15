package tests

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A scheduler that Node has made", func() {
	DescribeTable("can be paused, run once and resumed in Go, with", func(line string, dialect bullmq.Dialect) {
		name, other := newQueueName(), node
		if line == "5" {
			other = startProbe("-bullmq", "5")
		}
		other.Do("upsertScheduler", object{
			"queue": name, "id": "tick", "repeat": object{"every": 3_600_000},
			"template": object{"name": "tock", "data": object{"list": []any{}, "text": "<&>"}, "opts": object{"attempts": 2}},
		}, nil)
		stored := func() (scheduler object) {
			other.Do("scheduler", object{"queue": name, "id": "tick"}, &scheduler)
			return scheduler
		}
		list := func() (all []object) {
			other.Do("schedulers", object{"queue": name, "start": 0, "end": -1, "asc": true}, &all)
			return all
		}
		// The first job of an interval runs at once. The next one is an hour later.
		l := newLedger(name)
		worker := workInNode(l, "noddy", line)
		completed := func() (int, error) {
			counts, err := newGoQueue(name).Counts(soon(), bullmq.StateCompleted)
			return counts[bullmq.StateCompleted], err
		}
		Eventually(completed).Should(Equal(1))
		before := stored()
		Expect(before).To(HaveKeyWithValue("iterationCount", float64(2)))

		queue, err := bullmq.NewQueue(soon(), name, &bullmq.QueueOptions{URL: server.URL(), Dialect: dialect})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(queue.Close)
		Expect(queue.PauseScheduler(soon(), "tick")).To(Succeed())
		Expect(stored()).To(BeEmpty())
		Expect(list()).To(BeEmpty())
		counts, err := queue.Counts(soon(), bullmq.StateDelayed)
		Expect(err).NotTo(HaveOccurred())
		Expect(counts).To(HaveKeyWithValue(bullmq.StateDelayed, 0))

		run, err := queue.RunScheduler(soon(), "tick")
		Expect(err).NotTo(HaveOccurred())
		Expect(string(run.Data)).To(Equal(`{"list":[],"text":"<&>"}`))
		Eventually(completed).Should(Equal(2))
		Expect(list()).To(BeEmpty(), "the start of the job has added no scheduler")

		Expect(queue.ResumeScheduler(soon(), "tick")).To(Succeed())
		Expect(stored()).To(Equal(before))
		run, err = queue.RunScheduler(soon(), "tick")
		Expect(err).NotTo(HaveOccurred())
		Expect(run.Options.Attempts).To(Equal(2))
		Eventually(completed).Should(Equal(3))
		Expect(stored()).To(Equal(before), "the start of the job has not advanced the scheduler")

		// The job that the resume has added is the scheduler's: its start adds the next one.
		jobs, err := queue.JobIDs(soon(), bullmq.AllEntries(), bullmq.StateDelayed)
		Expect(err).NotTo(HaveOccurred())
		Expect(jobs).To(HaveLen(1))
		job, err := queue.Job(soon(), jobs[0])
		Expect(err).NotTo(HaveOccurred())
		Expect(job.Promote(soon())).To(Succeed())
		Eventually(completed).Should(Equal(4))
		Eventually(func() any { return stored()["iterationCount"] }).Should(Equal(float64(3)))
		Expect(stored()["next"].(float64) - before["next"].(float64)).To(Equal(float64(time.Hour.Milliseconds())))
		worker.stop()
	},
		Entry("BullMQ 6", "6", bullmq.V6),
		Entry("BullMQ 5", "5", bullmq.V5),
	)
})
