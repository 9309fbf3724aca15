package tests

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("Jobs that are cancelled in Go and in Node", func() {
	var name string
	BeforeEach(func() { name = newQueueName() })

	DescribeTable("at random moments end cancelled or completed, and none runs twice", func(line string, dialect bullmq.Dialect) {
		const jobs = 500
		var mu sync.Mutex
		starts, cancelled, byGo := map[string]int{}, map[string]bool{}, map[string]bool{}
		start := func(id string) {
			mu.Lock()
			defer mu.Unlock()
			starts[id]++
		}
		cancel := func(id string) {
			mu.Lock()
			defer mu.Unlock()
			cancelled[id] = true
		}
		queue, err := bullmq.NewQueue(soon(), name, &bullmq.QueueOptions{URL: server.URL(), Dialect: dialect})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(queue.Close)
		process := startNode("cancelling.mjs", "-queue", name, "-bullmq", line, "-concurrency", "30")
		go func() {
			for line := range process.Lines() {
				var message struct{ Event, ID string }
				if line.Decode(&message) == nil && message.Event == "started" {
					start(message.ID)
				}
			}
		}()
		bulk := make([]bullmq.BulkJob, jobs)
		for i := range bulk {
			options := &bullmq.JobOptions{JobID: fmt.Sprint("job-", i), Attempts: 3}
			switch rand.IntN(3) {
			case 0:
				options.Delay = time.Duration(rand.IntN(3000)) * time.Millisecond
			case 1:
				options.Priority = 1 + rand.IntN(5)
			}
			bulk[i] = bullmq.BulkJob{Name: "a", Data: object{"ms": rand.IntN(1000)}, Options: options}
		}
		_, err = queue.AddBulk(soon(), bulk)
		Expect(err).NotTo(HaveOccurred())
		for range 2 {
			worker, err := bullmq.NewWorker(soon(), name, func(ctx context.Context, job *bullmq.Job) (any, error) {
				start(job.ID)
				var data struct{ MS int }
				if err := job.Decode(&data); err != nil {
					return nil, err
				}
				select {
				case <-time.After(time.Duration(data.MS) * time.Millisecond):
					return "done", nil
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}, &bullmq.WorkerOptions{URL: server.URL(), Dialect: dialect, Concurrency: 20})
			Expect(err).NotTo(HaveOccurred())
			go func() { _ = worker.Run(context.Background()) }()
			DeferCleanup(worker.Close)
		}

		var all sync.WaitGroup
		until := within(5 * time.Second)
		for i := range jobs {
			if i%3 == 2 {
				continue // is not cancelled
			}
			id := fmt.Sprint("job-", i)
			byGo[id] = i%3 == 0
			all.Go(func() {
				defer GinkgoRecover()
				select {
				case <-time.After(time.Duration(rand.IntN(4000)) * time.Millisecond):
				case <-until.Done():
				}
				cancel(id)
				if i%3 == 0 {
					_, err := queue.Cancel(soon(), id, "because "+id)
					Expect(err).NotTo(HaveOccurred())
				} else {
					Expect(process.Send(object{"jobId": id, "reason": "because " + id})).To(Succeed())
				}
			})
		}
		all.Wait()
		ended := func() (int, error) {
			counts, err := queue.Counts(soon(), bullmq.StateCompleted, bullmq.StateFailed)
			return counts[bullmq.StateCompleted] + counts[bullmq.StateFailed], err
		}
		Eventually(ended, "40s", "50ms").Should(Equal(jobs))

		failed, err := queue.Jobs(soon(), bullmq.AllEntries(), bullmq.StateFailed)
		Expect(err).NotTo(HaveOccurred())
		mu.Lock()
		defer mu.Unlock()
		unrun := 0
		for _, job := range failed {
			Expect(cancelled).To(HaveKey(job.ID))
			Expect(job.FailedReason).To(Equal("cancelled: because " + job.ID))
			if reason, yes := job.Cancelled(); byGo[job.ID] || yes {
				Expect(yes).To(BeTrue(), job.ID)
				Expect(reason).To(Equal("because " + job.ID))
			}
			if starts[job.ID] == 0 {
				unrun++
			}
		}
		Expect(len(failed)).To(BeNumerically(">", 50), "enough are cancelled in time")
		Expect(unrun).To(And(BeNumerically(">", 20), BeNumerically("<", len(failed))), "before they ran and while they ran")
		for id, n := range starts {
			Expect(n).To(Equal(1), id)
		}
		Expect(locks(name)).To(BeEmpty())
		GinkgoWriter.Printf("%d failed, %d of them without running\n", len(failed), unrun)
		Expect(process.CloseInput()).To(Succeed())
		Eventually(process.Done()).Should(BeClosed())
	},
		Entry("on a queue shared with BullMQ 6", "6", bullmq.V6),
		Entry("on a queue shared with BullMQ 5", "5", bullmq.V5),
	)

	DescribeTable("before they run are failed without calling the handler, from any state", func(line string, dialect bullmq.Dialect) {
		probe := node
		if line == "5" {
			probe = startProbe("-bullmq", "5")
		}
		queue, err := bullmq.NewQueue(soon(), name, &bullmq.QueueOptions{URL: server.URL(), Dialect: dialect})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(queue.Close)
		ids := []string{
			probe.Add(name, "a", object{}, object{"attempts": 3}), probe.Add(name, "a", object{}, object{"delay": 3600000, "attempts": 3}),
			probe.Add(name, "a", object{}, object{"priority": 9, "attempts": 3}),
		}
		for _, id := range ids {
			Expect(queue.Cancel(soon(), id, "void")).To(Equal(bullmq.CancelQueued))
		}
		probe.Run(name, len(ids), object{"return": "ran"}, object{})(nil)
		for _, id := range ids {
			Expect(probe.Record(name, id)).To(And(HaveKeyWithValue("state", "failed"), HaveKeyWithValue("failedReason", "cancelled: void")))
			job, err := queue.Job(soon(), id)
			Expect(err).NotTo(HaveOccurred())
			reason, yes := job.Cancelled()
			Expect(yes).To(BeTrue(), "ended in Node")
			Expect(reason).To(Equal("void"))
		}
	},
		Entry("by BullMQ 6", "6", bullmq.V6),
		Entry("by BullMQ 5", "5", bullmq.V5),
	)

	DescribeTable("leave a queue that is kept consistent by the maintenance of", func(line string, dialect bullmq.Dialect) {
		probe := node
		if line == "5" {
			probe = startProbe("-bullmq", "5")
		}
		queue, err := bullmq.NewQueue(soon(), name, &bullmq.QueueOptions{URL: server.URL(), Dialect: dialect})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(queue.Close)
		running := probe.Add(name, "a", object{}, object{})
		fetcher, err := bullmq.NewFetcher(soon(), name, &bullmq.FetcherOptions{URL: server.URL(), Dialect: dialect})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(fetcher.Close)
		job, err := fetcher.Fetch(soon())
		Expect(err).NotTo(HaveOccurred())
		waiting := probe.Add(name, "a", object{}, object{})
		kept := probe.Add(name, "a", object{}, object{"delay": 3600000})
		Expect(queue.Cancel(soon(), running, "void")).To(Equal(bullmq.CancelRunning))
		Expect(queue.Cancel(soon(), waiting, "void")).To(Equal(bullmq.CancelQueued))
		var removed int
		probe.Do("removeOrphanedJobs", object{"queue": name, "count": 100, "limit": 100}, &removed)
		Expect(removed).To(BeZero())
		Expect(ask("XLEN", "bull:"+name+"@x:events").AsInt64()).To(BeEquivalentTo(1))
		Expect(stored(name, running, "defa")).To(Equal("cancelled: void"))

		Expect(fetcher.Fail(soon(), job, bullmq.Unrecoverable(errors.New("stopped")))).To(Succeed())
		probe.Do("drain", object{"queue": name}, nil)
		var cleaned []string
		probe.Do("clean", object{"queue": name, "grace": 0, "limit": 10, "type": "failed"}, &cleaned)
		Expect(cleaned).To(Equal([]string{running}))
		Expect(queue.FindOrphanedJobs(soon())).To(BeEmpty())
		Expect(queue.Counts(soon())).To(And(HaveKeyWithValue(bullmq.StateDelayed, 1), HaveKeyWithValue(bullmq.StateWaiting, 0)))

		Expect(queue.Cancel(soon(), kept, "void")).To(Equal(bullmq.CancelQueued))
		Expect(queue.Pause(soon())).To(Succeed())
		probe.Do("obliterate", object{"queue": name, "force": true}, nil)
		Expect(ask("KEYS", "bull:"+name+":*").AsStrSlice()).To(BeEmpty())
		Expect(ask("PTTL", "bull:"+name+"@x:events").AsInt64()).To(BeNumerically(">", 0), "it expires")
	},
		Entry("BullMQ 6", "6", bullmq.V6),
		Entry("BullMQ 5", "5", bullmq.V5),
	)
})
