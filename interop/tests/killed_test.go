package tests

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
)

var _ = Describe("A job whose worker is killed", func() {
	var name string
	var queue *bullmq.Queue
	BeforeEach(func() {
		name = newQueueName()
		queue = newGoQueue(name)
	})
	startDoomedNodeWorker := func() *nodeprocess.Process {
		GinkgoHelper()
		doomed := startNode("worker.mjs", "-queue", name, "-lock-duration", shortLockInNode, "-stalled-interval", frequentCheckInNode, "-sleep", longerThanASpec)
		_, err := doomed.WaitFor(soon(), hasEvent("started"))
		Expect(err).NotTo(HaveOccurred())
		return doomed
	}

	It("in Node is recovered and run by Go", func() {
		reader := readInGo(name)
		id := node.Add(name, "a", object{"n": 1}, object{})
		startDoomedNodeWorker().Kill()
		runGoWorker(name, returning("by Go"), bullmq.WorkerOptions{StalledInterval: frequentCheck})
		Expect(queue.WaitForJob(soon(), id)).To(MatchJSON(`"by Go"`))
		job := readJob(queue, id)
		Expect([]int{job.StalledCounter, job.AttemptsStarted, job.AttemptsMade}).To(Equal([]int{1, 2, 1}))
		var names []string
		for _, event := range reader.upTo(lastEvent(name)) {
			names = append(names, event.Name)
		}
		Expect(names).To(Equal([]string{"added", "waiting", "active", "waiting", "stalled", "active", "completed", "drained"}))
	})

	It("in Go is recovered and run by Node", func() {
		id := node.Add(name, "a", object{"n": 1}, object{})
		startDoomedGoWorker(name, id)()
		rescuer := startNode("worker.mjs", "-queue", name, "-stalled-interval", frequentCheckInNode, "-name", "noddy")
		_, err := rescuer.WaitFor(soon(), hasEvent("completed"))
		Expect(err).NotTo(HaveOccurred())
		Expect(node.Record(name, id)).To(And(
			HaveKeyWithValue("state", "completed"), HaveKeyWithValue("stalledCounter", 1.),
			HaveKeyWithValue("attemptsStarted", 2.), HaveKeyWithValue("processedBy", "noddy"),
		))
	})

	It("once in each library has stalled too often and is failed without a run", func() {
		id := node.Add(name, "a", object{}, object{"attempts": 5})
		startDoomedNodeWorker().Kill()
		startDoomedGoWorker(name, id)()
		ran := false
		runGoWorker(name, func(context.Context, *bullmq.Job) (any, error) { ran = true; return nil, nil },
			bullmq.WorkerOptions{StalledInterval: frequentCheck})
		Eventually(stateOf(queue, id)).Should(Equal(bullmq.StateFailed))
		Expect(ran).To(BeFalse())
		Expect(node.Record(name, id)).To(And(
			HaveKeyWithValue("failedReason", "job stalled more than allowable limit"), HaveKeyWithValue("stalledCounter", 2.),
		))
	})
})

// hasEvent returns a function that reports whether a line of a Node program has this event.
func hasEvent(event string) func(nodeprocess.Line) bool {
	return func(line nodeprocess.Line) bool {
		var message struct{ Event string }
		return line.Decode(&message) == nil && message.Event == event
	}
}
