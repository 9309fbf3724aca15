package tests

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("The list of a queue's workers", func() {
	var (
		name  string
		queue *bullmq.Queue
	)
	BeforeEach(func() {
		name = newQueueName()
		queue = newGoQueue(name)
	})
	listed := func() ([]bullmq.WorkerInfo, error) { return queue.Workers(context.Background()) }
	registered := HaveField("ID", Not(BeEmpty()))
	connected := HaveField("ID", BeEmpty())
	named := func(name string) OmegaMatcher { return HaveField("Name", name) }

	It("has registered workers in Go, and those of both versions of Node", func() {
		six, five := newLedger(name), newLedger(name)
		inSix, inFive := workInNode(six, "noddy-6", "6"), workInNode(five, "noddy-5", "5")
		runGoWorker(name, returning(nil), bullmq.WorkerOptions{
			Name: "gopher", Registration: &bullmq.RegistrationOptions{Interval: 100 * time.Millisecond, Lease: 5 * time.Second, Stack: "blue"},
		})
		Eventually(listed).Should(ConsistOf(
			And(named("gopher"), registered, HaveField("Stack", "blue"), HaveField("Connections", HaveLen(1))),
			And(named("noddy-6"), connected, HaveField("Connections", HaveLen(1))),
			And(named("noddy-5"), connected, HaveField("Connections", HaveLen(1)))))
		inSix.stop()
		inFive.stop()
		Eventually(listed).Should(ConsistOf(And(named("gopher"), registered)))
	})

	It("tells unnamed workers of Go and Node apart", func() {
		for range 2 {
			process := startNode("worker.mjs", "-queue", name)
			DeferCleanup(process.Kill)
		}
		runGoWorker(name, returning(nil), bullmq.WorkerOptions{Registration: &bullmq.RegistrationOptions{Interval: 100 * time.Millisecond}})
		Eventually(listed).Should(ConsistOf(
			And(registered, HaveField("Connections", HaveLen(1))), And(connected, HaveField("Connections", HaveLen(1))), connected))
		Consistently(listed, "500ms").Should(HaveLen(3))
	})

	It("loses a worker whose process was killed once its lease has ended, and another one runs its job", func() {
		id := node.Add(name, "a", object{}, object{})
		kill := startDoomedGoWorker(name, id)
		Eventually(listed).Should(ConsistOf(And(named("doomed"), registered, HaveField("Running", 1))))
		kill()
		Eventually(listed).Should(BeEmpty())
		runGoWorker(name, returning(nil), bullmq.WorkerOptions{Name: "rescuer", StalledInterval: frequentCheck})
		Eventually(stateOf(queue, id)).Should(Equal(bullmq.StateCompleted))
		Expect(node.Record(name, id)).To(And(HaveKeyWithValue("processedBy", "rescuer"), HaveKeyWithValue("stalledCounter", 1.)))
		Eventually(listed).Should(ConsistOf(And(named("rescuer"), registered)))
	})

	DescribeTable("is kept by the maintenance of", func(line string, dialect bullmq.Dialect) {
		probe := node
		if line == "5" {
			probe = startProbe("-bullmq", "5")
		}
		worker := runGoWorker(name, returning(nil), bullmq.WorkerOptions{
			Name: "gopher", Dialect: dialect, Registration: &bullmq.RegistrationOptions{Interval: time.Minute},
		})
		Eventually(listed).Should(ConsistOf(registered))
		id := probe.Add(name, "a", object{}, object{})
		Eventually(stateOf(queue, id)).Should(Equal(bullmq.StateCompleted))
		var removed int
		probe.Do("removeOrphanedJobs", object{"queue": name, "count": 100, "limit": 100}, &removed)
		Expect(removed).To(BeZero())
		probe.Do("drain", object{"queue": name}, nil)
		var cleaned []string
		probe.Do("clean", object{"queue": name, "grace": 0, "limit": 10, "type": "completed"}, &cleaned)
		Expect(cleaned).To(Equal([]string{id}))
		Expect(listed()).To(ConsistOf(And(named("gopher"), registered)))

		probe.Do("obliterate", object{"queue": name, "force": true}, nil)
		Expect(listed()).To(ConsistOf(And(named("gopher"), registered)))
		Expect(ask("PTTL", "bull:"+name+"@x:workers").AsInt64()).To(BeNumerically(">", 0), "it expires")
		worker.stop()
		Expect(ask("KEYS", "bull:"+name+"@x:*").AsStrSlice()).To(BeEmpty())
	},
		Entry("BullMQ 6", "6", bullmq.V6),
		Entry("BullMQ 5", "5", bullmq.V5),
	)
})
