package tests

import (
	"context"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A setting of a whole queue", func() {
	It("such as a rate limiter bounds the starts of both kinds of worker together", func() {
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
		completed := func() (int, error) {
			counts, err := queue.Counts(soon(), bullmq.StateCompleted)
			return counts[bullmq.StateCompleted], err
		}
		Eventually(completed).Should(BeEquivalentTo(count))
		noddy.stop()

		done, err := queue.Jobs(soon(), bullmq.AllEntries(), bullmq.StateCompleted)
		Expect(err).NotTo(HaveOccurred())
		starts := make([]time.Time, len(done))
		for i, job := range done {
			starts[i] = job.ProcessedOn
		}
		slices.SortFunc(starts, time.Time.Compare)
		// A window begins with the first start after the previous window.
		for first := 0; first+most < count; first += most {
			Expect(starts[first+most].Sub(starts[first])).To(BeNumerically(">=", (window-20)*time.Millisecond), "%v", starts)
		}
		Expect(starts[count-1].Sub(starts[0])).To(BeNumerically("<", 10*window*time.Millisecond))
		mu.Lock()
		defer mu.Unlock()
		Expect(byGo).To(And(BeNumerically(">", 0), BeNumerically("<", count)), "jobs run by Go")
	})

	It("such as a pause by one library stops all workers until the other library resumes it", func() {
		l := newLedger(newQueueName())
		queue := newGoQueue(l.queue)
		gopher := workInGo(l, "gopher", bullmq.WorkerOptions{})
		noddy := workInNode(l, "noddy", "6")
		pause := []func(){
			func() { Expect(queue.Pause(soon())).To(Succeed()) },
			func() { node.Do("pause", object{"queue": l.queue}, nil) },
		}
		resume := []func(){
			func() { node.Do("resume", object{"queue": l.queue}, nil) },
			func() { Expect(queue.Resume(soon())).To(Succeed()) },
		}
		for round := range 2 {
			pause[round]()
			Expect(queue.IsPaused(soon())).To(BeTrue())
			var inNode bool
			node.Do("isPaused", object{"queue": l.queue}, &inNode)
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

	It("such as global concurrency bounds both kinds of worker together", func() {
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
