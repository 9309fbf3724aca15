package tests

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A Go worker on a queue shared with Node", func() {
	var name string
	var queue *bullmq.Queue
	BeforeEach(func() {
		name = newQueueName()
		queue = newGoQueue(name)
	})

	It("snoozes a job that Node then runs with all its attempts, and runs a job that Node delayed", func() {
		id := node.Add(name, "a", object{}, object{"attempts": 2})
		runOnce(name, func(context.Context, *bullmq.Job) (any, error) { return nil, bullmq.Snooze(150 * time.Millisecond) }, bullmq.WorkerOptions{})
		Expect(node.Record(name, id)).To(And(HaveKeyWithValue("state", "delayed"), HaveKeyWithValue("delay", 150.),
			HaveKeyWithValue("attemptsMade", 0.), HaveKeyWithValue("attemptsStarted", 1.)))
		node.Run(name, 2, object{"failUntilAttempt": 2, "return": "done"}, object{})(nil)
		Expect(node.Record(name, id)).To(And(HaveKeyWithValue("returnvalue", "done"), HaveKeyWithValue("attemptsMade", 2.)))

		napped := node.Add(name, "nap", object{}, object{})
		node.Add(name, "b", object{}, object{})
		node.Run(name, 1, object{"byName": object{"nap": object{"delay": 150}, "b": object{"return": 1}}}, object{})(nil)
		Expect(stateOf(queue, napped)()).To(Equal(bullmq.StateDelayed))
		runOnce(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			return []int{job.AttemptsMade, job.AttemptsStarted}, nil
		}, bullmq.WorkerOptions{})
		Expect(node.Record(name, napped)).To(HaveKeyWithValue("returnvalue", HaveExactElements(0., 2.)))
	})

	It("leaves jobs to Node while it is paused and continues afterwards", func() {
		ran := make(chan string, 10)
		worker, err := bullmq.NewWorker(context.Background(), name, func(_ context.Context, job *bullmq.Job) (any, error) {
			ran <- job.ID
			return "by Go", nil
		}, &bullmq.WorkerOptions{URL: server.URL(), DrainDelay: 10 * time.Second})
		Expect(err).NotTo(HaveOccurred())
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(context.Background()) }()
		DeferCleanup(func() {
			Expect(worker.Close()).To(Succeed())
			Eventually(ended).Should(Receive(BeNil()))
		})
		id := node.Add(name, "a", object{}, object{})
		Eventually(ran).Should(Receive(Equal(id)))
		Expect(worker.Pause(soon())).To(Succeed())
		Expect(queue.IsPaused(soon())).To(BeFalse(), "the pause concerns only the worker")
		for range 3 {
			id = node.Add(name, "a", object{}, object{})
			node.Run(name, 1, object{"return": "by Node"}, object{})(nil)
			Expect(node.Record(name, id)).To(HaveKeyWithValue("returnvalue", "by Node"))
		}
		Expect(ran).NotTo(Receive())
		worker.Resume()
		id = node.Add(name, "a", object{}, object{})
		Eventually(ran).Should(Receive(Equal(id)))
	})

	It("fails a job that it cancelled with the reason for Node to read", func() {
		id := node.Add(name, "a", object{}, object{})
		started := make(chan struct{})
		worker, err := bullmq.NewWorker(context.Background(), name, func(ctx context.Context, _ *bullmq.Job) (any, error) {
			close(started)
			<-ctx.Done()
			var cancelled *bullmq.CancelledError
			if !errors.As(context.Cause(ctx), &cancelled) {
				return nil, errorText("not cancelled")
			}
			return nil, errors.New(cancelled.Reason)
		}, &bullmq.WorkerOptions{URL: server.URL()})
		Expect(err).NotTo(HaveOccurred())
		go func() { _ = worker.Run(context.Background()) }()
		DeferCleanup(worker.Close)
		Eventually(started).Should(BeClosed())
		Expect(worker.CancelJob(id, "the order is void")).To(BeTrue())
		Eventually(stateOf(queue, id)).Should(Equal(bullmq.StateFailed))
		Expect(node.Record(name, id)).To(And(HaveKeyWithValue("failedReason", "the order is void"), HaveKeyWithValue("attemptsMade", 1.)))
	})
})
