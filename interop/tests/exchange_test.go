package tests

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// jobs is how many jobs of mixed options go through each of these queues.
const jobs = 2000

var _ = Describe("A queue between Node and Go", func() {
	DescribeTable("carries what Node produces to a Go worker, every job run exactly once",
		func(line string, bulk int) {
			l := newLedger(newQueueName())
			worker := workInGo(l, "gopher", bullmq.WorkerOptions{})
			produceFromNode(l, line, jobs, 1, bulk)
			l.waitForEnds(jobs)
			worker.stop()
			l.settle(jobs)
		},
		Entry("with bullmq 6.7.0, one job a call", "6", 0),
		Entry("with bullmq 6.7.0, many jobs a call", "6", 25),
		Entry("with bullmq 5.81.5", "5", 0),
	)

	DescribeTable("carries what Go produces to a Node worker, every job run exactly once",
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

	It("shares jobs of both producers among both kinds of worker, every job run exactly once", func() {
		l := newLedger(newQueueName())
		gopher := workInGo(l, "gopher", bullmq.WorkerOptions{Concurrency: 10})
		noddy := workInNode(l, "noddy", "6", "-concurrency", "10")
		fromNode := make(chan struct{})
		go func() {
			defer GinkgoRecover()
			defer close(fromNode)
			produceFromNode(l, "6", jobs/2, 3, 0)
		}()
		produceFromGo(l, mixOfJobs(jobs/2, 4))
		<-fromNode
		l.waitForEnds(jobs)
		gopher.stop()
		noddy.stop()
		l.settle(jobs)
		Expect(l.startsBy()).To(And(HaveKeyWithValue("gopher", BeNumerically(">", 50)), HaveKeyWithValue("noddy", BeNumerically(">", 50))))
	})

	It("finds the backlog that Go left when a Node worker comes later, and the reverse", func() {
		for _, fromGo := range []bool{true, false} {
			l := newLedger(newQueueName())
			var stop func()
			if fromGo {
				produceFromGo(l, mixOfJobs(200, 5))
				stop = workInNode(l, "noddy", "6").stop
			} else {
				produceFromNode(l, "6", 200, 5, 50)
				stop = workInGo(l, "gopher", bullmq.WorkerOptions{}).stop
			}
			l.waitForEnds(200)
			stop()
			l.settle(200)
		}
	})
})
