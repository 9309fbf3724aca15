package tests

import (
	"context"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/nodeprocess"
)

var _ = Describe("A job that fails on one side", func() {
	var name string
	var queue *bullmq.Queue
	BeforeEach(func() {
		name = newQueueName()
		queue = newGoQueue(name)
	})
	failInNode := func(reason string) {
		GinkgoHelper()
		node.run(name, 1, object{"throw": reason}, object{"name": "noddy"})(nil)
	}

	It("is tried again by the other, with the backoff of all attempts so far and one list of stack traces", func() {
		id := node.add(name, "a", object{"n": 1}, object{"attempts": 5, "backoff": object{"type": "exponential", "delay": 40}})
		for i, reason := range []string{"first, in Go", "second, in Node", "third, in Go", "fourth, in Node"} {
			if i%2 == 0 {
				runOnce(name, failing(reason), bullmq.WorkerOptions{Name: "gopher"})
			} else {
				failInNode(reason)
			}
			job := readJob(queue, id)
			Expect(stateOf(queue, id)()).To(Equal(bullmq.Delayed))
			Expect(job.Delay).To(Equal(40 * time.Millisecond << i))
			Expect(job.FailedReason).To(Equal(reason))
			Expect([]int{job.AttemptsMade, job.AttemptsStarted}).To(Equal([]int{i + 1, i + 1}))
		}
		runOnce(name, returning("done"), bullmq.WorkerOptions{Name: "gopher"})
		record := node.record(name, id)
		Expect(record).To(And(
			HaveKeyWithValue("state", "completed"), HaveKeyWithValue("returnvalue", "done"), HaveKeyWithValue("attemptsMade", 5.),
			HaveKeyWithValue("attemptsStarted", 5.), HaveKeyWithValue("processedBy", "gopher"),
		))
		Expect(record["stacktrace"]).To(HaveExactElements(
			ContainSubstring("first, in Go"), ContainSubstring("second, in Node"), ContainSubstring("third, in Go"), ContainSubstring("fourth, in Node"),
		))
	})

	It("goes back to its own line at once where it has no backoff, and counts as failed when the attempts of both are used up", func() {
		job, err := queue.Add(soon(), "a", nil, &bullmq.JobOptions{Attempts: 3, Priority: 4, StackTraceLimit: 2})
		Expect(err).NotTo(HaveOccurred())
		failInNode("first, in Node")
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.Prioritized))
		runOnce(name, failing("second, in Go"), bullmq.WorkerOptions{})
		Expect(stateOf(queue, job.ID)()).To(Equal(bullmq.Prioritized))
		failInNode("third, in Node")
		record := node.record(name, job.ID)
		Expect(record).To(And(HaveKeyWithValue("state", "failed"), HaveKeyWithValue("attemptsMade", 3.), HaveKeyWithValue("failedReason", "third, in Node")))
		Expect(record["stacktrace"]).To(HaveExactElements(ContainSubstring("second, in Go"), ContainSubstring("third, in Node")))
	})

	It("for good is retried by hand from the other, and ends there", func() {
		for _, retryInGo := range []bool{true, false} {
			id := node.add(name, "a", object{}, object{})
			if retryInGo {
				failInNode("no")
				Expect(readJob(queue, id).Retry(soon(), bullmq.Failed, &bullmq.RetryOptions{ResetAttemptsMade: true})).To(Succeed())
				runOnce(name, returning(1), bullmq.WorkerOptions{})
			} else {
				runOnce(name, failing("no"), bullmq.WorkerOptions{})
				node.do("retry", object{"queue": name, "id": id, "opts": object{"resetAttemptsMade": true}}, nil)
				node.run(name, 1, object{"return": 1}, object{})(nil)
			}
			Expect(node.record(name, id)).To(And(HaveKeyWithValue("state", "completed"), HaveKeyWithValue("attemptsMade", 1.), HaveKeyWithValue("returnvalue", 1.)))
		}
	})

	It("with an error that forbids retries is left alone by the other", func() {
		id := node.add(name, "a", object{}, object{"attempts": 3})
		runOnce(name, func(context.Context, *bullmq.Job) (any, error) {
			return nil, bullmq.Unrecoverable(errorText("never"))
		}, bullmq.WorkerOptions{})
		Expect(node.record(name, id)).To(And(HaveKeyWithValue("state", "failed"), HaveKeyWithValue("failedReason", "never")))
		id = node.add(name, "a", object{}, object{"attempts": 3})
		node.run(name, 1, object{"unrecoverable": "never"}, object{})(nil)
		Expect(readJob(queue, id).FailedReason).To(Equal("never"))
		Expect(stateOf(queue, id)()).To(Equal(bullmq.Failed))
	})
})

