package tests

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A job that fails in one library", func() {
	var name string
	var queue *bullmq.Queue
	BeforeEach(func() {
		name = newQueueName()
		queue = newGoQueue(name)
	})
	failInNode := func(reason string) {
		GinkgoHelper()
		node.Run(name, 1, object{"throw": reason}, object{"name": "noddy"})(nil)
	}

	It("is retried by the other with the backoff for all attempts so far and a single list of stack traces", func() {
		id := node.Add(name, "a", object{"n": 1}, object{"attempts": 5, "backoff": object{"type": "exponential", "delay": 40}})
		for i, reason := range []string{"first, in Go", "second, in Node", "third, in Go", "fourth, in Node"} {
			if i%2 == 0 {
				runOnce(name, failing(reason), bullmq.WorkerOptions{Name: "gopher"})
			} else {
				failInNode(reason)
			}
			job := readJob(queue, id)
			Expect(stateOf(queue, id)()).To(Equal(bullmq.StateDelayed))
			Expect(job.Delay).To(Equal(40 * time.Millisecond << i))
			Expect(job.FailedReason).To(Equal(reason))
			Expect([]int{job.AttemptsMade, job.AttemptsStarted}).To(Equal([]int{i + 1, i + 1}))
		}
		runOnce(name, returning("done"), bullmq.WorkerOptions{Name: "gopher"})
		record := node.Record(name, id)
		Expect(record).To(And(
			HaveKeyWithValue("state", "completed"), HaveKeyWithValue("returnvalue", "done"), HaveKeyWithValue("attemptsMade", 5.),
			HaveKeyWithValue("attemptsStarted", 5.), HaveKeyWithValue("processedBy", "gopher"),
		))
		Expect(record["stacktrace"]).To(HaveExactElements(
			ContainSubstring("first, in Go"), ContainSubstring("second, in Node"), ContainSubstring("third, in Go"), ContainSubstring("fourth, in Node"),
		))
	})

	It("returns to its place at once without a backoff and fails for good when the attempts of both are used up", func() {
		job, err := queue.Add(soon(), "a", nil, &bullmq.JobOptions{Attempts: 3, Priority: 4, StackTraceLimit: 2})
		Expect(err).NotTo(HaveOccurred())
		failInNode("first, in Node")
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StatePrioritized))
		runOnce(name, failing("second, in Go"), bullmq.WorkerOptions{})
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.StatePrioritized))
		failInNode("third, in Node")
		record := node.Record(name, job.ID)
		Expect(record).To(And(HaveKeyWithValue("state", "failed"), HaveKeyWithValue("attemptsMade", 3.), HaveKeyWithValue("failedReason", "third, in Node")))
		Expect(record["stacktrace"]).To(HaveExactElements(ContainSubstring("second, in Go"), ContainSubstring("third, in Node")))
	})

	It("for good can be retried by hand from the other and completes there", func() {
		for _, retryInGo := range []bool{true, false} {
			id := node.Add(name, "a", object{}, object{})
			if retryInGo {
				failInNode("no")
				Expect(readJob(queue, id).Retry(soon(), bullmq.StateFailed, &bullmq.RetryOptions{ResetAttemptsMade: true})).To(Succeed())
				runOnce(name, returning(1), bullmq.WorkerOptions{})
			} else {
				runOnce(name, failing("no"), bullmq.WorkerOptions{})
				node.Do("retry", object{"queue": name, "id": id, "opts": object{"resetAttemptsMade": true}}, nil)
				node.Run(name, 1, object{"return": 1}, object{})(nil)
			}
			Expect(node.Record(name, id)).To(And(HaveKeyWithValue("state", "completed"), HaveKeyWithValue("attemptsMade", 1.), HaveKeyWithValue("returnvalue", 1.)))
		}
	})

	It("with an unrecoverable error is not retried by the other", func() {
		id := node.Add(name, "a", object{}, object{"attempts": 3})
		runOnce(name, func(context.Context, *bullmq.Job) (any, error) {
			return nil, bullmq.Unrecoverable(errorText("never"))
		}, bullmq.WorkerOptions{})
		Expect(node.Record(name, id)).To(And(HaveKeyWithValue("state", "failed"), HaveKeyWithValue("failedReason", "never")))
		id = node.Add(name, "a", object{}, object{"attempts": 3})
		node.Run(name, 1, object{"unrecoverable": "never"}, object{})(nil)
		Expect(readJob(queue, id).FailedReason).To(Equal("never"))
		Expect(stateOf(queue, id)()).To(Equal(bullmq.StateFailed))
	})
})

// runOnce runs a Go worker for one attempt. The worker is stopped during the handler, so that finishing the
// job fetches no other.
func runOnce(queue string, handler bullmq.Handler, options bullmq.WorkerOptions) {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	started := 0
	options.URL = server.URL()
	worker, err := bullmq.NewWorker(ctx, queue, func(ctx context.Context, job *bullmq.Job) (any, error) {
		started++
		cancel()
		return handler(ctx, job)
	}, &options)
	Expect(err).NotTo(HaveOccurred())
	Expect(worker.Run(ctx)).To(Succeed())
	Expect(started).To(Equal(1))
}
