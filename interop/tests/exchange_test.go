package tests

import (
	"context"
	"encoding/base64"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
)

// jobs is the number of jobs with mixed options per queue.
const jobs = 2000

var _ = Describe("A queue between Node and Go", func() {
	DescribeTable("delivers Node's jobs to a Go worker, which runs each exactly once",
		func(line string, produce func(l *ledger, line string)) {
			l := newLedger(newQueueName())
			worker := workInGo(l, "gopher", bullmq.WorkerOptions{})
			produce(l, line)
			l.waitForEnds(jobs)
			worker.stop()
			l.settle(jobs)
		},
		Entry("with bullmq 6.7.0 and single adds", "6",
			func(l *ledger, line string) { produceFromNode(l, line, jobs, 1) }),
		Entry("with bullmq 6.7.0 and bulk adds", "6",
			func(l *ledger, line string) { produceThroughNode(l, line, mixOfJobs(jobs, 2)) }),
		Entry("with bullmq 5.81.5", "5",
			func(l *ledger, line string) { produceThroughNode(l, line, mixOfJobs(jobs, 2)) }),
	)

	DescribeTable("delivers Go's jobs to a Node worker, which runs each exactly once",
		func(line string) {
			l := newLedger(newQueueName())
			worker := workInNode(l, "noddy", line)
			produceFromGo(l, mixOfJobs(jobs, 2))
			l.waitForEnds(jobs)
			worker.stop()
			l.settle(jobs)
		},
		Entry("with bullmq 6.7.0", "6"),
		Entry("with bullmq 5.81.5", "5"),
	)

	It("distributes the jobs of both producers among both kinds of worker, and each runs exactly once", func() {
		l := newLedger(newQueueName())
		gopher := workInGo(l, "gopher", bullmq.WorkerOptions{Concurrency: 10})
		noddy := workInNode(l, "noddy", "6", "-concurrency", "10")
		fromNode := make(chan struct{})
		go func() {
			defer GinkgoRecover()
			defer close(fromNode)
			produceFromNode(l, "6", jobs/2, 3)
		}()
		produceFromGo(l, mixOfJobs(jobs/2, 4))
		<-fromNode
		l.waitForEnds(jobs)
		gopher.stop()
		noddy.stop()
		l.settle(jobs)
		Expect(l.startsBy()).To(And(HaveKeyWithValue("gopher", BeNumerically(">", 50)), HaveKeyWithValue("noddy", BeNumerically(">", 50))))
	})

	It("delivers the backlog of one library to a worker of the other that starts later", func() {
		for _, fromGo := range []bool{true, false} {
			l := newLedger(newQueueName())
			var stop func()
			if fromGo {
				produceFromGo(l, mixOfJobs(200, 5))
				stop = workInNode(l, "noddy", "6").stop
			} else {
				produceThroughNode(l, "6", mixOfJobs(200, 5))
				stop = workInGo(l, "gopher", bullmq.WorkerOptions{}).stop
			}
			l.waitForEnds(200)
			stop()
			l.settle(200)
		}
	})

	// An idle worker of either library polls only every 5 seconds.
	It("wakes an idle Node worker at once for every job that Go makes ready", func() {
		name := newQueueName()
		queue := newGoQueue(name)
		worker := startNode("worker.mjs", "-queue", name)
		expectWoken(name, worker.Lines(), func(sequence int) []func() {
			data := payload{Sequence: sequence}
			return []func(){
				func() { mustAdd(queue, data, nil) },
				func() { mustAdd(queue, data, &bullmq.JobOptions{Priority: 3}) },
				func() { mustAdd(queue, data, &bullmq.JobOptions{Delay: 30 * time.Millisecond}) },
				func() {
					id := mustAdd(queue, data, &bullmq.JobOptions{Delay: time.Hour})
					Expect(queue.JobRef(id).Promote(soon())).To(Succeed())
				},
				func() {
					id := mustAdd(queue, data, &bullmq.JobOptions{Delay: time.Hour})
					Expect(queue.JobRef(id).ChangeDelay(soon(), 30*time.Millisecond)).To(Succeed())
				},
				func() {
					Expect(queue.Pause(soon())).To(Succeed())
					mustAdd(queue, data, nil)
					Expect(queue.Resume(soon())).To(Succeed())
				},
			}
		})
	})

	It("wakes an idle Go worker at once for every job that Node makes ready", func() {
		name := newQueueName()
		lines := make(chan nodeprocess.Line, 100) // the lines that worker.mjs would write
		runGoWorker(name, func(_ context.Context, job *bullmq.Job) (any, error) {
			lines <- nodeprocess.Line(stringified(object{"event": "completed", "data": job.Data}))
			return nil, nil
		}, bullmq.WorkerOptions{})
		expectWoken(name, lines, func(sequence int) []func() {
			data := object{"sequence": sequence}
			later := object{"delay": 3600000}
			return []func(){
				func() { node.Add(name, "a", data, object{}) },
				func() { node.Add(name, "a", data, object{"priority": 3}) },
				func() { node.Add(name, "a", data, object{"delay": 30}) },
				func() { node.Do("promote", object{"queue": name, "id": node.Add(name, "a", data, later)}, nil) },
				func() {
					node.Do("changeDelay", object{"queue": name, "id": node.Add(name, "a", data, later), "delay": 30}, nil)
				},
				func() {
					node.Do("pause", object{"queue": name}, nil)
					node.Add(name, "a", data, object{})
					node.Do("resume", object{"queue": name}, nil)
				},
			}
		})
	})
})

// expectWoken makes jobs ready in different ways, each while the worker is idle, and expects each job to
// finish soon.
func expectWoken(queue string, lines <-chan nodeprocess.Line, ways func(sequence int) []func()) {
	GinkgoHelper()
	for i := range ways(0) {
		Eventually(blocked(queue)).Should(BeTrue(), "the worker is idle")
		ways(i)[i]()
		Eventually(func() int {
			for {
				select {
				case line := <-lines:
					var message struct {
						Event string
						Data  payload
					}
					if line.Decode(&message) == nil && message.Event == "completed" {
						return message.Data.Sequence
					}
				default:
					return -1
				}
			}
		}).WithTimeout(4*time.Second).Should(Equal(i), "way %d of making a job ready", i+1)
	}
}

// blocked returns a function for Eventually that reports whether a worker of the queue is idle.
func blocked(queue string) func() bool {
	name := "name=bull:" + base64.StdEncoding.EncodeToString([]byte(queue)) + " "
	return func() bool {
		clients, err := ask("CLIENT", "LIST").ToString()
		Expect(err).NotTo(HaveOccurred())
		for client := range strings.Lines(clients) {
			if strings.Contains(client, name) && strings.Contains(client, "flags=b ") {
				return true
			}
		}
		return false
	}
}

func mustAdd(queue *bullmq.Queue, data any, options *bullmq.JobOptions) (id string) {
	GinkgoHelper()
	job, err := queue.Add(soon(), "a", data, options)
	Expect(err).NotTo(HaveOccurred())
	return job.ID
}