// runOnce runs a Go worker for one attempt. It is stopped while the handler
// runs, so that the write of the end takes no next job.
func runOnce(queue string, handler bullmq.Handler, options bullmq.WorkerOptions) {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	started := 0
	options.Connection = connection()
	worker, err := bullmq.NewWorker(queue, func(ctx context.Context, job *bullmq.Job) (any, error) {
		started++
		cancel()
		return handler(ctx, job)
	}, &options)
	Expect(err).NotTo(HaveOccurred())
	Expect(worker.Run(ctx)).To(Succeed())
	Expect(started).To(Equal(1))
}

var _ = Describe("A job whose worker is killed", func() {
	var name string
	var queue *bullmq.Queue
	BeforeEach(func() {
		name = newQueueName()
		queue = newGoQueue(name)
	})
	startDoomedNodeWorker := func() *nodeprocess.Process {
		GinkgoHelper()
		doomed := startNode("worker.mjs", "-queue", name, "-lock-duration", shortLockInNode, "-stalled-interval", oftenLookInNode, "-sleep", longerThanASpecs)
		_, err := doomed.WaitFor(soon(), says("started"))
		Expect(err).NotTo(HaveOccurred())
		return doomed
	}

	It("in Node is found stalled and run by Go", func() {
		reader := readInGo(name)
		id := node.add(name, "a", object{"n": 1}, object{})
		startDoomedNodeWorker().Kill()
		runGoWorker(name, returning("by Go"), bullmq.WorkerOptions{LockDuration: shortLock, StalledInterval: oftenLook})
		Expect(queue.WaitForJob(soon(), id)).To(MatchJSON(`"by Go"`))
		job := readJob(queue, id)
		Expect([]int{job.StalledCounter, job.AttemptsStarted, job.AttemptsMade}).To(Equal([]int{1, 2, 1}))
		var names []string
		for _, event := range reader.upTo(lastEvent(name)) {
			names = append(names, event.Name)
		}
		Expect(names).To(Equal([]string{"added", "waiting", "active", "waiting", "stalled", "active", "completed", "drained"}))
	})

	It("in Go is found stalled and run by Node", func() {
		id := node.add(name, "a", object{"n": 1}, object{})
		startDoomedGoWorker(name, id)()
		saviour := startNode("worker.mjs", "-queue", name, "-lock-duration", shortLockInNode, "-stalled-interval", oftenLookInNode, "-name", "noddy")
		_, err := saviour.WaitFor(soon(), says("completed"))
		Expect(err).NotTo(HaveOccurred())
		Expect(node.record(name, id)).To(And(
			HaveKeyWithValue("state", "completed"), HaveKeyWithValue("stalledCounter", 1.),
			HaveKeyWithValue("attemptsStarted", 2.), HaveKeyWithValue("processedBy", "noddy"),
		))
	})

	It("once on each side has stalled too often: the next worker fails it without running it", func() {
		id := node.add(name, "a", object{}, object{"attempts": 5})
		startDoomedNodeWorker().Kill()
		startDoomedGoWorker(name, id)()
		ran := false
		runGoWorker(name, func(context.Context, *bullmq.Job) (any, error) { ran = true; return nil, nil },
			bullmq.WorkerOptions{LockDuration: shortLock, StalledInterval: oftenLook})
		Eventually(stateOf(queue, id)).Should(Equal(bullmq.Failed))
		Expect(ran).To(BeFalse())
		Expect(node.record(name, id)).To(And(
			HaveKeyWithValue("failedReason", "job stalled more than allowable limit"), HaveKeyWithValue("stalledCounter", 2.),
		))
	})
})

// says waits for a line of a Node program about this event.
func says(event string) func(nodeprocess.Line) bool {
	return func(line nodeprocess.Line) bool {
		var said struct{ Event string }
		return line.Decode(&said) == nil && said.Event == event
	}
}

var _ = Describe("What holds for a whole queue", func() {
	It("as a limiter bounds the starts of both kinds of worker together", func() {
		const most, window, count = 5, 400, 20
		l := newLedger(newQueueName())
		slowly := func(context.Context, *bullmq.Job) (any, error) { time.Sleep(25 * time.Millisecond); return nil, nil }
		var mu sync.Mutex
		byGo := 0
		runGoWorker(l.queue, slowly, bullmq.WorkerOptions{
			Limiter: &bullmq.Limiter{Max: most, Duration: window * time.Millisecond},
			Events: bullmq.WorkerEvents{Completed: func(*bullmq.Job, any) {
				mu.Lock()
				defer mu.Unlock()
				byGo++
			}},
		})
		noddy := workInNode(l, "noddy", "6", "-concurrency", "1", "-limit-max", "5", "-limit-duration", "400", "-sleep", "25")
		queue := newGoQueue(l.queue)
		_, err := queue.AddBulk(soon(), slices.Repeat([]bullmq.BulkJob{{Name: "a"}}, count))
		Expect(err).NotTo(HaveOccurred())
		completed := func() (int64, error) {
			counts, err := queue.Counts(soon(), bullmq.Completed)
			return counts[bullmq.Completed], err
		}
		Eventually(completed).Should(BeEquivalentTo(count))
		noddy.stop()

		done, err := queue.Jobs(soon(), bullmq.All(), bullmq.Completed)
		Expect(err).NotTo(HaveOccurred())
		starts := make([]time.Time, len(done))
		for i, job := range done {
			starts[i] = job.ProcessedOn
		}
		slices.SortFunc(starts, time.Time.Compare)
		// A window lasts from the first start after the one before.
		for first := 0; first+most < count; first += most {
			Expect(starts[first+most].Sub(starts[first])).To(BeNumerically(">=", (window-20)*time.Millisecond), "%v", starts)
		}
		Expect(starts[count-1].Sub(starts[0])).To(BeNumerically("<", 10*window*time.Millisecond))
		mu.Lock()
		defer mu.Unlock()
		Expect(byGo).To(And(BeNumerically(">", 0), BeNumerically("<", count)), "jobs that Go ran")
	})

	It("as a pause by one side stops the workers of both until the other side resumes", func() {
		l := newLedger(newQueueName())
		queue := newGoQueue(l.queue)
		gopher := workInGo(l, "gopher", bullmq.WorkerOptions{})
		noddy := workInNode(l, "noddy", "6")
		pause := []func(){
			func() { Expect(queue.Pause(soon())).To(Succeed()) },
			func() { node.do("pause", object{"queue": l.queue}, nil) },
		}
		resume := []func(){
			func() { node.do("resume", object{"queue": l.queue}, nil) },
			func() { Expect(queue.Resume(soon())).To(Succeed()) },
		}
		for round := range 2 {
			pause[round]()
			Expect(queue.IsPaused(soon())).To(BeTrue())
			var inNode bool
			node.do("isPaused", object{"queue": l.queue}, &inNode)
			Expect(inNode).To(BeTrue())
			before := l.endedCount()
			produceFromGo(l, mixOfJobs(100, uint64(20+round)))
			Consistently(l.endedCount).WithTimeout(400 * time.Millisecond).Should(Equal(before))
			resume[round]()
			l.waitForEnds(before + 100)
			Expect(queue.IsPaused(soon())).To(BeFalse())
		}
		gopher.stop()
		noddy.stop()
		l.settle(200)
	})

	It("as a global concurrency bounds both kinds of worker together", func() {
		name := newQueueName()
		queue := newGoQueue(name)
		Expect(queue.SetGlobalConcurrency(soon(), 2)).To(Succeed())
		events := readInGo(name)
		l := newLedger(name)
		gopher := workInGo(l, "gopher", bullmq.WorkerOptions{})
		noddy := workInNode(l, "noddy", "6", "-sleep", "3")
		produceFromGo(l, mixOfJobs(100, 22))
		l.waitForEnds(100)
		gopher.stop()
		noddy.stop()
		l.settle(100)
		running, most := map[string]bool{}, 0
		for _, event := range events.upTo(lastEvent(name)) {
			switch event.Name {
			case "active":
				running[event.jobID()] = true
			case "completed", "failed", "waiting", "delayed":
				delete(running, event.jobID())
			}
			most = max(most, len(running))
		}
		Expect(most).To(Equal(2))
	})
})
